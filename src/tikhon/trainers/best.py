"""Early stopping: the best weights so far, and when to stop looking for better ones."""

from dataclasses import dataclass

import numpy as np

from tikhon.objective import Vector


@dataclass(eq=False)
class Best:
    """The weights with the lowest criterion, the first of those that are equally good."""

    weights: Vector
    value: float = np.inf
    round: int = 0

    def offer(self, weights: Vector, value: float, round: int) -> None:
        if value < self.value:
            self.weights, self.value, self.round = weights, value, round

    def is_old(self, round: int, look_ahead: int, begin: int = 0) -> bool:
        """Whether nothing better was found in the last ``look_ahead`` rounds, those before ``begin`` not counted."""
        return round - max(self.round, begin) >= look_ahead
