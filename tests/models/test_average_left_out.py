"""Generalised cross-validation of least squares against its formula, and its place beside leave-one-out."""

import numpy as np
import pytest

from tikhon import Ridge
from tikhon.models import LeastSquares


def made(rng, n_targets, *, alike, n=60, p=7):
    X = rng.normal(size=(n, p))
    Y = X @ rng.normal(size=(p, n_targets)) + rng.normal(size=(n, n_targets))
    row_weights = 0.5 + rng.random(n)
    strength = np.append(0.1 + 5.0 * rng.random((n_targets, p)), np.zeros((n_targets, 1)), axis=1)
    if alike:
        strength[:] = strength[0]
    flat = np.concatenate([strength[:, :p].ravel(), strength[:, p:].ravel()])
    return X, Y, row_weights, strength, flat


@pytest.mark.parametrize("alike", [True, False])
@pytest.mark.parametrize("n_targets", [1, 2])
def test_it_is_the_formula(n_targets, alike, rng):
    X, Y, a, strength, flat = made(rng, n_targets, alike=alike)
    Z = np.column_stack([X, np.ones(len(X))])
    expected = 0.0
    for y, own in zip(Y.T, strength, strict=True):
        hat = Z @ np.linalg.solve((Z.T * a) @ Z + np.diag(own), Z.T * a)
        expected += 0.5 * a @ np.square(y - hat @ y) / (1.0 - np.trace(hat) / a.sum()) ** 2
    found = LeastSquares(X, Y, row_weights=a).average_left_out(flat)
    assert found.value == pytest.approx(expected, rel=1e-12)
    assert found.by_row.sum() == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("alike", [True, False])
@pytest.mark.parametrize("n_targets", [1, 2])
def test_derivatives_agree_with_differences(n_targets, alike, rng):
    X, Y, a, _, strength = made(rng, n_targets, alike=alike)
    objective = LeastSquares(X, Y, row_weights=a)
    direction = np.where(strength > 0.0, rng.normal(size=len(strength)), 0.0)
    ahead, behind = (objective.average_left_out(strength + step * direction).value for step in (1e-5, -1e-5))
    found = objective.average_left_out(strength).by_strength @ direction
    assert found == pytest.approx((ahead - behind) / 2e-5, rel=1e-6)


def test_few_rows_have_none(rng):
    X, Y, a, _, strength = made(rng, 1, alike=True, n=8)
    assert LeastSquares(X, Y, row_weights=a).average_left_out(strength) is None


def test_a_tuning_begins_so_close_that_few_leave_one_out_losses_are_computed(rng):
    """Ten groups of ever smaller weights: the two stages take a step each, or hardly more."""
    groups = np.repeat(np.arange(10), 6)
    X = rng.normal(size=(900, 60))
    y = X @ (0.6**groups * rng.normal(size=60)) + rng.normal(size=900)
    tuning = Ridge(groups=groups).fit(X, y).tuning_
    assert tuning.status == "converged"
    assert len(tuning.trace) <= 5
