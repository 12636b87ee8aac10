"""Multinomial logistic regression, one row of coefficients per class."""

from collections.abc import Callable
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tikhon.kernels.linalg import cholesky, cholesky_solve
from tikhon.kernels.linear.pointwise import softmax_loss_probability
from tikhon.models.linear.by_example import ByExample, Places
from tikhon.models.linear.class_blocks import ClassBlocks, class_blocks
from tikhon.models.linear.design import MOST_SIDE, Data, active_rows, factor_products
from tikhon.models.linear.flat import flat_directions
from tikhon.models.linear.hints import linear_hints
from tikhon.models.linear.logistic import RAREST
from tikhon.models.linear.softmax_curvature import SoftmaxCurvature
from tikhon.models.linear.softmax_factor import SoftmaxFactor, working_weight_pairs
from tikhon.models.memo import LastPoint
from tikhon.objective import Hints, Matrix, Product, Vector

MOST_BLOCK_COST = 12.0  # the most that one factor per class may cost in Hessian products: it saves more than that


class Softmax(ByExample):
    """sum_i a_i [log sum_k exp(s_ik) - s_i,y_i] with S = X W' + b, y in {0 .. K-1} and row weights a.

    With P the softmax of the scores and R_ik = a_i (p_ik - [y_i = k]) the gradient is R' X~; the Hessian maps a change
    D of the scores to a_i (p_ik D_ik - p_ik sum_l p_il D_il). Weights: K x p coefficients row by row, then K intercepts.
    A common shift of all classes leaves the loss unchanged: see ``flat_directions``.
    """

    is_convex = True

    def __init__(
        self,
        X: Data,
        y: NDArray[np.intp],
        *,
        n_classes: int,
        fit_intercept: bool = True,
        row_weights: Vector | None = None,
    ) -> None:
        self.X, self.y, self.n_classes, self.fit_intercept = X, y, n_classes, fit_intercept
        self.row_weights = np.ones(len(y)) if row_weights is None else row_weights
        self._design, rows = active_rows(X, fit_intercept, self.row_weights)
        self._target, self._weight = y[rows], self.row_weights[rows]
        self._point = LastPoint(self._scores_losses_probabilities)
        self._value = LastPoint(self._loss_gradient)
        self._hessian = LastPoint(self._hessian_of_differences)

    @property
    def n_weights(self) -> int:
        return self.n_classes * self._design.width

    @property
    def n_rows(self) -> int:
        return len(self.y)

    @cached_property
    def hints(self) -> Hints:
        return linear_hints(self, lbfgs_gap=np.inf if self._class_factors_are_cheap else self._design.lbfgs_gap)

    def reweighted(self, row_weights: Vector) -> "Softmax":
        return Softmax(
            self.X, self.y, n_classes=self.n_classes, fit_intercept=self.fit_intercept, row_weights=row_weights
        )

    def loss_gradient(self, weights: Vector) -> tuple[float, Vector]:
        loss, gradient = self._value.at(weights)
        return loss, gradient.copy()

    def _loss_gradient(self, weights: Vector) -> tuple[float, Vector]:
        _, losses, probability = self._point.at(weights, shared=True)
        residual = probability * self._weight[:, None]
        residual[np.arange(len(self._target)), self._target] -= self._weight
        return (self._weight @ losses).item(), self._design.adjoint_many(residual)

    def _scores_losses_probabilities(self, weights: Vector) -> tuple[Matrix, Vector, Matrix]:
        """One row per row in use; not to be modified in place."""
        scores = self._design.scores_many(weights, self.n_classes)
        return scores, *softmax_loss_probability(scores, self._target)

    def _loss_by_scores(self, rows: Places, scores: Matrix) -> tuple[Vector, Matrix]:
        target = self.y[rows]
        losses, residual = softmax_loss_probability(scores, target)
        residual[np.arange(len(target)), target] -= 1.0
        return losses, residual

    def probabilities(self, weights: Vector) -> Matrix:
        return self._point.at(weights)[2]

    def row_losses(self, weights: Vector) -> Vector:
        losses: Vector = self._point.at(weights)[1]
        return self._weight * losses

    def hessian_at(self, weights: Vector) -> Product:
        """Keeps the n x K probabilities."""
        probability = self.probabilities(weights)
        weighted = probability * self._weight[:, None]

        def product(v: Vector) -> Vector:
            change = self._design.scores_many(v, self.n_classes)
            change -= np.einsum("ik,ik->i", probability, change)[:, None]
            change *= weighted
            return self._design.adjoint_many(change)

        return product

    def baseline_weights(self) -> Vector:
        return self._baseline.copy()

    @cached_property
    def _baseline(self) -> Vector:
        weights = np.zeros(self.n_weights)
        if self.fit_intercept and self._weight.sum() > 0:
            shares = np.bincount(self._target, self._weight, self.n_classes) / self._weight.sum()
            logarithms = np.log(np.maximum(shares, RAREST))
            weights[-self.n_classes :] = logarithms - logarithms.mean()
        return weights

    def baseline_diagonal(self) -> Vector:
        return self._baseline_diagonal.copy()

    @cached_property
    def _baseline_diagonal(self) -> Vector:
        return self._design.centred_squares(self._working_weights(self._baseline))[0]

    def release(self) -> None:
        for cache in (self._point, self._value, self._hessian):
            cache.forget()

    def gradient_norm(self) -> Callable[[Vector], float] | None:
        return self._design.gradient_norm(self.n_classes)

    def hessian_diagonal(self, weights: Vector) -> Vector:
        return self._design.squares(self._working_weights(weights))

    def preconditioner(self, weights: Vector, strength: Vector) -> Product:
        """Each class separately, by Cholesky factors if they are cheap; a common shift of the classes exactly."""
        working_weights = self._working_weights(weights)
        if self._class_factors_are_cheap:
            each = self._class_factors(working_weights, strength)
        else:
            each = self._design.preconditioner(working_weights, strength)
        K, p = self.n_classes, self._design.n_columns
        columns, intercepts = strength[: K * p].reshape(K, p), strength[K * p :]
        if not ((columns == columns[0]).all() and (intercepts == intercepts[:1]).all()):
            return each
        return self._shift_apart(each, np.concatenate([columns[0], intercepts[:1]]))

    @cached_property
    def _class_factors_are_cheap(self) -> bool:
        return self._design.gram_cost(1) <= MOST_BLOCK_COST

    def _class_factors(self, working_weights: Matrix, strength: Vector) -> Product:
        """The inverses of X~' diag(c_k) X~ + diag(s), class by class."""
        order, K = self._by_class, self.n_classes
        factors = []
        for block, own in zip(self._design.grams(working_weights), strength[order].reshape(K, -1), strict=True):
            # A tiny shift, since collinear columns may be unpenalised.
            block.flat[:: len(own) + 1] += own + 1e-10 * max(float(np.trace(block)) / len(own), float(own.max()))
            factors.append(cholesky(block))

        def apply(v: Vector) -> Vector:
            right = v[order].reshape(K, -1)
            solution = np.empty_like(v)
            solution[order] = np.concatenate([cholesky_solve(f, r) for f, r in zip(factors, right, strict=True)])
            return solution

        return apply

    def _shift_apart(self, each: Product, own: Vector) -> Product:
        """Apply ``each`` only to the differences between the classes; a common shift is affected by the penalty alone.

        With the same strengths in all classes the penalised Hessian maps both parts to themselves, and is diag(s) on the
        second. Left together, its small eigenvalues there would slow conjugate gradients down.
        """
        K, p = self.n_classes, self._design.n_columns
        inverse = np.divide(1.0, own, out=np.zeros_like(own), where=own > 0.0)

        def parts(v: Vector) -> tuple[Matrix, Matrix]:
            """Coefficients K x p and intercepts K x 1 (or 0), without a copy."""
            return v[: K * p].reshape(K, p), v[K * p :].reshape(K, -1)

        def apply(v: Vector) -> Vector:
            common = [part.mean(axis=0) for part in parts(v)]
            rest = np.concatenate([(part - mean).ravel() for part, mean in zip(parts(v), common, strict=True)])
            moved = each(rest)
            for part, mean, own_inverse in zip(parts(moved), common, (inverse[:p], inverse[p:]), strict=True):
                part += mean * own_inverse - part.mean(axis=0)
            return moved

        return apply

    def _working_weights(self, weights: Vector) -> Matrix:
        """a_i p_ik (1 - p_ik): each class separately."""
        probability = self.probabilities(weights)
        return self._weight[:, None] * probability * (1.0 - probability)

    @cached_property
    def factor_cost(self) -> float:
        size = self.n_weights - self._design.width
        if size > MOST_SIDE:
            return np.inf
        n_factor = self._design.n_rows * size**2 / 2 + size**3 / 3
        return factor_products(n_factor, 2.0 * self._design.n_stored * self.n_classes)

    @cached_property
    def _blocks(self) -> ClassBlocks:
        return class_blocks(self._design, self.n_classes - 1)

    @cached_property
    def _by_class(self) -> NDArray[np.intp]:
        """The positions of the weights, ordered by class, then column with the intercept last."""
        K, p = self.n_classes, self._design.n_columns
        coefficients = np.arange(K * p).reshape(K, p)
        if not self.fit_intercept:
            return coefficients.ravel()
        return np.column_stack([coefficients, K * p + np.arange(K)]).ravel()

    def factorise(self, weights: Vector, strength: Vector) -> Product:
        """Uses the Hessian of ``curvature_at``, if cached: a tuning ends with the fit it evaluated last. Folds cache none."""
        known = self._hessian.known(weights)
        hessian = self._hessian_of_differences(weights) if known is None else known.copy(order="F")
        factor, order = SoftmaxFactor(hessian, strength[self._by_class].reshape(self.n_classes, -1)), self._by_class

        def solve(v: Vector) -> Vector:
            solution = np.empty_like(v)
            solution[order] = factor.solve(v[order].reshape(self.n_classes, -1)).ravel()
            return solution

        return solve

    @cached_property
    def curvature_cost(self) -> float:
        """Computing the Hessian costs about a quarter of the leverages and their derivatives."""
        size = self.n_weights - self._design.width
        if size > MOST_SIDE:
            return np.inf
        n_inverse = 2.5 * self._design.n_rows * size**2 + 2.5 * size**3
        return factor_products(n_inverse, 2.0 * self._design.n_stored * self.n_classes)

    def curvature_at(self, weights: Vector, strength: Vector) -> SoftmaxCurvature:
        loss, gradient = self._value.at(weights)
        scores, _, probability = self._point.at(weights)
        by_class = strength[self._by_class].reshape(self.n_classes, -1)
        factor = SoftmaxFactor(self._hessian.at(weights).copy(order="F"), by_class)
        return SoftmaxCurvature(
            self._blocks, self._target, self._weight, scores, probability, weights, strength, loss, gradient,
            self._by_class, factor,
        )  # fmt: skip

    def _hessian_of_differences(self, weights: Vector) -> Matrix:
        return self._blocks.gram(working_weight_pairs(self._blocks, self.probabilities(weights), self._weight))

    def flat_directions(self, unpenalised: NDArray[np.bool_]) -> Matrix | None:
        return flat_directions(self._design, self._weight, unpenalised, self.n_classes, common_shift=True)
