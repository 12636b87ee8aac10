"""Conditional random fields over chains of labels, in two layers: an emission scores the labels of each token, and a chain
over labels adds transitions.

- ``emission``: the interface of an emission, which owns all weights that score single tokens, first and last ones too;
  ``feature_table``: a table of features by labels; ``hidden_units``: a layer of hidden units, from ``token_rows`` (features of
  tokens as rows of a matrix) and ``units`` (their scores and derivatives); ``blocks``: passes block by block.
- ``transitions``: the weights of steps between labels; ``layout``: the weights of both, and their order.
- ``label_chain``: the loss, its gradient and its Hessian, with any emission; ``objective``: that of a CRF with a feature table,
  ``hidden_objective``: that of one with hidden units.
- ``learner``: weights that move a few sequences at a time, for trainers.
- ``decoder``: best and n-best labels, probabilities, random samples of labels; it needs scores alone.
- ``sequences``: encoded sequences; ``chunks``: the work of one pass, split among threads so that sums do not depend on their
  number.
"""
