"""Majorization-minimization (Foo, Do, Ng 2009, Algorithms 1 and 2)."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from tikhon.objective import Objective, Vector
from tikhon.results import Step, TuneResult, TuneStatus
from tikhon.solvers import prefers_gradients
from tikhon.solvers.penalised import baseline, penalised
from tikhon.tuners.base import Problem, Start, Tuner
from tikhon.tuners.checkpoints import mm_state
from tikhon.tuners.integrated import IntegratedOut
from tikhon.tuners.journal import Journal
from tikhon.tuners.refit import convex_bound, refit, vanished_groups
from tikhon.tuners.settings import check_prior, check_steps
from tikhon.tuners.vanishing import weak_enough

FIRST_GAP = 1e-2  # relative gap of the first fit
FURTHEST = 10.0  # limit on an accelerated step, in units of the plain one
MOST_LEFT = 1e-2  # relative gap: a fit that stops above ten times this counts as failed
# The share of the gap due to a change of strengths that the next fit may leave; the bound used to measure it may be far too
# large, and Newton steps are cheap.
GAP_LEFT_SHARE, CHEAP_GAP_LEFT_SHARE = 1e-2, 1e-7


@dataclass(frozen=True, kw_only=True)
class MM(Tuner):
    """Learns strengths from the training data alone: no hold-out set, no grid.

    Alternates C_j = (n_j/2 + alpha) / (1/2 ||w_j||^2 + beta) with a fit at these strengths. Each fit lowers a bound that
    touches the integrated-out objective, so that objective decreases in every step. Fits need not be exact for that: early
    ones are only as accurate as the strengths have converged.

    Parameters
    ----------
    alpha, beta : float, default=0.0, 1.0
        Shape and rate of the Gamma prior of the strengths. A larger alpha pulls them up, a larger beta down.
    start : float, mapping from group name to float, or None, default=None
        The strengths of the first fit. None: 1; after a warm start, the update of its weights.
    tol : float, default=1e-3
        Converged when no log strength changes by more in a step.
    max_steps : int, default=200
    accelerate : bool, default=True
        Low-accuracy early fits, and extrapolated steps where convergence is slow, if they lower the objective; False: exactly
        the algorithm of the paper.
    checkpoint : str or None, default=None
        A file written after every step, from which an interrupted tuning resumes.

    Examples
    --------
    >>> import numpy as np
    >>> from tikhon import MM, LogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 12))
    >>> y = X[:, :2].sum(axis=1) + rng.normal(size=200) > 0
    >>> groups = {"signal": [0, 1], "noise": range(2, 12)}
    >>> model = LogisticRegression(groups=groups, tuner=MM(beta=0.5)).fit(X, y)
    >>> model.strengths_["noise"] > 10 * model.strengths_["signal"]
    True
    >>> [step.criterion for step in model.tuning_.trace][0] > model.tuning_.criterion
    True
    """

    name: ClassVar[str] = "mm"
    uses_pairs: ClassVar[bool] = False
    needs_likelihood: ClassVar[bool] = True

    alpha: float = 0.0
    beta: float = 1.0
    start: Start | None = None
    tol: float = 1e-3  # largest change of a log strength in the last step
    max_steps: int = 200
    accelerate: bool = True  # low-accuracy early fits and extrapolated steps; False: exactly the algorithm of the paper
    checkpoint: str | None = None

    def tune(self, problem: Problem) -> TuneResult:
        check_prior(self.alpha, self.beta)
        check_steps(self.max_steps, self.tol)
        journal = Journal.of(self, problem)
        run = _Run(self, problem, journal)
        status: TuneStatus = "max_steps"
        try:
            while len(journal.trace) < self.max_steps and run.change > self.tol:
                run.advance()
            if run.change <= self.tol:
                status = "converged"
        except KeyboardInterrupt:
            status = "interrupted"
        reason = f"log strengths changed by {run.change:.1e} in the last step" + (
            "" if status == "converged" else f", tol is {self.tol:.1e}; raise max_steps"
        )
        return refit(
            self.name, problem, journal, run.updated, run.weights, criterion_name="negative log posterior",
            criterion=run.value, status=status, reason=reason, warnings=run.vanished(),
        )  # fmt: skip


class _Run:
    """The state of one tuning: the accepted weights, the strengths they were fitted with, and the updated strengths."""

    def __init__(self, tuner: MM, problem: Problem, journal: Journal) -> None:
        self._tuner, self._problem, self._journal = tuner, problem, journal
        self._integrated = IntegratedOut(problem.objective, problem.groups, tuner.alpha, tuner.beta)
        self.weights = baseline(problem.objective) if problem.start is None else problem.start
        self.value, self.change = np.inf, np.inf
        self._strengths = self.updated = self._integrated.first_strengths(tuner.start, problem.start)
        if tuner.start is None and problem.start is None:
            self._strengths, weights = weak_enough(problem, problem.objective, self.updated)
            self.updated, self.weights = self._strengths, self.weights if weights is None else weights
        self._next = self.updated  # the strengths of the next fit: updated, or extrapolated
        self._restore()

    def vanished(self) -> tuple[str, ...]:
        """A warning for groups that are determined by the prior alone."""
        return vanished_groups(self._problem, self._integrated.hardly_used(self.weights), self.weights)

    def advance(self) -> None:
        """Fit at the next strengths; undo an accelerated step that does not lower the objective."""
        groups, strengths = self._problem.groups, self._next
        bound = convex_bound(self._problem.objective, self.weights)
        strength = groups.expand(strengths)
        fit = self._problem.solver.minimise(bound, strength, self.weights, tol=self._accuracy(bound, strength))
        self._journal.count_fits(fit.residual)
        self._journal.count_unconverged([fit], MOST_LEFT)
        value = float(self._integrated.loss_gradient(fit.weights)[0])
        accelerated = strengths is not self.updated
        accepted = not accelerated or value <= self.value
        if accepted:
            updated = self._integrated.strengths(fit.weights)
            self._next = self._accelerated(strengths, updated) if self._tuner.accelerate else updated
            self.weights, self.value, self._strengths, self.updated = fit.weights, value, strengths, updated
            self.change = _largest(_log_ratio(updated, strengths, groups.learned))
        else:
            self._next = self.updated
        step = Step(
            number=len(self._journal.trace) + 1, strengths=strengths, criterion=value, residual=fit.residual,
            n_iter=fit.n_iter, n_passes=fit.n_passes, n_products=fit.n_products, seconds=self._journal.seconds,
            accepted=accepted,
            note="" if accepted and not accelerated else "accelerated" if accepted else "rejected (acceleration did not help)",
        )  # fmt: skip
        state = {
            "weights": self.weights, "strengths": self._strengths, "updated": self.updated, "next": self._next,
            "numbers": np.array([self.value, self.change]),
        }  # fmt: skip
        self._journal.record(step, state, {})

    def _accuracy(self, bound: Objective, strength: Vector) -> float | None:
        """A share of the gap due to the new strengths: enough to see where they lead."""
        if not self._tuner.accelerate:
            return None
        inner = penalised(bound, strength)
        share = GAP_LEFT_SHARE if prefers_gradients(bound) else CHEAP_GAP_LEFT_SHARE
        return min(FIRST_GAP, share * inner.gap_bound(inner.at(self.weights)))

    def _accelerated(self, strengths: Vector, updated: Vector) -> Vector:
        """An Anderson step from the last two changes of the log strengths; the plain update if it would not help."""
        if not np.isfinite(self.change):
            return updated
        learned = self._problem.groups.learned
        change = _log_ratio(updated, strengths, learned)
        before = _log_ratio(self.updated, self._strengths, learned)
        difference = change - before
        size = float(difference @ difference)
        if size == 0.0:
            return updated
        gamma = float(change @ difference) / size
        extra = -gamma * _log_ratio(updated, self.updated, learned)
        most = FURTHEST * _largest(change)
        if gamma >= 0.0 or _largest(extra) == 0.0:  # no slow, steady convergence: nothing to gain
            return updated
        extra *= min(1.0, most / _largest(extra))
        further = updated.copy()
        further[learned] *= np.exp(extra)
        return further

    def _restore(self) -> None:
        saved = self._journal.resume(mm_state(self._problem))
        if saved is None:
            return
        arrays, _ = saved
        self.weights, self._strengths, self.updated = arrays["weights"], arrays["strengths"], arrays["updated"]
        self._next = self.updated if np.array_equal(arrays["next"], self.updated) else arrays["next"]
        self.value, self.change = map(float, arrays["numbers"])


def _log_ratio(after: Vector, before: Vector, learned: NDArray[np.bool_]) -> Vector:
    return np.asarray(np.log(after[learned] / before[learned]))


def _largest(v: Vector) -> float:
    return float(np.abs(v).max(initial=0.0))
