"""A positive multiple of an objective."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tikhon.models.linear.least_squares import LeastSquares
from tikhon.objective import Matrix, Product, Vector


@dataclass(frozen=True, eq=False)
class Scaled:
    """factor * objective: what a majoriser of a logarithm of squares is."""

    objective: LeastSquares
    factor: float

    @property
    def n_weights(self) -> int:
        return self.objective.n_weights

    @property
    def is_convex(self) -> bool:
        return self.objective.is_convex

    @property
    def factor_cost(self) -> float:
        return self.objective.factor_cost

    def loss_gradient(self, weights: Vector) -> tuple[float, Vector]:
        loss, gradient = self.objective.loss_gradient(weights)
        return self.factor * loss, self.factor * gradient

    def hessian_at(self, weights: Vector) -> Product:
        product = self.objective.hessian_at(weights)
        return lambda v: self.factor * product(v)

    def baseline_weights(self) -> Vector:
        return self.objective.baseline_weights()

    def baseline_curvature(self) -> Vector:
        return self.factor * self.objective.baseline_curvature()

    def weight_units(self) -> Vector | None:
        return self.objective.weight_units()

    def hessian_diagonal(self, weights: Vector) -> Vector:
        return self.factor * self.objective.hessian_diagonal(weights)

    def preconditioner(self, weights: Vector, strength: Vector) -> Product:
        apply = self.objective.preconditioner(weights, strength / self.factor)
        return lambda v: apply(v) / self.factor

    def factorise(self, weights: Vector, strength: Vector) -> Product:
        solve = self.objective.factorise(weights, strength / self.factor)
        return lambda v: solve(v) / self.factor

    def flat_directions(self, unpenalised: NDArray[np.bool_]) -> Matrix | None:
        return self.objective.flat_directions(unpenalised)
