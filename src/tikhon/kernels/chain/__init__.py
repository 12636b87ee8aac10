"""Compiled kernels of chains.

- ``forward_backward`` (``logs`` if it would underflow) and, on top of it, ``sequence``: loss, marginals and their
  derivatives of one sequence from the scores of its tokens; inlined into passes.
- ``feature_table``, an emission: scores of tokens and back, with passes over some sequences; ``hidden_units`` with
  ``token_rows``, another one. A new emission is another such file.
- ``passes``, ``decode``: passes over sequences with given scores; best and n-best labels, random samples. ``few_steps``,
  ``few_steps_decoding``: the same for many labels of which few steps have a weight.
- ``learning``: updates of the weights a few sequences at a time, with ``table_learning`` and ``unit_learning`` for the
  emissions.
"""
