"""Linear models, dense and sparse.

- ``least_squares``, ``logistic``, ``softmax``: the objectives; ``noise``: least squares with the noise variance integrated
  out; ``scaled``: a multiple of an objective.
- ``by_example``: the loss and gradient of a few rows; ``hints``: their optional hints.
- ``design``: the matrix of features with its intercept, and all products with it; ``sparse_rows`` and ``sparse_pairs``
  are its compiled forms, ``gram``, ``dual`` and ``sizes`` the matrices for solving least squares.
- ``inverse``, ``class_blocks``, ``softmax_factor``: factorised Hessians; ``one_score`` and the files named
  ``*_curvature``: the effect of leaving rows out, and the evidence.
- ``left_out_squares``: the leave-one-out loss of least squares without any fit; ``rotated``: the same loss in principal
  axes, for one strength; ``flat``: directions in which neither loss nor penalty changes.
"""
