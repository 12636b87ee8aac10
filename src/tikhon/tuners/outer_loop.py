"""Descent of a criterion in the log strengths: the outer loop that ``gradient``, ``loo`` and ``evidence`` share.

Evaluations are only as accurate as the size of the gradient deserves. One that cannot be trusted is repeated with more
accuracy; if that does not help, the step is shortened; the trace says which.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tikhon.errors import InputError
from tikhon.objective import Vector
from tikhon.results import Step, TuneStatus
from tikhon.solvers.descent import Descent, DescentState
from tikhon.tuners.journal import Journal

FINEST_ACCURACY = 1e-9
ACCURACY_SHARE = 0.5  # of the relative size of the gradient: accuracy grows as the gradient shrinks
TIGHTEN = 0.1  # where a change drowns in the error of the fits
REPAIR = 1e-2  # where a fit or a solve failed
WITHIN = 3.0  # times the corrections of two values: their difference may be an error of the fits
MOST_CORRECTED = 0.5  # share of a value that its first-order correction for inexact fits may be
PROMISED = 0.5  # of the least gain: a gradient that promises less ends the descent


@dataclass(frozen=True, eq=False)
class WarmStart:
    """Where fits and linear solves start: vectors of weights and adjoints, one of each per pair of data.

    ``tangent`` is what an evaluator may keep besides, and can make again from the weights and their theta.
    """

    weights: tuple[Vector, ...]
    adjoints: tuple[Vector, ...]  # empty before the first evaluation
    theta: Vector | None = None  # where the weights were fitted; None before the first evaluation
    tangent: Any = field(default=None)


@dataclass(frozen=True, eq=False)
class Evaluation:
    """A criterion at theta, its gradient, and how far both can be trusted."""

    value: float
    gradient: Vector  # one per learned group
    error: float  # estimated error of the value from inexact fits, already corrected for to first order
    residual: float  # worst of the fits and linear solves
    poor: str  # why it should not be trusted, or empty
    n_fits: int
    n_iter: int
    n_passes: int  # evaluations of the loss and its gradient
    n_products: int  # Hessian-vector products
    warm: WarmStart
    # Value and gradient as they are without a prior of the strengths, the gradient by group even where groups share one.
    without_prior: tuple[float, Vector] | None = None
    row_losses: Callable[[], Vector | None] = lambda: None  # what each row adds to the criterion, in its own unit

    @property
    def criterion(self) -> float:
        """What is reported: the value without the prior."""
        return self.plain[0]

    @property
    def plain(self) -> tuple[float, Vector]:
        """Value and gradient without the prior."""
        return (self.value, self.gradient) if self.without_prior is None else self.without_prior


@dataclass(frozen=True, eq=False)
class OuterParameters:
    """What a descent learns: named positive numbers, such as strengths of groups or widths of kernels.

    An evaluator takes theta, the logarithms of those that are learned. The variables of the descent are theta, or fewer
    where parameters share one: ``theta`` tells it from them, ``values`` all parameters from theta, fixed ones included.
    """

    names: tuple[str, ...]
    values: Callable[[Vector], Vector] = np.exp
    theta: Callable[[Vector], Vector] = lambda variables: variables


Evaluate: TypeAlias = Callable[[Vector, float, WarmStart | None], Evaluation]  # theta, accuracy, where to start
Saved: TypeAlias = tuple[Mapping[str, NDArray[np.float64]], Mapping[str, Any]]  # arrays and numbers of a checkpoint


@dataclass(frozen=True, eq=False, kw_only=True)
class Stopping:
    """When a descent is done, in units of the criterion that ``unit`` tells from its value."""

    tol: float  # norm of the gradient
    least_decrease: float  # a full step that gains less is the last, unless the next one promises more
    little_slope: float  # norm of the gradient that promises no more than that, whatever the steps so far say
    max_steps: int
    unit: Callable[[float], float]
    noun: str  # what is lowered, for messages
    enough: float = -np.inf  # a value below needs no further tuning
    is_loss: bool = False  # errors are judged by the value itself, so that none turns its sign; else by its unit


def little_slope(least: float, relative_second_derivative: float) -> float:
    """The gradient g, relative to the value, from which a step may gain that little: g^2 / 2c."""
    return float(np.sqrt(2.0 * relative_second_derivative * least))


def least_decrease(tol: float, relative_second_derivative: float) -> float:
    """What a step may still gain, relative to the value, where the gradient is at its tolerance: g^2 / 2c, of that half."""
    return 0.25 * tol**2 / relative_second_derivative


def limits(
    tol: float, least_gain: float | None, relative_second_derivative: float, n_learned: int
) -> tuple[float, float]:
    """The norm of the gradient and the gain, as shares of the criterion, at which a descent ends.

    ``least_gain`` is what may be chance: a gradient that promises less than half of it ends the descent too, its
    second derivative taken to be shared among the groups.
    """
    if least_gain is None:
        return tol, least_decrease(tol, relative_second_derivative)
    return max(tol, little_slope(PROMISED * least_gain, relative_second_derivative / max(n_learned, 1))), least_gain


class OuterLoop:
    """The state of one tuning between two evaluations."""

    def __init__(
        self,
        parameters: OuterParameters,
        descent: Descent,
        start: Vector,
        journal: Journal,
        evaluate: Evaluate,
        stopping: Stopping,
        *,
        accuracy: float,
        enough_accuracy: float = 0.0,
        warm: WarmStart | None = None,
        stage: int = 0,
        known: Evaluation | None = None,
        saved: Saved | None = None,
        kept: Saved = ({}, {}),
        keeps_losses: bool = False,
    ) -> None:
        """``known`` is the evaluation at ``start`` where one was made before: the last of the trace that was accepted.

        ``saved`` is the state of a run to go on from. A tuning may make several descents, one after the other; ``stage``
        numbers them, and ``kept`` is what checkpoints are to hold of those before; ``keeps_losses``: of the rows, too.
        """
        self._parameters, self._descent, self._journal, self._stopping = parameters, descent, journal, stopping
        self._evaluate_at = evaluate
        self.state = descent.start(start)
        self._accuracy, self.error, self._decrease = accuracy, 0.0, np.inf
        self._enough = max(enough_accuracy, FINEST_ACCURACY)  # unless a change drowns in the error of the fits
        self._poor = False  # is the best evaluation one that could not be trusted?
        self._shortened = np.inf  # gain that the parabola through the last step promises, where that was not taken
        self.criterion = np.nan  # at the best point, without the prior
        self.without_prior: Vector | None = None  # and its gradient
        self.row_losses: Callable[[], Vector | None] = lambda: None  # and the losses of its rows
        self._best = 0  # its place in the trace
        self._stage, self._kept, self._keeps_losses, self.warm = stage, kept, keeps_losses, warm
        if saved is not None:
            self._restore(*saved)
        elif known is not None:
            self.state = descent.tell(self.state, known.value, known.gradient)
            self._take(known, max((k for k, step in enumerate(journal.trace) if step.accepted), default=0))
            self._refine()

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

    def begin(self) -> None:
        """Evaluate the start, where that was not done yet."""
        if np.isnan(self.state.value):
            self._advance()

    def average_weights(self) -> Vector | None:
        """The mean of the weights of all training parts: a good start for the fit on all data."""
        return None if self.warm is None or not self.warm.weights else np.mean(self.warm.weights, axis=0)

    def _ended(self) -> tuple[TuneStatus, str] | None:
        if np.isnan(self.state.value):
            return None
        rule, size = self._stopping, self._gradient_size()
        unit = rule.unit(self.state.value)
        limit = rule.tol * unit
        if size <= limit and self._poor:
            return (
                "stalled",
                "the best evaluation is one that cannot be trusted: raise max_iter or choose another solver",
            )
        if self.state.value <= rule.enough:
            return "converged", f"the {rule.noun} {self.state.value:.1e} is next to nothing"
        if size <= limit:
            return "converged", f"norm of the gradient {size:.1e} <= {limit:.1e}"
        least = rule.least_decrease * unit
        if self._decrease <= least and (size <= rule.little_slope * unit or self._promised() <= least):
            return (
                "converged",
                f"the last step lowered the {rule.noun} by {self._decrease:.1e}, less than the least gain {least:.1e}",
            )
        if self._shortened <= least:
            return (
                "converged",
                f"the last step did not lower the {rule.noun}; a shorter one promises {self._shortened:.1e}, less than the "
                f"least gain {least:.1e}",
            )
        if self.state.stalled:
            return "stalled", f"no step lowers the {rule.noun} further; norm of the gradient {size:.1e}"
        if len(self._journal.trace) >= rule.max_steps:
            return (
                "max_steps",
                f"gradient {size:.1e} > {limit:.1e} after {rule.max_steps} steps; raise max_steps or tol",
            )
        return None

    def _promised(self) -> float:
        """What the next step would gain, were the criterion the parabola that the last steps suggest."""
        move = self._descent.ask(self.state) - self.state.x
        return 0.5 * abs(float(self.state.gradient @ move))

    def _gradient_size(self) -> float:
        """The norm: with many groups, small entries add up to much that could be gained."""
        return float(np.linalg.norm(self._descent.projected_gradient(self.state)))

    def _evaluate(self, theta: Vector, accuracy: float, warm: WarmStart | None) -> Evaluation:
        found = self._evaluate_at(theta, accuracy, warm)
        self._journal.count_fits(*[found.residual] * found.n_fits)
        if not found.poor and not self._trusted(found):
            found = replace(
                found, poor=f"inexact fits move the {self._stopping.noun} by {found.error:.1e} to {found.criterion:.1e}"
            )
        return found

    def _trusted(self, found: Evaluation) -> bool:
        """Is the first-order correction for inexact fits small enough to be one?"""
        scale = abs(found.criterion) if self._stopping.is_loss else self._stopping.unit(found.value)
        return not found.error > MOST_CORRECTED * scale

    def _advance(self) -> None:
        """One evaluation (or two, where the first cannot be trusted), and what follows from it."""
        first = np.isnan(self.state.value)
        theta = self._descent.ask(self.state)
        accuracy = self._accuracy
        notes: list[str] = []
        found = self._evaluate(theta, accuracy, self.warm)
        while found.poor and (not notes or (first and accuracy > FINEST_ACCURACY and not self._trusted(found))):
            accuracy *= REPAIR
            notes.append(f"tightened ({found.poor})")
            found = self._evaluate(theta, accuracy, found.warm)
        if first and not np.isfinite(found.value):
            raise InputError(
                f"the {self._stopping.noun} at the start is {found.value}: are values in X or y, or weights, of extreme size?"
            )
        rejected = bool(found.poor) and not first
        if rejected:
            notes.append(f"rejected ({found.poor})")
        before = self.state
        after = self._descent.tell(before, np.inf if rejected else found.value, found.gradient)
        number = len(self._journal.trace)
        if after.accepted:
            self.state, self._shortened = after, np.inf
            # A gain that is small because the step was shortened tells nothing.
            self._decrease = before.value - after.value if not first and before.step == 1.0 else np.inf
            self._take(found, number)
            self._refine()
        else:
            self._decrease = self._shortened = np.inf
            if not rejected and self._drowned(found) and self._accuracy > FINEST_ACCURACY:
                notes.append("tightened (the change is within the error of the fits)")
                self._accuracy = max(TIGHTEN * self._accuracy, FINEST_ACCURACY)
                base = self._evaluate(before.x, self._accuracy, self.warm)
                self.state = self._descent.rebase(before, base.value, base.gradient)
                self._take(base, self._best)
                self._journal.trace[self._best] = replace(
                    self._journal.trace[self._best], criterion=base.criterion, residual=base.residual
                )
            else:
                self.state = after
                if not rejected:
                    notes.append(f"damped (the {self._stopping.noun} did not fall)")
                    self._shortened = self._promised()
        self._record(theta, found, after.accepted, "; ".join(notes))

    def _refine(self) -> None:
        """Make the accuracy grow as the gradient shrinks."""
        relative = self._gradient_size() / max(self._stopping.unit(self.state.value), 1e-300)
        self._accuracy = min(max(ACCURACY_SHARE * relative, self._enough), self._accuracy)

    def _take(self, found: Evaluation, number: int) -> None:
        """Make this evaluation, with this place in the trace, the best one."""
        self._poor, self._best, self.criterion = bool(found.poor), number, found.criterion
        self.warm, self.error, self.without_prior = found.warm, found.error, found.plain[1]
        self.row_losses = found.row_losses

    def _drowned(self, found: Evaluation) -> bool:
        """May the change be an error of the fits, and did the step promise enough to find out?"""
        least = self._stopping.least_decrease * self._stopping.unit(self.state.value)
        return self._within_error(found) and not (self.state.step == 1.0 and self._promised() <= least)

    def _within_error(self, found: Evaluation) -> bool:
        return abs(found.value - self.state.value) <= WITHIN * (found.error + self.error)

    def _record(self, theta: Vector, found: Evaluation, accepted: bool, note: str) -> None:
        step = Step(
            number=len(self._journal.trace) + 1, strengths=self._parameters.values(self._parameters.theta(theta)),
            criterion=found.criterion,
            gradient_norm=float(np.abs(found.gradient).max(initial=0.0)), residual=found.residual, n_iter=found.n_iter,
            n_passes=found.n_passes, n_products=found.n_products, seconds=self._journal.seconds, accepted=accepted, note=note,
        )  # fmt: skip
        numbers = {
            "accuracy": self._accuracy, "error": self.error, "decrease": self._decrease, "poor": self._poor,
            "shortened": self._shortened, "criterion": self.criterion, "best": self._best, "stage": self._stage,
            **self._kept[1],
        }  # fmt: skip
        self._journal.record(step, self._arrays, numbers)

    def _arrays(self) -> dict[str, NDArray[np.float64]]:
        arrays = {**self._kept[0], **{f"descent.{name}": value for name, value in self.state.arrays().items()}}
        if self.warm is not None:
            arrays |= {"weights": np.array(self.warm.weights), "adjoints": np.array(self.warm.adjoints)}
        if self.without_prior is not None:
            arrays["without_prior"] = self.without_prior
        losses = self.row_losses() if self._keeps_losses else None
        return arrays if losses is None else {**arrays, "row_losses": losses}

    def _restore(self, arrays: Mapping[str, NDArray[np.float64]], numbers: Mapping[str, Any]) -> None:
        self.state = DescentState.from_arrays({k.removeprefix("descent."): v for k, v in arrays.items()})
        self._accuracy, self.error, self._decrease = (numbers[name] for name in ("accuracy", "error", "decrease"))
        self._poor, self._best = numbers["poor"], numbers["best"]
        self._shortened, self.criterion = numbers["shortened"], numbers["criterion"]
        self.without_prior = arrays.get("without_prior")
        self.row_losses = lambda: arrays.get("row_losses")
        if "weights" in arrays:
            # The best point is the one that the last accepted evaluation, whose weights these are, was made at.
            weights, adjoints = (tuple(row.copy() for row in arrays[name]) for name in ("weights", "adjoints"))
            self.warm = WarmStart(weights, adjoints, self._parameters.theta(self.state.x))
