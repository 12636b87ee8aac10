"""The gradient of held-out loss in the log strengths (Do, Foo, Ng 2008, Algorithm 1)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tikhon.objective import Factorable, Objective, Pair, Product, Vector, hints_of, release
from tikhon.solvers import HESSIANS, HessianMethod, prefers_factors
from tikhon.solvers.conjugate_gradient import solve
from tikhon.solvers.penalised import Penalised, euclidean, penalised
from tikhon.tuners.base import Problem
from tikhon.tuners.outer_loop import Evaluation, WarmStart
from tikhon.tuners.workers import Mapper

# The relative gap of a fit in units of the squared accuracy of the linear solve: the error of the weights, whose square the
# gap is, also enters through the curvature. Newton steps with a factor are precise anyway.
FIT_GAP, CHEAP_FIT_GAP = 0.3, 1e-7
MOST_PRODUCTS = 2000
LEAST_GAP = 1e-22  # below is rounding error


@dataclass(frozen=True, eq=False)
class _OnePair:
    loss: float
    correction: float
    per_group: Vector
    fit_residual: float
    solve_residual: float
    poor: str
    n_iter: int
    n_passes: int
    n_products: int
    weights: Vector
    adjoint: Vector


def hypergradient(
    problem: Problem,
    theta: Vector,
    *,
    accuracy: float = 1e-8,
    enough: float = 0.0,
    hessian: HessianMethod = "analytic",
    warm: WarmStart | None = None,
    mapper: Mapper | None = None,
) -> Evaluation:
    """L(theta) = sum over pairs of the held-out loss at w*(theta), per unit of held-out weight, and dL/dtheta.

    dL/dtheta_g = -exp(theta_g) sum_{j in g} w_j x_j where (hess train + diag s) x = grad holdout, equations (10) and
    (11): **one** linear solve per pair, whatever the number of groups. The value is corrected by x'r, where r is the
    remaining training gradient: the first-order effect of stopping a fit early. Fits and linear solves have the accuracy
    ``accuracy``, but linear solves are never more accurate than ``enough``.
    """
    groups, pairs = problem.groups, problem.pairs
    strengths = groups.strengths(theta)
    strength = groups.expand(strengths)

    starts = list(warm.weights) if warm is not None and warm.weights else [None] * len(pairs)

    def evaluate(k: int) -> _OnePair:
        adjoint = warm.adjoints[k] if warm is not None and warm.adjoints else None
        return _one_pair(problem, pairs[k], strength, accuracy, max(accuracy, enough), hessian, starts[k], adjoint)

    mapper = mapper or _in_turn
    parts: list[_OnePair] = []
    if all(
        start is starts[0] for start in starts
    ):  # training parts share most rows, so one fit is a good start for the others
        parts.append(evaluate(0))
        starts = [parts[0].weights] * len(pairs)
    parts += mapper(evaluate, range(len(parts), len(pairs)))
    total = sum(pair.holdout_weight for pair in pairs)
    per_group = np.sum([part.per_group for part in parts], axis=0)
    poor = "; ".join(f"split {k + 1}: {part.poor}" for k, part in enumerate(parts) if part.poor)
    return Evaluation(
        value=sum(part.loss - part.correction for part in parts) / total,
        gradient=-(strengths * per_group)[groups.learned] / total,
        error=sum(abs(part.correction) for part in parts) / total,
        residual=max(max(part.fit_residual, part.solve_residual) for part in parts),
        poor=poor,
        n_fits=len(parts),
        n_iter=sum(part.n_iter for part in parts),
        n_passes=sum(part.n_passes for part in parts),
        n_products=sum(part.n_products for part in parts),
        warm=WarmStart(tuple(part.weights for part in parts), tuple(part.adjoint for part in parts), theta),
        row_losses=lambda: held_out_losses(pairs, [part.weights for part in parts]),
    )


def held_out_losses(pairs: Sequence[Pair], weights: Sequence[Vector]) -> Vector | None:
    """The loss of every held-out row at the weights of its pair; None if the model does not provide it."""
    losses = []
    for pair, own in zip(pairs, weights, strict=True):
        by_row = hints_of(pair.holdout).row_losses
        if by_row is None:
            return None
        losses.append(by_row(own))
    return np.concatenate(losses)


def _in_turn(function: object, items: Sequence[int]) -> list[_OnePair]:
    return [function(item) for item in items]  # type: ignore[operator]


def _one_pair(
    problem: Problem, pair: Pair, strength: Vector, accuracy: float, solve_accuracy: float, hessian: HessianMethod,
    start: Vector | None, adjoint_start: Vector | None,
) -> _OnePair:  # fmt: skip
    release(pair.holdout)
    fit_tol = max((CHEAP_FIT_GAP if prefers_factors(pair.train) else FIT_GAP) * accuracy**2, LEAST_GAP)
    fit = problem.solver.minimise(pair.train, strength, start, tol=fit_tol)
    inner = penalised(pair.train, strength)
    loss, right = pair.holdout.loss_gradient(fit.weights)
    right = inner.project(right)
    adjoint, residual, n_products, solved = _adjoint(inner, fit.weights, right, solve_accuracy, hessian, adjoint_start)
    left_over = inner.value_gradient(fit.weights)[2]
    poor = ""
    if fit.status != "converged" and fit.relative_gap > 10.0 * fit_tol:
        poor = f"fit: {fit.reason}"
    elif not solved:
        poor = f"linear solve stopped at residual {residual:.1e}, {solve_accuracy:.1e} requested"
    return _OnePair(
        float(loss), float(adjoint @ left_over), problem.groups.collect(fit.weights * adjoint), fit.residual, residual,
        poor, fit.n_iter, fit.n_passes + 1, fit.n_products + n_products, fit.weights, adjoint,
    )  # fmt: skip


def _adjoint(
    inner: Penalised, weights: Vector, right: Vector, accuracy: float, hessian: HessianMethod, start: Vector | None
) -> tuple[Vector, float, int, bool]:
    """x with (H + diag s) x = right: the solution, its relative residual, products used, and whether it converged."""
    product = HESSIANS[hessian](inner.objective, weights)

    def penalised_product(v: Vector) -> Vector:
        return inner.project(product(v)) + inner.strength * v

    if hessian == "analytic" and prefers_factors(inner.objective):
        direct = _by_factor(inner.objective, inner, weights, right, penalised_product)
        if direct is not None and direct[1] <= 10.0 * accuracy:
            return *direct, 1, True
    found = solve(
        penalised_product, right, precondition=inner.preconditioner(weights), tol=accuracy, max_iter=MOST_PRODUCTS,
        start=start, norm=inner.measure.norm,
    )  # fmt: skip
    return found.solution, found.residual, found.n_products, found.converged


def _by_factor(
    objective: Objective, inner: Penalised, weights: Vector, right: Vector, product: Product
) -> tuple[Vector, float] | None:
    """Solve directly, with one step of iterative refinement; None if the matrix is not positive definite."""
    assert isinstance(objective, Factorable)
    try:
        inverse = objective.factorise(weights, inner.lifted())
    except np.linalg.LinAlgError:
        return None
    solution = inner.project(inverse(right))
    norm = euclidean(right) or 1.0
    left = right - product(solution)
    if euclidean(left) > 1e-12 * norm:
        solution = solution + inner.project(inverse(left))
        left = right - product(solution)
    return solution, euclidean(left) / norm
