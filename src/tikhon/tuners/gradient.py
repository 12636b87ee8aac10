"""Descent of held-out loss in the log strengths, by implicit gradients (Do, Foo, Ng 2008)."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from tikhon.errors import InputError
from tikhon.objective import Vector
from tikhon.results import Step, TuneResult, TuneStatus
from tikhon.solvers import HESSIANS, HessianMethod
from tikhon.solvers.descent import Descent, DescentState, Method
from tikhon.solvers.penalised import baseline
from tikhon.tuners.base import Problem, Start
from tikhon.tuners.finish import bound_warnings, carried_over, finish, many_strengths
from tikhon.tuners.hypergradient import Hypergradient, Warm, hypergradient
from tikhon.tuners.journal import Journal
from tikhon.tuners.settings import check_bounds, check_pairs, check_steps, natural_strengths, starting_theta
from tikhon.tuners.workers import Mapper, workers

FIRST_ACCURACY = 1e-2  # of fits and linear solves at the start
FINEST_ACCURACY = 1e-9
ACCURACY_SHARE = 0.1  # of the relative size of the gradient: accuracy grows as the gradient shrinks
TIGHTEN = 1e-2
FIRST_MOVE, LARGEST_MOVE = 2.0, 3.0  # in log strength: factors of 7 and 20
CURVATURE = 0.03  # of the loss, in log strength: typical near the best strength, and only the first step relies on it
WEAKEST, STRONGEST = 2.0**-16, 2.0**20  # bounds, in units of the natural strengths
NEGLIGIBLE = 0.01  # of a constant prediction's loss: less needs no further tuning
LEAST_DECREASE = 1e-6  # of the loss: a step that gains less is the last


@dataclass(frozen=True, kw_only=True)
class Gradient:
    """Minimises held-out loss over theta = log strength, for any number of groups.

    Each evaluation fits every training part, warm-started, and makes one linear solve per part. Fits and solves are only
    as accurate as the size of the gradient deserves. An evaluation that cannot be trusted is repeated with more
    accuracy; if that does not help, the step is shortened; the trace says which.

    Parameters
    ----------
    method : {"quasi-newton", "conjugate-gradient"}, default="quasi-newton"
        The outer method.
    hessian : {"analytic", "finite", "complex"}, default="analytic"
        How Hessian products are formed, for models that have no analytic ones of their own.
    start : float, mapping from group name to float, or None, default=None
        The strengths to begin with. None: 3 % of the curvature that the data give a group's weights, which follows the
        units of the columns.
    bounds : pair of float or None, default=None
        The strengths to stay within. None: 2^-16 to 2^20 times the start that None gives.
    tol : float, default=3e-4
        Converged when no entry of the gradient in log strength exceeds this share of the held-out loss.
    max_steps : int, default=100
    checkpoint : str or None, default=None
        A file that is written after every step, and from which a killed tuning goes on.

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
    needs_pairs: ClassVar[bool] = True
    needs_likelihood: ClassVar[bool] = False

    method: Method = "quasi-newton"
    hessian: HessianMethod = "analytic"
    start: Start | None = None  # None: 3 % of the curvature that the data give a group's weights, whatever their units
    bounds: tuple[float, float] | None = None  # None: 2^-16 to 2^20 times that start
    tol: float = 3e-4  # largest entry of the gradient, relative to the loss
    max_steps: int = 100
    checkpoint: str | None = None

    def tune(self, problem: Problem) -> TuneResult:
        check_pairs(problem, self.name)
        check_steps(self.max_steps, self.tol)
        natural = natural_strengths(problem.objective, problem.groups)
        lower, upper = (natural * WEAKEST, natural * STRONGEST) if self.bounds is None else self._given_bounds(problem)
        learned = problem.groups.learned
        if self.method not in ("quasi-newton", "conjugate-gradient"):
            raise InputError(f"method={self.method!r}: write 'quasi-newton' or 'conjugate-gradient'")
        if self.hessian not in HESSIANS:
            raise InputError(f"hessian={self.hessian!r}: write one of {', '.join(map(repr, HESSIANS))}")
        descent = Descent(
            method=self.method,
            lower=np.log(lower[learned]),
            upper=np.log(upper[learned]),
            first_move=FIRST_MOVE,
            largest_move=LARGEST_MOVE,
            relative_curvature=CURVATURE,
        )
        journal = Journal(self, problem)
        start = np.log(natural[learned]) if self.start is None else starting_theta(self.start, problem.groups)
        with workers(problem.n_jobs, len(problem.pairs)) as mapper:
            run = _Run(self, problem, descent, descent.start(start), journal, mapper)
            status, reason = run.descend()
        strengths, carried = carried_over(problem, problem.groups.strengths(run.state.x))
        bounded = bound_warnings(problem.groups, problem.groups.strengths(run.state.x), (lower, upper))
        return finish(
            self.name, problem, journal, strengths, run.average_weights(),
            criterion_name="held-out loss per unit of weight", criterion=run.state.value, status=status, reason=reason,
            notes=carried, warnings=many_strengths(problem) + bounded,
        )  # fmt: skip

    def _given_bounds(self, problem: Problem) -> tuple[Vector, Vector]:
        lower, upper = check_bounds(self.bounds)
        return np.full(problem.groups.count, lower), np.full(problem.groups.count, upper)


