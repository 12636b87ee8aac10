"""Gradient descent on leave-one-out loss in the log strengths."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tikhon.results import TuneResult
from tikhon.solvers.penalised import baseline
from tikhon.tuners.base import Problem, Start, Tuner
from tikhon.tuners.factored_criteria import tune_on_all_data
from tikhon.tuners.outer_loop import Stopping, limits
from tikhon.tuners.refit import many_strengths

SECOND_DERIVATIVE = (
    0.03  # of the loss, in log strength: typical, and shared among the groups; only affects the first step
)
NEGLIGIBLE = 2e-3  # share of a constant prediction's loss: below it no further tuning is needed


@dataclass(frozen=True, kw_only=True)
class LeaveOneOut(Tuner):
    """Minimises leave-one-out loss over theta = log strength, for any number of groups: no splits, no refits.

    Each evaluation fits all data by Newton's method, warm-started along the tangent, and computes from the last factor of
    the Hessian the loss of every row when it is left out: exactly for least squares, by one Newton step otherwise. The
    gradient is exact and includes the dependence of the leverages on the strengths. A row of weight k is left out whole, so
    the strengths differ from those learned from k copies of it, of which one is left out at a time.

    Parameters
    ----------
    start : float, mapping from group name to float, or None, default=None
        The initial strengths. None: 3 % of the curvature of the loss in a group's weights (the natural strength),
        refined by a few updates during a low-accuracy fit.
    bounds : pair of float or None, default=None
        Bounds on the strengths. None: 2^-16 to 2^20 times the natural strengths.
    prior_deviation : float or None, default=None
        The standard deviation of a normal prior of the log strengths around the natural ones; None: no prior.
    tol : float, default=2e-3
        Converged when the norm of the gradient in the log strengths is at most this share of the leave-one-out loss.
    least_gain : float or None, default=None
        Stop after a full step that lowers the loss by a smaller share than this, or when the gradient promises less than
        half of it. None: the gain that a gradient within ``tol`` may still promise.
    max_steps : int, default=100
    pooling : float or None, default=None
        With several groups: find the best common strength first, then shrink the groups' strengths towards it by Cauchy
        priors of this scale in log strength (``tikhon.tuners.pooling``); None: no pooling.
    checkpoint : str or None, default=None
        A file written after every step, from which an interrupted tuning resumes.

    Examples
    --------
    >>> import numpy as np
    >>> from tikhon import LeaveOneOut, LogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 12))
    >>> y = X[:, :2].sum(axis=1) + rng.normal(size=200) > 0
    >>> model = LogisticRegression(groups={"signal": [0, 1]}, tuner=LeaveOneOut(tol=1e-4)).fit(X, y)
    >>> model.strengths_["rest"] > model.strengths_["signal"]
    True
    >>> model.tuning_.criterion_name
    'leave-one-out loss per unit of weight'
    """

    name: ClassVar[str] = "loo"
    uses_pairs: ClassVar[bool] = False
    needs_likelihood: ClassVar[bool] = False

    start: Start | None = None
    bounds: tuple[float, float] | None = None
    prior_deviation: float | None = None
    tol: float = 2e-3  # norm of the gradient, relative to the loss
    least_gain: float | None = None
    max_steps: int = 100
    pooling: float | None = None
    checkpoint: str | None = None

    def tune(self, problem: Problem) -> TuneResult:
        constant = abs(problem.objective.loss_gradient(baseline(problem.objective))[0]) / problem.total_weight

        def stopping(n_learned: int) -> Stopping:
            tol, least = limits(self.tol, self.least_gain, SECOND_DERIVATIVE, n_learned)
            return Stopping(
                tol=tol,
                least_decrease=least,
                little_slope=np.inf,
                max_steps=self.max_steps,
                unit=abs,
                noun="leave-one-out loss",
                is_loss=True,
                enough=NEGLIGIBLE * constant,
            )

        return tune_on_all_data(
            self,
            problem,
            kind="leave_one_out",
            unit=problem.total_weight,
            stopping=stopping,
            relative_second_derivative=SECOND_DERIVATIVE,
            prior_deviation=self.prior_deviation,
            pooling=self.pooling,
            criterion_name="leave-one-out loss per unit of weight",
            warnings=many_strengths(problem) if self.pooling is None else (),
        )
