"""Trust-region Newton with conjugate gradients, for many weights."""

from dataclasses import dataclass

import numpy as np

from tikhon.objective import Objective, Product, Vector
from tikhon.results import FitResult, FitStatus
from tikhon.solvers.gap import ROUNDING, Certificate, certified, reached
from tikhon.solvers.penalised import EPSILON, Penalised, penalised

# How the trust region moves with the ratio of actual to predicted decrease (the usual constants; Lin, More 1999).
ACCEPT, POOR, GOOD = 1e-4, 0.25, 0.75

AGAIN = 0.5  # of the bound when the unpenalised weights were last checked
REUSE_BELOW = 0.2  # after a step that reduces the gradient by this much, the preconditioner is reused


@dataclass(frozen=True, kw_only=True)
class NewtonCG:
    """Steihaug's conjugate gradients inside a trust region, with the objective's preconditioner.

    Each Newton system is solved only as accurately as useful: to a relative residual of
    min(0.1, sqrt(residual)), which preserves superlinear convergence.
    """

    tol: float = 1e-16  # relative gap
    max_iter: int = 200
    max_products: int = 500  # Hessian products in one Newton system

    def minimise(
        self, objective: Objective, strength: Vector, start: Vector | None = None, *, tol: float | None = None
    ) -> FitResult:
        problem = penalised(objective, strength)
        tol = self.tol if tol is None else tol
        point = problem.at(problem.starting(start))
        radius, n_iter = np.inf, 0
        product: Product | None = None
        precondition: Product | None = None
        asked = np.inf

        def ended(found: Certificate, status: FitStatus, reason: str) -> FitResult:
            return problem.result(found.point, n_iter, status, reason, gap=found.gap, gap_is_bound=found.is_bound)

        while True:
            residual = problem.measure.residual(point.gradient)
            bound = problem.gap_bound(point)
            here = Certificate(point, bound, objective.is_convex)
            if residual <= ROUNDING:
                return ended(here, "converged", f"residual {residual:.1e}: rounding")
            if bound <= tol and problem.has_penalised and bound <= AGAIN * asked:
                found = certified(problem, point)
                if found.gap <= tol and (found.is_bound or not objective.is_convex):
                    return ended(found, "converged", reached(found, tol))
                asked = bound
            if n_iter == self.max_iter:
                return ended(
                    here, "max_iter", f"the relative gap is at most {bound:.1e} after {self.max_iter} iterations"
                )
            if product is None:
                product = problem.hessian_at(point.weights)
            if precondition is None:
                precondition = problem.preconditioner(point.weights)
            n_iter += 1
            # No more accurate than the requested tolerance: gaps are squares of gradients.
            accuracy = max(min(0.1, np.sqrt(residual)), 0.3 * np.sqrt(tol / bound) if bound > 0.0 else 0.0)
            step = _truncated(problem, (product, precondition), point.gradient, radius, accuracy, self.max_products)
            new = problem.at(point.weights + step.move)
            actual = point.value - new.value
            in_the_noise = step.predicted <= 1e3 * EPSILON * abs(point.value)
            if in_the_noise:
                better = np.linalg.norm(new.gradient) < np.linalg.norm(point.gradient)
                ratio = 1.0 if better else 0.0
            else:
                ratio = actual / step.predicted if np.isfinite(new.value) else -1.0
            if ratio < POOR:
                radius = 0.25 * min(radius, step.size)
            elif ratio > GOOD and step.at_boundary:
                radius = 4.0 * radius
            promised = problem.relative(step.predicted, point.value)
            if ratio > ACCEPT:
                if np.linalg.norm(new.gradient) > REUSE_BELOW * np.linalg.norm(point.gradient):
                    precondition = None  # far from the optimum the curvature still changes
                point, product = new._replace(weights=problem.project(new.weights)), None
                if promised <= tol and ratio > GOOD and step.solved:
                    # The step gained what was predicted: what remains is less than that.
                    found = Certificate(point, promised, False)
                    return ended(found, "converged", f"a Newton step gained {promised:.1e} of the value, <= {tol:.1e}")
            elif in_the_noise:
                found = Certificate(point, promised, False)
                reason = f"relative gap about {promised:.1e}, at the limit of double precision"
                return ended(found, "converged", reason)
            elif radius < EPSILON * float(np.linalg.norm(point.weights)):
                return ended(here, "stalled", f"no step lowers the value; relative gap at most {bound:.1e}")


@dataclass(frozen=True, eq=False)
class _Truncated:
    move: Vector
    size: float  # in the norm of the preconditioner
    predicted: float  # decrease of the quadratic model
    at_boundary: bool
    solved: bool  # to the requested accuracy


def _truncated(
    problem: Penalised, at_point: tuple[Product, Product], gradient: Vector, radius: float, accuracy: float, most: int
) -> _Truncated:
    """Approximately minimise the quadratic model within the trust region (Steihaug 1983), preconditioned by M.

    The region is ||d||_M <= radius. M-inner products of the iterates follow by recurrence.
    """
    product, precondition = at_point
    move, r = np.zeros_like(gradient), -gradient
    norm = problem.measure.norm
    target = accuracy * norm(gradient)
    z = precondition(r)
    direction, rho = z.copy(), float(r @ z)
    move_move, move_direction, direction_direction = 0.0, 0.0, rho
    predicted, n_products, solved = 0.0, 0, False
    while n_products < most:
        image = product(direction)
        n_products += 1
        curvature = float(direction @ image)
        step = rho / curvature if curvature > 0 else np.inf
        beyond = move_move + 2 * step * move_direction + step**2 * direction_direction if np.isfinite(step) else np.inf
        if beyond >= radius**2:
            if not np.isfinite(radius):  # negative curvature in the first region: a gradient step sets its radius
                step = 1.0 / np.sqrt(direction_direction)
            else:
                root = np.sqrt(move_direction**2 + direction_direction * (radius**2 - move_move))
                step = (radius**2 - move_move) / (move_direction + root)
            move += step * direction
            predicted += step * rho - 0.5 * step**2 * curvature
            size = np.sqrt(move_move + 2 * step * move_direction + step**2 * direction_direction)
            return _Truncated(move, float(size), predicted, at_boundary=True, solved=False)
        move += step * direction
        predicted += 0.5 * step * rho
        move_move = beyond
        r -= step * image
        if norm(r) <= target:
            solved = True
            break
        z = precondition(r)
        rho, previous = float(r @ z), rho
        ratio = rho / previous
        move_direction = ratio * (move_direction + step * direction_direction)
        direction_direction = rho + ratio**2 * direction_direction
        direction = z + ratio * direction
    return _Truncated(move, float(np.sqrt(move_move)), predicted, at_boundary=False, solved=solved)
