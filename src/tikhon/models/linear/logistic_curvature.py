"""The effect of leaving rows out of a logistic regression, and its evidence."""

from dataclasses import dataclass

from tikhon.kernels.linear.pointwise import logistic_loss_probability
from tikhon.models.linear.design import Design
from tikhon.models.linear.inverse import Inverse, inverse_of
from tikhon.models.linear.one_score import OneScoreCurvature, Pointwise, penalised_evidence
from tikhon.objective import Criterion, Matrix, Vector


@dataclass(frozen=True, eq=False)
class LogisticCurvature:
    """The penalised Hessian X~' diag(a p (1 - p)) X~ + diag(s), factorised."""

    weights: Vector
    strength: Vector
    loss: float
    gradient: Vector
    rows: OneScoreCurvature

    def solve(self, v: Vector) -> Vector:
        return self._inverse.solve(v)

    @property
    def _inverse(self) -> Inverse:
        return self.rows.inverse

    def inverse_diagonal(self) -> Vector:
        return self._inverse.diagonal

    def noise_precision(self) -> float:
        return 1.0

    def leave_one_out(self) -> Criterion:
        losses, by_score, by_strength = self.rows.leave_one_out()
        return Criterion(float(losses.sum()), self.rows.design.adjoint(by_score[:, 0]), by_strength[:, 0], losses)

    def evidence(self) -> Criterion:
        by_score = self.rows.determinant_by_score()
        assert by_score is not None
        return penalised_evidence(
            self.loss, self.gradient, self.weights, self.strength, self._inverse.log_determinant,
            self.rows.design.adjoint(by_score), self._inverse.diagonal,
        )  # fmt: skip


def logistic_curvature(
    design: Design, target: Vector, row_weights: Vector, scores: Vector, probability: Vector, weights: Vector,
    strength: Vector, loss: float, gradient: Vector, gram: Matrix | None,
) -> LogisticCurvature:  # fmt: skip
    """``gram`` is the Hessian, if it is known."""
    working_weights = row_weights * probability * (1.0 - probability)

    def loss_slope(moved: Matrix) -> tuple[Vector, Matrix]:
        losses, there = logistic_loss_probability(moved[:, 0], target)
        return row_weights * losses, (row_weights * (there - target))[:, None]

    point = Pointwise(
        scores=scores[:, None],
        slope=(row_weights * (probability - target))[:, None],
        working_weights=working_weights,
        change=working_weights * (1.0 - 2.0 * probability),
        loss_slope=loss_slope,
    )
    rows = OneScoreCurvature(design, point, inverse_of(design, working_weights, strength, gram))
    return LogisticCurvature(weights, strength, loss, gradient, rows)
