"""Gram matrices of several curvatures at once, and products of wide rows, against plain sums."""

import numpy as np
import pytest
from scipy import sparse

from tikhon.models.linear.design import Design


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize(("n_rows", "n_columns"), [(40, 3), (3000, 25), (50, 40), (0, 4)])
def test_gram_matrices_of_several_curvatures(n_rows, n_columns, intercept, rng):
    X, curvatures = rng.normal(size=(n_rows, n_columns)), rng.random((n_rows, 4))
    Z = np.column_stack([X, np.ones(n_rows)]) if intercept else X
    expected = [(Z * curvature[:, None]).T @ Z for curvature in curvatures.T]
    for design in (Design(X, intercept), Design(sparse.csr_array(X), intercept)):
        np.testing.assert_allclose(design.grams(curvatures), expected, rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(design.gram(curvatures[:, 0]), expected[0], rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("n_columns", [119, 120, 300])
def test_scores_of_wide_rows(n_columns, rng):
    X, weights = rng.normal(size=(30, n_columns)), rng.normal(size=3 * (n_columns + 1))
    scores = Design(X, True).scores_many(weights, 3)
    coefficients = weights[: 3 * n_columns].reshape(3, n_columns)
    np.testing.assert_allclose(scores, X @ coefficients.T + weights[3 * n_columns :], rtol=1e-12, atol=1e-12)
    assert scores.flags.c_contiguous
