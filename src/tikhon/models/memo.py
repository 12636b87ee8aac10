"""What was computed at the last weights, so that loss, gradient, curvature and products at one point share it."""

from collections.abc import Callable
from typing import Generic, TypeVar

import numpy as np

from tikhon.objective import Vector

Value = TypeVar("Value")


class LastPoint(Generic[Value]):
    """Remembers one value computed from weights. Safe under threads: the pair is replaced as a whole."""

    def __init__(self, compute: Callable[[Vector], Value]) -> None:
        self._compute = compute
        self._last: tuple[Vector, Value] | None = None

    def at(self, weights: Vector) -> Value:
        last = self._last
        if last is not None and last[0].dtype == weights.dtype and np.array_equal(last[0], weights):
            return last[1]
        value = self._compute(weights)
        self._last = (weights.copy(), value)
        return value
