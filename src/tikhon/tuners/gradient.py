"""Gradient descent on held-out loss in the log strengths, by implicit gradients (Do, Foo, Ng 2008)."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tikhon.errors import InputError
from tikhon.objective import Vector, hints_of, release
from tikhon.results import TuneResult
from tikhon.solvers import HESSIANS, HessianMethod, prefers_gradients
from tikhon.solvers.descent import Descent, Method
from tikhon.solvers.penalised import baseline
from tikhon.tuners import mackay
from tikhon.tuners.base import Problem, Start, Tuner
from tikhon.tuners.hypergradient import hypergradient
from tikhon.tuners.journal import Journal
from tikhon.tuners.outer_loop import Evaluation, Stopping, WarmStart, limits, little_slope
from tikhon.tuners.prior import strength_prior
from tikhon.tuners.refit import bound_warnings, carried_over, many_strengths, refit
from tikhon.tuners.settings import check_pairs, check_steps, natural_strengths, starting_theta, strength_bounds
from tikhon.tuners.staged_descent import Plan, StagedDescent
from tikhon.tuners.vanishing import weak_enough
from tikhon.tuners.workers import workers

FIRST_ACCURACY = 0.1  # of linear solves at the start; fits are far more accurate
ENOUGH_ACCURACY = 0.05  # if sampling noise ends the descent: a gradient of this accuracy leads to the same strengths
FIRST_MOVE, LARGEST_MOVE = 2.0, 3.0  # in log strength: factors of 7 and 20
SECOND_DERIVATIVE = (
    0.03  # of the loss, in log strength: typical, and shared among the groups; only affects the first step
)
NEGLIGIBLE = 0.01  # share of a constant prediction's loss: below it no further tuning is needed
# With rough_start, the initial level of sparse data, in units of the natural strengths. The optima for clothing reviews (two
# targets), TREC questions, basehock, relathe and w1a have a geometric mean of 9, that for 20 newsgroups is 1.
SPARSE_START = 3.0
# With rough_start: the fits before the first evaluation, and their relative gap.
ROUGH_FITS, EXACT_FITS, ROUGH = 1, 3, 0.1


@dataclass(frozen=True, kw_only=True)
class Gradient(Tuner):
    """Minimises held-out loss over theta = log strength, for any number of groups.

    Each evaluation fits every training part, warm-started, and makes one linear solve per part. The accuracy of fits and
    solves follows the size of the gradient. An unreliable evaluation is repeated with higher accuracy; if that does not help,
    the step is shortened; the trace records which.

    Parameters
    ----------
    method : {"quasi-newton", "conjugate-gradient"}, default="quasi-newton"
        The outer method.
    hessian : {"analytic", "finite", "complex"}, default="analytic"
        How Hessian products are formed, for models that have no analytic ones of their own.
    start : float, mapping from group name to float, or None, default=None
        The initial strengths. None: 3 % of the curvature of the loss in a group's weights, which follows the units of the
        columns; for chains the mean square of their features' values; 1 if a model provides neither.
    bounds : pair of float or None, default=None
        Bounds on the strengths. None: 2^-16 to 2^20 times the default initial strengths.
    prior_deviation : float or None, default=None
        The standard deviation of a normal prior of the log strengths around the default initial ones; None: no prior.
    tol : float, default=3e-4
        Converged when the norm of the gradient in the log strengths is at most this share of the held-out loss.
    least_gain : float or None, default=None
        Stop after a full step that lowers the held-out loss by a smaller share than this, or when the gradient promises less
        than half of it. None: the gain that a gradient within ``tol`` may still promise.
    max_steps : int, default=100
    pooling : float or None, default=None
        With several groups: find the best common strength first, then shrink the groups' strengths towards it by Cauchy
        priors of this scale in log strength (``tikhon.tuners.pooling``); None: no pooling.
    rough_start : bool, default=False
        With ``start=None``: begin with a low-accuracy fit of the first training part (least squares: three fits), followed by
        an update of the strengths from the size of the weights, which separates groups of very different relevance.
    checkpoint : str or None, default=None
        A file written after every step, from which an interrupted tuning resumes.

    Examples
    --------
    >>> import numpy as np
    >>> from tikhon import Gradient, LogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 12))
    >>> y = X[:, :2].sum(axis=1) + rng.normal(size=200) > 0
    >>> model = LogisticRegression(groups={"signal": [0, 1]}, tuner=Gradient(tol=1e-3)).fit(X, y)
    >>> model.strengths_["rest"] > model.strengths_["signal"]
    True
    >>> model.tuning_.status
    'converged'
    """

    name: ClassVar[str] = "gradient"
    uses_pairs: ClassVar[bool] = True
    needs_likelihood: ClassVar[bool] = False

    method: Method = "quasi-newton"
    hessian: HessianMethod = "analytic"
    start: Start | None = None  # None: 3 % of the curvature of the loss in a group's weights
    bounds: tuple[float, float] | None = None  # None: 2^-16 to 2^20 times that start
    prior_deviation: float | None = None
    tol: float = 3e-4  # norm of the gradient, relative to the loss
    least_gain: float | None = None
    max_steps: int = 100
    pooling: float | None = None
    rough_start: bool = False
    checkpoint: str | None = None

    def tune(self, problem: Problem) -> TuneResult:
        check_pairs(problem, self.name)
        check_steps(self.max_steps, self.tol)
        if self.method not in ("quasi-newton", "conjugate-gradient"):
            raise InputError(f"method={self.method!r}: write 'quasi-newton' or 'conjugate-gradient'")
        if self.hessian not in HESSIANS:
            raise InputError(f"hessian={self.hessian!r}: write one of {', '.join(map(repr, HESSIANS))}")
        journal = Journal.of(self, problem)
        enough = 0.0 if self.least_gain is None else ENOUGH_ACCURACY
        constant = abs(_constant_loss(problem))
        with workers(problem.n_jobs, len(problem.pairs)) as mapper:

            def evaluate(theta: Vector, accuracy: float, warm: WarmStart | None) -> Evaluation:
                release(problem.objective)  # not needed before the final fit
                return hypergradient(
                    problem, theta, accuracy=accuracy, enough=enough, hessian=self.hessian, warm=warm, mapper=mapper
                )

            found = StagedDescent(
                problem, journal, evaluate, lambda part: self._plan(part, constant), accuracy=FIRST_ACCURACY,
                enough_accuracy=enough, pooling=self.pooling, by_split=True,
            ).descend()  # fmt: skip
        tuned = problem.groups.strengths(found.theta)
        strengths, carried = carried_over(problem, tuned)
        natural = natural_strengths(problem.objective, problem.groups)
        bounded = bound_warnings(problem.groups, tuned, strength_bounds(self.bounds, natural))
        crowded = many_strengths(problem) if self.pooling is None else ()
        return refit(
            self.name, problem, journal, strengths, found.weights,
            criterion_name="held-out loss per unit of weight", criterion=found.criterion, status=found.status,
            reason=found.reason, notes=carried, warnings=crowded + bounded, extras=found.extras,
        )  # fmt: skip

    def _plan(self, problem: Problem, constant: float) -> Plan:
        """How to descend for the groups of this problem; ``constant`` is the held-out loss of a constant prediction."""
        natural = natural_strengths(problem.objective, problem.groups)
        lower, upper = strength_bounds(self.bounds, natural)
        learned = problem.groups.learned
        n_learned = int(learned.sum())
        tol, least = limits(self.tol, self.least_gain, SECOND_DERIVATIVE, n_learned)
        return Plan(
            descent=Descent(
                method=self.method,
                lower=np.log(lower[learned]),
                upper=np.log(upper[learned]),
                first_move=FIRST_MOVE,
                largest_move=LARGEST_MOVE,
                relative_second_derivative=SECOND_DERIVATIVE / max(n_learned, 1),
            ),
            stopping=Stopping(
                tol=tol,
                least_decrease=least,
                little_slope=little_slope(least, SECOND_DERIVATIVE),
                max_steps=self.max_steps,
                # Gradients and gains are relative to the loss, but to no less than a hundredth of a constant's.
                unit=lambda value: max(abs(value), NEGLIGIBLE * constant),
                noun="held-out loss",
                is_loss=True,
            ),
            prior=strength_prior(problem, natural, self.prior_deviation),
            relative_second_derivative=SECOND_DERIVATIVE / max(n_learned, 1),
            begin=lambda _: self._begin(problem, natural, mackay.bounds(natural, lower, upper)),
        )

    def _begin(
        self, problem: Problem, natural: Vector, bounds: tuple[Vector, Vector]
    ) -> tuple[Vector, WarmStart | None]:
        learned, warm = problem.groups.learned, _begun(problem, problem.start)
        if self.start is not None:
            return starting_theta(self.start, problem.groups), warm
        if problem.start_strengths is not None:
            return np.log(problem.start_strengths[learned]), warm
        if warm is None:
            weak, weights = weak_enough(
                problem, problem.pairs[0].train, np.where(learned, natural, problem.groups.fixed)
            )
            if weights is not None:
                return np.log(weak[learned]), _begun(problem, weights)
        if not self.rough_start:
            return np.log(natural[learned]), warm
        strengths, weights = _rough_start(problem, natural, bounds)
        return np.log(strengths[learned]), warm if weights is None else _begun(problem, weights)


def _begun(problem: Problem, weights: Vector | None) -> WarmStart | None:
    return None if weights is None else WarmStart((weights,) * len(problem.pairs), ())


def _rough_start(problem: Problem, natural: Vector, bounds: tuple[Vector, Vector]) -> tuple[Vector, Vector | None]:
    """Initial strengths and weights from low-accuracy fits of the first training part.

    The groups are separated by the size of their weights, while their overall level stays the initial one, since the weights
    of a low-accuracy fit are too small; without a factor, the inverse of the Hessian's diagonal replaces that of the Hessian.
    Least-squares fits are cheap and exact: there are three, and they also set the level.
    """
    objective, groups = problem.pairs[0].train, problem.groups
    learned, sizes = groups.learned, groups.sizes.astype(np.float64)
    hints = hints_of(objective)
    if prefers_gradients(objective) and hints.natural_strengths is None and hints.hessian_sketch is None:
        natural = SPARSE_START * natural
    strengths, weights = np.where(learned, natural, groups.fixed), None
    if learned.sum() < 2 or hints.hessian_diagonal is None:
        return strengths, weights
    noisy = hints.noise_is_unknown
    if noisy:
        strengths = np.where(learned, mackay.EXACT_START * natural, groups.fixed)
    for _ in range(EXACT_FITS if noisy else ROUGH_FITS):
        strength = groups.expand(strengths)
        fit = problem.solver.minimise(objective, strength, weights, tol=ROUGH)
        weights = fit.weights
        diagonal = hints.hessian_diagonal(weights) + strength
        inverse = np.divide(1.0, diagonal, out=np.zeros_like(diagonal), where=diagonal > 0.0)
        precision = 1.0 if hints.noise_precision is None else hints.noise_precision(fit.loss)
        updated, _ = mackay.mackay_update(groups, strengths, inverse, precision * np.square(weights), bounds)
        apart = np.log(updated / natural, out=np.zeros(groups.count), where=learned)
        if not noisy:
            apart -= np.average(apart[learned], weights=sizes[learned])
        strengths = np.where(learned, np.clip(natural * np.exp(apart), *bounds), groups.fixed)
    return strengths, weights


def _constant_loss(problem: Problem) -> float:
    """The mean held-out loss of the best constant prediction of each training part."""
    losses = (pair.holdout.loss_gradient(baseline(pair.train))[0] for pair in problem.pairs)
    return float(sum(losses) / sum(pair.holdout_weight for pair in problem.pairs))
