"""Least squares with the noise variance integrated out (Foo, Do, Ng 2009, section 4)."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tikhon.models.linear.least_squares import LeastSquares
from tikhon.models.linear.scaled import Scaled
from tikhon.objective import Hints, Objective, Product, Vector

RELATIVE_FLOOR = 1e-6  # of the targets' variance: R^2 is not trusted above 0.999999


@dataclass(frozen=True, eq=False)
class NoiseIntegrated:
    """(m / 2) log((RSS + m f) / m), with RSS = sum_i a_i ||y_i - x_i W'||^2, m the summed weights and f a noise floor.

    Jeffreys' prior on the noise gives (m / 2) log RSS, which decreases without bound if p >= n lets RSS reach 0. The floor
    corresponds to a proper inverse-gamma prior on the variance: with f > 0 the loss is bounded below. Writing
    t = m / (RSS + m f) for the precision of the noise and g, H for the gradient and Hessian of 1/2 RSS, the gradient is
    t g and the Hessian t H - (2 t^2 / m) g g', which is not convex. Since the logarithm is concave, t/2 RSS plus a
    constant is an upper bound everywhere: the majoriser is a scaled least squares.

    It wraps the sum as a whole: it is not itself a sum over examples.
    """

    least_squares: LeastSquares
    floor: float | None = None  # a variance; None: 1e-6 of that of the targets

    is_convex = False

    @property
    def n_weights(self) -> int:
        return self.least_squares.n_weights

    @property
    def n_rows(self) -> int:
        return self.least_squares.n_rows

    @property
    def _floor(self) -> float:
        if self.floor is not None:
            return self.floor
        # Constant targets leave nothing to explain: any floor will do.
        return RELATIVE_FLOOR * (self.least_squares.target_variance or 1.0)

    @cached_property
    def hints(self) -> Hints:
        within = self.least_squares
        return Hints(
            baseline=within.baseline_weights,
            baseline_diagonal=lambda: within.baseline_diagonal() / self.noise_variance(within.baseline_weights()),
            gradient_norm=within.gradient_norm,
            hessian_diagonal=self.hessian_diagonal,
            preconditioner=self.preconditioner,
            flat_directions=within.flat_directions,
            majoriser=self.majoriser_at,
        )

    def reweighted(self, row_weights: Vector) -> "NoiseIntegrated":
        return NoiseIntegrated(self.least_squares.reweighted(row_weights), self.floor)

    def noise_variance(self, weights: Vector) -> float:
        """RSS / m + f, the noise variance at these weights."""
        return self._variance(self.least_squares.loss_gradient(weights)[0])

    def _variance(self, half_squares: float) -> float:
        return 2.0 * half_squares / self.least_squares.total_weight + self._floor

    def loss_gradient(self, weights: Vector) -> tuple[float, Vector]:
        half_squares, gradient = self.least_squares.loss_gradient(weights)
        variance = self._variance(half_squares)
        return 0.5 * self.least_squares.total_weight * np.log(variance), gradient / variance

    def hessian_at(self, weights: Vector) -> Product:
        half_squares, gradient = self.least_squares.loss_gradient(weights)
        variance = self._variance(half_squares)
        product = self.least_squares.hessian_at(weights)
        pull = 2.0 / (self.least_squares.total_weight * variance**2)
        return lambda v: product(v) / variance - pull * (gradient @ v) * gradient

    def hessian_diagonal(self, weights: Vector) -> Vector:
        """The diagonal of the majoriser: the exact one may be negative, which no preconditioner can use."""
        return self.least_squares.hessian_diagonal(weights) / self.noise_variance(weights)

    def preconditioner(self, weights: Vector, strength: Vector) -> Product:
        return Scaled(self.least_squares, 1.0 / self.noise_variance(weights)).preconditioner(weights, strength)

    def majoriser_at(self, weights: Vector) -> Objective:
        return Scaled(self.least_squares, 1.0 / self.noise_variance(weights))
