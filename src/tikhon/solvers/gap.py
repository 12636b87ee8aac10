"""The distance of a fit from its optimum.

For a convex loss with strengths S and the gradient g of the penalised objective f,

    f(w) - f* <= 1/2 g' S^-1 g,

because f less 1/2 w' S w is convex. It is the Fenchel duality gap at the dual point given by the model's own expectations.
Unpenalised weights do not enter: the bound holds once f is minimised over them, since partial minimisation of a convex
function leaves it convex. If an intercept is not optimal, the bound over the other weights is useless.

If the loss is not convex, the same number is an estimate.
"""

from typing import NamedTuple

import numpy as np

from tikhon.objective import Vector
from tikhon.solvers.conjugate_gradient import solve
from tikhon.solvers.penalised import EPSILON, Penalised, Point

FREE_SHARE = 0.01  # of the bound: unpenalised weights that could gain no more than this count as optimal
# Newton steps on the unpenalised weights, the products and accuracy of their linear solves, and step halvings.
FREE_STEPS, FREE_PRODUCTS, FREE_ACCURACY, FREE_HALVINGS = 10, 20, 0.1, 8
ROUNDING = 1e-13  # residuals below are rounding error
SHARPENING_PRODUCTS = 25
UNSURE_PRODUCTS, UNSURE_MARGIN = 12, 2.0  # with unpenalised weights


class Certificate(NamedTuple):
    """A point with its relative gap, and whether that is a bound."""

    point: Point
    gap: float
    is_bound: bool


def reached(found: Certificate, tol: float) -> str:
    """The reason of a converged fit."""
    return f"relative gap {'at most' if found.is_bound else 'about'} {found.gap:.1e} <= {tol:.1e}"


def certified(problem: Penalised, point: Point, free_diagonal: Vector | None = None) -> Certificate:
    """The gap at this point, or at one whose unpenalised weights are closer to their optimum.

    ``free_diagonal`` approximates the diagonal of the Hessian of the unpenalised weights, for preconditioning; default: the
    diagonal at this point.
    """
    if not problem.has_unpenalised:
        return Certificate(point, problem.gap_bound(point), problem.objective.is_convex)
    if free_diagonal is None:
        free_diagonal = problem.diagonal(point.weights)[problem.unpenalised]
    point, is_minimised = _free_minimised(problem, point, free_diagonal)
    return Certificate(point, problem.gap_bound(point), is_minimised and problem.objective.is_convex)


def _free_minimised(problem: Penalised, point: Point, free_diagonal: Vector) -> tuple[Point, bool]:
    """Newton steps on the unpenalised weights alone until their possible gain is a small share of the bound."""
    free = problem.unpenalised

    def embedded(v: Vector) -> Vector:
        whole = np.zeros(len(free))
        whole[free] = v
        return whole

    for _ in range(FREE_STEPS):
        gradient = point.gradient[free]  # few entries of perhaps many: solved for on their own
        if problem.measure.residual(embedded(gradient)) <= ROUNDING:
            return point, True
        product = problem.hessian_at(point.weights)
        found = solve(
            lambda v, product=product: product(embedded(v))[free],  # type: ignore[misc]
            gradient,
            precondition=lambda v: v / free_diagonal,
            tol=FREE_ACCURACY,
            max_iter=FREE_PRODUCTS,
        )
        gain = problem.relative(0.5 * float(gradient @ found.solution), point.value)
        if found.converged and gain <= max(FREE_SHARE * problem.gap_bound(point), EPSILON):
            return point, True
        moved = _lower(problem, point, embedded(found.solution))
        if moved is None:
            return point, False
        point = moved
    return point, False


def _lower(problem: Penalised, point: Point, step: Vector) -> Point | None:
    """The first point with a lower value after a whole step, a half, a quarter ..., or None."""
    for halvings in range(FREE_HALVINGS):
        moved = problem.at(problem.project(point.weights - 0.5**halvings * step))
        if moved.value < point.value:
            return moved
    return None


def sharpened(problem: Penalised, point: Point, enough: float) -> float:
    """A sharper estimate of the relative gap than the bound, for strengths that are small compared with the curvature.

    1/2 g' (H + S)^-1 g, the gain of a Newton step, is estimated from above by conjugate gradients preconditioned by S:
    the smallest eigenvalue is then 1 or larger, and the Gauss-Radau rule with a node at 1 (Golub, Meurant 1994; in the
    recurrence of Meurant, Tichy 2013) bounds what further steps would add. Without a step it is the bound 1/2 g' S^-1 g.
    Stops when the estimate falls to ``enough`` or can no longer do so. With unpenalised weights the eigenvalue is not known:
    then the estimate is doubled, and used only after some products.
    """
    product = problem.hessian_at(point.weights)
    scale = problem.strength
    if problem.has_unpenalised:  # they have no strength to precondition with
        scale = scale.copy()
        scale[problem.unpenalised] = problem.diagonal(point.weights)[problem.unpenalised]
    r = point.gradient.copy()
    z = r / scale
    direction, rho = z.copy(), float(r @ z)
    gained, estimate, radau = 0.0, np.inf, 1.0
    margin, least_products = (UNSURE_MARGIN, UNSURE_PRODUCTS) if problem.has_unpenalised else (1.0, 0)
    for n_products in range(SHARPENING_PRODUCTS):
        estimate = margin * problem.relative(0.5 * (gained + radau * rho), point.value)
        if problem.relative(0.5 * gained, point.value) > enough or (
            estimate <= enough and n_products >= least_products
        ):
            break
        image = product(direction)
        curvature = float(direction @ image)
        if curvature <= 0.0:
            break
        step = rho / curvature
        gained += step * rho
        image *= step  # in place, as below: there may be many weights
        r -= image
        np.divide(r, scale, out=z)
        rho, previous = float(r @ z), rho
        ratio = rho / previous
        radau = (radau - step) / ((radau - step) + ratio) if radau > step else 0.0
        direction *= ratio
        direction += z
    return estimate
