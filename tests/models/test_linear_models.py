"""The three linear models against loops, in every storage, and through the conformance suite."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import naive, problems

from tikhon.models import LeastSquares, Logistic, NoiseIntegrated, Softmax
from tikhon.solvers.hessian import HESSIANS
from tikhon.testing import check_objective

STORAGE = {
    "C": np.ascontiguousarray,
    "F": np.asfortranarray,
    "csr": sp.csr_array,
}


def naive_loss(model, X, y, weights, fit_intercept, row_weights):
    if model == "logistic":
        return naive.logistic_loss(X, y, weights, fit_intercept, row_weights)
    if model == "softmax":
        return naive.softmax_loss(X, y, problems.N_CLASSES, weights, fit_intercept, row_weights)
    return naive.squared_loss(X, y.reshape(len(y), -1), weights, fit_intercept, row_weights)


@pytest.mark.parametrize("model", problems.MODELS)
@pytest.mark.parametrize("storage", STORAGE)
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_loss_equals_loops(model, storage, fit_intercept, rng):
    X, y = problems.data(model, rng, n=20)
    X[rng.random(X.shape) < 0.4] = 0.0
    row_weights = rng.uniform(0.0, 2.0, len(y))
    objective = problems.objective(model, STORAGE[storage](X), y, fit_intercept=fit_intercept, row_weights=row_weights)
    weights = rng.normal(size=objective.n_weights)
    expected = naive_loss(model, X, y, weights, fit_intercept, row_weights)
    assert objective.loss_gradient(weights)[0] == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("model", problems.MODELS)
@pytest.mark.parametrize("storage", STORAGE)
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_conformance(model, storage, fit_intercept, rng):
    X, y = problems.data(model, rng)
    row_weights = rng.uniform(0.0, 2.0, len(y))
    check_objective(
        problems.objective(model, STORAGE[storage](X), y, fit_intercept=fit_intercept, row_weights=row_weights), rng
    )


def test_conformance_of_many_targets_and_of_integrated_noise(rng):
    X, y = problems.data("least_squares", rng)
    many = LeastSquares(X, np.column_stack([y, rng.normal(size=len(y))]))
    check_objective(many, rng)
    check_objective(NoiseIntegrated(many), rng)
    check_objective(NoiseIntegrated(LeastSquares(sp.csr_array(X), y), floor=0.1), rng)


@pytest.mark.parametrize("model", problems.MODELS)
@pytest.mark.parametrize("storage", STORAGE)
def test_diagonal_and_matrix_equal_products(model, storage, rng):
    X, y = problems.data(model, rng)
    objective = problems.objective(model, STORAGE[storage](X), y)
    weights = rng.normal(size=objective.n_weights)
    dense = naive.dense_hessian(objective, weights)
    np.testing.assert_allclose(objective.hessian_diagonal(weights), np.diag(dense), rtol=1e-10)
    strength = rng.uniform(0.1, 2.0, objective.n_weights)
    v = rng.normal(size=objective.n_weights)
    solved = objective.factorise(weights, strength)(v)
    np.testing.assert_allclose(solved, np.linalg.solve(dense + np.diag(strength), v), rtol=1e-8, atol=1e-10)


def test_strengths_that_differ_by_target_are_factorised_apart(rng):
    X, y = problems.data("least_squares", rng)
    objective = LeastSquares(X, np.column_stack([y, -y, y**2]))
    weights, v = np.zeros(objective.n_weights), rng.normal(size=objective.n_weights)
    strength = rng.uniform(0.1, 2.0, objective.n_weights)
    dense = naive.dense_hessian(objective, weights) + np.diag(strength)
    np.testing.assert_allclose(objective.factorise(weights, strength)(v), np.linalg.solve(dense, v), rtol=1e-9)


@pytest.mark.parametrize("model", problems.MODELS)
def test_three_ways_to_a_hessian_product_agree(model, rng):
    X, y = problems.data(model, rng)
    for objective in (problems.objective(model, X, y), problems.objective(model, sp.csr_array(X), y)):
        weights, v = rng.normal(size=objective.n_weights), rng.normal(size=objective.n_weights)
        analytic, finite, complex_step = (HESSIANS[m](objective, weights)(v) for m in ("analytic", "finite", "complex"))
        np.testing.assert_allclose(complex_step, analytic, rtol=1e-11, atol=1e-11)  # nothing cancels
        np.testing.assert_allclose(finite, analytic, rtol=1e-6, atol=1e-6 * np.abs(analytic).max())  # about eps^(2/3)


@pytest.mark.parametrize("model", ["logistic", "softmax"])
@pytest.mark.parametrize("size", [700.0, 1e5])
def test_extreme_weights_stay_finite(model, size, rng):
    X, y = problems.data(model, rng)
    objective = problems.objective(model, X, y)
    weights = size * np.sign(rng.normal(size=objective.n_weights))
    loss, gradient = objective.loss_gradient(weights)
    assert np.isfinite(loss)
    assert loss > 0
    assert np.isfinite(gradient).all()
    assert np.isfinite(objective.hessian_at(weights)(weights)).all()


@pytest.mark.parametrize("model", problems.MODELS)
@pytest.mark.parametrize("sparse", [False, True])
def test_weight_zero_is_a_row_left_out_and_weight_two_a_row_repeated(model, sparse, rng):
    X, y = problems.data(model, rng)
    counts = rng.integers(0, 3, len(y))
    store = sp.csr_array if sparse else np.asarray
    weighted = problems.objective(model, store(X), y).reweighted(counts.astype(float))
    repeated = problems.objective(model, store(np.repeat(X, counts, axis=0)), np.repeat(y, counts))
    weights = rng.normal(size=weighted.n_weights)
    for ours, theirs in zip(weighted.loss_gradient(weights), repeated.loss_gradient(weights), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-11, atol=1e-11)


@given(st.integers(0, 2**32 - 1), st.floats(-30, 30))
@settings(max_examples=30, deadline=None)
def test_softmax_does_not_see_a_common_shift(seed, shift):
    rng = np.random.default_rng(seed)
    X, y = problems.data("softmax", rng, n=15, p=4)
    objective = Softmax(X, y, n_classes=3)
    weights = rng.normal(size=objective.n_weights)
    moved = weights + np.concatenate([np.tile(rng.normal(size=4), 3), np.full(3, shift)])
    assert objective.loss_gradient(moved)[0] == pytest.approx(objective.loss_gradient(weights)[0], rel=1e-9)


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=30, deadline=None)
def test_logistic_is_softmax_with_two_classes(seed):
    rng = np.random.default_rng(seed)
    X, y = problems.data("logistic", rng, n=15, p=4)
    weights = rng.normal(size=5)
    two = np.concatenate([np.zeros(4), weights[:4], [0.0, weights[4]]])
    assert Softmax(X, y.astype(np.intp), n_classes=2).loss_gradient(two)[0] == pytest.approx(
        Logistic(X, y).loss_gradient(weights)[0], rel=1e-10
    )


@pytest.mark.parametrize("sparse", [False, True])
def test_flat_directions_are_those_that_leave_the_loss(sparse, rng):
    X, y = problems.data("softmax", rng)
    X = np.column_stack([X, np.ones(len(X)), X[:, 0]])  # a constant column and a repeated one
    objective = Softmax(sp.csr_array(X) if sparse else X, y, n_classes=3)
    flat = objective.flat_directions(np.ones(objective.n_weights, bool))
    # Per class: constant = intercept, first = last column; and over classes a common shift of each of the 7 others.
    assert flat.shape[1] == 2 * 3 + 7
    np.testing.assert_allclose(flat.T @ flat, np.eye(flat.shape[1]), atol=1e-10)
    weights = rng.normal(size=objective.n_weights)
    np.testing.assert_allclose(objective.hessian_at(weights)(flat[:, 3]), 0.0, atol=1e-9)
    assert objective.loss_gradient(weights + flat @ rng.normal(size=flat.shape[1]))[0] == pytest.approx(
        objective.loss_gradient(weights)[0], rel=1e-9
    )


def test_the_intercept_of_one_output_is_not_flat(rng):
    X, y = problems.data("logistic", rng)
    objective = Logistic(X, y)
    assert objective.flat_directions(np.arange(7) == 6).shape == (7, 0)


@pytest.mark.parametrize("n_columns", [5, 40])
def test_integrated_noise_is_bounded_below_even_where_it_can_interpolate(n_columns, rng):
    X, y = rng.normal(size=(20, n_columns)), rng.normal(size=20)
    least_squares = LeastSquares(X, y)
    objective = NoiseIntegrated(least_squares)
    exact = np.append(np.linalg.lstsq(X, y, rcond=None)[0], 0.0)
    floor = 1e-6 * y.var()
    assert objective.loss_gradient(exact)[0] >= 10 * np.log(floor) - 1e-9
    assert objective.noise_variance(exact) >= floor


def test_majoriser_touches_and_never_lies_below(rng):
    X, y = problems.data("least_squares", rng)
    objective = NoiseIntegrated(LeastSquares(X, y))
    here = rng.normal(size=objective.n_weights)
    bound = objective.majoriser_at(here)
    gap = objective.loss_gradient(here)[0] - bound.loss_gradient(here)[0]
    np.testing.assert_allclose(bound.loss_gradient(here)[1], objective.loss_gradient(here)[1], rtol=1e-12)
    for _ in range(50):
        there = here + rng.normal(size=objective.n_weights) * rng.choice([0.01, 1.0, 10.0])
        assert bound.loss_gradient(there)[0] + gap >= objective.loss_gradient(there)[0] - 1e-9


def test_sparse_data_are_never_made_dense():
    rng = np.random.default_rng(0)
    X = problems.sparse(rng, 2000, 200_000, 40)  # 3.2 GB if dense
    y = (rng.random(2000) < 0.5).astype(float)
    objective = Logistic(X, y)
    weights = rng.normal(size=objective.n_weights)
    assert np.isfinite(objective.loss_gradient(weights)[0])
    assert objective.hessian_at(weights)(weights).shape == weights.shape
    assert objective.preconditioner(weights, np.ones_like(weights))(weights).shape == weights.shape
    assert objective.reweighted((rng.random(2000) < 0.5).astype(float)).n_weights == objective.n_weights
