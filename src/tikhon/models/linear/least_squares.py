"""Least squares, for one or many targets."""

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tikhon.kernels.linalg import cholesky, cholesky_solve
from tikhon.models.linear.by_example import ByExample, Places
from tikhon.models.linear.design import Data, Design, active_rows, factor_products
from tikhon.models.linear.dual import SharedKernel, by_rows, inverse_strengths, kernel
from tikhon.models.linear.flat import flat_directions
from tikhon.models.linear.gram import SharedGrams
from tikhon.models.linear.hints import linear_hints
from tikhon.models.linear.inverse import Inverse, fewer_rows, inverse_cost, inverse_of
from tikhon.models.linear.least_squares_curvature import LeastSquaresCurvature
from tikhon.models.linear.left_out_squares import ClosedLeaveOneOut, crowded
from tikhon.models.linear.rotated import MOST_BYTES, RotatedLeastSquares
from tikhon.models.linear.sizes import Sizes
from tikhon.models.memo import LastPoint
from tikhon.objective import Hints, Matrix, Product, StrengthCriterion, Vector

MOST_WEAK = 0.25  # of the rows: with more columns of almost no strength, the dual form does not pay
MOST_DENSE_BYTES = 2**26  # limit on sparse rows that are copied to a dense matrix
NEWTON_STEPS = 3  # of a non-quadratic fit; this one takes a single step
TRIFLE = 1e-8  # of a weight's curvature: such strengths exist only to make factors possible
TRUSTED = 1e-2  # if less than this share of the terms of the loss is left, it is summed over the rows instead


