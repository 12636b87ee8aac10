"""Compiled kernels of chains.

- ``forward_backward`` (``logs`` if it would underflow) and, on top of it, ``sequence``: loss, marginals and their
  derivatives of one sequence from the scores of its tokens; inlined into passes.
- ``feature_table``, an emission: scores of tokens and back, with passes over some sequences. Another emission is another such
  file.
- ``passes``, ``decode``: passes over sequences with given scores; best and n-best labels, random samples.
"""
