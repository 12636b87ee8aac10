"""Strengths to begin with, found on the way to the first fit: MacKay's form of majorization-minimization.

After each step of the fit, s_g <- gamma_g / (t ||w_g||^2): the update of Foo, Do, Ng 2009 with the number of a group's
weights replaced by gamma_g = sum_j (1 - s_g (H^-1)_jj), how many of them the data decide (MacKay 1992); t is the precision
of the noise, 1 where the loss is a negative log-likelihood.
"""

import numpy as np

from tikhon.groups import Groups
from tikhon.objective import Vector

# Of a fit by Newton's method, and of least squares, where a step is a fit:
STEPS, EXACT_STEPS = 5, 6
START, EXACT_START = 2.0, 10.0  # times the natural strengths
LARGEST_MOVE = 2.5  # in log strength
SMALL_CHANGE, EXACT_SMALL_CHANGE = 0.3, 0.5  # largest change of a log strength that needs no further step
FURTHEST = 500.0  # times the natural strengths: of weights that are all noise next to nothing is left
LEAST_DECIDED = 1e-3  # weights that the data decide in a group, at least


def bounds(natural: Vector, lower: Vector, upper: Vector) -> tuple[Vector, Vector]:
    """Within those of the tuner, and not too far from the natural strengths: the tuner itself may go further."""
    return np.maximum(lower, natural / FURTHEST), np.minimum(upper, natural * FURTHEST)


def mackay_update(
    groups: Groups, strengths: Vector, inverse_diagonal: Vector, squares: Vector, bounds: tuple[Vector, Vector]
) -> tuple[Vector, float]:
    """The updated strengths, one per group, and the largest change of a log strength; ``squares`` are t w^2."""
    decided = groups.sizes - strengths * groups.collect(inverse_diagonal)
    pull = strengths * groups.collect(squares)
    change = np.log(np.maximum(decided, LEAST_DECIDED) / np.maximum(pull, 1e-300))
    change = np.where(groups.learned, np.clip(change, -LARGEST_MOVE, LARGEST_MOVE), 0.0)
    updated = np.where(groups.learned, np.clip(strengths * np.exp(change), *bounds), strengths)
    return updated, float(np.abs(change).max(initial=0.0))
