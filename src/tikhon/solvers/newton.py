"""Newton's method by factorisation, for few weights."""

from dataclasses import dataclass

from tikhon.errors import MissingCapability
from tikhon.objective import Factorable, Objective, Product, Vector
from tikhon.results import FitResult, FitStatus
from tikhon.solvers.gap import ROUNDING, Certificate, certified, reached
from tikhon.solvers.penalised import EPSILON, Penalised, Point, damped, euclidean, penalised

SUFFICIENT = 1e-4  # share of the decrease predicted by the slope (Armijo)
REUSE_BELOW = 0.1  # a step that reduces the gradient by this much shows that the old factor is still good
SMALLEST_STEP = 2.0**-30


@dataclass(frozen=True, kw_only=True)
class Newton:
    """Steps -(H + diag(s))^-1 g with backtracking; a factor is reused while it still reduces the gradient tenfold.

    If the Hessian is not positive definite (a non-convex loss), a multiple of its largest diagonal entry is added.
    """

    tol: float = 1e-16  # relative gap
    max_iter: int = 100

    def minimise(
        self, objective: Objective, strength: Vector, start: Vector | None = None, *, tol: float | None = None
    ) -> FitResult:
        if not isinstance(objective, Factorable):
            raise MissingCapability(
                f"{type(objective).__name__} has no 'factorise': choose the solver 'newton-cg' or 'lbfgs'"
            )
        problem = penalised(objective, strength)
        tol = self.tol if tol is None else tol
        point = problem.at(problem.starting(start))
        solve: Product | None = None
        n_iter, fresh = 0, False
        while True:
            residual = problem.measure.residual(point.gradient)
            bound = problem.gap_bound(point)
            if residual <= ROUNDING:
                reason = f"residual {residual:.1e}: rounding"
                return _ended(problem, Certificate(point, bound, objective.is_convex), n_iter, "converged", reason)
            if solve is None and bound <= tol and problem.has_penalised:  # as at a warm start: no factor needed
                found = certified(problem, point)
                if found.gap <= tol and found.is_bound:
                    return _ended(problem, found, n_iter, "converged", reached(found, tol))
            if solve is None:
                solve, fresh = damped(objective.factorise, problem, point.weights), True
            direction = problem.project(-solve(point.gradient))
            # The decrease predicted by a Newton step is a sharp estimate of the gap, unpenalised weights included.
            promised = problem.relative(-0.5 * float(point.gradient @ direction), point.value)
            if 0.0 <= promised <= tol:
                is_bound = objective.is_convex and problem.has_penalised and bound <= tol
                found = Certificate(point, max(bound, promised) if is_bound else promised, is_bound)
                return _ended(problem, found, n_iter, "converged", reached(found, tol))
            if n_iter == self.max_iter:
                reason = f"the relative gap is still about {promised:.1e} after {self.max_iter} iterations"
                return _ended(problem, Certificate(point, promised, False), n_iter, "max_iter", reason)
            step = line_search(problem, point.weights, point.value, point.gradient, direction)
            if step is None and not fresh:
                solve = None  # the old factor is no longer accurate: compute a new one here
                continue
            if step is None:
                status, reason = _end_of_precision(point, promised, direction)
                return _ended(problem, Certificate(point, max(promised, 0.0), False), n_iter, status, reason)
            n_iter += 1
            if euclidean(step.gradient) > REUSE_BELOW * euclidean(point.gradient):
                solve = None
            point, fresh = step, False


def _ended(problem: Penalised, found: Certificate, n_iter: int, status: FitStatus, reason: str) -> FitResult:
    return problem.result(found.point, n_iter, status, reason, gap=found.gap, gap_is_bound=found.is_bound)


def line_search(problem: Penalised, weights: Vector, value: float, gradient: Vector, direction: Vector) -> Point | None:
    """The first of the steps 1, 1/2, 1/4 ... with sufficient decrease; None if there is none.

    If the change of the value is within rounding error, the gradient must decrease instead.
    """
    slope = float(gradient @ direction)
    if not slope < 0:
        return None
    # Losses of single rows are differences of numbers that do not shrink as the fit improves.
    rounding = EPSILON * max(abs(value), abs(problem.measure.baseline_loss))
    step = 1.0
    while step >= SMALLEST_STEP:
        trial = problem.at(weights + step * direction)
        if trial.value <= value + SUFFICIENT * step * slope:
            return trial
        in_the_noise = -step * slope <= 1e3 * rounding or abs(trial.value - value) <= 1e2 * rounding
        if in_the_noise and euclidean(trial.gradient) < 0.9 * euclidean(gradient):
            return trial
        if -step * slope <= rounding:
            return None
        step *= 0.5
    return None


def _end_of_precision(point: Point, promised: float, direction: Vector) -> tuple[FitStatus, str]:
    if -float(point.gradient @ direction) <= 1e4 * EPSILON * max(abs(point.value), 1.0):
        return "converged", f"relative gap about {max(promised, 0.0):.1e}, at the limit of double precision"
    return "stalled", f"no step lowers the value; relative gap about {promised:.1e}"
