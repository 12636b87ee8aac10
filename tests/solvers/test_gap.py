"""The bound of the gap against optima that are known, at random points."""

import numpy as np
import pytest
from tests import problems

from tikhon.models import LeastSquares, Logistic, NoiseIntegrated
from tikhon.solvers import LBFGS, Newton, NewtonCG
from tikhon.solvers.gap import certified, sharpened
from tikhon.solvers.penalised import penalised

SOLVERS = {"newton": Newton, "newton-cg": NewtonCG, "lbfgs": LBFGS}


@pytest.fixture(params=problems.MODELS)
def inner(request, rng):
    """A penalised problem with unpenalised intercepts, and its optimum by Newton's method."""
    X, y = problems.data(request.param, rng)
    objective = problems.objective(request.param, X + rng.normal(size=X.shape[1]), y)
    strength = np.exp(rng.normal(size=objective.n_weights))
    strength[-problems.n_outputs(request.param) :] = 0.0
    return penalised(objective, strength), Newton(tol=1e-26).minimise(objective, strength)


def relative_gap(point, optimum):
    return (point.value - optimum.value) / point.value


@pytest.mark.parametrize("distance", [1e-3, 0.1, 2.0])
def test_the_gap_is_never_above_its_bound(inner, distance, rng):
    problem, optimum = inner
    for _ in range(5):
        weights = problem.project(optimum.weights + distance * rng.normal(size=len(optimum.weights)))
        found = certified(problem, problem.at(weights))
        assert found.is_bound
        assert relative_gap(found.point, optimum) <= found.gap * (1.0 + 1e-6)


def test_with_an_intercept_that_is_off_the_rest_bounds_nothing(inner, rng):
    """The penalised weights where their gradient is 0: their bound is 0, the gap is not, and the certificate tells."""
    problem, optimum = inner
    shifted = optimum.weights + problem.project(
        np.where(problem.unpenalised, rng.normal(size=len(optimum.weights)), 0.0)
    )
    if not np.abs(shifted - optimum.weights).max() > 0.1:
        pytest.skip("the shift is along a flat direction")
    held = np.where(problem.unpenalised, 1e12, 0.0)  # holds the intercepts where they are
    pinned = _pinned(problem, shifted, held)
    naive = problem.gap_bound(pinned)
    true = relative_gap(pinned, optimum)
    assert naive < 0.1 * true
    found = certified(problem, pinned)
    assert found.is_bound
    assert relative_gap(found.point, optimum) <= found.gap * (1.0 + 1e-6)
    assert found.point.value < pinned.value


def _pinned(problem, weights, held):
    """Newton steps of the penalised weights alone."""
    free = ~problem.unpenalised
    for _ in range(30):
        point = problem.at(weights)
        product = problem.hessian_at(weights)
        hessian = np.array([product(row) for row in np.eye(len(weights))])
        step = np.zeros_like(weights)
        step[free] = np.linalg.solve(hessian[np.ix_(free, free)], point.gradient[free])
        size = 1.0
        while problem.at(weights - size * step).value > point.value + 1e-12 and size > 1e-6:
            size *= 0.5
        weights = weights - size * step
    return problem.at(weights)


def test_a_closer_look_lies_between_the_gain_of_a_newton_step_and_the_bound(rng):
    X, y = problems.data("logistic", rng)
    objective = Logistic(X, y, fit_intercept=False)
    strength = np.exp(rng.normal(size=6) - 3.0)  # small beside the curvature: the bound is loose
    problem = penalised(objective, strength)
    for _ in range(10):
        point = problem.at(rng.normal(size=6))
        product = problem.hessian_at(point.weights)
        hessian = np.array([product(row) for row in np.eye(6)])
        gain = problem.relative(0.5 * point.gradient @ np.linalg.solve(hessian, point.gradient), point.value)
        bound = problem.gap_bound(point)
        assert bound > gain
        assert sharpened(problem, point, enough=1.001 * bound) == pytest.approx(bound)  # no product is needed for that
        closer = sharpened(problem, point, enough=1.1 * gain)
        assert gain * (1.0 - 1e-9) <= closer <= 1.1 * gain


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("tol", [1e-2, 1e-4, 1e-8])
def test_a_fit_ends_within_the_gap_that_is_asked_for(inner, solver, tol):
    problem, optimum = inner
    fit = SOLVERS[solver]().minimise(problem.objective, problem.strength, tol=tol)
    assert fit.status == "converged"
    assert fit.relative_gap <= tol
    assert (fit.value - optimum.value) / fit.value <= (fit.relative_gap if fit.gap_is_bound else 2.0 * tol) + 1e-14
    assert fit.n_passes >= 1


@pytest.mark.parametrize("solver", SOLVERS)
def test_weak_strengths_end_a_fit_by_a_closer_look(solver, rng):
    """The bound is a million times the gap, and the reason says what ended the fit."""
    X, y = problems.data("logistic", rng, n=300)
    flipped = np.where(rng.random(300) < 0.2, 1.0 - y, y)
    objective = Logistic(X, flipped, fit_intercept=False)
    strength = np.full(6, 1e-9)
    fit = SOLVERS[solver]().minimise(objective, strength, tol=1e-6)
    least = Newton(tol=1e-26).minimise(objective, strength).value
    assert fit.status == "converged"
    assert fit.n_iter < 100
    assert (fit.value - least) / least <= 1e-6
    if not fit.gap_is_bound:
        assert "about" in fit.reason or "estimated" in fit.reason or "gained" in fit.reason


@pytest.mark.parametrize("solver", ["newton-cg", "lbfgs"])
def test_where_the_loss_is_not_convex_the_gap_is_an_estimate(solver, rng):
    X, y = problems.data("least_squares", rng)
    objective = NoiseIntegrated(LeastSquares(X, y))
    fit = SOLVERS[solver]().minimise(objective, np.append(np.full(6, 0.5), 0.0), tol=1e-8)
    assert fit.status == "converged"
    assert not fit.gap_is_bound


def test_a_loss_next_to_nothing_is_measured_by_the_baseline(rng):
    """Targets that a line explains all but exactly: relative to the loss itself, rounding would never be small."""
    X = rng.normal(size=(40, 3))
    objective = LeastSquares(X, X @ [1.0, 2.0, 3.0] + 1e-12 * rng.normal(size=40))
    fit = LBFGS().minimise(objective, np.append(np.full(3, 1e-12), 0.0), tol=1e-8)
    assert fit.status == "converged"
    assert fit.value < 1e-6 * objective.loss_gradient(objective.baseline_weights())[0]
