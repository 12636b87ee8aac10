"""Least squares in its principal axes: against refits, and against the same data as they are."""

import numpy as np
import pytest
import scipy.sparse as sp
from tests import naive

from tikhon import Ridge
from tikhon.models import LeastSquares
from tikhon.objective import hints_of


def made(rng, *, n=60, p=6, targets=1, fit_intercept=True, collinear=False):
    X = rng.normal(size=(n, p)) * rng.uniform(0.2, 3.0, p) + rng.normal(size=p)
    if collinear:
        X[:, -1] = X[:, 0] - 2.0 * X[:, 1]
    Y = X[:, :3] @ rng.normal(size=(3, targets)) + rng.normal(size=(n, targets)) + 4.0
    a = rng.uniform(0.0, 2.0, n)
    a[:3] = 0.0
    return LeastSquares(X, Y, fit_intercept=fit_intercept, row_weights=a)


def one_strength(objective, value):
    strength = np.full(objective.n_weights, value)
    if objective.fit_intercept:
        strength[-objective.n_targets :] = 0.0
    return strength


def at_the_fit(objective, strength):
    weights = naive.fitted(objective, strength)
    return weights, objective.curvature_at(weights, strength)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("targets", [1, 3])
@pytest.mark.parametrize("collinear", [True, False])
@pytest.mark.parametrize("value", [1e-3, 2.0, 1e4])
def test_both_criteria_are_those_of_the_data_as_they_are(fit_intercept, targets, collinear, value, rng):
    objective = made(rng, targets=targets, fit_intercept=fit_intercept, collinear=collinear)
    strength = one_strength(objective, value)
    rotated = objective.rotated(strength == 0.0)
    weights, curvature = at_the_fit(objective, strength)
    moved, changed = at_the_fit(rotated, strength)
    np.testing.assert_allclose(moved @ (strength * moved), weights @ (strength * weights), rtol=1e-8)
    np.testing.assert_allclose(rotated.loss_gradient(moved)[0], objective.loss_gradient(weights)[0], rtol=1e-10)
    np.testing.assert_allclose(
        changed.inverse_diagonal() @ strength, curvature.inverse_diagonal() @ strength, rtol=1e-8
    )
    np.testing.assert_allclose(changed.noise_precision()[0], curvature.noise_precision()[0], rtol=1e-10)
    for criterion in ("leave_one_out", "evidence"):
        expected, found = getattr(curvature, criterion)(), getattr(changed, criterion)()
        np.testing.assert_allclose(found.value, expected.value, rtol=1e-9)
        by_strength = [c.by_strength @ (strength > 0.0) for c in (found, expected)]
        np.testing.assert_allclose(*by_strength, rtol=1e-6, atol=1e-9 * abs(expected.value) / value)
        along = [c.by_weights @ k.solve(c.by_weights) for c, k in ((found, changed), (expected, curvature))]
        np.testing.assert_allclose(*along, rtol=1e-6, atol=1e-9 * abs(expected.value))


def test_leave_one_out_equals_refits(rng):
    objective = made(rng)
    strength = one_strength(objective, 0.7)
    rotated = objective.rotated(strength == 0.0)
    found = at_the_fit(rotated, strength)[1].leave_one_out().value
    assert found == pytest.approx(naive.leave_one_out(objective, strength), rel=1e-8)


@pytest.mark.parametrize("targets", [1, 2])
@pytest.mark.parametrize("tuner", ["auto", "loo", "evidence"])
def test_one_group_finds_the_same_in_any_axes(targets, tuner, rng):
    objective = made(rng, n=150, p=8, targets=targets)
    y = objective.y[:, 0] if targets == 1 else objective.y
    dense, sparse = (Ridge(tuner=tuner).fit(X, y) for X in (objective.X, sp.csr_array(objective.X)))  # not rotated
    assert dense.strengths_ == pytest.approx(sparse.strengths_, rel=1e-6)
    assert dense.tuning_.criterion == pytest.approx(sparse.tuning_.criterion, rel=1e-9)
    np.testing.assert_allclose(dense.coef_, sparse.coef_, rtol=1e-6, atol=1e-9)


def test_it_declines_what_a_rotation_would_mix_and_what_does_not_pay(rng):
    objective = made(rng)
    assert hints_of(objective).rotated is not None
    assert hints_of(objective.rotated(np.arange(7) == 6)).noise_is_unknown
    assert objective.rotated(np.arange(7) >= 5) is None  # an unpenalised column
    nothing = np.zeros(7, bool)
    assert LeastSquares(sp.csr_array(objective.X), objective.y).rotated(nothing) is None
    assert LeastSquares(objective.X[:5], objective.y[:5]).rotated(nothing) is None
