"""The ask-and-tell machine against scipy's L-BFGS-B, and its state through a file's worth of arrays."""

import numpy as np
import pytest
from scipy.optimize import minimize, rosen, rosen_der

from tikhon.solvers.descent import Descent, DescentState


def run(descent, function, start, n_steps=2000, tol=1e-8, through_arrays=False):
    state = descent.start(start)
    n = 0
    while n < n_steps:
        n += 1
        state = descent.tell(state, *function(descent.ask(state)))
        if through_arrays:
            state = DescentState.from_arrays({k: v.copy() for k, v in state.arrays().items()})
        if np.abs(descent.projected_gradient(state)).max() <= tol or state.stalled:
            break
    return state, n


def quadratic(rng, size):
    root = rng.normal(size=(size, size))
    matrix, linear = root @ root.T + 0.1 * np.eye(size), rng.normal(size=size)
    return lambda x: (0.5 * x @ matrix @ x - linear @ x, matrix @ x - linear)


@pytest.mark.parametrize("method", ["quasi-newton", "conjugate-gradient"])
def test_bounded_quadratic_equals_scipy(method, rng):
    function = quadratic(rng, 8)
    ours, _ = run(Descent(method=method, lower=-0.2, upper=0.3), function, np.zeros(8))
    theirs = minimize(function, np.zeros(8), jac=True, bounds=[(-0.2, 0.3)] * 8, method="L-BFGS-B",
                      options={"ftol": 1e-15, "gtol": 1e-10})  # fmt: skip
    assert ours.value == pytest.approx(theirs.fun, rel=1e-7)
    np.testing.assert_allclose(ours.x, theirs.x, atol=1e-4)
    assert ((ours.x >= -0.2) & (ours.x <= 0.3)).all()


def test_rosenbrock_is_solved_in_a_number_of_steps_like_scipys():
    start = np.array([-1.2, 1.0, -0.5, 0.8])
    ours, n = run(Descent(), lambda x: (rosen(x), rosen_der(x)), start)
    theirs = minimize(rosen, start, jac=rosen_der, method="L-BFGS-B", options={"gtol": 1e-8})
    np.testing.assert_allclose(ours.x, 1.0, atol=1e-6)
    assert n <= 3 * theirs.nfev


@pytest.mark.parametrize("scale", [1.0, 1e3])
def test_pairs_in_single_precision_lead_to_the_same_minimum(scale, rng):
    function = quadratic(rng, 30)
    metric = np.full(30, 1.0 / scale)
    start = rng.normal(size=30)
    (double, n_double), (single, n_single) = (
        run(Descent(metric=metric, single=single), function, start, tol=1e-6) for single in (False, True)
    )
    assert np.abs(single.gradient).max() <= 1e-6
    assert single.value == pytest.approx(double.value, rel=1e-12)
    assert n_single <= 1.5 * n_double
    assert all(pair.dtype == np.float32 for pair in (*single.moves, *single.changes))
    assert single.x.dtype == single.direction.dtype == np.float64


@pytest.mark.parametrize("method", ["quasi-newton", "conjugate-gradient"])
def test_a_state_saved_and_restored_goes_on_with_the_same_bits(method, rng):
    function = quadratic(rng, 5)
    plain, _ = run(Descent(method=method, lower=-0.5, upper=0.5), function, np.zeros(5))
    saved, _ = run(Descent(method=method, lower=-0.5, upper=0.5), function, np.zeros(5), through_arrays=True)
    np.testing.assert_array_equal(plain.x, saved.x)


def test_values_fall_and_moves_are_bounded(rng):
    function = quadratic(rng, 6)
    descent = Descent(first_move=0.1, largest_move=0.2)
    state = descent.start(np.zeros(6))
    before = np.inf
    for _ in range(60):
        point = descent.ask(state)
        assert np.abs(point - state.x).max() <= 0.2 + 1e-12
        state = descent.tell(state, *function(point))
        assert state.value <= before
        before = state.value


def test_an_evaluation_that_is_not_finite_shortens_the_step():
    def function(x):
        return (np.inf, np.zeros(1)) if x[0] > 1.0 else (float((x[0] - 0.9) ** 2), 2 * (x - 0.9))

    state, _ = run(Descent(), function, np.array([-5.0]))
    assert state.x[0] == pytest.approx(0.9, abs=1e-6)


@pytest.mark.parametrize("start", [-4.0, 5.0])
def test_in_one_dimension_a_cubic_through_values_and_slopes_leads(start):
    """A curve that falls steadily and then turns, as held-out losses do: a secant of the slopes alone overshoots."""

    def evaluate(x):
        return np.exp(0.7 * x[0]) + np.exp(-0.4 * x[0]), np.array(
            [0.7 * np.exp(0.7 * x[0]) - 0.4 * np.exp(-0.4 * x[0])]
        )

    least = np.log(4.0 / 7.0) / 1.1
    descent = Descent(first_move=2.0, largest_move=3.0, relative_second_derivative=0.03)
    state = descent.start(np.array([start]))
    for _ in range(12):
        state = descent.tell(state, *evaluate(descent.ask(state)))
    assert state.x[0] == pytest.approx(least, abs=1e-6)


def test_a_cubic_is_met_at_its_least_value_in_one_step():
    """With values and slopes at two points a cubic is known."""

    def evaluate(x):
        return x[0] ** 3 / 3 - x[0], x**2 - 1.0  # least at 1

    descent = Descent()
    state = descent.tell(descent.start(np.array([2.0])), *evaluate(np.array([2.0])))
    state = descent.tell(state, *evaluate(descent.ask(state)))
    while not state.accepted:
        state = descent.tell(state, *evaluate(descent.ask(state)))
    assert descent.ask(state)[0] == pytest.approx(1.0, abs=1e-9)
