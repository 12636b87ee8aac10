"""L-BFGS, if gradients alone take fewer passes than Hessian products: low-accuracy fits of sparse data, large chains, RNA."""

from dataclasses import dataclass, replace

import numpy as np

from tikhon.objective import Objective, Product, Vector, hints_of
from tikhon.results import FitResult, FitStatus
from tikhon.solvers.descent import Descent, DescentState
from tikhon.solvers.gap import ROUNDING, Certificate, certified, reached, sharpened
from tikhon.solvers.penalised import EPSILON, Penalised, Point, penalised

LOOK_BACK, STAGNANT = 10, 0.1  # stagnation: over this many iterations the value falls by less than this share of tol
DIAGONAL_POWER = 0.25  # 0: all weights have the largest curvature, in units of their strengths; 1: their own
AGAIN = 0.5  # of the bound when the unpenalised weights were last checked
ROUGH = 0.3  # relative gap from which a sketch of the Hessian is used
FRESH = 8  # iterations before the sketch is renewed
MEMORY, LITTLE_MEMORY, MANY = 10, 5, 2_000_000  # pairs of vectors, and from how many weights on fewer
SINGLE_RANGE = 1e-25, 1e25  # allowed range of the metric: stored pairs then stay within the range of single precision


@dataclass(frozen=True, kw_only=True)
class LBFGS:
    """Limited-memory quasi-Newton; the entries of its initial Hessian lie between the diagonal and its largest entry.

    The diagonal at the start underestimates the curvature that rare columns will have later. On text and chains this takes
    far fewer passes than the diagonal itself.
    """

    tol: float = 1e-8  # relative gap
    max_iter: int = 5000
    memory: int | None = None  # pairs of vectors; None: ten, or five of more than two million weights

    def minimise(
        self, objective: Objective, strength: Vector, start: Vector | None = None, *, tol: float | None = None
    ) -> FitResult:
        problem = penalised(objective, strength)
        tol = self.tol if tol is None else tol
        weights = problem.starting(start)
        if start is not None and hints_of(objective).hessian_sketch is None:
            weights = problem.resized(weights)
        guess = first_guess(problem, weights)
        memory = (MEMORY if len(weights) <= MANY else LITTLE_MEMORY) if self.memory is None else self.memory
        if hints_of(objective).hessian_sketch is None:
            return _Run(problem, guess, memory).minimise(weights, tol, self.max_iter)
        if start is None:  # far from the optimum the Hessian differs
            fit = _Run(problem, guess, memory).minimise(weights, max(tol, ROUGH), self.max_iter)
            if tol >= ROUGH or fit.status == "max_iter":
                return fit
            n_iter, weights = fit.n_iter, fit.weights
        else:
            n_iter = 0
        while True:
            most = min(FRESH, self.max_iter - n_iter)
            guess = replace(guess, metric=problem.preconditioner(weights))
            fit = _Run(problem, guess, memory).minimise(weights, tol, most)
            n_iter, weights = n_iter + fit.n_iter, fit.weights
            if fit.status != "max_iter":
                return replace(fit, n_iter=n_iter)
            if n_iter >= self.max_iter:
                reason = f"the relative gap is at most {fit.relative_gap:.1e} after {n_iter} iterations"
                return replace(fit, n_iter=n_iter, reason=reason)


@dataclass(frozen=True, eq=False)
class FirstGuess:
    """What is known of the Hessian before the first step. It lives for the whole fit: no more vectors than needed."""

    metric: Vector | Product
    free_diagonal: Vector  # of the unpenalised weights
    single: bool  # can the pairs be stored in single precision?


def first_guess(problem: Penalised, weights: Vector) -> FirstGuess:
    """The metric is in units of the strengths, so that the units of columns and widely differing strengths do not matter."""
    diagonal = problem.diagonal(weights)
    unit = np.where(problem.unpenalised, diagonal, problem.strength)
    relative = diagonal / unit
    damped = relative**DIAGONAL_POWER * relative.max(initial=0.0) ** (1.0 - DIAGONAL_POWER)
    metric = unit * np.where(problem.unpenalised, 1.0, damped)
    single = bool(SINGLE_RANGE[0] <= metric.min(initial=1.0) and metric.max(initial=1.0) <= SINGLE_RANGE[1])
    return FirstGuess(metric.astype(np.float32) if single else metric, diagonal[problem.unpenalised], single)


