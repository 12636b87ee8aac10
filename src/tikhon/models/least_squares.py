"""Least squares, for one or many targets."""

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tikhon.kernels.linalg import cholesky, cholesky_solve
from tikhon.models.design import Data, active_rows
from tikhon.models.flat import flat_directions
from tikhon.models.memo import LastPoint
from tikhon.objective import Matrix, Product, Vector


class LeastSquares:
    """1/2 sum_i a_i ||x_i W' + b - y_i||^2 for T targets, with row weights a.

    The gradient is (residuals)' diag(a) X~, the Hessian I_T (x) X~' diag(a) X~ at any weights; its p x p block is formed
    once. Weights: T x p coefficients row by row, then T intercepts.
    """

    is_convex = True

    def __init__(self, X: Data, y: Matrix, *, fit_intercept: bool = True, row_weights: Vector | None = None) -> None:
        self.X, self.y, self.fit_intercept = X, y, fit_intercept
        self.row_weights = np.ones(len(y)) if row_weights is None else row_weights
        self._design, rows = active_rows(X, fit_intercept, self.row_weights)
        self._target, self._weight = y.reshape(len(y), -1)[rows], self.row_weights[rows][:, None]
        self.n_targets = int(self._target.shape[1])
        self._residuals = LastPoint(lambda weights: self._design.scores_many(weights, self.n_targets) - self._target)

    @property
    def n_weights(self) -> int:
        return self.n_targets * self._design.width

    @property
    def n_rows(self) -> int:
        return len(self.y)

    @cached_property
    def total_weight(self) -> float:
        """The number of observed values, each counted by its row's weight."""
        return float(self._weight.sum() * self.n_targets)

    @cached_property
    def target_variance(self) -> float:
        """The weighted variance of the targets around their means: the natural unit of the noise."""
        total = self._weight.sum()
        if total == 0:
            return 0.0
        centred = self._target - (self._weight * self._target).sum(axis=0) / total
        return float((self._weight * centred**2).sum() / (total * self.n_targets))

    def reweighted(self, row_weights: Vector) -> "LeastSquares":
        return LeastSquares(self.X, self.y, fit_intercept=self.fit_intercept, row_weights=row_weights)

    def loss_gradient(self, weights: Vector) -> tuple[float, Vector]:
        residuals = self._residuals.at(weights)
        weighted = self._weight * residuals
        # No conjugate: complex steps must pass through.
        return 0.5 * (weighted * residuals).sum().item(), self._design.adjoint_many(weighted)

    def hessian_at(self, weights: Vector) -> Product:
        return lambda v: self._design.adjoint_many(self._weight * self._design.scores_many(v, self.n_targets))

    def baseline_weights(self) -> Vector:
        weights = np.zeros(self.n_weights)
        if self.fit_intercept and self._weight.sum() > 0:
            weights[-self.n_targets :] = (self._weight * self._target).sum(axis=0) / self._weight.sum()
        return weights

    def baseline_curvature(self) -> Vector:
        return self._design.centred_squares(self._curvature)[0]

    @cached_property
    def _squares(self) -> Vector:
        return self._design.squares(self._curvature)

    @property
    def _curvature(self) -> Matrix:
        return np.broadcast_to(self._weight, (len(self._weight), self.n_targets))

    def hessian_diagonal(self, weights: Vector) -> Vector:
        return self._squares

    def preconditioner(self, weights: Vector, strength: Vector) -> Product:
        return self._design.preconditioner(self._curvature, strength)

    @cached_property
    def _gram(self) -> Matrix:
        return self._design.gram(self._weight[:, 0])

    @cached_property
    def factor_cost(self) -> float:
        return self._design.gram_cost(self.n_targets)

    def factorise(self, weights: Vector, strength: Vector) -> Product:
        """One Cholesky factor where all targets have the same strengths, else one per target."""
        by_target = self._by_target(strength)
        same = bool((by_target == by_target[0]).all())
        factors = [self._factor(row) for row in (by_target[:1] if same else by_target)]

        def solve(v: Vector) -> Vector:
            right = self._by_target(v)
            if same:
                return self._flat(cholesky_solve(factors[0], np.asfortranarray(right.T)).T)
            return self._flat(
                np.array([cholesky_solve(factor, row) for factor, row in zip(factors, right, strict=True)])
            )

        return solve

    def _factor(self, strength: Vector) -> Matrix:
        matrix = self._gram.copy(order="F")
        matrix.flat[:: len(strength) + 1] += strength
        return cholesky(matrix)

    def _by_target(self, v: Vector) -> Matrix:
        """T x (p + 1): the weights of each target with its intercept."""
        n_coefficients = self.n_targets * self._design.n_columns
        coefficients = v[:n_coefficients].reshape(self.n_targets, -1)
        return np.column_stack([coefficients, v[n_coefficients:]]) if self.fit_intercept else coefficients

    def _flat(self, by_target: Matrix) -> Vector:
        p = self._design.n_columns
        return np.concatenate([by_target[:, :p].ravel(), by_target[:, p:].ravel()])

    def flat_directions(self, unpenalised: NDArray[np.bool_]) -> Matrix | None:
        return flat_directions(self._design, self._weight[:, 0], unpenalised, self.n_targets, common_shift=False)
