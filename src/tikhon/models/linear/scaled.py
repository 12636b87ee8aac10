"""A positive multiple of an objective."""

from dataclasses import dataclass
from functools import cached_property

from tikhon.models.linear.least_squares import LeastSquares
from tikhon.objective import Hints, Multiple, Product, Vector


@dataclass(frozen=True, eq=False)
class Scaled:
    """multiplier * objective: such as the majoriser of a logarithm of squares."""

    objective: LeastSquares
    multiplier: float

    @property
    def n_weights(self) -> int:
        return self.objective.n_weights

    @property
    def is_convex(self) -> bool:
        return self.objective.is_convex

    @property
    def factor_cost(self) -> float:
        return self.objective.factor_cost

    @cached_property
    def hints(self) -> Hints:
        within = self.objective
        return Hints(
            baseline=within.baseline_weights,
            gradient_norm=within.gradient_norm,
            flat_directions=within.flat_directions,
            baseline_diagonal=lambda: self.multiplier * within.baseline_diagonal(),
            hessian_diagonal=lambda weights: self.multiplier * within.hessian_diagonal(weights),
            preconditioner=self.preconditioner,
            multiple_of=Multiple(within, self.multiplier),
        )

    def loss_gradient(self, weights: Vector) -> tuple[float, Vector]:
        loss, gradient = self.objective.loss_gradient(weights)
        return self.multiplier * loss, self.multiplier * gradient

    def hessian_at(self, weights: Vector) -> Product:
        product = self.objective.hessian_at(weights)
        return lambda v: self.multiplier * product(v)

    def preconditioner(self, weights: Vector, strength: Vector) -> Product:
        apply = self.objective.preconditioner(weights, strength / self.multiplier)
        return lambda v: apply(v) / self.multiplier

    def factorise(self, weights: Vector, strength: Vector) -> Product:
        solve = self.objective.factorise(weights, strength / self.multiplier)
        return lambda v: solve(v) / self.multiplier
