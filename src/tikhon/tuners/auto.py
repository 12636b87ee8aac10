"""The tuner that chooses a tuner from the sizes of the problem alone."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from tikhon.objective import Curved, Objective, Rows, hints_of
from tikhon.results import TuneResult
from tikhon.solvers.penalised import gradient_measure
from tikhon.tuners.base import Problem, Splits, Tuner
from tikhon.tuners.gradient import Gradient
from tikhon.tuners.loo import LeaveOneOut

MOST_PRODUCTS = 160.0  # limit on the cost of leverages: above, inexact solves on a hold-out are faster
FEW_ROWS, ROWS_PER_WEIGHT = 1000, 4  # below both, one Newton step approximates leaving a row out poorly
TOL = 2e-3
PRIOR_DEVIATION = 3.0  # of the common log strength around the natural one: about its spread over the LIBSVM data sets
# Scales of the Cauchy priors of log strengths around the common one, for likelihoods and for least squares.
POOLING, POOLING_OF_SQUARES = 0.35, 1.5
# The least gain as a share of sampling noise: smaller where evaluations are cheap, since small gains add up.
CHANCE_OF_HOLDOUT, CHANCE_OF_FOLDS, CHANCE_OF_ROWS = 0.5, 0.25, 0.05
MANY_ROWS = 5000  # from here on, one hold-out of a fifth is as informative as five folds, at a fifth of the cost


@dataclass(frozen=True, kw_only=True)
class Auto(Tuner):
    """Leave-one-out if the Hessian is cheap to factorise, else held-out loss by inexact gradients.

    Both first learn the best common strength and then one strength per group, with partial pooling: groups depart from the
    common strength only as far as the data support (``tikhon.tuners.pooling``). ``tuning_.extras["pooling"]`` reports how far
    each departed and why not further. The choice depends on the number of rows, weights and non-zeros only;
    ``tuning_.notes`` reports the choice and the reason.
    If splits are given (``cv`` of an estimator), they are used, and leave-one-out is not.

    Parameters
    ----------
    tol : float or None, default=None
        Converged when the norm of the gradient in the log strengths is at most this share of the loss. None: 2e-3, or
        when a further step would gain less than sampling noise.
    max_steps : int, default=100
    checkpoint : str or None, default=None
        A file written after every step, from which an interrupted tuning resumes.

    Examples
    --------
    >>> import numpy as np
    >>> from tikhon import LogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 12))
    >>> y = X[:, :2].sum(axis=1) + rng.normal(size=200) > 0
    >>> model = LogisticRegression(groups={"signal": [0, 1]}).fit(X, y)
    >>> model.tuning_.tuner, model.tuning_.criterion_name
    ('auto', 'leave-one-out loss per unit of weight')
    """

    name: ClassVar[str] = "auto"
    uses_pairs: ClassVar[bool] = True
    needs_likelihood: ClassVar[bool] = False

    tol: float | None = None
    max_steps: int = 100
    checkpoint: str | None = None

    def splits_for(self, objective: Objective, n_rows: int | None = None) -> Splits:
        """'none' if leave-one-out is cheap and accurate, else folds, or one hold-out if there are many rows."""
        n_rows = n_rows or (objective.n_rows if isinstance(objective, Rows) else 0)
        few = n_rows < FEW_ROWS and n_rows < ROWS_PER_WEIGHT * objective.n_weights
        crowded = few and not hints_of(objective).noise_is_unknown
        if isinstance(objective, Curved) and objective.curvature_cost <= MOST_PRODUCTS and not crowded:
            return "none"
        return "holdout" if n_rows >= MANY_ROWS else "folds"

    def tune(self, problem: Problem) -> TuneResult:
        """Use the pairs of the problem if there are any, else leave-one-out."""
        tol, least_gain = (TOL, _least_gain(problem)) if self.tol is None else (self.tol, None)
        pooling = POOLING_OF_SQUARES if hints_of(problem.objective).noise_is_unknown else POOLING
        if problem.pairs:
            tuner: Gradient | LeaveOneOut = Gradient(
                tol=tol, least_gain=least_gain, max_steps=self.max_steps, checkpoint=self.checkpoint, rough_start=True,
                prior_deviation=PRIOR_DEVIATION, pooling=pooling,
            )  # fmt: skip
            parts = "one hold-out part" if len(problem.pairs) == 1 else f"{len(problem.pairs)} folds"
            chosen = f"held-out loss of {parts} by gradients (tuner='gradient')"
        else:
            tuner = LeaveOneOut(
                tol=tol, least_gain=least_gain, max_steps=self.max_steps, checkpoint=self.checkpoint,
                prior_deviation=PRIOR_DEVIATION, pooling=pooling,
            )  # fmt: skip
            chosen = "leave-one-out loss (tuner='loo')"
        result = tuner.tune(problem)
        return replace(result, tuner=self.name, notes=(f"auto chose {chosen}: {_sizes(problem)}", *result.notes))


def _least_gain(problem: Problem) -> float | None:
    """The gain within sampling noise, as a share of the loss; None for leave-one-out of least squares (cheap and exact).

    A share of: the standard error of the loss, taking the standard deviation of the rows' losses to equal their mean; and
    the gain of one strength from fitting noise, about 1 in total, here per row and relative to the loss of a constant
    prediction. Further strengths are shrunk towards the common one and hardly add to that.
    """
    noisy = hints_of(problem.objective).noise_is_unknown
    if noisy and not problem.pairs:
        return None
    rows, share = problem.total_weight, CHANCE_OF_ROWS
    if problem.pairs:
        rows = sum(pair.holdout_weight for pair in problem.pairs)
        share = CHANCE_OF_HOLDOUT if len(problem.pairs) == 1 else CHANCE_OF_FOLDS
    fitted_noise = 0.0
    if not noisy:
        constant = gradient_measure(problem.objective).baseline_loss / problem.total_weight
        fitted_noise = 1.0 / (max(rows, 1.0) * max(abs(constant), 1e-300))
    return share * (1.0 / float(np.sqrt(max(rows, 1.0))) + fitted_noise)


def _sizes(problem: Problem) -> str:
    objective = problem.objective
    rows = f"{objective.n_rows:,} rows, " if isinstance(objective, Rows) else ""
    if not isinstance(objective, Curved):
        cost = "the model has no leverages"
    elif np.isfinite(objective.curvature_cost):
        cost = f"leverages cost about {objective.curvature_cost:.3g} Hessian products"
    else:
        cost = "the Hessian is too large for leverages"
    return f"{rows}{objective.n_weights:,} weights, {cost}"
