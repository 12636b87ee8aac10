"""Initial strengths, updated during the first fit: MacKay's form of majorization-minimization.

After each step of the fit, s_g <- gamma_g / (t ||w_g||^2): the update of Foo, Do, Ng 2009 with the number of weights in the
group replaced by its degrees of freedom gamma_g = sum_j (1 - s_g (H^-1)_jj) (MacKay 1992); t is the precision of the noise,
1 if the loss is a negative log-likelihood.
"""

import numpy as np

from tikhon.groups import Groups
from tikhon.objective import Vector

# For a fit by Newton's method, and for least squares, where a step is a fit:
STEPS, EXACT_STEPS = 5, 6
START, EXACT_START = 2.0, 10.0  # times the natural strengths
LARGEST_MOVE = 2.5  # in log strength
SMALL_CHANGE, EXACT_SMALL_CHANGE = 0.3, 0.5  # stop when no log strength changes by more
FURTHEST = 500.0  # times the natural strengths: there, weights that are all noise have almost vanished
LEAST_DECIDED = 1e-3  # the least degrees of freedom of a group


def bounds(natural: Vector, lower: Vector, upper: Vector) -> tuple[Vector, Vector]:
    """The bounds of the tuner, but no further from the natural strengths; the tuner itself may go further."""
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
