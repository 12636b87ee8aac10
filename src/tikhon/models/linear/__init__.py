"""Linear models, dense and sparse.

- ``least_squares``, ``logistic``, ``softmax``: the objectives; ``noise`` integrates the variance of the noise out of
  least squares, ``scaled`` is a multiple of an objective.
- ``by_example``: the loss and gradient of a few rows; ``hints``: what all of them know beside the loss.
- ``design``: the matrix of features with its intercept, and every product with it; ``sparse_rows`` and ``sparse_pairs``
  are its compiled forms, ``gram``, ``dual`` and ``sizes`` the matrices that least squares is solved by.
- ``inverse``, ``class_blocks``, ``softmax_factor``: factorised Hessians; ``one_score`` and the files named
  ``*_curvature``: what leaving rows out does, and the evidence.
- ``left_out_squares``: the leave-one-out loss of least squares without any fit; ``rotated``: the same loss in principal
  axes, for one strength; ``flat``: directions in which neither loss nor penalty changes.
"""
