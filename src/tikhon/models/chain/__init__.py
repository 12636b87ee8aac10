"""Conditional random fields over chains of labels.

- ``objective``: the loss, its gradient and its Hessian; ``layout``: which weights there are, and in which order.
- ``decoder``: the best labels, several of the best, probabilities, labels drawn at random.
- ``chunks``: the work of one pass, dealt out to threads so that sums do not depend on their number.
"""
