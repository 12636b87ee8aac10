"""A starting point: the minimum of a cheap surrogate of the criterion."""

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from tikhon.objective import Vector
from tikhon.solvers.descent import STEEP, Descent

FIRST_MOVE, LARGEST_MOVE = 2.0, 3.0  # in log strength
ENOUGH, MOST_STEPS = 8e-4, 12  # per row, in a log strength: a rough minimum is enough
# Approximate second derivatives in nats: in a common log strength, per row; and in that of a group.
COMMON_SECOND_DERIVATIVE, SECOND_DERIVATIVE = 0.1, 5.0

Surrogate: TypeAlias = Callable[[Vector], tuple[float, Vector] | None]  # value and gradient in nats


def minimise_surrogate(
    surrogate: Surrogate, start: Vector, bounds: tuple[Vector, Vector], total_weight: float
) -> Vector | None:
    """Log strengths within bounds that roughly minimise the surrogate; None if it is not defined at the start."""
    found = surrogate(start)
    if found is None:
        return None
    steepness = STEEP * np.abs(found[1])
    descent = Descent(
        lower=np.minimum(bounds[0], start), upper=np.maximum(bounds[1], start),
        first_move=FIRST_MOVE, largest_move=LARGEST_MOVE,
        metric=np.maximum(steepness, COMMON_SECOND_DERIVATIVE * total_weight if len(start) == 1 else SECOND_DERIVATIVE),
    )  # fmt: skip
    state = descent.tell(descent.start(start), *found)
    for _ in range(MOST_STEPS):
        slope = float(np.linalg.norm(descent.projected_gradient(state)))
        if state.stalled or slope <= ENOUGH * total_weight:
            break
        state = descent.tell(state, *(surrogate(descent.ask(state)) or (np.inf, np.zeros_like(start))))
    return state.x
