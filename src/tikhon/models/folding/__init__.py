"""RNA folding: a log-linear model of secondary structures.

- ``objective``: the loss, its gradient and its Hessian; ``weights``: the weights and the scores that they add up to;
  ``structures``: sequences and known structures in the form of the kernels.
- ``passes``: partition function and probabilities of one molecule; ``tiles``: tables of long molecules.
- ``decoder``: one structure of maximum expected accuracy, the most probable one, random samples; ``nbest``: the n best.
- ``prediction``: all of that for many molecules, multithreaded; used by the estimator and ``tikhon fold``.
"""
