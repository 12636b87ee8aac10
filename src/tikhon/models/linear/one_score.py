"""Leave-one-out and evidence for models whose loss of a row depends on one score: logistic regression, least squares.

Leaving row i out changes its score s_i, by one Newton step from the weights of all rows, to

    t_i = s_i + h_i r_i / (1 - h_i c_i)

where r_i is the slope of the row's loss and c_i its second derivative, the working weight (both including the row's own weight,
as the whole row is left out), and h_i = x_i' H^-1 x_i its leverage, H the penalised Hessian of all rows. For least squares
this is exact.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tikhon.models.linear.design import Design
from tikhon.models.linear.inverse import Inverse
from tikhon.objective import Criterion, Matrix, Vector

CERTAIN = 1e-10  # lower limit of 1 - h c, reached by a row that alone determines its own score


@dataclass(frozen=True, eq=False)
class Pointwise:
    """Losses of n rows for T targets (independent except for the shared Hessian), at given scores."""

    scores: Matrix  # n x T
    slope: Matrix  # n x T, row weights included
    working_weights: Vector  # n, row weights included
    change: Vector | None  # derivative of the working weights with respect to the score; None if they are constant
    loss_slope: Callable[[Matrix], tuple[Vector, Matrix]]  # the losses of the rows and their slopes at other scores


@dataclass(frozen=True, eq=False)
class LeftOut:
    """The leave-one-out losses of the rows, and the derivatives of their sum with respect to the scores and the leverages."""

    losses: Vector
    by_score: Matrix  # n x T, at fixed leverages
    by_leverage: Matrix  # n x T: each target's part


def left_out(point: Pointwise, leverages: Vector, rest: Vector) -> LeftOut:
    """``rest`` is 1 - h c, in a numerically accurate form."""
    h = leverages[:, None]
    rest = np.maximum(rest, CERTAIN)[:, None]
    move = point.slope / rest
    losses, slope = point.loss_slope(point.scores + h * move)
    by_score = slope / rest  # 1 + h c / rest: the score itself, and the slope that changes with it
    if point.change is not None:
        by_score = by_score + slope * move * np.square(h) / rest * point.change[:, None]
    return LeftOut(losses, by_score, slope * move / rest)


@dataclass(frozen=True, eq=False)
class OneScoreCurvature:
    """A penalised Hessian shared by T targets, and the effect of leaving rows out."""

    design: Design
    point: Pointwise
    inverse: Inverse

    def leave_one_out(self) -> tuple[Vector, Matrix, Matrix]:
        """Losses of the rows; derivatives of their sum by scores (n x T) and by strengths ((p + 1) x T).

        A strength acts through the leverages: dh_i / ds_j = -(H^-1 x_i)_j^2; so do the working weights, which depend on the
        scores: dh_i / dc_k = -(x_i' H^-1 x_k)^2.
        """
        found = left_out(self.point, self.inverse.leverages, self.inverse.rest)
        by_score = found.by_score
        if self.point.change is not None:
            # Slopes before and after leaving a row out have the same sign, so these weights are not negative.
            by_working_weight = -self.inverse.squares(found.by_leverage.sum(axis=1))
            by_score = by_score + (by_working_weight * self.point.change)[:, None]
        return found.losses, by_score, -self.inverse.squared_responses(found.by_leverage)

    def determinant_by_score(self) -> Vector | None:
        """The derivative of log det H with respect to the scores of the rows, if the working weights depend on them."""
        return None if self.point.change is None else self.inverse.leverages * self.point.change


def penalised_evidence(
    loss: float, gradient: Vector, weights: Vector, strength: Vector, log_determinant: float, by_weights: Vector,
    inverse_diagonal: Vector,
) -> Criterion:  # fmt: skip
    """-log integral exp(-loss - 1/2 sum s w^2) times the prior's normaliser, by Laplace (MacKay 1992), up to a constant.

    loss + 1/2 sum s w^2 + 1/2 log det(H + S) - 1/2 sum log s over the penalised weights; the integral over the
    unpenalised ones is improper, its constant dropped. ``by_weights`` is the derivative of the log determinant.
    """
    penalised = strength > 0.0
    own = strength[penalised]
    value = loss + 0.5 * float(strength @ np.square(weights)) + 0.5 * log_determinant - 0.5 * float(np.log(own).sum())
    by_strength = 0.5 * (np.square(weights) + inverse_diagonal)
    by_strength[penalised] -= 0.5 / own
    return Criterion(value, gradient + strength * weights + 0.5 * by_weights, by_strength)
