"""L-BFGS, where gradients alone take fewer passes than Hessian products: rough fits of sparse data, large chains, RNA."""

from dataclasses import dataclass, replace

import numpy as np

from tikhon.objective import Objective, Product, Sketched, Vector
from tikhon.results import FitResult, FitStatus
from tikhon.solvers.descent import Descent
from tikhon.solvers.penalised import EPSILON, Penalised, penalised

PAIRS, FEW_PAIRS, MANY_WEIGHTS = 10, 4, 200_000
ROUGH = 0.3  # residual from which a sketch of the Hessian serves
FRESH = 8  # iterations that it serves for


@dataclass(frozen=True, kw_only=True)
class LBFGS:
    """Limited-memory quasi-Newton; its first guess of the Hessian is half-way between the diagonal and its largest entry.

    Half-way in logarithms: the diagonal at the start tells what the data say of each weight there, and of rare columns
    they say more further on. Beside the diagonal itself that halves the evaluations on tf-idf of 20 newsgroups.
    """

    tol: float = 1e-8
    max_iter: int = 5000
    memory: int | None = None  # None: 10 pairs of vectors, 4 where weights are many and each costs as much as a pass

    def minimise(
        self, objective: Objective, strength: Vector, start: Vector | None = None, *, tol: float | None = None
    ) -> FitResult:
        problem = penalised(objective, strength)
        tol = self.tol if tol is None else tol
        weights = problem.starting(start)
        if not isinstance(objective, Sketched):
            return self._descended(problem, weights, _metric(problem.diagonal(weights)), tol, self.max_iter)
        n_iter, status = 0, "max_iter"
        if start is None:  # far away the Hessian is another one
            rough = max(tol, ROUGH)
            fit = self._descended(problem, weights, _metric(problem.diagonal(weights)), rough, self.max_iter)
            n_iter, status, weights = fit.n_iter, fit.status if tol >= ROUGH else status, fit.weights
        while status == "max_iter" and n_iter < self.max_iter:
            most = min(FRESH, self.max_iter - n_iter)
            fit = self._descended(problem, weights, problem.preconditioner(weights), tol, most)
            n_iter, status, weights = n_iter + fit.n_iter, fit.status, fit.weights
        return replace(fit, n_iter=n_iter)

    def _descended(
        self, problem: Penalised, weights: Vector, metric: Vector | Product, tol: float, max_iter: int
    ) -> FitResult:
        memory = self.memory or (FEW_PAIRS if len(weights) >= MANY_WEIGHTS else PAIRS)
        descent = Descent(memory=memory, metric=metric, noise=16.0 * EPSILON)
        state = descent.start(weights)
        status: FitStatus = "max_iter"
        n_iter, n_flat, reason = 0, 0, ""
        while True:
            before = state.value
            _, value, gradient = problem.value_gradient(descent.ask(state))
            state = descent.tell(state, value, gradient)
            residual = problem.measure.residual(state.gradient)
            if residual <= tol:
                status, reason = "converged", f"residual {residual:.1e} <= {tol:.1e}"
                break
            # Where the value no longer falls in double precision, no line search can go on.
            n_flat = n_flat + 1 if abs(before - value) <= 4.0 * EPSILON * abs(value) else 0
            if state.stalled or n_flat >= 20:
                status, reason = "stalled", f"the value no longer falls; residual {residual:.1e}"
                break
            if n_iter >= max_iter:
                reason = f"the residual is still {residual:.1e} after {self.max_iter} iterations"
                break
            n_iter += 1
        weights = problem.project(state.x)  # the metric moves along flat directions
        loss, value, gradient = problem.value_gradient(weights)

        return problem.result(weights, loss, value, gradient, n_iter, 0, status, reason)


def _metric(diagonal: Vector) -> Vector:
    return np.asarray(np.sqrt(diagonal * diagonal.max(initial=0.0)))
