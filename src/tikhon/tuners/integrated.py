"""Strengths integrated out under a Gamma prior (Foo, Do, Ng 2009, section 2)."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tikhon.groups import Groups
from tikhon.objective import Objective, Product, Vector
from tikhon.tuners.base import Start
from tikhon.tuners.settings import starting_theta

LEAST_USED = 0.02  # 1/2 ||w||^2 of a group over beta: below it, its weights are practically 0


@dataclass(frozen=True, eq=False)
class IntegratedOut:
    """loss(w) + sum_j (n_j/2 + alpha) log(1/2 ||w_j||^2 + beta) + 1/2 sum_fixed s_j ||w_j||^2: equations (5) and (6).

    The sum runs over the learned groups; groups with a fixed strength keep their quadratic penalty. With the strength
    C_j = (n_j/2 + alpha) / (1/2 ||w_j||^2 + beta) the gradient of the penalty is C_j w_j. It is not convex.
    """

    objective: Objective
    groups: Groups
    alpha: float
    beta: float

    is_convex = False

    @property
    def n_weights(self) -> int:
        return self.objective.n_weights

    def strengths(self, weights: Vector) -> Vector:
        """C_j for the learned groups (the update of Algorithms 1 and 2); fixed strengths for the others."""
        return np.where(self.groups.learned, self._shape() / self._rate(weights), self.groups.fixed)

    def first_strengths(self, start: Start | None, weights: Vector | None) -> Vector:
        """Initial strengths, one per group: as given, else the update of the weights, else 1.

        Groups whose weights are all 0 start at 1: the update would give them the largest possible strength, from which they
        hardly recover.
        """
        given = self.groups.strengths(starting_theta(1.0 if start is None else start, self.groups))
        if start is not None or weights is None:
            return given
        return np.where(self.groups.collect(weights**2) > 0.0, self.strengths(weights), given)

    def hardly_used(self, weights: Vector) -> NDArray[np.bool_]:
        """The learned groups whose weights hardly affect their strength: the prior's rate alone determines it."""
        used = 0.5 * self.groups.collect(weights**2)
        return self.groups.learned & (self.groups.sizes > 0) & (used < LEAST_USED * self.beta)

    def penalty(self, weights: Vector) -> float:
        """The integrated-out prior, up to a constant, and the fixed quadratic penalties."""
        learned, rate = self.groups.learned, self._rate(weights)
        fixed = np.where(learned, 0.0, self.groups.fixed)
        return float((self._shape() * np.log(rate))[learned].sum() + (fixed * (rate - self.beta)).sum())

    def loss_gradient(self, weights: Vector) -> tuple[float, Vector]:
        loss, gradient = self.objective.loss_gradient(weights)
        return loss + self.penalty(weights), gradient + self.groups.expand(self.strengths(weights)) * weights

    def hessian_at(self, weights: Vector) -> Product:
        product, groups = self.objective.hessian_at(weights), self.groups
        strength = groups.expand(self.strengths(weights))
        # d C_j = -C_j / (1/2 ||w_j||^2 + beta) w_j . dw_j
        decline = np.where(groups.learned, self._shape() / self._rate(weights) ** 2, 0.0)
        return lambda v: product(v) + strength * v - groups.expand(decline * groups.collect(weights * v)) * weights

    def _shape(self) -> Vector:
        return np.asarray(0.5 * self.groups.sizes + self.alpha, np.float64)

    def _rate(self, weights: Vector) -> Vector:
        return 0.5 * self.groups.collect(weights**2) + self.beta
