"""Ascent of the evidence in the log strengths (MacKay 1992)."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tikhon.results import TuneResult
from tikhon.tuners.base import Problem, Start, Tuner
from tikhon.tuners.factored_criteria import tune_on_all_data
from tikhon.tuners.outer_loop import Stopping

SECOND_DERIVATIVE = 3.0  # of the evidence in a log strength: half the degrees of freedom; only affects the first step


@dataclass(frozen=True, kw_only=True)
class Evidence(Tuner):
    """Maximises the marginal likelihood of the strengths in Laplace's approximation: no hold-out data, no splits.

    Its negative logarithm is loss + 1/2 sum s w^2 + 1/2 log det(H + S) - 1/2 sum log s at the fitted weights; for Ridge
    the noise variance is estimated along with the strengths (restricted maximum likelihood). The determinant and its
    gradient come from the last factor of the fit. It uses the degrees of freedom instead of the number of weights (as "mm"
    does), so it does not over-shrink when there are many weights.

    Parameters
    ----------
    start : float, mapping from group name to float, or None, default=None
        The initial strengths. None: 3 % of the curvature of the loss in a group's weights (the natural strength),
        refined by a few updates during a low-accuracy fit.
    bounds : pair of float or None, default=None
        Bounds on the strengths. None: 2^-16 to 2^20 times the natural strengths.
    tol : float, default=0.02
        Converged when the norm of the gradient of the log evidence in the log strengths is at most this.
    max_steps : int, default=100
    checkpoint : str or None, default=None
        A file written after every step, from which an interrupted tuning resumes.

    Examples
    --------
    >>> import numpy as np
    >>> from tikhon import Evidence, Ridge
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(100, 30))
    >>> y = X[:, :3] @ [2.0, -1.0, 1.0] + rng.normal(size=100)
    >>> model = Ridge(groups={"signal": [0, 1, 2]}, tuner=Evidence()).fit(X, y)
    >>> model.strengths_["rest"] > 10 * model.strengths_["signal"]
    True
    >>> 2.5 < model.tuning_.extras["degrees_of_freedom"]["signal"] < 3.0
    True
    """

    name: ClassVar[str] = "evidence"
    uses_pairs: ClassVar[bool] = False
    needs_likelihood: ClassVar[bool] = False

    start: Start | None = None
    bounds: tuple[float, float] | None = None
    tol: float = 0.02  # norm of the gradient of the log evidence
    max_steps: int = 100
    checkpoint: str | None = None

    def tune(self, problem: Problem) -> TuneResult:
        return tune_on_all_data(
            self,
            problem,
            kind="evidence",
            unit=1.0,
            stopping=lambda n_learned: Stopping(
                tol=self.tol,
                least_decrease=0.02 * self.tol,
                little_slope=np.inf,
                max_steps=self.max_steps,
                unit=lambda value: 1.0,
                noun="negative log evidence",
            ),
            second_derivative=SECOND_DERIVATIVE,
            criterion_name="negative log evidence",
        )
