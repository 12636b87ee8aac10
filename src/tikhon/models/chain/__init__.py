"""Conditional random fields over chains of labels, in two layers: an emission scores the labels of each token, and a chain
over labels adds transitions.

- ``emission``: what is asked of an emission; ``feature_table``: a table of features by labels.
- ``transitions``: the weights of steps between labels; ``layout``: the weights of both, and their order.
- ``label_chain``: the loss, its gradient and its Hessian, with any emission; ``objective``: that of a CRF with a feature table.
- ``decoder``: the best labels, several of the best, probabilities, labels drawn at random; it needs scores alone.
- ``sequences``: encoded sequences; ``chunks``: the work of one pass, dealt out to threads so that sums do not depend on their
  number.
"""
