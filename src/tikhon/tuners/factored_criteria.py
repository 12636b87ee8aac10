"""Criteria computed on all data from the factorised Hessian: leave-one-out loss and evidence.

For the weights w(theta) fitted at strengths exp(theta) and the criterion F(w, s),

    dF/dtheta_g = s_g sum_{j in g} (dF/ds_j - w_j q_j),    (H + diag s) q = dF/dw,

by implicit differentiation: **one** linear solve with the factor already computed, whatever the number of groups.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, Protocol, TypeAlias

import numpy as np

from tikhon.errors import InputError, MissingCapability
from tikhon.groups import Groups
from tikhon.objective import (
    Criterion,
    Curvature,
    Curved,
    Objective,
    StrengthCriterion,
    Vector,
    hints_of,
)
from tikhon.results import FitResult, TuneResult
from tikhon.solvers.descent import Descent
from tikhon.solvers.newton import line_search
from tikhon.solvers.penalised import Penalised, Point, Work, baseline, damped, euclidean, penalised
from tikhon.tuners import mackay
from tikhon.tuners.base import Problem, Start, Tuner
from tikhon.tuners.journal import Journal
from tikhon.tuners.outer_loop import Evaluation, Stopping, WarmStart
from tikhon.tuners.pooling import Pooling
from tikhon.tuners.prior import strength_prior
from tikhon.tuners.refit import bound_warnings, refit
from tikhon.tuners.settings import check_steps, natural_strengths, starting_theta, strength_bounds
from tikhon.tuners.staged_descent import Plan, StagedDescent
from tikhon.tuners.surrogate import Surrogate, minimise_surrogate

FIRST_ACCURACY = 1e-2
FIRST_MOVE, LARGEST_MOVE = 2.0, 3.0  # in log strength: factors of 7 and 20
FIT_SHARE = 5e-2  # accuracy of a fit, relative to that requested of the criterion
MOST_CORRECTED = 0.03  # limit on the first-order correction for an inexact fit, as a share of the criterion
MOST_DECREMENT = (
    0.01  # limit on the Newton decrement, as a share of the loss: beyond it that correction is rarely small
)
BETTER_FIT = 1e-2  # residual of the next fit, relative to the last, if that limit is exceeded
EXACT_TOL = 1e-10  # residual of a least-squares fit, which one Newton step reduces to rounding error
CLOSE = 0.7  # in log strength: within this distance the tangent predicts the weights well
STEPS_PER_FACTOR = 5  # Newton steps with one factor, while each satisfies CUT
CUT = 0.3  # a step must reduce the gradient to this share
MOST_ITERATIONS = 100

CriterionKind: TypeAlias = Literal["leave_one_out", "evidence"]  # the method of a curvature that returns the criterion


class FactoredTuner(Tuner, Protocol):
    """What ``loo`` and ``evidence`` have in addition to the tuner interface."""

    @property
    def start(self) -> Start | None: ...

    @property
    def bounds(self) -> tuple[float, float] | None: ...

    @property
    def tol(self) -> float: ...

    @property
    def max_steps(self) -> int: ...


@dataclass(frozen=True, eq=False)
class Tangent:
    """The curvature at weights fitted with some strengths: it predicts how the weights change with these."""

    strength: Vector
    curvature: Curvature

    def weights_at(self, weights: Vector, strength: Vector) -> Vector | None:
        """dw = -(H + S)^-1 dS w to first order in the log strengths; None if these are too far away."""
        penalised = self.strength > 0.0
        change = np.zeros_like(strength)
        change[penalised] = np.log(strength[penalised] / self.strength[penalised])
        if np.abs(change).max(initial=0.0) > CLOSE:
            return None
        return weights - self.curvature.solve(change * self.strength * weights)


class FactoredCriterion:
    """Fits all data by Newton's method and computes the criterion from the last factor.

    With one group it may use rotated axes that are cheaper; its results then hold the rotated weights. If the leave-one-out
    loss is a closed-form function of the strengths, nothing is fitted, and the given weights are returned.
    """

    def __init__(self, problem: Problem, kind: CriterionKind, unit: float, tuner: str) -> None:
        self.problem, self._kind, self._unit = problem, kind, unit
        self.objective = curved(problem.objective, tuner)
        self.axes_changed = False
        rotate = hints_of(self.objective).rotated
        if problem.groups.count == 1 and rotate is not None:
            rotated = rotate(problem.groups.index < 0)
            if rotated is not None:
                self.objective, self.axes_changed = rotated, True
        # Neither the flat directions nor the strength added to too many unpenalised weights depend on the strengths.
        given = problem.groups.expand(problem.groups.with_common(1.0))
        self._inner = penalised(self.objective, given)
        self._added = self._inner.strength - given
        self.start = None if self.axes_changed else problem.start
        self._closed = None
        close = hints_of(self.objective).closed_leave_one_out
        if kind == "leave_one_out" and close is not None:
            self._closed = close(self._inner.strength == 0.0, problem.groups.count == 1)

    def inner_at(self, strengths: Vector, groups: Groups | None = None) -> Penalised:
        """The inner problem at these strengths, one per group of the problem, or of ``groups``."""
        expanded = (groups or self.problem.groups).expand(strengths)
        return replace(self._inner, strength=expanded + self._added, work=Work())

    def __call__(self, theta: Vector, accuracy: float, warm: WarmStart | None) -> Evaluation:
        strengths = self.problem.groups.strengths(theta)
        inner = self.inner_at(strengths)
        if self._closed is not None:
            return self._by_closed_form(self._closed(inner.strength), theta, strengths, warm)
        start = self.start if warm is None or not warm.weights else self._start(warm, inner.strength)
        return self._by_fit(inner, theta, strengths, start, FIT_SHARE * accuracy)

    def _by_closed_form(
        self, found: StrengthCriterion, theta: Vector, strengths: Vector, warm: WarmStart | None
    ) -> Evaluation:
        groups = self.problem.groups
        weights = () if warm is None else warm.weights
        return Evaluation(
            value=found.value / self._unit,
            gradient=(strengths * groups.collect(found.by_strength))[groups.learned] / self._unit,
            error=found.error * found.value / self._unit,
            residual=0.0,
            poor="",
            n_fits=1,
            n_iter=0,
            n_passes=0,
            n_products=0,
            warm=WarmStart(weights, (), theta),
            row_losses=lambda: found.by_row,
        )

    def _by_fit(
        self, inner: Penalised, theta: Vector, strengths: Vector, start: Vector | None, tol: float
    ) -> Evaluation:
        """The criterion at the fitted weights, less the first-order effect of the remaining gradient.

        If that is not small relative to the criterion, more accurate fits follow. If it stays so at the limit of precision,
        the criterion is left uncorrected and marked as untrustworthy: the correction might make a loss negative.
        """
        groups, fit_tol, n_iter = self.problem.groups, tol, 0
        by_row = self._kind == "leave_one_out"
        if by_row and hints_of(self.objective).noise_is_unknown:
            fit_tol = min(tol, EXACT_TOL)
        while True:
            fit, gradient, curvature = fit_with_curvature(
                self.objective, inner, start, fit_tol, MOST_DECREMENT if by_row else np.inf
            )
            residual, n_iter = inner.measure.residual(gradient), n_iter + fit.n_iter
            found: Criterion = getattr(curvature, self._kind)()
            adjoint = inner.project(curvature.solve(found.by_weights))
            correction = float(adjoint @ gradient)
            scale = max(abs(found.value), 0.0 if by_row else 1.0)
            small = abs(correction) <= MOST_CORRECTED * scale
            if small or residual > fit_tol or residual == 0.0:
                break
            start, fit_tol = fit.weights, BETTER_FIT * residual
        poor = "" if residual <= 10.0 * tol else f"fit: {fit.reason}"
        if not small:
            poor = f"fit: at residual {residual:.1e} its error may be {abs(correction / scale):.1e} of the criterion"
        by_group = groups.collect(found.by_strength - fit.weights * adjoint)
        return Evaluation(
            value=(found.value - correction * small) / self._unit,
            gradient=(strengths * by_group)[groups.learned] / self._unit,
            error=abs(correction) / self._unit,
            residual=residual,
            poor=poor,
            n_fits=1,
            n_iter=n_iter,
            n_passes=inner.work.n_passes,
            n_products=0,
            warm=WarmStart((fit.weights,), (adjoint,), theta, Tangent(inner.strength, curvature)),
            row_losses=lambda: found.by_row,
        )

    def surrogate(self, groups: Groups, pool: Pooling | None) -> Surrogate | None:
        """A cheap surrogate of the leave-one-out loss, in nats, including the priors; None if there is none."""
        average, rows = hints_of(self.objective).average_left_out, self.problem.total_weight
        if self._kind != "leave_one_out" or average is None:
            return None

        def value_gradient(theta: Vector) -> tuple[float, Vector] | None:
            strengths = groups.strengths(theta)
            found = average(self.inner_at(strengths, groups).strength)
            if found is None or not found.value > 0.0:
                return None
            slopes = (strengths * groups.collect(found.by_strength))[groups.learned] / found.value
            nats, by_theta = (0.0, np.zeros_like(theta)) if pool is None else pool(theta)
            return 0.5 * rows * float(np.log(found.value)) + nats, 0.5 * rows * slopes + by_theta

        return value_gradient

    def _start(self, warm: WarmStart, strength: Vector) -> Vector:
        """Along the tangent if it is known; a resumed run recomputes it, so that results stay bit-identical."""
        weights, tangent = warm.weights[0], warm.tangent
        if tangent is None and warm.theta is not None:
            there = self.inner_at(self.problem.groups.strengths(warm.theta))
            tangent = Tangent(there.strength, damped(self.objective.curvature_at, there, weights))
        moved = None if tangent is None else tangent.weights_at(weights, strength)
        return weights if moved is None else moved


def curved(objective: Objective, tuner: str) -> Curved:
    """The objective itself, or an error that names what it lacks."""
    if not isinstance(objective, Curved):
        raise MissingCapability(
            f"the tuner {tuner!r} needs the Hessian row by row, and {type(objective).__name__} has no 'curvature_at': "
            "choose tuner='auto', 'gradient', 'mm', 'direct' or 'grid'"
        )
    if np.isinf(objective.curvature_cost):
        raise InputError(
            f"the tuner {tuner!r} factorises the Hessian, and {objective.n_weights:,} weights (or as many rows) are too "
            "many for that: choose tuner='auto' or 'gradient'"
        )
    return objective


def fit_with_curvature(
    objective: Curved, inner: Penalised, start: Vector | None, tol: float, most_decrement: float
) -> tuple[FitResult, Vector, Curvature]:
    """Newton's method with a factor at its last weights; returns the fit, its gradient and the curvature.

    It ends where the residual is at most ``tol`` and the decrement g' (H + S)^-1 g at most that share of the loss: where the
    data are nearly separable the loss is tiny, and a residual relative to that of a constant prediction says too little.
    """
    weights = inner.starting(start)
    loss, value, gradient = inner.value_gradient(weights)
    n_iter, stuck = 0, False
    while True:
        curvature = damped(objective.curvature_at, inner, weights)
        direction = inner.project(-curvature.solve(gradient))
        accurate = inner.measure.residual(gradient) <= tol and -float(gradient @ direction) <= most_decrement * abs(
            loss
        )
        if accurate or stuck or n_iter >= MOST_ITERATIONS:
            break
        for number in range(STEPS_PER_FACTOR):
            before = euclidean(gradient)
            if number > 0:
                direction = inner.project(-curvature.solve(gradient))
            step = line_search(inner, weights, value, gradient, direction)
            if step is None:
                stuck = number == 0  # an old factor is no longer accurate; with a new one nothing helps
                break
            weights, loss, value, gradient = step
            n_iter += 1
            if inner.measure.residual(gradient) <= tol or euclidean(gradient) > CUT * before:
                break
    residual = inner.measure.residual(gradient)
    done = residual <= tol
    reason = f"residual {residual:.1e}, {tol:.1e} requested"
    point = Point(weights, loss, value, gradient)
    fit = inner.result(
        point, n_iter, "converged" if done else "stalled", reason, gap=inner.gap_bound(point), gap_is_bound=False
    )
    return fit, gradient, curvature


def iterate_strengths(
    evaluator: FactoredCriterion, groups: Groups, natural: Vector, bounds: tuple[Vector, Vector]
) -> tuple[Vector, Vector]:
    """Initial strengths and weights: one fit whose strengths are updated after every Newton step.

    It starts from the weights of the problem if there are any, unless the axes are rotated: then every step is a fit.
    """
    objective = evaluator.objective
    weights = baseline(objective) if evaluator.start is None else evaluator.start
    exact = hints_of(objective).noise_is_unknown
    start = mackay.EXACT_START if exact else mackay.START
    strengths = np.where(groups.learned, start * natural, groups.fixed)
    for _ in range(mackay.EXACT_STEPS if exact else mackay.STEPS):
        inner = evaluator.inner_at(strengths, groups)
        _, value, gradient = inner.value_gradient(weights)
        curvature = damped(objective.curvature_at, inner, weights)
        step = line_search(inner, weights, value, gradient, inner.project(-curvature.solve(gradient)))
        if step is None:
            break
        weights = step[0]
        squares = curvature.noise_precision() * np.square(weights)
        strengths, change = mackay.mackay_update(groups, strengths, curvature.inverse_diagonal(), squares, bounds)
        if change < (mackay.EXACT_SMALL_CHANGE if exact else mackay.SMALL_CHANGE):
            break
    return strengths, weights


def tune_on_all_data(
    tuner: FactoredTuner,
    problem: Problem,
    *,
    kind: CriterionKind,
    unit: float,
    stopping: Callable[[int], Stopping],
    criterion_name: str,
    second_derivative: float | None = None,
    relative_second_derivative: float | None = None,
    prior_deviation: float | None = None,
    pooling: float | None = None,
    warnings: tuple[str, ...] = (),
) -> TuneResult:
    """Descend a criterion of all the data; ``stopping`` takes the number of strengths to learn.

    ``second_derivative`` approximates that of the criterion in a log strength, ``relative_second_derivative`` the same
    relative to its value and shared among the groups.
    """
    check_steps(tuner.max_steps, tuner.tol)
    evaluate = FactoredCriterion(problem, kind, unit, tuner.name)

    def plan_for(part: Problem) -> Plan:
        groups, learned = part.groups, part.groups.learned
        n_learned = int(learned.sum())
        natural = natural_strengths(part.objective, groups)
        lower, upper = strength_bounds(tuner.bounds, natural)
        relative = None if relative_second_derivative is None else relative_second_derivative / max(n_learned, 1)

        def begin(pool: Pooling | None = None) -> tuple[Vector, WarmStart | None]:
            warm = None if evaluate.start is None else WarmStart((evaluate.start,), ())
            if tuner.start is not None:
                return starting_theta(tuner.start, groups), warm
            if part.start_strengths is not None:
                return np.log(part.start_strengths[learned]), warm
            surrogate = evaluate.surrogate(groups, pool)
            if surrogate is not None:
                start = np.log(mackay.EXACT_START * natural[learned]) if pool is None else pool.centre
                near = [np.log(bound[learned]) for bound in mackay.bounds(natural, lower, upper)]
                found = minimise_surrogate(surrogate, start, (near[0], near[1]), evaluate.problem.total_weight)
                if found is not None:
                    return found, warm
            found, weights = iterate_strengths(evaluate, groups, natural, mackay.bounds(natural, lower, upper))
            return np.log(found[learned]), WarmStart((weights,), ())

        return Plan(
            descent=Descent(
                lower=np.log(lower[learned]),
                upper=np.log(upper[learned]),
                first_move=FIRST_MOVE,
                largest_move=LARGEST_MOVE,
                metric=None if second_derivative is None else np.full(n_learned, second_derivative),
                relative_second_derivative=relative,
            ),
            stopping=stopping(n_learned),
            prior=strength_prior(part, natural, prior_deviation),
            relative_second_derivative=relative,
            begin=begin,
        )

    journal = Journal.of(tuner, problem)
    found = StagedDescent(problem, journal, evaluate, plan_for, accuracy=FIRST_ACCURACY, pooling=pooling).descend()
    strengths = problem.groups.strengths(found.theta)
    natural = natural_strengths(problem.objective, problem.groups)
    return refit(
        tuner.name, problem, journal, strengths, None if evaluate.axes_changed else found.weights,
        criterion_name=criterion_name, criterion=found.criterion, status=found.status, reason=found.reason,
        warnings=warnings + bound_warnings(problem.groups, strengths, strength_bounds(tuner.bounds, natural)),
        extras=found.extras,
    )  # fmt: skip
