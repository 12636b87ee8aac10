"""Descent of a criterion in the log strengths: the outer loop shared by ``gradient``, ``loo`` and ``evidence``.

The accuracy of evaluations follows the size of the gradient. An unreliable evaluation is repeated with higher accuracy; if
that does not help, the step is shortened; the trace records which.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tikhon.errors import InputError
from tikhon.objective import Vector
from tikhon.results import Step, TuneStatus, counted
from tikhon.solvers.descent import Descent, DescentState
from tikhon.tuners.journal import Journal

FINEST_ACCURACY = 1e-9
ACCURACY_SHARE = 0.5  # accuracy as a share of the relative size of the gradient
TIGHTEN = 0.1  # factor on the accuracy if a change is within the error of the fits
REPAIR = 1e-2  # factor on the accuracy if a fit or a solve failed
WITHIN = 3.0  # differences up to this many times the corrections of both values may be errors of the fits
MOST_CORRECTED = 0.5  # limit on the first-order correction for inexact fits, as a share of the value
# A promise is believed if the last full step kept its own within this factor, and is small at this share of the least gain.
KEPT, SMALL_PROMISE = 2.0, 1 / 3
PROMISED = 0.5  # share of the least gain: a gradient that promises less stops the descent


@dataclass(frozen=True, eq=False)
class WarmStart:
    """Where fits and linear solves start: weight and adjoint vectors, one of each per pair.

    ``tangent`` is optional and for the evaluator, which can recompute it from the weights and their theta.
    """

    weights: tuple[Vector, ...]
    adjoints: tuple[Vector, ...]  # empty before the first evaluation
    theta: Vector | None = None  # where the weights were fitted; None before the first evaluation
    tangent: Any = field(default=None)


@dataclass(frozen=True, eq=False)
class Evaluation:
    """A criterion at theta, its gradient, and their reliability."""

    value: float
    gradient: Vector  # one per learned group
    error: float  # estimated error of the value due to inexact fits, after a first-order correction
    residual: float  # worst over the fits and linear solves
    poor: str  # why the evaluation is unreliable, or empty
    n_fits: int
    n_iter: int
    n_passes: int  # evaluations of the loss and its gradient
    n_products: int  # Hessian-vector products
    warm: WarmStart
    # Value and gradient without a prior of the strengths; the gradient is by group even if groups share one.
    without_prior: tuple[float, Vector] | None = None
    row_losses: Callable[[], Vector | None] = lambda: None  # contribution of each row to the criterion, in its own unit

    @property
    def criterion(self) -> float:
        """The reported value: without the prior."""
        return self.plain[0]

    @property
    def plain(self) -> tuple[float, Vector]:
        """Value and gradient without the prior."""
        return (self.value, self.gradient) if self.without_prior is None else self.without_prior


@dataclass(frozen=True, eq=False)
class OuterParameters:
    """The parameters of a descent: named positive numbers, such as strengths of groups or widths of kernels.

    An evaluator takes theta, the logarithms of the learned ones. The variables of the descent are theta, or fewer if
    parameters share one: ``theta`` maps variables to theta, ``values`` maps theta to all parameters, fixed ones included.
    """

    names: tuple[str, ...]
    values: Callable[[Vector], Vector] = np.exp
    theta: Callable[[Vector], Vector] = lambda variables: variables


Evaluate: TypeAlias = Callable[[Vector, float, WarmStart | None], Evaluation]  # theta, accuracy, starting point
Saved: TypeAlias = tuple[Mapping[str, NDArray[np.float64]], Mapping[str, Any]]  # arrays and numbers of a checkpoint


@dataclass(frozen=True, eq=False, kw_only=True)
class Stopping:
    """When a descent stops; ``unit`` maps the value of the criterion to the unit of these limits."""

    tol: float  # norm of the gradient
    least_decrease: float  # stop after a full step that gains less, unless the next one promises more
    little_slope: float  # norm of the gradient that promises no more than that, independent of earlier steps
    max_steps: int
    unit: Callable[[float], float]
    noun: str  # name of the criterion in messages
    enough: float = -np.inf  # below this value no further tuning is needed
    is_loss: bool = False  # errors are relative to the value, so that none changes its sign; else to its unit


def little_slope(least: float, relative_second_derivative: float) -> float:
    """The gradient g, relative to the value, from which a step may gain ``least``: g^2 / 2c."""
    return float(np.sqrt(2.0 * relative_second_derivative * least))


def least_decrease(tol: float, relative_second_derivative: float) -> float:
    """Half the gain g^2 / 2c, relative to the value, that a step may still make when the gradient is at its tolerance."""
    return 0.25 * tol**2 / relative_second_derivative


def limits(
    tol: float, least_gain: float | None, relative_second_derivative: float, n_learned: int
) -> tuple[float, float]:
    """The gradient norm and the gain, as shares of the criterion, at which a descent stops.

    Gains below ``least_gain`` are within sampling noise: a gradient that promises less than half of it also stops the
    descent, assuming that its second derivative is shared among the groups.
    """
    if least_gain is None:
        return tol, least_decrease(tol, relative_second_derivative)
    return max(tol, little_slope(PROMISED * least_gain, relative_second_derivative / max(n_learned, 1))), least_gain


class OuterLoop:
    """The state of one tuning between evaluations."""

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
        """``known`` is the evaluation at ``start`` if already made: the last accepted one of the trace.

        ``saved`` is the state of a run to resume. A tuning may make several successive descents; ``stage`` numbers them,
        ``kept`` is what checkpoints store of earlier ones; ``keeps_losses``: checkpoints also store the losses of the rows.
        """
        self._parameters, self._descent, self._journal, self._stopping = parameters, descent, journal, stopping
        self._evaluate_at = evaluate
        self.state = descent.start(start)
        self._accuracy, self.error, self._decrease = accuracy, 0.0, np.inf
        self._enough = max(enough_accuracy, FINEST_ACCURACY)  # unless a change is within the error of the fits
        self._poor = False  # was the best evaluation unreliable?
        self._foretold = np.inf  # gain that the parabola promised of the last step, if that was a full one
        self._shortened = np.inf  # gain promised by a parabola through the last step, if that step was rejected
        self.criterion = np.nan  # at the best point, without the prior
        self.without_prior: Vector | None = None  # and its gradient
        self.row_losses: Callable[[], Vector | None] = lambda: None  # and the losses of its rows
        self._best = 0  # its index in the trace
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
                f"interrupted after {counted(len(self._journal.trace), 'step')}; using the best strengths so far",
            )

    def begin(self) -> None:
        """Evaluate the starting point, if not done yet."""
        if np.isnan(self.state.value):
            self._advance()

    def average_weights(self) -> Vector | None:
        """The mean weights of all training parts: a good start for the fit on all data."""
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
                "the best evaluation is unreliable: raise max_iter or choose another solver",
            )
        if self.state.value <= rule.enough:
            return "converged", f"the {rule.noun} {self.state.value:.1e} is negligible"
        if self._descent.is_held(self.state):
            return "converged", f"every parameter is at a bound, and the {rule.noun} rises from there"
        if size <= limit:
            return "converged", f"norm of the gradient {size:.1e} <= {limit:.1e}"
        least = rule.least_decrease * unit
        if self._decrease <= least and (size <= rule.little_slope * unit or self._promised() <= least):
            return (
                "converged",
                f"the last step lowered the {rule.noun} by {self._decrease:.1e}, less than the least gain {least:.1e}",
            )
        promised = self._promised()
        if promised <= SMALL_PROMISE * least and self._keeps_promises():
            return (
                "converged",
                f"the next step promises to lower the {rule.noun} by {promised:.1e}, and the last one kept its promise; the "
                f"least gain is {least:.1e}",
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
                f"gradient {size:.1e} > {limit:.1e} after {counted(rule.max_steps, 'step')}; raise max_steps or tol",
            )
        return None

    def _promised(self) -> float:
        """The gain of the next step, if the criterion were the parabola suggested by the last steps."""
        move = self._descent.ask(self.state) - self.state.x
        return 0.5 * abs(float(self.state.gradient @ move))

    def _keeps_promises(self) -> bool:
        """Whether the last step was a full one and gained about what the parabola had promised."""
        return bool(self._foretold / KEPT <= self._decrease <= self._foretold * KEPT < np.inf)

    def _gradient_size(self) -> float:
        """The norm: with many groups, small entries add up."""
        return float(np.linalg.norm(self._descent.projected_gradient(self.state)))

    def _evaluate(self, theta: Vector, accuracy: float, warm: WarmStart | None) -> Evaluation:
        found = self._evaluate_at(theta, accuracy, warm)
        self._journal.count_fits(*[found.residual] * found.n_fits)
        if not found.poor and not self._trusted(found):
            found = replace(
                found,
                poor=f"inexact fits change the {self._stopping.noun} by {found.error:.1e} to {found.criterion:.1e}",
            )
        return found

    def _trusted(self, found: Evaluation) -> bool:
        """Is the first-order correction for inexact fits small enough to be valid?"""
        scale = abs(found.criterion) if self._stopping.is_loss else self._stopping.unit(found.value)
        return not found.error > MOST_CORRECTED * scale

    def _advance(self) -> None:
        """One evaluation (or two, if the first is unreliable), and the step that follows from it."""
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
            # A gain that is small because the step was shortened is not informative.
            is_full = not first and before.step == 1.0
            self._decrease = before.value - after.value if is_full else np.inf
            self._foretold = 0.5 * abs(float(before.gradient @ (theta - before.x))) if is_full else np.inf
            self._take(found, number)
            self._refine()
        else:
            self._decrease = self._foretold = self._shortened = np.inf
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
                    notes.append(f"damped (the {self._stopping.noun} did not decrease)")
                    self._shortened = self._promised()
        self._record(theta, found, after.accepted, "; ".join(notes))

    def _refine(self) -> None:
        """Raise the accuracy as the gradient shrinks."""
        relative = self._gradient_size() / max(self._stopping.unit(self.state.value), 1e-300)
        self._accuracy = min(max(ACCURACY_SHARE * relative, self._enough), self._accuracy)

    def _take(self, found: Evaluation, number: int) -> None:
        """Make this evaluation, with this index in the trace, the best one."""
        self._poor, self._best, self.criterion = bool(found.poor), number, found.criterion
        self.warm, self.error, self.without_prior = found.warm, found.error, found.plain[1]
        self.row_losses = found.row_losses

    def _drowned(self, found: Evaluation) -> bool:
        """Whether the change may be an error of the fits, and the step promised enough to find out."""
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
            "shortened": self._shortened, "foretold": self._foretold,
            "criterion": self.criterion, "best": self._best, "stage": self._stage,
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
        self._shortened, self._foretold = numbers["shortened"], numbers["foretold"]
        self.criterion = numbers["criterion"]
        self.without_prior = arrays.get("without_prior")
        self.row_losses = lambda: arrays.get("row_losses")
        if "weights" in arrays:
            # The best point is that of the last accepted evaluation, whose weights these are.
            weights, adjoints = (tuple(row.copy() for row in arrays[name]) for name in ("weights", "adjoints"))
            self.warm = WarmStart(weights, adjoints, self._parameters.theta(self.state.x))
