"""What the tests of ``loo`` and ``evidence`` share: both descend a criterion of all data through the factorised Hessian."""

import contextlib
import warnings
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.optimize import minimize
from tests import problems

from tikhon.errors import TuningWarning
from tikhon.groups import weight_groups
from tikhon.models import LeastSquares
from tikhon.solvers import Newton, make_solver
from tikhon.solvers.penalised import damped, penalised
from tikhon.tuners import Problem
from tikhon.tuners.factored_criteria import FactoredCriterion

GROUPS = {"one": None, "given": ["a", "a", "b", "b", "c", -1], "separate": "separate"}


def judged(criterion):
    return lambda curvature: getattr(curvature, criterion)()


def evaluator(problem, criterion):
    return FactoredCriterion(problem, criterion, 1.0, "test")


def refitted(problem, criterion, theta):
    """The criterion at weights that another code path fits."""
    strength = problem.groups.expand(problem.groups.strengths(theta))
    weights = Newton(tol=1e-26, max_iter=200).minimise(problem.objective, strength).weights
    inner = penalised(problem.objective, strength)
    return judged(criterion)(damped(problem.objective.curvature_at, inner, weights)).value


def slope(function, step):
    """Fourth-order differences."""
    one, two = (function(k * step) - function(-k * step) for k in (1, 2))
    return (8 * one - two) / (12 * step)


def check_gradient(problem, criterion, rng, *, theta=None, tol=1e-5):
    """The implicit gradient at random strengths in random directions, against differences at refitted weights."""
    n_learned = int(problem.groups.learned.sum())
    theta = rng.normal(size=n_learned) if theta is None else theta
    found = evaluator(problem, criterion)(theta, 1e-12, None)
    at = refitted(problem, criterion, theta)
    assert abs(found.value - at) <= 1e-9 * abs(at), (found.value, at)
    size = np.linalg.norm(found.gradient)
    assert size > 1e-4 * abs(at)  # not at an optimum, where a wrong sign would also give 0
    for _ in range(2):
        v = rng.normal(size=n_learned)
        v /= np.linalg.norm(v)
        expected = slope(lambda t, v=v: refitted(problem, criterion, theta + t * v), 1e-3)
        assert abs(found.gradient @ v - expected) <= tol * size, (found.gradient @ v, expected)


def minimum(problem, criterion, bounds=(1e-4, 1e4)):
    """What scipy reaches on the same function."""
    evaluate = evaluator(problem, criterion)

    def outer(theta):
        found = evaluate(theta, 1e-9, None)
        return found.value, found.gradient

    n_learned = int(problem.groups.learned.sum())
    limits = [(np.log(bounds[0]), np.log(bounds[1]))] * n_learned
    options = {"ftol": 1e-14, "gtol": 1e-8, "maxiter": 1000}
    return minimize(outer, np.zeros(n_learned), jac=True, bounds=limits, method="L-BFGS-B", options=options)


def targets(rng, *, per_target, n=60, p=6):
    """Two targets, with strengths of their own or shared."""
    X, y = problems.data("least_squares", rng, n, p)
    whole = LeastSquares(X, np.column_stack([y, 0.3 * X[:, 4] + rng.normal(size=n)]))
    groups = weight_groups(
        ["a"] * 3 + ["b"] * 3, [f"x{i}" for i in range(p)], n_outputs=2, fit_intercept=True,
        outputs=["y0", "y1"] if per_target else None,
    )  # fmt: skip
    return Problem(
        objective=whole, groups=groups, solver=make_solver("auto", tol=1e-20, max_iter=100), total_weight=float(n)
    )


def wide(model, rng, *, sparse=False, n=30, p=80):
    """More weights than rows; the first column is unpenalised."""
    X, y = problems.data(model, rng, n, p)
    X = X / np.sqrt(p)
    whole = problems.objective(model, sp.csr_array(X) if sparse else X, y)
    labels = [-1] + ["a"] * 20 + ["b"] * (p - 21)
    groups = weight_groups(labels, [f"x{i}" for i in range(p)], n_outputs=problems.n_outputs(model), fit_intercept=True)
    return Problem(
        objective=whole, groups=groups, solver=make_solver("auto", tol=1e-20, max_iter=100), total_weight=float(n)
    )


@dataclass
class LossOnly:
    """A model of one's own with the least that a fit needs."""

    n_weights: int
    is_convex = True

    def loss_gradient(self, weights):
        return 0.5 * float((weights - 1.0) @ (weights - 1.0)), weights - 1.0

    def hessian_at(self, weights):
        return lambda v: v


@contextlib.contextmanager
def allowing_bounds():
    """Where data are random, a strength at its bound is news but no fault."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "the strength of .* bound", TuningWarning)
        warnings.filterwarnings("ignore", "the penalised weights shrank to almost zero", TuningWarning)
        yield
