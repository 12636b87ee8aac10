"""Leave-one-out of least squares in closed form: each form against refits, where digits are easily lost."""

import numpy as np
import pytest
from tests import naive
from tests.tuners.curved_cases import slope

from tikhon.models import LeastSquares
from tikhon.models.linear.left_out_squares import PrincipalAxes, centred_rows, left_out_by_kernel
from tikhon.objective import hints_of

SHAPES = [(30, 3), (30, 15), (30, 27), (30, 29), (30, 30), (30, 31), (20, 70)]


def made(rng, n, p, *, weighted=False):
    X = rng.normal(size=(n, p)) * np.exp(rng.normal(size=p)) + rng.normal(size=p)
    y = X @ rng.normal(size=p) + 0.01 * rng.normal(size=n) + 3.0
    return X, y, np.exp(rng.normal(size=n)) if weighted else np.ones(n)


def rows_of(X, y, a, fit_intercept, unpenalised=None):
    unpenalised = np.zeros(X.shape[1], bool) if unpenalised is None else unpenalised
    return centred_rows(X, y[:, None], a, unpenalised, intercept=fit_intercept)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("strength", [1e-6, 1e-2, 1e2])
def test_every_form_equals_refits(shape, fit_intercept, weighted, strength, rng):
    X, y, a = made(rng, *shape, weighted=weighted)
    rows = rows_of(X, y, a, fit_intercept)
    expected = naive.squares_left_out(X, y, np.full(shape[1], strength), fit_intercept, a)
    axes = PrincipalAxes(rows)
    for found in (axes.left_out(strength), left_out_by_kernel(rows, np.full(shape[1], strength))):
        assert found.value == pytest.approx(expected, rel=1e-8 if strength < 1e-4 else 1e-10)
        assert abs(found.value / expected - 1.0) <= max(100.0 * found.error, 1e-11)
        assert found.error < 1e-4  # it is an upper bound, in the worst case


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("accurate", [True, False])
@pytest.mark.parametrize("seed", [0])
def test_derivatives_agree_with_differences(shape, accurate, rng):
    X, y, a = made(rng, *shape, weighted=True)
    rows, theta = rows_of(X, y, a, True), rng.normal(size=shape[1])
    direction = rng.normal(size=shape[1])
    by_kernel = left_out_by_kernel(rows, np.exp(theta)).by_log_strength[:, 0] @ direction
    expected = slope(lambda t: left_out_by_kernel(rows, np.exp(theta + t * direction)).value, 1e-3)
    assert by_kernel == pytest.approx(expected, rel=1e-6)
    axes = PrincipalAxes(rows)
    axes._accurate = accurate
    expected = slope(lambda t: axes.left_out(np.exp(t)).value, 1e-3)
    assert axes.left_out(1.0).by_log_strength.sum() == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("shape", [(24, 40), (24, 10)])
@pytest.mark.parametrize("duplicates", [0, 4])
def test_unpenalised_columns_count_once_and_rows_may_repeat(shape, duplicates, rng):
    """Their combinations, and a column of ones besides the intercept, change nothing."""
    X, y, a = made(rng, *shape)
    if duplicates:
        X[-duplicates:] = X[:duplicates]
    free = rng.normal(size=(len(X), 2))
    once = np.hstack([free, X])
    thrice = np.hstack([free, (free @ [1.0, -2.0])[:, None], np.ones((len(X), 1)), X])
    found = []
    for columns in (once, thrice):
        unpenalised = np.arange(columns.shape[1]) < columns.shape[1] - X.shape[1]
        rows = rows_of(columns, y, a, True, unpenalised)
        found += [PrincipalAxes(rows).left_out(0.1).value, left_out_by_kernel(rows, np.full(X.shape[1], 0.1)).value]
    objective = LeastSquares(once, y)
    expected = naive.leave_one_out(objective, np.concatenate([[0.0, 0.0], np.full(X.shape[1], 0.1), [0.0]]))
    np.testing.assert_allclose(found, expected, rtol=1e-8)


def test_tall_rows_with_leverages_next_to_1(rng):
    """The Gram matrix would lose half of the digits."""
    X, y, a = made(rng, 80, 5)
    X[3] *= 1e5
    X[:, 4] = X[:, 3] + 1e-5 * rng.normal(size=80)
    objective = LeastSquares(X, y)
    assert hints_of(objective).closed_leave_one_out is not None
    strength = np.array([1e-3, 1e-3, 1e-3, 1e-2, 1e-2, 0.0])
    found = objective.closed_leave_one_out(strength == 0.0, common=False)(strength)
    assert found.value == pytest.approx(naive.squares_left_out(X, y, strength[:5], True, a), rel=1e-8)


@pytest.mark.parametrize("common", [True, False])
@pytest.mark.parametrize("shape", [(20, 30), (60, 6)])
def test_targets_add_up(common, shape, rng):
    X, y, a = made(rng, *shape, weighted=True)
    Y = np.column_stack([y, y[::-1]])
    one = LeastSquares(X, Y, row_weights=a)
    strength = np.full(one.n_weights, 0.3)
    if not common:
        strength[: shape[1]] = 2.0
    strength[-2:] = 0.0
    found = one.closed_leave_one_out(strength == 0.0, common=common)(strength)
    expected = sum(
        naive.squares_left_out(X, Y[:, t], strength[t * shape[1] : (t + 1) * shape[1]], True, a) for t in range(2)
    )
    assert found.value == pytest.approx(expected, rel=1e-9)
    assert found.by_strength.shape == strength.shape
