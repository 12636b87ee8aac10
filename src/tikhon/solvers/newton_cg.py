"""Trust-region Newton with conjugate gradients, for many weights."""

from dataclasses import dataclass

import numpy as np

from tikhon.objective import Objective, Product, Vector
from tikhon.results import FitResult, FitStatus
from tikhon.solvers.penalised import EPSILON, Penalised, penalised

# How the trust region moves with the ratio of actual to predicted decrease (the usual constants; Lin, More 1999).
ACCEPT, POOR, GOOD = 1e-4, 0.25, 0.75

REUSE_BELOW = 0.2  # a step that cut the gradient this much leaves the preconditioner good enough for the next


@dataclass(frozen=True, kw_only=True)
class NewtonCG:
    """Steihaug's conjugate gradients inside a trust region, preconditioned as the objective offers.

    Each Newton system is solved only as well as the progress deserves: to a relative residual of
    min(0.1, sqrt(residual)), which keeps the convergence superlinear.
    """

    tol: float = 1e-8
    max_iter: int = 200
    max_products: int = 500  # Hessian products in one Newton system

    def minimise(
        self, objective: Objective, strength: Vector, start: Vector | None = None, *, tol: float | None = None
    ) -> FitResult:
        problem = penalised(objective, strength)
        tol = self.tol if tol is None else tol
        weights = problem.starting(start)
        loss, value, gradient = problem.value_gradient(weights)
        radius, n_products, n_iter = np.inf, 0, 0
        status: FitStatus = "max_iter"
        reason = ""
        product: Product | None = None
        precondition: Product | None = None
        while True:
            residual = problem.measure.residual(gradient)
            if residual <= tol:
                status, reason = "converged", f"residual {residual:.1e} <= {tol:.1e}"
                break
            if n_iter == self.max_iter:
                reason = f"the residual is still {residual:.1e} after {self.max_iter} iterations"
                break
            if product is None:
                product = objective.hessian_at(weights)
            if precondition is None:
                precondition = problem.preconditioner(weights)
            n_iter += 1
            # Not more accurate than the last digit that is asked for.
            accuracy = max(min(0.1, np.sqrt(residual)), 0.3 * tol / residual)
            step = _truncated(problem, (product, precondition), gradient, radius, accuracy, self.max_products)
            n_products += step.n_products
            new_loss, new_value, new_gradient = problem.value_gradient(weights + step.move)
            actual = value - new_value
            in_the_noise = step.predicted <= 1e3 * EPSILON * abs(value)
            if in_the_noise:
                better = np.linalg.norm(new_gradient) < np.linalg.norm(gradient)
                ratio = 1.0 if better else 0.0
            else:
                ratio = actual / step.predicted if np.isfinite(new_value) else -1.0
            if ratio < POOR:
                radius = 0.25 * min(radius, step.size)
            elif ratio > GOOD and step.at_boundary:
                radius = 4.0 * radius
            if ratio > ACCEPT:
                if np.linalg.norm(new_gradient) > REUSE_BELOW * np.linalg.norm(gradient):
                    precondition = None  # far from the end the curvature still changes
                weights, loss, value, gradient = problem.project(weights + step.move), new_loss, new_value, new_gradient
                product = None
            elif in_the_noise:
                status, reason = "converged", f"residual {residual:.1e}, at the limit of double precision"
                break
            elif radius < EPSILON * float(np.linalg.norm(weights)):
                status, reason = "stalled", f"no step lowers the value; residual {residual:.1e}"
                break
        return problem.result(weights, loss, value, gradient, n_iter, n_products, status, reason)


@dataclass(frozen=True, eq=False)
class _Truncated:
    move: Vector
    size: float  # in the norm of the preconditioner
    predicted: float  # decrease of the quadratic model
    n_products: int
    at_boundary: bool


def _truncated(
    problem: Penalised, at_point: tuple[Product, Product], gradient: Vector, radius: float, accuracy: float, most: int
) -> _Truncated:
    """Minimise the quadratic model within the trust region, roughly (Steihaug 1983), preconditioned by M.

    The region is ||d||_M <= radius. M-inner products of the iterates follow by recurrence.
    """
    product, precondition = at_point
    move, r = np.zeros_like(gradient), -gradient
    norm = problem.measure.norm
    target = accuracy * norm(gradient)
    z = precondition(r)
    direction, rho = z.copy(), float(r @ z)
    move_move, move_direction, direction_direction = 0.0, 0.0, rho
    predicted, n_products = 0.0, 0
    while n_products < most:
        image = problem.project(product(direction) + problem.strength * direction)
        n_products += 1
        curvature = float(direction @ image)
        step = rho / curvature if curvature > 0 else np.inf
        beyond = move_move + 2 * step * move_direction + step**2 * direction_direction if np.isfinite(step) else np.inf
        if beyond >= radius**2:
            if not np.isfinite(radius):  # negative curvature in the first region: a gradient step opens it
                step = 1.0 / np.sqrt(direction_direction)
            else:
                root = np.sqrt(move_direction**2 + direction_direction * (radius**2 - move_move))
                step = (radius**2 - move_move) / (move_direction + root)
            move += step * direction
            predicted += step * rho - 0.5 * step**2 * curvature
            size = np.sqrt(move_move + 2 * step * move_direction + step**2 * direction_direction)
            return _Truncated(move, float(size), predicted, n_products, True)
        move += step * direction
        predicted += 0.5 * step * rho
        move_move = beyond
        r -= step * image
        if norm(r) <= target:
            break
        z = precondition(r)
        rho, previous = float(r @ z), rho
        ratio = rho / previous
        move_direction = ratio * (move_direction + step * direction_direction)
        direction_direction = rho + ratio**2 * direction_direction
        direction = z + ratio * direction
    return _Truncated(move, float(np.sqrt(move_move)), predicted, n_products, False)
