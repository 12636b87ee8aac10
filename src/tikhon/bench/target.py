"""A solver that stops where a rival's objective ended, so that both do the same work."""

from dataclasses import dataclass, field

import numpy as np

from tikhon.errors import MissingCapability
from tikhon.objective import Baseline, Objective, Product, Vector
from tikhon.results import FitResult
from tikhon.solvers import LBFGS


class _Reached(Exception):
    """The objective is low enough."""


@dataclass
class ToTarget:
    """L-BFGS until the penalised loss is at most ``target``; says what was reached, and in how many passes."""

    target: float
    reached: float = field(default=np.inf, init=False)
    n_passes: int = field(default=0, init=False)

    def minimise(
        self, objective: Objective, strength: Vector, start: Vector | None = None, *, tol: float | None = None
    ) -> FitResult:
        if not isinstance(objective, Baseline):
            raise MissingCapability(f"{type(objective).__name__} does not tell its curvature (baseline_curvature)")
        watched = _Watched(objective, strength, self.target)
        try:
            fit = LBFGS().minimise(watched, strength, start, tol=tol)
        except _Reached:
            fit = FitResult(
                weights=watched.weights, loss=watched.loss, value=watched.value, residual=0.0, relative_gap=0.0,
                gap_is_bound=False, n_iter=watched.n_passes, n_passes=watched.n_passes, n_products=0, status="converged", reason=f"{watched.value:.8g} <= {self.target:.8g}",
            )  # fmt: skip
        self.reached, self.n_passes = watched.value, watched.n_passes
        return fit


class _Watched:
    """An objective that ends its own minimisation."""

    def __init__(self, objective: Baseline, strength: Vector, target: float) -> None:
        self._objective, self._strength, self._target = objective, strength, target
        self.weights, self.loss, self.value, self.n_passes = np.zeros(0), np.inf, np.inf, 0

    @property
    def n_weights(self) -> int:
        return self._objective.n_weights

    @property
    def is_convex(self) -> bool:
        return self._objective.is_convex

    def loss_gradient(self, weights: Vector) -> tuple[float, Vector]:
        loss, gradient = self._objective.loss_gradient(weights)
        self.n_passes += 1
        self.loss, self.value = loss, loss + 0.5 * float(self._strength @ np.square(weights))
        if self.value <= self._target:
            self.weights = weights.copy()
            raise _Reached
        return loss, gradient

    def baseline_weights(self) -> Vector:
        return self._objective.baseline_weights()

    def baseline_curvature(self) -> Vector:
        return self._objective.baseline_curvature()

    def hessian_at(self, weights: Vector) -> Product:
        return self._objective.hessian_at(weights)
