"""Newton's method by factorisation, for few weights."""

from dataclasses import dataclass

import numpy as np

from tikhon.errors import MissingCapability
from tikhon.objective import Factorable, Objective, Product, Vector
from tikhon.results import FitResult, FitStatus
from tikhon.solvers.penalised import EPSILON, Penalised, damped, penalised

SUFFICIENT = 1e-4  # of the decrease that the slope promises (Armijo)
REUSE_BELOW = 0.1  # a step that cut the gradient this much shows that the old factor is still good
SMALLEST_STEP = 2.0**-30


@dataclass(frozen=True, kw_only=True)
class Newton:
    """Steps -(H + diag(s))^-1 g with backtracking; a factor is used again while it still cuts the gradient tenfold.

    Where the Hessian is not positive definite (a loss that is not convex) a multiple of its largest diagonal entry is added.
    """

    tol: float = 1e-8
    max_iter: int = 100

    def minimise(
        self, objective: Objective, strength: Vector, start: Vector | None = None, *, tol: float | None = None
    ) -> FitResult:
        if not isinstance(objective, Factorable):
            raise MissingCapability(
                f"{type(objective).__name__} has no 'factorise': use the solver 'newton-cg' or 'lbfgs'"
            )
        problem = penalised(objective, strength)
        tol = self.tol if tol is None else tol
        weights = problem.starting(start)
        loss, value, gradient = problem.value_gradient(weights)
        solve: Product | None = None
        status: FitStatus = "max_iter"
        reason, n_iter = "", 0
        while True:
            residual = problem.measure.residual(gradient)
            if residual <= tol:
                status, reason = "converged", f"residual {residual:.1e} <= {tol:.1e}"
                break
            if n_iter == self.max_iter:
                reason = f"the residual is still {residual:.1e} after {self.max_iter} iterations"
                break
            n_iter += 1
            fresh = solve is None
            if solve is None:
                solve = damped(objective.factorise, problem, weights)
            direction = problem.project(-solve(gradient))
            step = line_search(problem, weights, value, gradient, direction)
            if step is None and not fresh:
                solve = None  # the old factor no longer fits: try a new one here
                continue
            if step is None:
                status, reason = _end_of_precision(value, gradient, direction, residual)
                break
            weights, loss, value, new_gradient = step
            cut = np.linalg.norm(new_gradient) / np.linalg.norm(gradient)
            gradient = new_gradient
            if cut > REUSE_BELOW:
                solve = None
        return problem.result(weights, loss, value, gradient, n_iter, 0, status, reason)


def line_search(
    problem: Penalised, weights: Vector, value: float, gradient: Vector, direction: Vector
) -> tuple[Vector, float, float, Vector] | None:
    """The first of the steps 1, 1/2, 1/4 ... with sufficient decrease; None where there is none.

    Below rounding of the value, a smaller gradient is the better witness.
    """
    slope = float(gradient @ direction)
    if not slope < 0:
        return None
    step = 1.0
    while step >= SMALLEST_STEP:
        trial = weights + step * direction
        loss, trial_value, trial_gradient = problem.value_gradient(trial)
        if trial_value <= value + SUFFICIENT * step * slope:
            return trial, loss, trial_value, trial_gradient
        in_the_noise = -step * slope <= 1e3 * EPSILON * abs(value) or abs(trial_value - value) <= 1e2 * EPSILON * abs(
            value
        )
        if in_the_noise and np.linalg.norm(trial_gradient) < 0.9 * np.linalg.norm(gradient):
            return trial, loss, trial_value, trial_gradient
        if -step * slope <= EPSILON * abs(value):
            return None
        step *= 0.5
    return None


def _end_of_precision(value: float, gradient: Vector, direction: Vector, residual: float) -> tuple[FitStatus, str]:
    if -float(gradient @ direction) <= 1e4 * EPSILON * max(abs(value), 1.0):
        return "converged", f"residual {residual:.1e}, at the limit of double precision"
    return "stalled", f"no step lowers the value; residual {residual:.1e}"
