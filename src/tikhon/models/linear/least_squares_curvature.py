"""The effect of leaving rows out of least squares, and its evidence. Both are exact here."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tikhon.models.linear.design import Design
from tikhon.models.linear.inverse import Inverse
from tikhon.models.linear.one_score import CERTAIN, OneScoreCurvature, Pointwise
from tikhon.objective import Criterion, Matrix, StrengthCriterion, Vector

EPSILON = float(np.finfo(float).eps)
LEAST_SQUARES_LEFT = 1e-12  # of the targets' squares: residuals below are rounding error


@dataclass(frozen=True, eq=False)
class LeastSquaresCurvature:
    """X~' diag(a) X~ + diag(s_t) for T targets: one inverse if they have the same strengths, else one each."""

    design: Design
    row_weights: Vector
    target: Matrix  # n x T
    residuals: Matrix  # n x T, predictions less targets
    weights: Matrix  # T x (p + 1)
    strength: Matrix  # T x (p + 1)
    n_free: Vector  # of each target, the weights determined by the data alone: the rank of the unpenalised columns
    inverses: Sequence[Inverse]

    def solve(self, v: Vector) -> Vector:
        right = self.design.by_output(v, self.target.shape[1])
        if len(self.inverses) == 1:
            return self._flat(self.inverses[0].solve(np.asfortranarray(right.T)).T)
        return self._flat(np.array([inverse.solve(row) for inverse, row in zip(self.inverses, right, strict=True)]))

    def inverse_diagonal(self) -> Vector:
        return self._flat(self._diagonals())

    def _diagonals(self) -> Matrix:
        return np.broadcast_to([inverse.diagonal for inverse in self.inverses], self.strength.shape)

    def noise_precision(self) -> Vector:
        _, _, precision = self._noise()
        return self._flat(np.broadcast_to(precision[:, None], self.strength.shape))

    def _noise(self) -> tuple[Vector, Vector, Vector]:
        """For each target m, the summed row weights less the number of free weights, R, and m / R."""
        a = self.row_weights
        m = np.maximum(a.sum() - self.n_free, 1.0)
        squares = a @ np.square(self.residuals) + (self.strength * np.square(self.weights)).sum(axis=1)
        squares = np.maximum(squares, np.maximum(LEAST_SQUARES_LEFT * (a @ np.square(self.target)), 1e-300))
        return m, squares, m / squares

    def leave_one_out(self) -> Criterion:
        shared = len(self.inverses) == 1
        parts = [slice(None)] if shared else [slice(t, t + 1) for t in range(self.target.shape[1])]
        losses = np.zeros(len(self.residuals))
        by_score, by_strength = np.empty_like(self.residuals), np.empty_like(self.strength)
        for part, inverse in zip(parts, self.inverses, strict=True):
            rows = OneScoreCurvature(self.design, self._pointwise(part), inverse)
            own, by_score[:, part], of_target = rows.leave_one_out()
            losses, by_strength[part] = losses + own, of_target.T
        return Criterion(float(losses.sum()), self.design.adjoint_many(by_score), self._flat(by_strength), losses)

    def leave_one_out_error(self, squares: Vector) -> float:
        """The estimated relative rounding error of ``leave_one_out``; ``squares`` are those of the columns, summed.

        It grows with the condition number of the Hessian (columns scaled to one size), as 1 - leverage shrinks, and as the
        residuals become small relative to the targets.
        """
        error, a = 0.0, self.row_weights
        means = a @ self.target / a.sum() if self.design.fit_intercept else 0.0
        spread, left = np.sqrt(a @ np.square(self.target - means)), np.sqrt(a @ np.square(self.residuals))
        fitted = float(np.divide(spread, left, out=np.ones_like(left), where=left > 0.0).max(initial=1.0))
        for strength, inverse in zip(self.strength, self.inverses, strict=False):
            condition = float(((squares + strength) * inverse.diagonal).max(initial=1.0))
            least = max(float(inverse.rest.min(initial=1.0)), CERTAIN)
            error = max(error, EPSILON * condition * max(fitted, 1.0 / least))
        return error

    def average_left_out(self) -> StrengthCriterion | None:
        """Generalised cross-validation (Golub, Heath, Wahba 1979), for exactly fitted weights: for each target

            V = 1/2 R / c^2,    c = 1 - tr(G H^-1) / n,    H = G + S,

        with R the squared residuals, G the Gram matrix and n the summed row weights; dR / ds_j = 2 w_j (H^-1 S w)_j and
        dc / ds_j = ((H^-1)_jj - sum_k s_k (H^-1)_jk^2) / n. None if the degrees of freedom reach the number of rows.
        """
        a = self.row_weights
        n, squares = float(a.sum()), a[:, None] * np.square(self.residuals)
        decided = self.strength.shape[1] - (self.strength * self._diagonals()).sum(axis=1)
        left = 1.0 - decided / n
        if not left.min() > 0.0:
            return None
        moved = self.design.by_output(self.solve(self._flat(self.strength * self.weights)), len(left))
        each = self.inverses if len(self.inverses) > 1 else list(self.inverses) * len(left)
        by_left = np.array(
            [
                (inverse.diagonal - inverse.squares_times(own)) / n
                for inverse, own in zip(each, self.strength, strict=True)
            ]
        )
        by_strength = (
            self.weights * moved / np.square(left)[:, None] - (squares.sum(axis=0) / left**3)[:, None] * by_left
        )
        by_row = 0.5 * squares @ (1.0 / np.square(left))
        return StrengthCriterion(float(by_row.sum()), self._flat(by_strength), 0.0, by_row)

    def _pointwise(self, part: slice) -> Pointwise:
        target, a = self.target[:, part], self.row_weights[:, None]

        def loss_slope(scores: Matrix) -> tuple[Vector, Matrix]:
            residuals = scores - target
            slope = a * residuals
            return 0.5 * (slope * residuals).sum(axis=1), slope

        residuals = self.residuals[:, part]
        return Pointwise(target + residuals, a * residuals, self.row_weights, None, loss_slope)

    def evidence(self) -> Criterion:
        """With the noise variance v of each target at its optimum: strengths are v times the prior's precisions.

        With R = RSS + sum s w^2 and m the summed row weights less the number of free weights (which integrates
        them out, as restricted maximum likelihood does), -log evidence is m/2 log R + 1/2 log det(X'AX + S)
        - 1/2 sum log s up to a constant, v being R / m.
        """
        m, squares, precision = self._noise()
        penalised = self.strength > 0.0
        determinants = np.broadcast_to([inverse.log_determinant for inverse in self.inverses], len(m))
        log_strength = np.log(np.where(penalised, self.strength, 1.0))
        value = 0.5 * float(m @ np.log(squares) + determinants.sum() - log_strength.sum())
        inverse_strength = np.where(penalised, 1.0 / np.where(penalised, self.strength, 1.0), 0.0)
        by_strength = 0.5 * (precision[:, None] * np.square(self.weights) + self._diagonals() - inverse_strength)
        gradient = self.design.adjoint_many(self.row_weights[:, None] * self.residuals * precision)
        by_weights = gradient + self._flat(precision[:, None] * self.strength * self.weights)
        return Criterion(value, by_weights, self._flat(by_strength))

    def _flat(self, by_target: Matrix) -> Vector:
        p = self.design.n_columns
        return np.concatenate([by_target[:, :p].ravel(), by_target[:, p:].ravel()])
