"""Binary logistic regression."""

from collections.abc import Callable
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tikhon.kernels.linalg import cholesky, cholesky_solve
from tikhon.kernels.linear.pointwise import logistic_loss_probability
from tikhon.models.linear.by_example import ByExample, Places
from tikhon.models.linear.design import MOST_SIDE, Data, active_rows, factor_products
from tikhon.models.linear.flat import flat_directions
from tikhon.models.linear.hints import linear_hints
from tikhon.models.linear.inverse import fewer_rows, inverse_cost
from tikhon.models.linear.logistic_curvature import LogisticCurvature, logistic_curvature
from tikhon.models.memo import LastPoint
from tikhon.objective import Hints, Matrix, Product, Vector

RAREST = 1e-6  # share of a class assumed at least, so that its logarithm is finite


class Logistic(ByExample):
    """sum_i a_i [log(1 + exp(s_i)) - y_i s_i] with s = X w + b, y in {0, 1} and row weights a.

    With p = 1 / (1 + exp(-s)) the gradient is X~'(a (p - y)) and the Hessian X~' diag(a p (1 - p)) X~, where
    X~ = (X, 1). Weights: p coefficients, then the intercept.
    """

    is_convex = True

    def __init__(self, X: Data, y: Vector, *, fit_intercept: bool = True, row_weights: Vector | None = None) -> None:
        self.X, self.y, self.fit_intercept = X, y, fit_intercept
        self.row_weights = np.ones(len(y)) if row_weights is None else row_weights
        self._design, rows = active_rows(X, fit_intercept, self.row_weights)
        self._target, self._weight = y[rows], self.row_weights[rows]
        self._point = LastPoint(self._scores_losses_probabilities)
        self._value = LastPoint(self._loss_gradient)
        self._gram = LastPoint(lambda weights: self._design.gram(self.working_weights(weights)))

    @property
    def n_weights(self) -> int:
        return self._design.width

    @property
    def n_rows(self) -> int:
        return len(self.y)

    @cached_property
    def hints(self) -> Hints:
        return linear_hints(self, lbfgs_gap=self._design.lbfgs_gap)

    def reweighted(self, row_weights: Vector) -> "Logistic":
        return Logistic(self.X, self.y, fit_intercept=self.fit_intercept, row_weights=row_weights)

    def loss_gradient(self, weights: Vector) -> tuple[float, Vector]:
        loss, gradient = self._value.at(weights)
        return loss, gradient.copy()

    def _loss_gradient(self, weights: Vector) -> tuple[float, Vector]:
        _, losses, probability = self._point.at(weights, shared=True)
        return (self._weight @ losses).item(), self._design.adjoint(self._weight * (probability - self._target))

    def _scores_losses_probabilities(self, weights: Vector) -> tuple[Vector, Vector, Vector]:
        """One of each per row in use."""
        scores = self._design.scores(weights)
        return scores, *logistic_loss_probability(scores, self._target)

    def _loss_by_scores(self, rows: Places, scores: Matrix) -> tuple[Vector, Matrix]:
        target = self.y[rows]
        losses, probability = logistic_loss_probability(scores[:, 0], target)
        return losses, (probability - target)[:, None]

    def working_weights(self, weights: Vector) -> Vector:
        """a p (1 - p), one per row in use."""
        probability = self._point.at(weights)[2]
        return self._weight * probability * (1.0 - probability)

    def row_losses(self, weights: Vector) -> Vector:
        losses: Vector = self._point.at(weights)[1]
        return self._weight * losses

    def hessian_at(self, weights: Vector) -> Product:
        working_weights = self.working_weights(weights)
        return lambda v: self._design.adjoint(working_weights * self._design.scores(v))

    def baseline_weights(self) -> Vector:
        return self._baseline.copy()

    @cached_property
    def _baseline(self) -> Vector:
        weights = np.zeros(self.n_weights)
        if self.fit_intercept and self._weight.sum() > 0:
            share = float(np.clip(np.average(self._target, weights=self._weight), RAREST, 1.0 - RAREST))
            weights[-1] = np.log(share / (1.0 - share))
        return weights

    def baseline_diagonal(self) -> Vector:
        return self._baseline_diagonal.copy()

    @cached_property
    def _baseline_diagonal(self) -> Vector:
        return self._design.centred_squares(self.working_weights(self._baseline)[:, None])[0]

    def release(self) -> None:
        for cache in (self._point, self._value, self._gram):
            cache.forget()

    def gradient_norm(self) -> Callable[[Vector], float] | None:
        return self._design.gradient_norm(1)

    def hessian_diagonal(self, weights: Vector) -> Vector:
        return self._design.squares(self.working_weights(weights)[:, None])

    def preconditioner(self, weights: Vector, strength: Vector) -> Product:
        return self._design.preconditioner(self.working_weights(weights)[:, None], strength)

    def hessian_matrix(self, weights: Vector) -> Matrix:
        """The Hessian of ``curvature_at``, if cached: a tuning ends with the fit that it evaluated last. Folds cache none."""
        known = self._gram.known(weights)
        return self._design.gram(self.working_weights(weights)) if known is None else known.copy(order="F")

    @cached_property
    def factor_cost(self) -> float:
        return self._design.gram_cost(1) if self.n_weights <= MOST_SIDE else np.inf

    def factorise(self, weights: Vector, strength: Vector) -> Product:
        matrix = self.hessian_matrix(weights)
        matrix.flat[:: len(strength) + 1] += strength
        factor = cholesky(matrix)
        return lambda v: cholesky_solve(factor, v)

    @cached_property
    def curvature_cost(self) -> float:
        return factor_products(inverse_cost(self._design), 2.0 * self._design.n_stored)

    def curvature_at(self, weights: Vector, strength: Vector) -> LogisticCurvature:
        loss, gradient = self._value.at(weights)
        scores, _, probability = self._point.at(weights)
        return logistic_curvature(
            self._design, self._target, self._weight, scores, probability, weights, strength, loss, gradient,
            None if fewer_rows(self._design) else self._gram.at(weights),
        )  # fmt: skip

    def flat_directions(self, unpenalised: NDArray[np.bool_]) -> Matrix | None:
        return flat_directions(self._design, self._weight, unpenalised, 1, common_shift=False)
