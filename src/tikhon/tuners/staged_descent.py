"""The stages of learning strengths: a common one first, then each group's own around it.

A tuner provides a criterion as a function of the log strengths and, for any groups, a plan of its descent. Every stage can
resume from a checkpoint, which stores the results of earlier stages.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from tikhon.objective import Vector, hints_of
from tikhon.results import TuneStatus
from tikhon.solvers.descent import Descent
from tikhon.tuners.base import Problem
from tikhon.tuners.checkpoints import APART, COMMON, DISPERSED, IN_UNITS, search_state
from tikhon.tuners.journal import Journal
from tikhon.tuners.outer_loop import Evaluate, Evaluation, OuterLoop, OuterParameters, Saved, Stopping, WarmStart
from tikhon.tuners.pooling import Centre, Known, Pooling, check_pooling, pooling_report, size_offsets, unit_offsets
from tikhon.tuners.prior import StrengthPrior
from tikhon.tuners.settings import natural_strengths

FIRST_MOVE = 1.0  # in log strength: the slopes at the common strength give the direction, but not the distance
ADOPTED = 1.5  # nats that a common strength with offsets by size must gain over a plain one
OVER: tuple[TuneStatus, ...] = ("interrupted", "max_steps")  # after these no further stage starts


@dataclass(frozen=True, eq=False, kw_only=True)
class Plan:
    """How to descend a criterion for the learned groups of a problem: everything but the evaluations."""

    descent: Descent
    stopping: Stopping
    prior: StrengthPrior
    relative_second_derivative: float | None  # of the criterion in a log strength, relative to its value
    begin: Callable[
        [Pooling | None], tuple[Vector, WarmStart | None]
    ]  # theta, with priors or without; where fits start


PlanFor: TypeAlias = Callable[[Problem], Plan]


@dataclass(frozen=True, eq=False, kw_only=True)
class Descended:
    """Where the descent of a criterion ended."""

    theta: Vector  # one per learned group
    criterion: float  # without any prior
    weights: Vector | None  # initial weights for the fit on all data
    status: TuneStatus
    reason: str
    extras: dict[str, Any]  # the report on pooling


class StagedDescent:
    """Learns strengths by descending a criterion, whose ``evaluate`` takes a log strength for each learned group."""

    def __init__(
        self, problem: Problem, journal: Journal, evaluate: Evaluate, plan_for: PlanFor, *, accuracy: float,
        enough_accuracy: float = 0.0, pooling: float | None = None, by_split: bool = False,
    ) -> None:  # fmt: skip
        """``pooling`` is the scale of the priors; None: no pooling.

        ``by_split``: an evaluation fits each training part instead of all data.
        """
        check_pooling(pooling)
        self._problem, self._journal, self._evaluate, self._plan_for = problem, journal, evaluate, plan_for
        self._accuracy, self._enough_accuracy = accuracy, enough_accuracy
        self._by_split = by_split
        self._pooling, self._n_learned = pooling, int(problem.groups.learned.sum())

    def descend(self) -> Descended:
        pooled = self._pooling is not None and self._n_learned >= 2
        saved = self._journal.resume(search_state(self._problem, by_split=self._by_split, pooled=pooled))
        if not pooled:
            plan = self._plan_for(self._problem)
            start, warm = plan.begin(None) if saved is None else (np.zeros(self._n_learned), None)
            run = OuterLoop(
                self._parameters(), plan.descent, start, self._journal, plan.prior.applied(self._evaluate), plan.stopping,
                accuracy=self._accuracy, enough_accuracy=self._enough_accuracy, warm=warm, saved=saved,
            )  # fmt: skip
            return _descended(run, *run.descend())
        stage = COMMON if saved is None else int(saved[1]["stage"])
        if stage > IN_UNITS:
            assert saved is not None
            return self._apart(Centre.restored(saved), stage, saved)
        if stage == COMMON:
            common, ended = self._common(saved)
            saved = None
        else:
            assert saved is not None
            common, ended = Known.restored(saved), None
        centre = Centre.plain(common)
        units, sizes = unit_offsets(self._problem), size_offsets(self._problem)
        # Units depend on how columns were written; offsets by size must be supported by the rows.
        promising = bool(units.any()) or self._promised(common, sizes) > ADOPTED
        if promising and (ended is None or ended.status not in OVER):
            in_units, ended_in_units = self._common_in_units(common, units, sizes, saved)
            adopted = self._gained(common, in_units) > (0.0 if units.any() else ADOPTED)
            if ended is None or adopted or ended_in_units.status in OVER:
                ended = ended_in_units
            centre = replace(centre, known=in_units) if adopted else centre
        assert ended is not None
        if ended.status in OVER:
            return replace(ended, theta=centre.known.theta, criterion=centre.known.value)
        return self._apart(centre, APART, None)

    def _common(self, saved: Saved | None) -> tuple[Known, Descended]:
        """The best strength shared by all learned groups, as for a single group."""
        plan = self._merged_plan()
        start, warm = plan.begin(None) if saved is None else (np.zeros(1), None)
        offsets = np.zeros(self._n_learned)
        run = self._tied(plan, offsets, start, COMMON, warm=warm, saved=saved)
        ended = _descended(run, *run.descend())
        return Known.ended(run), ended

    def _common_in_units(
        self, common: Known, units: Vector, by_size: Vector, saved: Saved | None
    ) -> tuple[Known, Descended]:
        """The same with each group's strength in its own units and growing with its size."""
        plan, groups, offsets = self._merged_plan(), self._problem.groups, units + by_size
        natural = natural_strengths(self._problem.objective, groups)[groups.learned]
        sizes = np.maximum(groups.sizes[groups.learned], 1)
        centre = np.array([np.log(np.average(natural * np.exp(-offsets), weights=sizes))])
        shift = centre - plan.prior.centre
        plan = replace(
            plan,
            descent=replace(plan.descent, lower=plan.descent.lower + shift, upper=plan.descent.upper + shift),
            prior=replace(plan.prior, centre=centre),
        )
        given = self._problem.start_strengths
        if given is not None:
            start = np.array([np.average(np.log(given[groups.learned]) - offsets, weights=sizes)])
        else:
            start = centre if units.any() else common.theta[:1] - by_size.mean()
        warm = (
            None if common.warm is None or not common.warm.weights else WarmStart(common.warm.weights, (), common.theta)
        )
        run = self._tied(plan, offsets, start, IN_UNITS, warm=warm, saved=saved, kept=common.kept())
        ended = _descended(run, *run.descend())
        return Known.ended(run, offsets), ended

    def _promised(self, common: Known, offsets: Vector) -> float:
        """The gain of the offsets in nats, predicted from the slopes by a parabola with its minimum there."""
        unit = 2.0 * max(common.value, 1e-300) if hints_of(self._problem.objective).noise_is_unknown else 1.0
        return -0.5 * _criterion_weight(self._problem) * float(common.gradient @ offsets) / unit

    def _gained(self, common: Known, other: Known) -> float:
        """The gain in nats."""
        rows, drop = _criterion_weight(self._problem), common.value - other.value
        if hints_of(self._problem.objective).noise_is_unknown:
            return 0.5 * rows * float(np.log(max(common.value, 1e-300) / max(other.value, 1e-300)))
        return rows * drop

    def _parameters(self, offsets: Vector | None = None) -> OuterParameters:
        """The strengths of the groups; with offsets, all determined by one variable."""
        groups = self._problem.groups
        if offsets is None:
            return OuterParameters(groups.names, groups.strengths)
        return OuterParameters(groups.names, groups.strengths, lambda shared: shared[0] + offsets)

    def _merged_plan(self) -> Plan:
        problem = self._problem
        return self._plan_for(replace(problem, groups=problem.groups.merged(), start_strengths=_common_start(problem)))

    def _tied(
        self, plan: Plan, offsets: Vector, start: Vector, stage: int, *, warm: WarmStart | None, saved: Saved | None,
        kept: Saved = ({}, {}),
    ) -> OuterLoop:  # fmt: skip
        """The descent in one log strength, to which each group's offset is added."""
        return OuterLoop(
            self._parameters(offsets), plan.descent, start, self._journal, plan.prior.applied(tied(self._evaluate, offsets)),
            plan.stopping, accuracy=self._accuracy, enough_accuracy=self._enough_accuracy, warm=warm, stage=stage,
            saved=saved, kept=kept, keeps_losses=True,
        )  # fmt: skip

    def _apart(self, centre: Centre, stage: int, saved: Saved | None) -> Descended:
        """Each group's own strength around the common one."""
        assert self._pooling is not None
        common = centre.known
        plan, kept = self._plan_for(self._problem), centre.kept()
        pool = Pooling(
            centre=common.theta, deviation=self._pooling, n_rows=_criterion_weight(self._problem),
            noisy=hints_of(self._problem.objective).noise_is_unknown,
        )  # fmt: skip
        if stage == APART:
            try:
                run = self._first(common, pool, plan, kept, saved)
            except KeyboardInterrupt:
                return _stopped(common)
            ended, found = _descended(run, *run.descend()), Known.ended(run)
            dispersed = replace(pool, dispersion=pool.dispersion_of(common, found))
            saved = None
        else:
            assert saved is not None
            dispersed = replace(pool, dispersion=saved[1]["dispersion"])
            ended, found = None, common
        if ended is None or (ended.status not in OVER and not dispersed.supports(found, common)):
            pool = dispersed
            # Start where the last descent ended, unless its gain is now below the prior.
            start = found if found.evaluation(pool).value < common.value else common
            kept = kept[0], {**kept[1], "dispersion": pool.dispersion}
            run = self._around(start, common, pool, plan, DISPERSED, kept, saved)
            ended, found = _descended(run, *run.descend()), Known.ended(run)
        assert ended is not None
        if not ended.criterion <= common.value:  # inexact fits can make it seem lower during the descent
            ended, found = replace(ended, theta=common.theta, criterion=common.value), common
        return replace(ended, extras={"pooling": pooling_report(self._problem, pool, centre, found)})

    def _first(self, common: Known, pool: Pooling, plan: Plan, kept: Saved, saved: Saved | None) -> OuterLoop:
        """The first descent with priors: from the common strength or, if that is lower, from the groups' own starting point.

        Only leave-one-out of least squares considers the latter: its surrogate includes the priors, and the optimum may be
        far away if groups differ much.
        """
        if saved is not None or (pool.noisy and not self._problem.pairs):
            if saved is None:
                theta, warm = plan.begin(pool)
                elsewhere = Known(theta, np.nan, np.zeros_like(theta), None, warm)
            run = self._around(common if saved else elsewhere, common, pool, plan, APART, kept, saved)
            run.begin()
            if run.state.value < common.value:
                return run
        return self._around(common, common, pool, plan, APART, kept, None)

    def _around(
        self, known: Known, common: Known, pool: Pooling, plan: Plan, stage: int, kept: Saved, saved: Saved | None
    ) -> OuterLoop:
        """The descent with priors, from a known evaluation."""
        descent = replace(
            plan.descent,
            lower=np.minimum(plan.descent.lower, common.theta),
            upper=np.maximum(plan.descent.upper, common.theta),
            first_move=FIRST_MOVE,
            metric=pool.second_derivatives(common.gradient, common.value, plan.relative_second_derivative or 0.0),
            relative_second_derivative=None,
        )
        return OuterLoop(
            self._parameters(), descent, known.theta, self._journal, pool.applied(self._evaluate), plan.stopping,
            accuracy=self._accuracy, enough_accuracy=self._enough_accuracy, warm=known.warm, stage=stage,
            known=None if np.isnan(known.value) else known.evaluation(pool), saved=saved, kept=kept, keeps_losses=True,
        )  # fmt: skip


