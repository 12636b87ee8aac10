"""Compiled products of sparse rows against scipy's."""

import numpy as np
import pytest
import scipy.sparse as sp
from tests import problems

from tikhon.models.linear import sparse_rows as module
from tikhon.models.linear.design import Design
from tikhon.models.linear.logistic import Logistic
from tikhon.models.linear.softmax import Softmax
from tikhon.models.linear.sparse_rows import SparseRows, sparse_rows
from tikhon.testing import check_objective


def made(rng, n=23, p=17):
    """Rows of zero to eight entries, an empty column."""
    dense = np.where(rng.random((n, p)) < 0.25, rng.normal(size=(n, p)), 0.0)
    dense[:, 3] = 0.0
    dense[5] = 0.0
    return sp.csr_array(dense)


@pytest.mark.parametrize("by_columns", [True, False])
@pytest.mark.parametrize("n_vectors", [None, 1, 3, 5])
def test_products_equal_scipy(n_vectors, by_columns, rng, monkeypatch):
    X = made(rng)
    if not by_columns:
        monkeypatch.setattr(module, "TRANSPOSE_BYTES", 0)
    rows = SparseRows(X)
    shape = () if n_vectors is None else (n_vectors,)
    v, r = rng.normal(size=(X.shape[1], *shape)), rng.normal(size=(X.shape[0], *shape))
    np.testing.assert_allclose(rows.times(v), X @ v, atol=1e-13)
    np.testing.assert_allclose(rows.times(np.asfortranarray(v)), X @ v, atol=1e-13)
    np.testing.assert_allclose(rows.transpose_times(r), X.T @ r, atol=1e-13)
    np.testing.assert_array_equal(rows.column_counts(), np.count_nonzero(X.toarray(), axis=0))
    if n_vectors is not None:
        np.testing.assert_allclose(rows.squares_times(r), X.power(2).T @ r, atol=1e-13)


def test_small_matrices_and_other_kinds_are_left_to_scipy(rng, monkeypatch):
    X = made(rng)
    assert sparse_rows(X) is None
    monkeypatch.setattr(module, "LEAST_STORED", 1)
    assert sparse_rows(X) is not None
    wide = X.copy()
    wide.indices = wide.indices.astype(np.int64)
    assert sparse_rows(wide) is None
    assert sparse_rows(X.astype(np.float32)) is None


@pytest.mark.parametrize("model", ["logistic", "softmax"])
def test_models_do_not_change(model, rng, monkeypatch):
    X = problems.sparse(rng, 60, 30, 5)
    y = rng.integers(0, 2 if model == "logistic" else 3, 60)

    def objective():
        return Logistic(X, y.astype(float)) if model == "logistic" else Softmax(X, y, n_classes=3)

    plain = objective()
    monkeypatch.setattr(module, "LEAST_STORED", 1)
    compiled = objective()
    weights, v = rng.normal(size=(2, plain.n_weights))
    assert compiled.loss_gradient(weights)[0] == pytest.approx(plain.loss_gradient(weights)[0], rel=1e-12)
    np.testing.assert_allclose(compiled.loss_gradient(weights)[1], plain.loss_gradient(weights)[1], atol=1e-12)
    np.testing.assert_allclose(compiled.hessian_at(weights)(v), plain.hessian_at(weights)(v), atol=1e-12)
    np.testing.assert_allclose(compiled.baseline_diagonal(), plain.baseline_diagonal(), atol=1e-12)
    check_objective(compiled, rng)


@pytest.mark.parametrize("least", [1, 10**6])
def test_stored_zeros_have_no_units(least, monkeypatch):
    monkeypatch.setattr(module, "LEAST_STORED", least)
    zeros = sp.csr_array((np.zeros(3), [0, 1, 0], [0, 2, 3]), shape=(2, 2))
    assert Design(zeros, fit_intercept=True).gradient_norm(1) is None
