"""Preconditioned conjugate gradients: the linear solves of Newton steps and of implicit gradients."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tikhon.objective import Product, Vector

MEANINGLESS = 1e-30  # relative residuals below this are rounding, and further steps overflow


@dataclass(frozen=True, eq=False)
class LinearSolve:
    """x with A x ~ b, the relative residual ||A x - b|| / ||b||, and whether it converged."""

    solution: Vector
    residual: float
    n_products: int
    converged: bool


def _norm(v: Vector) -> float:
    return float(np.linalg.norm(v))


def solve(
    product: Product, right: Vector, *, precondition: Product, tol: float, max_iter: int, start: Vector | None = None,
    norm: Callable[[Vector], float] = _norm,
) -> LinearSolve:  # fmt: skip
    """Solve A x = b for symmetric positive definite A, given as v -> A v, from a warm start.

    Stops when the residual of the recurrence is below ``tol * ||b||``; the reported residual is recomputed, so it is
    reliable. Negative curvature ends the iteration, which then has not converged.
    """
    size = norm(right)
    if size == 0.0:
        return LinearSolve(np.zeros_like(right), 0.0, 0, True)
    x = np.zeros_like(right) if start is None else start.copy()
    r = right.copy() if start is None else right - product(x)
    n_products = 0 if start is None else 1
    z = precondition(r)
    direction, rho, negative = z.copy(), float(r @ z), False
    while n_products < max_iter and norm(r) > max(tol, MEANINGLESS) * size:
        image = product(direction)
        n_products += 1
        curvature = float(direction @ image)
        if curvature <= 0.0:
            negative = True
            break
        step = rho / curvature
        x += step * direction
        r -= step * image
        z = precondition(r)
        rho, previous = float(r @ z), rho
        direction = z + (rho / previous) * direction
    residual = norm(right - product(x) if n_products else r) / size
    return LinearSolve(x, residual, n_products + 1, residual <= 10.0 * tol and not negative)
