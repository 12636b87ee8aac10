"""Dense factorisations against numpy, and matrices of size 0, which LAPACK refuses."""

import numpy as np
import pytest

from tikhon.kernels.linalg import cholesky, cholesky_inverse, cholesky_solve, triangular_solve


@pytest.fixture(params=[1, 2, 17])
def size(request):
    return request.param


@pytest.fixture(params=["C", "F"])
def matrix(request, size, rng):
    root = rng.normal(size=(size, size + 2))
    return np.array(root @ root.T, order=request.param)


def test_cholesky(matrix):
    before = matrix.copy()
    np.testing.assert_allclose(np.tril(cholesky(matrix)), np.linalg.cholesky(matrix), rtol=1e-10, atol=1e-12)
    np.testing.assert_array_equal(matrix, before)


def test_solve(matrix, size, rng):
    factor = cholesky(matrix)
    for right in (rng.normal(size=size), rng.normal(size=(size, 3)), np.asfortranarray(rng.normal(size=(size, 3)))):
        before = right.copy()
        expected = np.linalg.solve(matrix, right)
        np.testing.assert_allclose(cholesky_solve(factor, right), expected, rtol=1e-7, atol=1e-9)
        np.testing.assert_array_equal(right, before)


def test_inverse_has_both_triangles_and_keeps_the_factor(matrix):
    factor = cholesky(matrix)
    before = factor.copy()
    inverse = cholesky_inverse(factor)
    np.testing.assert_array_equal(inverse, inverse.T)
    np.testing.assert_allclose(inverse, np.linalg.inv(matrix), rtol=1e-7, atol=1e-9)
    np.testing.assert_array_equal(factor, before)


def test_triangular_solve_ignores_what_is_above_the_diagonal(matrix, size, rng):
    factor, right = cholesky(matrix), rng.normal(size=(size, 4))
    dirty = np.asfortranarray(np.tril(factor) + np.triu(np.full((size, size), 7.0), 1))
    expected = np.linalg.solve(np.tril(factor), right)
    for lower in (factor, dirty):
        np.testing.assert_allclose(triangular_solve(lower, right), expected, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("n_columns", [0, 1, 3])
def test_empty_matrices(n_columns):
    empty = np.zeros((0, 0))
    factor = cholesky(empty)
    assert factor.shape == (0, 0)
    assert cholesky_inverse(factor).shape == (0, 0)
    assert cholesky_solve(factor, np.zeros((0, n_columns))).shape == (0, n_columns)
    assert cholesky_solve(factor, np.zeros(0)).shape == (0,)
    assert triangular_solve(factor, np.zeros((0, n_columns))).shape == (0, n_columns)


def test_a_matrix_that_is_not_positive_definite_is_refused():
    with pytest.raises(np.linalg.LinAlgError, match="leading minor 2 of a 2 x 2 matrix"):
        cholesky(np.array([[1.0, 2.0], [2.0, 1.0]]))
    singular = np.asfortranarray(np.diag([1.0, 0.0]))
    with pytest.raises(np.linalg.LinAlgError, match="diagonal entry 2 is 0"):
        cholesky_inverse(singular)
    with pytest.raises(np.linalg.LinAlgError, match="diagonal entry 2 is 0"):
        triangular_solve(singular, np.ones((2, 1)))
