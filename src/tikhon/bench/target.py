"""A solver that stops at a given objective value, and records when each value was reached."""

import copy
import time
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from tikhon.objective import Objective, Vector
from tikhon.results import FitResult
from tikhon.solvers import LBFGS, Solver

# So tight that fits always end by the target or the certified gap.
TIGHT_TOL, MOST_ITERATIONS = 1e-12, 20_000


class _Reached(Exception):
    """The objective has reached its target."""


@dataclass
class ToTarget:
    """L-BFGS until the penalised loss is at most ``target``, or certified to a relative gap of ``gap``.

    The certificate is that of a strongly convex function: f(w) - min f <= 1/2 sum_j g_j^2 / strength_j, where g is the gradient
    of the penalised loss f.
    """

    target: float = -np.inf
    gap: float = 0.0
    solver: Solver = field(default_factory=lambda: LBFGS(tol=TIGHT_TOL, max_iter=MOST_ITERATIONS))
    reached: float = field(default=np.inf, init=False)
    reached_gap: float = field(default=np.inf, init=False)  # certified; only with ``gap``
    trace: list[tuple[float, float]] = field(
        default_factory=list, init=False
    )  # time.perf_counter() and the penalised loss

    @property
    def n_passes(self) -> int:
        return len(self.trace)

    def minimise(
        self, objective: Objective, strength: Vector, start: Vector | None = None, *, tol: float | None = None
    ) -> FitResult:
        watch = _Watch(strength, self.target, self.gap)
        try:
            fit = self.solver.minimise(_watched(objective, watch), strength, start, tol=tol)
        except _Reached:
            fit = FitResult(
                weights=watch.weights, loss=watch.loss, value=watch.value, residual=0.0, relative_gap=watch.certified,
                gap_is_bound=objective.is_convex, n_iter=len(watch.trace), n_passes=len(watch.trace), n_products=0,
                status="converged", reason=f"objective {watch.value:.8g}",
            )  # fmt: skip
        self.reached, self.reached_gap, self.trace = fit.value, watch.certified, watch.trace
        return fit


class _Watch:
    """Observes every evaluation, and ends the minimisation."""

    def __init__(self, strength: Vector, target: float, gap: float) -> None:
        self._strength, self._target, self._gap = strength, target, gap
        self.weights, self.loss, self.value, self.certified = np.full(0, np.nan), np.inf, np.inf, np.inf
        self.trace: list[tuple[float, float]] = []

    def see(self, weights: Vector, loss: float, gradient: Vector) -> None:
        if np.array_equal(weights, self.weights):
            return  # a repeated call, which objectives answer from their cache
        self.weights, self.loss = weights.copy(), loss
        self.value = loss + 0.5 * float(self._strength @ np.square(weights))
        self.trace.append((time.perf_counter(), self.value))
        if self._gap > 0.0:
            slope = gradient + self._strength * weights
            with np.errstate(divide="ignore", invalid="ignore"):
                self.certified = 0.5 * float(np.sum(np.square(slope) / self._strength)) / abs(self.value)
        if self.value <= self._target or self.certified <= self._gap:
            raise _Reached


def _watched(objective: Objective, watch: _Watch) -> Objective:
    """The objective with all its capabilities and hints, so that the solver behaves as without the watch."""
    found: Any = copy.copy(objective)
    found.__class__ = _watched_class(type(objective))
    found.watch = watch
    return found  # type: ignore[no-any-return]


@cache
def _watched_class(base: type) -> type:
    def loss_gradient(self: Any, weights: Vector) -> tuple[float, Vector]:
        loss, gradient = base.loss_gradient(self, weights)  # type: ignore[attr-defined]
        self.watch.see(weights, loss, gradient)
        return loss, gradient

    return type(f"Watched{base.__name__}", (base,), {"loss_gradient": loss_gradient})