class LeastSquares(ByExample):
    """1/2 sum_i a_i ||x_i W' + b - y_i||^2 for T targets, with row weights a.

    The gradient is (residuals)' diag(a) X~, the Hessian I_T (x) X~' diag(a) X~ at any weights. Weights: T x p coefficients
    row by row, then T intercepts.

    The p x p block G = X~' diag(a) X~ is computed once and, if it is smaller than the rows, replaces them: the gradient is
    G w - c with c = X~' diag(a) y, and the rows of a view are not copied. Factors use the smaller of p and the number of
    rows, and the last one is cached, since it does not depend on the weights. Views made by ``reweighted`` share what they
    have in common (``models/linear/gram.py``, ``models/linear/dual.py``).
    """

    is_convex = True

    def __init__(self, X: Data, y: Matrix, *, fit_intercept: bool = True, row_weights: Vector | None = None) -> None:
        self.X, self.y, self.fit_intercept = X, y, fit_intercept
        self.row_weights = np.ones(len(y)) if row_weights is None else row_weights
        self._targets = y.reshape(len(y), -1)
        self.n_targets = int(self._targets.shape[1])
        self._shared = _Shared(Design(X, fit_intercept), self.row_weights)
        self._value = LastPoint(self._loss_gradient)
        self._inverse = LastPoint(self._factorised)
        self._last_flat: tuple[NDArray[np.bool_], Matrix | None] | None = None

    @cached_property
    def hints(self) -> Hints:
        return replace(
            linear_hints(self),
            noise_precision=self.noise_precision,
            rotated=self.rotated,
            closed_leave_one_out=self.closed_leave_one_out,
            average_left_out=self.average_left_out,
        )

    def reweighted(self, row_weights: Vector) -> "LeastSquares":
        view = LeastSquares(self.X, self.y, fit_intercept=self.fit_intercept, row_weights=row_weights)
        view._shared = self._shared
        return view

    @property
    def n_weights(self) -> int:
        return self.n_targets * self._shared.design.width

    @property
    def n_rows(self) -> int:
        return len(self.y)

    @cached_property
    def total_weight(self) -> float:
        """The number of observed values, weighted by their rows."""
        return float(self.row_weights.sum() * self.n_targets)

    @cached_property
    def target_variance(self) -> float:
        """The weighted variance of the targets around their means: the natural unit of the noise."""
        if self.total_weight == 0:
            return 0.0
        centred = self._targets - self._target_means
        return float((self.row_weights @ centred**2).sum() / self.total_weight)

    @cached_property
    def _target_means(self) -> Vector:
        return np.asarray(self.row_weights @ self._targets / self.row_weights.sum())

    # The rows in use, copied if that saves time, and only on demand.

    @cached_property
    def _active(self) -> tuple[Design, NDArray[np.intp] | slice]:
        return active_rows(self.X, self.fit_intercept, self.row_weights)

    @property
    def _design(self) -> Design:
        return self._active[0]

    @cached_property
    def _target(self) -> Matrix:
        return self._targets[self._active[1]]

    @cached_property
    def _weight(self) -> Matrix:
        return self.row_weights[self._active[1]][:, None]

    @property
    def _working_weights(self) -> Matrix:
        return np.broadcast_to(self._weight, (len(self._weight), self.n_targets))

    # Loss, gradient and Hessian, from the rows or from the Gram matrix.

    def loss_gradient(self, weights: Vector) -> tuple[float, Vector]:
        loss, gradient = self._value.at(weights)
        return loss, gradient.copy()

    def _loss_gradient(self, weights: Vector) -> tuple[float, Vector]:
        if self._sizes.gram_serves and not np.iscomplexobj(weights):
            gradient = self._gram_product(weights) - self._cross
            return self._loss_by_gram(weights, gradient), gradient
        residuals = self._design.scores_many(weights, self.n_targets) - self._target
        weighted = self._weight * residuals
        # No conjugate, so that complex steps pass through.
        return 0.5 * (weighted * residuals).sum().item(), self._design.adjoint_many(weighted)

    def _loss_by_scores(self, rows: Places, scores: Matrix) -> tuple[Vector, Matrix]:
        residuals = scores - self._targets[rows]
        return np.asarray(0.5 * np.square(residuals).sum(axis=1)), residuals

    def row_losses(self, weights: Vector) -> Vector:
        residuals = self._design.scores_many(weights, self.n_targets) - self._target
        return np.asarray(0.5 * (self._weight * np.square(residuals)).sum(axis=1))

    def _loss_by_gram(self, weights: Vector, gradient: Vector) -> float:
        """1/2 (w'Gw - 2 w'c + y'Ay), or from the rows if these terms cancel.

        Each of the p^2 terms of w'Gw has a rounding error of at most 1e-16 sqrt(g_ii g_jj) |w_i w_j|: together some
        1e-16 sum_i g_ii w_i^2. The loss keeps all but the last two or three digits unless it is much smaller.
        """
        loss = 0.5 * float(weights @ (gradient - self._cross) + self._squared_targets)
        terms = float(self.hessian_diagonal(weights) @ np.square(weights)) + self._squared_targets
        if loss > TRUSTED * terms:
            return loss
        residuals = self._design.scores_many(weights, self.n_targets) - self._target
        return 0.5 * float((self._weight * residuals**2).sum())

    @cached_property
    def _cross(self) -> Vector:
        """X~' diag(a) y: from all rows, so that none are copied."""
        return self._shared.design.adjoint_many(self.row_weights[:, None] * self._targets)

    @cached_property
    def _squared_targets(self) -> float:
        return float((self.row_weights @ self._targets**2).sum())

    def _gram_product(self, v: Vector) -> Vector:
        return self._flat(self._by_target(v) @ self._gram)

    def hessian_at(self, weights: Vector) -> Product:
        if self._sizes.gram_serves:
            return self._gram_product
        return lambda v: self._design.adjoint_many(self._weight * self._design.scores_many(v, self.n_targets))

    def baseline_weights(self) -> Vector:
        weights = np.zeros(self.n_weights)
        if self.fit_intercept and self.total_weight > 0:
            weights[-self.n_targets :] = self._target_means
        return weights

    def baseline_diagonal(self) -> Vector:
        return self._alike(self._design.centred_squares(self._weight)[0])

    def release(self) -> None:
        for cache in (self._value, self._inverse):
            cache.forget()

    def gradient_norm(self) -> Callable[[Vector], float] | None:
        return self._design.gradient_norm(self.n_targets)

    def hessian_diagonal(self, weights: Vector) -> Vector:
        return self._squares

    @cached_property
    def _squares(self) -> Vector:
        one = np.diag(self._gram) if self._sizes.gram_serves else self._design.squares(self._weight)
        return self._alike(one)

    def preconditioner(self, weights: Vector, strength: Vector) -> Product:
        return self._design.preconditioner(self._working_weights, strength)

    def flat_directions(self, unpenalised: NDArray[np.bool_]) -> Matrix | None:
        """Cached for the last argument: every fit of a tuning requests the same."""
        last = self._last_flat
        if last is None or not np.array_equal(last[0], unpenalised):
            found = flat_directions(
                self._shared.design, self.row_weights, unpenalised, self.n_targets, common_shift=False
            )
            self._last_flat = last = (unpenalised.copy(), found)
        return last[1]

    # Factors.

    @cached_property
    def _gram(self) -> Matrix:
        return self._shared.grams.of(self.row_weights)

    @property
    def factor_cost(self) -> float:
        return self._sizes.factor_cost

    @cached_property
    def _sizes(self) -> Sizes:
        return Sizes(self._shared.design, int(np.count_nonzero(self.row_weights)), self.n_targets)

    def factorise(self, weights: Vector, strength: Vector) -> Product:
        """One factor if all targets have the same strengths, else one per target."""
        return self._inverse.at(strength)

    def _factorised(self, strength: Vector) -> Product:
        by_target = self._by_target(strength)
        if self.n_targets == 1 or bool((by_target == by_target[0]).all()):
            inverse = self._inverse_for(by_target[0], shared=True)
            return lambda v: self._flat(inverse(self._by_target(v).T).T)
        inverses = [self._inverse_for(row, shared=False) for row in by_target]
        return lambda v: self._flat(
            np.array([inverse(row[:, None])[:, 0] for inverse, row in zip(inverses, self._by_target(v), strict=True)])
        )

    def _inverse_for(self, strength: Vector, *, shared: bool) -> Callable[[Matrix], Matrix]:
        """V -> (G + diag(strength))^-1 V for one target's strengths and a matrix V."""
        if self._sizes.in_rows:
            d = inverse_strengths(strength, self._shared.curvature, fit_intercept=self.fit_intercept)
            if np.count_nonzero(d == 0.0) <= MOST_WEAK * self._design.n_rows:
                return by_rows(self._design, self._weight[:, 0], strength, d, self._kernel(d, shared=shared))
        matrix = self._gram.copy(order="F")
        matrix.flat[:: len(strength) + 1] += strength
        factor = cholesky(matrix)
        return lambda right: cholesky_solve(factor, right)

    def _kernel(self, d: Vector, *, shared: bool) -> Matrix:
        """X diag(d) X' over the rows in use, to be overwritten."""
        d, rows = d[: self._design.n_columns], self._active[1]
        if not shared:  # each view requests the strengths of all targets in turn: a cache of the last would never hit
            return kernel(self._design.X, d)
        if isinstance(rows, slice):
            return self._shared.kernel.at(d).copy(order="F")
        # Row numbers ascend, so a lower triangle stays lower triangular; taking whole rows of its transpose is faster.
        return self._shared.kernel.at(d).T.take(rows, axis=0).take(rows, axis=1).T

    @property
    def curvature_cost(self) -> float:
        """By columns the Gram matrix is computed once, and a fit needs one factor instead of Newton's three or so.

        By rows neither helps: folds, which share one kernel matrix, are cheaper there.
        """
        n_inverse = inverse_cost(self._design)
        if not fewer_rows(self._design):
            n_inverse = (n_inverse - self._design.gram_multiplications) / NEWTON_STEPS
        return factor_products(n_inverse, 2.0 * self._design.n_stored * self.n_targets)

    def curvature_at(self, weights: Vector, strength: Vector) -> LeastSquaresCurvature:
        residuals = self._design.scores_many(weights, self.n_targets) - self._target
        return LeastSquaresCurvature(
            self._design, self._weight[:, 0], self._target, residuals, self._by_target(weights),
            self._by_target(strength), self._n_free(strength), self._last_inverses.at(strength),
        )  # fmt: skip

    def rotated(self, unpenalised: NDArray[np.bool_]) -> RotatedLeastSquares | None:
        """For dense rows, about as many as columns or more, if a second copy of them is not too large."""
        design, n_coefficients = self._design, self.n_targets * self._shared.design.n_columns
        if design.is_sparse or fewer_rows(design) or 8 * design.n_stored > MOST_BYTES or self.total_weight == 0.0:
            return None
        if unpenalised[:n_coefficients].any():
            return None
        return RotatedLeastSquares(design, self._weight[:, 0], self._target, self._gram)

    def closed_leave_one_out(
        self, unpenalised: NDArray[np.bool_], common: bool
    ) -> Callable[[Vector], StrengthCriterion] | None:
        """For dense rows, and for sparse ones that are few enough to be stored densely."""
        design = self._design
        if self.total_weight == 0.0 or 8 * design.n_rows * design.n_columns > (
            MOST_DENSE_BYTES if design.is_sparse else MOST_BYTES
        ):
            return None
        if design.is_sparse and not crowded(design):
            return None
        return ClosedLeaveOneOut(
            design, self._weight[:, 0], self._target, self._by_target(unpenalised.astype(np.float64)) > 0.0,
            common=common, by_columns=self._left_out_by_columns,
        )  # fmt: skip

    def average_left_out(self, strength: Vector) -> StrengthCriterion | None:
        """At a fraction of the cost of leave-one-out, with the same minimum up to sampling noise if there are many rows."""
        if crowded(self._design):
            return None
        fitted = self._fitted(strength)
        return None if fitted is None else fitted[1].average_left_out()

    def _left_out_by_columns(self, strength: Vector) -> StrengthCriterion | None:
        """From exact weights and the factor of the Hessian; None if there is no factor."""
        fitted = self._fitted(strength)
        if fitted is None:
            return None
        weights, curvature = fitted
        found, squares = curvature.leave_one_out(), self._by_target(self._squares)[0]
        by_strength = found.by_strength - weights * curvature.solve(found.by_weights)
        assert found.by_row is not None
        return StrengthCriterion(found.value, by_strength, curvature.leave_one_out_error(squares), found.by_row)

    def _fitted(self, strength: Vector) -> tuple[Vector, LeastSquaresCurvature] | None:
        """The exact weights and the curvature there; None if there is no factor."""
        try:
            inverses = self._last_inverses.at(strength)
        except np.linalg.LinAlgError:
            return None
        at_zero = LeastSquaresCurvature(
            self._design, self._weight[:, 0], self._target, -self._target, np.zeros_like(self._by_target(strength)),
            self._by_target(strength), self._n_free(strength), inverses,
        )  # fmt: skip
        weights = at_zero.solve(self._cross)
        weights += at_zero.solve(self._cross - self.hessian_at(weights)(weights) - strength * weights)
        return weights, self.curvature_at(weights, strength)

    def _n_free(self, strength: Vector) -> Vector:
        """The rank of each target's unpenalised columns; tiny strengths, which only make a factor exist, count as none.

        These are those of the intercept, which is never penalised; without one, those negligible relative to the squares.
        """
        by_target = self._by_target(strength)
        trifling = by_target <= (by_target[:, -1:] if self.fit_intercept else TRIFLE * self._by_target(self._squares))
        count: Vector = trifling.sum(axis=1).astype(np.float64)
        if (count > self.fit_intercept).any():
            flat = self.flat_directions(self._flat(trifling.astype(np.float64)) > 0.0)
            if flat is not None and flat.shape[1]:
                count -= np.square(self._by_target_columns(flat)).sum(axis=(1, 2))
        return count

    def _by_target_columns(self, columns: Matrix) -> Matrix:
        """T x (p + 1) x d from n_weights x d."""
        return np.stack([self._by_target(column) for column in columns.T], axis=-1)

    @cached_property
    def _last_inverses(self) -> LastPoint[list[Inverse]]:
        """Cached for the last strengths: the inverses do not depend on the weights."""
        return LastPoint(self._inverses)

    def _inverses(self, strength: Vector) -> list[Inverse]:
        by_target = self._by_target(strength)
        same = bool((by_target == by_target[0]).all())
        gram = None if fewer_rows(self._design) else self._gram
        return [
            inverse_of(self._design, self._weight[:, 0], row, gram) for row in (by_target[:1] if same else by_target)
        ]

    def noise_precision(self, loss: float) -> float:
        return self.total_weight / (2.0 * loss) if loss > 0.0 else 1.0

    # Layouts: flat weights, and one row per target.

    def _by_target(self, v: Vector) -> Matrix:
        return v[None, :] if self.n_targets == 1 else self._shared.design.by_output(v, self.n_targets)

    def _flat(self, by_target: Matrix) -> Vector:
        if self.n_targets == 1:
            return np.asarray(by_target[0])
        p = self._shared.design.n_columns
        return np.concatenate([by_target[:, :p].ravel(), by_target[:, p:].ravel()])

    def _alike(self, one: Vector) -> Vector:
        """A vector that is the same for each target, flattened."""
        return self._flat(np.tile(one, (self.n_targets, 1)))


class _Shared:
    """What all views of the same rows share."""

    def __init__(self, design: Design, row_weights: Vector) -> None:
        self.design, self._row_weights = design, row_weights
        self.grams = SharedGrams(design, row_weights)
        self.kernel = SharedKernel(design.X)

    @cached_property
    def curvature(self) -> Vector:
        """The diagonal of the Gram matrix, as a scale for strengths."""
        return self.design.squares(self._row_weights[:, None])
