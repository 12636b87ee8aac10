"""Losses of one linear score (or one row of scores) and their derivatives, vectorised over rows.

All of them accept complex scores, so that the complex-step derivative works through them: comparisons look at real
parts only, and nothing takes an absolute value or a conjugate.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def logistic_loss_probability(score: Array, target: Array) -> tuple[Array, Array]:
    """log(1 + exp(s)) - y s for y in {0, 1}, and the probability 1 / (1 + exp(-s)), without overflow at any s."""
    positive = score.real > 0
    decay = np.exp(np.where(positive, -score, score))  # in (0, 1]
    loss = np.log1p(decay) + (positive - target) * score
    probability = np.where(positive, 1.0, decay) / (1.0 + decay)
    return loss, probability


def softmax_loss_probability(scores: Array, target: NDArray[np.intp]) -> tuple[Array, Array]:
    """log sum_k exp(s_k) - s_y for each row, and the softmax probabilities."""
    shift = scores.real.max(axis=1, keepdims=True)
    probability = np.exp(scores - shift)
    total = probability.sum(axis=1, keepdims=True)
    probability /= total
    own = scores[np.arange(len(target)), target]
    return (np.log(total) + shift)[:, 0] - own, probability
