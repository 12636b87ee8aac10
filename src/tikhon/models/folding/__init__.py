"""RNA folding: a log-linear model of secondary structures.

- ``objective``: the loss, its gradient and its Hessian; ``weights``: which weights there are and the scores they add up
  to; ``structures``: sequences and known structures as the kernels want them.
- ``passes``: partition function and probabilities of one molecule; ``tiles``: tables of long molecules.
- ``decoder``: one structure of maximum expected accuracy, the most probable one, drawn ones; ``nbest``: several.
- ``prediction``: all of that for many molecules, by threads; the estimator and ``tikhon fold`` predict with it.
"""
