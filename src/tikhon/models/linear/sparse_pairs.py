"""Precomputed products x_ij x_il of the entries of sparse rows: Gram matrices and quadratic forms become sparse products.

A row with r entries has r (r + 1) / 2 of them. They form the columns of a sparse matrix Z whose rows are the pairs j <= l:
the upper triangle of X' diag(c) X is Z c, and all x_i' M x_i together are Z' m, where m are the entries of M, those off the
diagonal doubled.
"""

from typing import Any

import numpy as np
import scipy.sparse as sp

from tikhon.objective import Matrix, Vector

MOST_PRODUCTS = 2_000_000  # 24 MB
MOST_COLUMNS = 1000  # there is one row for each pair of columns, whether it occurs or not


class SparsePairs:
    """The products of a CSR matrix with sorted, distinct entries."""

    def __init__(self, X: Any) -> None:
        self.width = int(X.shape[1])
        length = np.diff(X.indptr)
        place = np.arange(X.nnz) - np.repeat(X.indptr[:-1], length)
        followers = np.repeat(length, length) - place  # entries of the same row from this one on
        left = np.repeat(np.arange(X.nnz), followers)
        right = left + np.arange(len(left)) - np.repeat(np.cumsum(followers) - followers, followers)
        row = np.repeat(np.repeat(np.arange(X.shape[0]), length), followers)
        line = X.indices[left].astype(np.int64) * self.width + X.indices[right]
        shape = (self.width**2, X.shape[0])
        self._products: Any = sp.coo_array((X.data[left] * X.data[right], (line, row)), shape=shape).tocsr()
        self._transposed: Any = self._products.T.tocsr()

    def gram(self, working_weights: Vector) -> Matrix:
        upper = (self._products @ working_weights).reshape(self.width, self.width)
        gram = upper + upper.T
        gram.flat[:: self.width + 1] *= 0.5
        return np.asfortranarray(gram)

    def quadratics(self, matrix: Matrix) -> Vector:
        folded = matrix + matrix.T
        folded.flat[:: self.width + 1] *= 0.5
        return np.asarray(self._transposed @ folded.ravel())


def sparse_pairs(X: Any, fit_intercept: bool) -> SparsePairs | None:
    """None if there are too many products."""
    width = X.shape[1] + fit_intercept
    length = np.diff(X.indptr).astype(np.float64) + fit_intercept
    if width > MOST_COLUMNS or float(length @ (length + 1.0)) / 2.0 > MOST_PRODUCTS:
        return None
    return SparsePairs(sp.hstack([X, sp.csr_array(np.ones((X.shape[0], 1)))]).tocsr() if fit_intercept else X)