def tied(evaluate: Evaluate, offsets: Vector) -> Evaluate:
    """The criterion as a function of one log strength that all groups share, up to their offsets."""

    def evaluate_tied(theta: Vector, accuracy: float, warm: WarmStart | None) -> Evaluation:
        found = evaluate(theta[0] + offsets, accuracy, warm)
        return replace(found, gradient=np.array([found.gradient.sum()]), without_prior=(found.value, found.gradient))

    return evaluate_tied


def _stopped(common: Known) -> Descended:
    reason = "interrupted before the strengths of the groups were learned; using the best common strength"
    return Descended(
        theta=common.theta, criterion=common.value, weights=None, status="interrupted", reason=reason, extras={}
    )  # fmt: skip


def _descended(run: OuterLoop, status: TuneStatus, reason: str) -> Descended:
    return Descended(
        theta=run.state.x, criterion=run.criterion, weights=run.average_weights(), status=status, reason=reason, extras={}
    )  # fmt: skip


def _criterion_weight(problem: Problem) -> float:
    """The summed weights of the rows in the criterion: those held out, or all for leave-one-out."""
    return sum(pair.holdout_weight for pair in problem.pairs) if problem.pairs else problem.total_weight


def _common_start(problem: Problem) -> Vector | None:
    """The initial strength of the merged groups: the geometric mean over the weights of learned ones."""
    if problem.start_strengths is None:
        return None
    groups = problem.groups
    learned = groups.learned
    logs = np.log(problem.start_strengths[learned])
    sizes = np.maximum(groups.sizes[learned], 1)
    return groups.merged().with_common(float(np.exp(np.average(logs, weights=sizes))))