def _constant_loss(problem: Problem) -> float:
    """The held-out loss, per unit of weight, of the best constant prediction of each training part."""
    losses = (pair.holdout.loss_gradient(baseline(pair.train))[0] for pair in problem.pairs)
    return float(sum(losses) / sum(pair.holdout_weight for pair in problem.pairs))


class _Run:
    """The state of one tuning between two evaluations."""

    def __init__(
        self,
        tuner: Gradient,
        problem: Problem,
        descent: Descent,
        state: DescentState,
        journal: Journal,
        mapper: Mapper,
    ) -> None:
        self._tuner, self._problem, self._descent, self._journal, self._mapper = (
            tuner,
            problem,
            descent,
            journal,
            mapper,
        )
        self.state = state
        self._accuracy, self._error, self._decrease = FIRST_ACCURACY, 0.0, np.inf
        self._poor = False  # is the best evaluation one that could not be trusted?
        self._warm: Warm | None = None
        self._constant = abs(_constant_loss(problem))
        self._restore()

    def descend(self) -> tuple[TuneStatus, str]:
        try:
            while True:
                ended = self._ended()
                if ended is not None:
                    return ended
                self._advance()
        except KeyboardInterrupt:
            if np.isnan(self.state.value):
                raise
            return (
                "interrupted",
                f"interrupted after {len(self._journal.trace)} steps; the best strengths so far are used",
            )

    def average_weights(self) -> Vector | None:
        """The mean of the weights of all training parts: a good start for the fit on all data."""
        return None if self._warm is None else np.mean(self._warm.weights, axis=0)

    def _ended(self) -> tuple[TuneStatus, str] | None:
        if np.isnan(self.state.value):
            return None
        size, limit = self._gradient_size(), self._tuner.tol * self._unit()
        if size <= limit and self._poor:
            return (
                "stalled",
                "the best evaluation is one that cannot be trusted: raise max_iter or choose another solver",
            )
        if size <= limit:
            return "converged", f"largest entry of the gradient {size:.1e} <= {limit:.1e}"
        if self._decrease <= LEAST_DECREASE * self._unit():
            return "converged", f"the last step lowered the held-out loss by {self._decrease:.1e} only"
        if self.state.stalled:
            return "stalled", f"no step lowers the held-out loss further; largest entry of the gradient {size:.1e}"
        if len(self._journal.trace) >= self._tuner.max_steps:
            return (
                "max_steps",
                f"gradient {size:.1e} > {limit:.1e} after {self._tuner.max_steps} steps; raise max_steps or tol",
            )
        return None

    def _unit(self) -> float:
        """What gradients and gains are measured by: the loss, but not less than a hundredth of a constant's."""
        return max(abs(self.state.value), NEGLIGIBLE * self._constant)

    def _gradient_size(self) -> float:
        return float(np.abs(self._descent.projected_gradient(self.state)).max(initial=0.0))

    def _evaluate(self, theta: Vector, accuracy: float, warm: Warm | None) -> Hypergradient:
        found = hypergradient(
            self._problem, theta, accuracy=accuracy, hessian=self._tuner.hessian, warm=warm, mapper=self._mapper
        )
        self._journal.saw(*[found.residual] * len(self._problem.pairs))
        return found

    def _advance(self) -> None:
        """One evaluation (or two, where the first cannot be trusted), and what follows from it."""
        first = np.isnan(self.state.value)
        theta = self._descent.ask(self.state)
        found, notes = self._evaluate(theta, self._accuracy, self._warm), []
        if found.poor:
            notes.append(f"tightened ({found.poor})")
            found = self._evaluate(theta, TIGHTEN * self._accuracy, found.warm)
        if first and not np.isfinite(found.value):
            raise InputError(
                f"the held-out loss at the start is {found.value}: are values in X or y, or weights, of extreme size?"
            )
        rejected = bool(found.poor) and not first
        if rejected:
            notes.append(f"rejected ({found.poor})")
        before = self.state
        after = self._descent.tell(before, np.inf if rejected else found.value, found.gradient)
        if not after.accepted and not rejected and self._within_error(found) and self._accuracy > FINEST_ACCURACY:
            notes.append("tightened (the change is within the error of the fits)")
            self._accuracy = max(TIGHTEN * self._accuracy, FINEST_ACCURACY)
            base = self._evaluate(before.x, self._accuracy, self._warm)
            self._poor = bool(base.poor)
            self.state, self._warm, self._error = (
                self._descent.rebase(before, base.value, base.gradient),
                base.warm,
                base.error,
            )
        else:
            self.state = after
            if after.accepted:
                # A gain that is small because the step was shortened tells nothing.
                self._decrease = before.value - after.value if not first and before.step == 1.0 else np.inf
                self._poor = bool(found.poor)
                self._warm, self._error = found.warm, found.error
                relative = self._gradient_size() / max(abs(self.state.value), 1e-300)
                self._accuracy = float(np.clip(ACCURACY_SHARE * relative, FINEST_ACCURACY, self._accuracy))
            elif not rejected:
                notes.append("damped (the held-out loss did not fall)")
        self._record(theta, found, after.accepted, "; ".join(notes))

    def _within_error(self, found: Hypergradient) -> bool:
        return abs(found.value - self.state.value) <= 10.0 * (found.error + self._error)

    def _record(self, theta: Vector, found: Hypergradient, accepted: bool, note: str) -> None:
        step = Step(
            number=len(self._journal.trace) + 1, strengths=self._problem.groups.strengths(theta), criterion=found.value,
            gradient_norm=float(np.abs(found.gradient).max(initial=0.0)), residual=found.residual, n_iter=found.n_iter,
            seconds=self._journal.seconds, accepted=accepted, note=note,
        )  # fmt: skip
        arrays: dict[str, NDArray[np.float64]] = {
            f"descent.{name}": value for name, value in self.state.arrays().items()
        }
        if self._warm is not None:
            arrays |= {"weights": np.array(self._warm.weights), "adjoints": np.array(self._warm.adjoints)}
        numbers = {"accuracy": self._accuracy, "error": self._error, "decrease": self._decrease, "poor": self._poor}
        self._journal.record(step, arrays, numbers)

    def _restore(self) -> None:
        saved = self._journal.resume()
        if saved is None:
            return
        arrays, numbers = saved
        self.state = DescentState.from_arrays({k.removeprefix("descent."): v for k, v in arrays.items()})
        self._accuracy, self._error, self._decrease = (numbers[name] for name in ("accuracy", "error", "decrease"))
        self._poor = numbers["poor"]
        if "weights" in arrays:
            self._warm = Warm(tuple(arrays["weights"]), tuple(arrays["adjoints"]))