class _Run:
    """One descent with its stopping rules."""

    def __init__(self, problem: Penalised, guess: FirstGuess, memory: int) -> None:
        self._problem, self._free_diagonal = problem, guess.free_diagonal
        self._descent = Descent(memory=memory, metric=guess.metric, noise=16.0 * EPSILON, single=guess.single)

    def minimise(self, weights: Vector, tol: float, max_iter: int) -> FitResult:
        problem, descent = self._problem, self._descent
        state, loss = descent.start(weights), np.nan
        n_iter, n_flat, asked = 0, 0, np.inf
        values = [np.inf]
        next_look = LOOK_BACK
        while True:
            before = state.value
            x = descent.ask(state)
            new_loss, value, gradient = problem.value_gradient(x)
            state = descent.tell(state, value, gradient, x)
            del x, gradient  # there may be many weights
            if state.accepted:
                loss = new_loss
                values.append(value)
            point = Point(state.x, loss, state.value, state.gradient)
            bound = problem.gap_bound(point)
            if bound <= tol and problem.has_penalised and bound <= AGAIN * asked:
                # The unpenalised weights are checked when all others have converged, and then not at every step.
                found = certified(problem, point, self._free_diagonal)
                if found.gap <= tol:
                    return self._ended(found, n_iter, "converged", reached(found, tol))
                asked = bound
                if found.point is not point:  # continue with the unpenalised weights at their optimum
                    loss = found.point.loss
                    state = descent.rebase(state, found.point.value, found.point.gradient, found.point.weights)
                    continue
            residual = problem.measure.residual(state.gradient)
            if residual <= ROUNDING:
                found = Certificate(point, bound, problem.objective.is_convex)
                return self._ended(found, n_iter, "converged", f"residual {residual:.1e}: rounding")
            if len(values) > next_look and values[-1 - LOOK_BACK] - value <= STAGNANT * tol * abs(value):
                # The bound may be far too large if strengths are small: sharpen it before continuing for long.
                gap = self._estimate(point, state, tol)
                if gap <= tol:
                    reason = f"estimated relative gap {gap:.1e} <= {tol:.1e}; the bound, {bound:.1e}, is loose"
                    return self._ended(Certificate(point, gap, False), n_iter, "converged", reason)
                next_look = 2 * len(values)
            # If the value no longer decreases in double precision, no line search can continue.
            n_flat = n_flat + 1 if abs(before - value) <= 4.0 * EPSILON * abs(value) else 0
            if state.stalled or n_flat >= 20:
                found = Certificate(point, bound, problem.objective.is_convex)
                return self._ended(found, n_iter, "stalled", f"the value no longer decreases; relative gap {bound:.1e}")
            if n_iter >= max_iter:
                found = Certificate(point, bound, problem.objective.is_convex)
                return self._ended(
                    found, n_iter, "max_iter", f"the relative gap is at most {bound:.1e} after {max_iter} iterations"
                )
            n_iter += 1
            del point  # or two points would be kept during the next step

    def _estimate(self, point: Point, state: DescentState, tol: float) -> float:
        """A sharper estimate of the gap; without any penalty, the decrease predicted by the quasi-Newton step."""
        if self._problem.has_penalised:
            return sharpened(self._problem, point, tol)
        return self._problem.relative(-float(state.gradient @ state.direction), point.value)

    def _ended(self, found: Certificate, n_iter: int, status: FitStatus, reason: str) -> FitResult:
        point, problem = found.point, self._problem
        if problem.flat.exist:  # the metric moves weights along flat directions
            point = problem.at(problem.project(point.weights))
        return problem.result(point, n_iter, status, reason, gap=found.gap, gap_is_bound=found.is_bound)
