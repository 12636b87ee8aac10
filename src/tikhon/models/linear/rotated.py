"""Least squares in the principal axes of its columns, for one strength shared by all of them.

A rotation changes neither the penalty s ||w||^2 nor the predictions. With the weighted means m subtracted from the columns
and (X - 1m')'A(X - 1m') = V diag(l) V', the rows z_i = V'(x_i - m) have the diagonal Gram matrix diag(l): for any s the
fit, the leverages sum_j z_ij^2 / (l_j + s) and their derivatives cost one pass over the rows. One eigendecomposition
replaces a factor and an inverse at each strength that a tuner tries.
"""

from collections.abc import Callable, Iterator
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tikhon.models.linear.design import Design, factor_products
from tikhon.models.linear.inverse import Inverse
from tikhon.models.linear.least_squares_curvature import LeastSquaresCurvature
from tikhon.models.linear.left_out_squares import PrincipalAxes, centred_rows, crowded
from tikhon.objective import Hints, Matrix, Product, StrengthCriterion, Vector

MOST_BYTES = 2**28  # limit on the rotated rows, a second copy of the data
PASSES = 4.0  # over the rows, for each strength tried


class ByAxes(Inverse):
    """For a diagonal X~' diag(c) X~."""

    def __init__(self, design: Design, working_weights: Vector, strength: Vector, gram_diagonal: Vector) -> None:
        super().__init__(design, working_weights, strength)
        self._diagonal = gram_diagonal + strength

    def solve(self, right: Matrix) -> Matrix:
        return right / (self._diagonal if right.ndim == 1 else self._diagonal[:, None])

    @property
    def log_determinant(self) -> float:
        return float(np.log(self._diagonal).sum())

    @property
    def diagonal(self) -> Vector:
        return 1.0 / self._diagonal

    @cached_property
    def leverages(self) -> Vector:
        return self.design.squared_sums(self.diagonal)

    def squares_times(self, v: Vector) -> Vector:
        return v / np.square(self._diagonal)

    def responses(self) -> Iterator[tuple[slice, Matrix]]:
        for rows in self.design.blocks():
            yield rows, self.design.block(rows) * self.diagonal


class RotatedLeastSquares:
    """1/2 sum_i a_i ||z_i W' + b - y_i||^2: the original least squares at the rotated weights."""

    is_convex = True

    def __init__(self, design: Design, row_weights: Vector, target: Matrix, gram: Matrix) -> None:
        """``gram`` is the Gram matrix of all columns, X~' diag(a) X~."""
        p, total = design.n_columns, float(row_weights.sum())
        rows = centred_rows(design.X, target, row_weights, np.zeros(p, dtype=np.bool_), intercept=design.fit_intercept)
        centred = gram[:p, :p] - np.outer(gram[p, :p], gram[p, :p]) / total if design.fit_intercept else gram[:p, :p]
        self._axes = PrincipalAxes(rows, centred)
        rotated, _, squares = self._axes.eigenvectors
        if len(squares) < p:  # fewer rows than columns: the other axes are outside of the data
            rotated = np.hstack([rotated, np.zeros((len(rotated), p - len(squares)))])
            squares = np.append(squares, np.zeros(p - len(squares)))
        root = np.sqrt(row_weights)[:, None]
        if (root != 1.0).any():
            rotated = np.divide(rotated, root, out=np.zeros_like(rotated), where=root > 0.0)
        self._design = Design(rotated, design.fit_intercept)
        self._weight, self._target = row_weights, target
        self._squares = np.append(squares, [total] * design.fit_intercept)
        self.n_targets = int(target.shape[1])

    @property
    def n_weights(self) -> int:
        return self.n_targets * self._design.width

    @property
    def n_rows(self) -> int:
        return len(self._target)

    @cached_property
    def hints(self) -> Hints:
        return Hints(
            baseline=self.baseline_weights,
            baseline_diagonal=self.baseline_diagonal,
            hessian_diagonal=self.hessian_diagonal,
            noise_precision=self.noise_precision,
            closed_leave_one_out=self.closed_leave_one_out,
            average_left_out=self.average_left_out,
        )

    def loss_gradient(self, weights: Vector) -> tuple[float, Vector]:
        residuals = self._residuals(weights)
        weighted = self._weight[:, None] * residuals
        return 0.5 * float((weighted * residuals).sum()), self._design.adjoint_many(weighted)

    def _residuals(self, weights: Vector) -> Matrix:
        return self._design.scores_many(weights, self.n_targets) - self._target

    def baseline_weights(self) -> Vector:
        weights = np.zeros(self.n_weights)
        if self._design.fit_intercept:
            weights[-self.n_targets :] = self._weight @ self._target / self._weight.sum()
        return weights

    def baseline_diagonal(self) -> Vector:
        return self.hessian_diagonal(np.zeros(self.n_weights))

    def hessian_diagonal(self, weights: Vector) -> Vector:
        p = self._design.n_columns
        return np.append(np.tile(self._squares[:p], self.n_targets), np.tile(self._squares[p:], self.n_targets))

    def hessian_at(self, weights: Vector) -> Product:
        diagonal = self.hessian_diagonal(weights)
        return lambda v: diagonal * v

    @property
    def curvature_cost(self) -> float:
        return factor_products(
            PASSES * self._design.n_stored * self.n_targets, 2.0 * self._design.n_stored * self.n_targets
        )

    def curvature_at(self, weights: Vector, strength: Vector) -> LeastSquaresCurvature:
        by_target = self._design.by_output(strength, self.n_targets)
        inverse = ByAxes(self._design, self._weight, by_target[0], self._squares)
        return LeastSquaresCurvature(
            self._design, self._weight, self._target, self._residuals(weights),
            self._design.by_output(weights, self.n_targets), by_target,
            np.full(self.n_targets, float(self._design.fit_intercept)), [inverse],
        )  # fmt: skip

    def closed_leave_one_out(
        self, unpenalised: NDArray[np.bool_], common: bool
    ) -> Callable[[Vector], StrengthCriterion] | None:
        """Through the axes already computed; only the sum of derivatives matters, so their axes may differ."""
        if not common:
            return None

        def at(strength: Vector) -> StrengthCriterion:
            common_strength = float(strength[0])
            found = self._axes.left_out(common_strength)
            by_strength = np.zeros((self.n_targets, self._design.width))
            by_strength[:, : len(found.by_log_strength)] = found.by_log_strength.T / common_strength
            p = self._design.n_columns
            flat = np.append(by_strength[:, :p].ravel(), by_strength[:, p:].ravel())
            return StrengthCriterion(found.value, flat, found.error, found.by_row)

        return at

    def average_left_out(self, strength: Vector) -> StrengthCriterion | None:
        if crowded(self._design):
            return None
        own = self._design.by_output(strength, self.n_targets)
        by_target = self._cross / (self._squares + own)
        p = self._design.n_columns
        weights = np.append(by_target[:, :p].ravel(), by_target[:, p:].ravel())
        return self.curvature_at(weights, strength).average_left_out()

    @cached_property
    def _cross(self) -> Matrix:
        """T x (p + 1)."""
        return self._design.by_output(self._design.adjoint_many(self._weight[:, None] * self._target), self.n_targets)

    def noise_precision(self, loss: float) -> float:
        return float(self._weight.sum()) * self.n_targets / (2.0 * loss) if loss > 0.0 else 1.0
