"""Many small Cholesky factors at once, against numpy one by one."""

import numpy as np
import pytest

from tikhon.kernels.linear.row_cholesky import LEAST_PIVOT, row_cholesky, row_cholesky_solve


def matrices(rng, K, n):
    """Positive definite, with eigenvalues in (0, 1]: n of them along the last axis."""
    root = rng.normal(size=(n, K, K))
    found = root @ root.transpose(0, 2, 1) + 0.1 * np.eye(K)
    return np.moveaxis(found / np.linalg.norm(found, 2, axis=(1, 2))[:, None, None], 0, -1).copy()


@pytest.mark.parametrize("K", [1, 2, 3, 7])
def test_factors_and_solutions_are_those_of_each_matrix(K, rng):
    n = 11
    given, right = matrices(rng, K, n), rng.normal(size=(K, n))
    before = given.copy(), right.copy()
    factor = row_cholesky(given)
    solution = row_cholesky_solve(factor, right)
    for i in range(n):
        np.testing.assert_allclose(np.tril(factor[:, :, i]), np.linalg.cholesky(given[:, :, i]), rtol=1e-9, atol=1e-12)
        expected = np.linalg.solve(given[:, :, i], right[:, i])
        np.testing.assert_allclose(solution[:, i], expected, rtol=1e-8, atol=1e-10)
    np.testing.assert_array_equal(given, before[0])
    np.testing.assert_array_equal(right, before[1])


def test_entries_above_the_diagonal_are_not_used(rng):
    given, right = matrices(rng, 4, 5), rng.normal(size=(4, 5))
    dirty = given.copy()
    dirty[np.triu_indices(4, 1)] = np.nan
    np.testing.assert_array_equal(
        row_cholesky_solve(row_cholesky(dirty), right), row_cholesky_solve(row_cholesky(given), right)
    )


def test_singular_matrices_keep_their_pivots_away_from_0(rng):
    """One of them, in the middle of good ones, which it does not disturb."""
    given, right = matrices(rng, 3, 4), rng.normal(size=(3, 4))
    good = row_cholesky(given)
    given[:, :, 1] = 1.0  # of rank 1
    given[:, :, 2] = -np.eye(3)
    factor = row_cholesky(given)
    np.testing.assert_array_equal(factor[:, :, [0, 3]], good[:, :, [0, 3]])
    assert (np.einsum("kkn->kn", factor) >= np.sqrt(LEAST_PIVOT)).all()
    assert np.isfinite(row_cholesky_solve(factor, right)).all()


def test_no_matrices():
    assert row_cholesky(np.zeros((3, 3, 0))).shape == (3, 3, 0)
    assert row_cholesky_solve(np.zeros((3, 3, 0)), np.zeros((3, 0))).shape == (3, 0)
