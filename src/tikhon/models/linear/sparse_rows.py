"""Compiled products of a large sparse matrix, of its transpose and of its squared entries."""

from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tikhon.objective import Matrix, Vector

Rows: TypeAlias = tuple[Vector, NDArray[np.uint32], NDArray[np.int64]]  # values, their columns, where each row starts

LEAST_STORED = 1_000_000  # entries: below this, products take negligible time compared with compiling
TRANSPOSE_BYTES = 2**28  # limit on a copy by columns; products with the transpose of larger matrices use the rows


class SparseRows:
    """A CSR matrix of float64 with 32-bit positions.

    If its transpose is multiplied by several vectors at once, it is also stored by columns, unless that would be large: the
    product then writes each number once, in half the time of adding to the whole result row by row. For a single vector the
    gain is less than the cost of the copy.
    """

    def __init__(self, X: Any) -> None:
        self._X = X

    @cached_property
    def _rows(self) -> Rows:
        return _parts(self._X)

    @cached_property
    def _columns(self) -> Rows | None:
        n_bytes = self._X.nnz * (self._X.data.itemsize + self._X.indices.itemsize)
        return _parts(self._X.tocsc()) if n_bytes <= TRANSPOSE_BYTES else None

    def times(self, vectors: Matrix) -> Matrix:
        """X v, or X V for a matrix of columns."""
        return _products(self._rows, vectors)

    def transpose_times(self, vectors: Matrix) -> Matrix:
        """X' v, or X' V."""
        if vectors.ndim == 2 and vectors.shape[1] > 1 and self._columns is not None:
            return _products(self._columns, vectors)
        from tikhon.kernels.linear.sparse import transposed_product, transposed_products

        vectors = np.ascontiguousarray(vectors)
        out = np.empty((self._X.shape[1], *vectors.shape[1:]))
        if vectors.ndim == 1:
            transposed_product(*self._rows, vectors, out)
        else:
            transposed_products(*self._rows, vectors, False, out)
        return out

    def squares_times(self, vectors: Matrix) -> Matrix:
        """The transpose of the squared entries, times a matrix: rarely needed, so always by rows."""
        from tikhon.kernels.linear.sparse import transposed_products

        out = np.empty((self._X.shape[1], vectors.shape[1]))
        transposed_products(*self._rows, np.ascontiguousarray(vectors), True, out)
        return out

    def column_counts(self) -> NDArray[np.int64]:
        """The number of entries in each column."""
        from tikhon.kernels.linear.sparse import count_columns

        counts = np.zeros(self._X.shape[1], np.int64)
        count_columns(self._rows[1], counts)
        return counts


def _parts(compressed: Any) -> Rows:
    return compressed.data, compressed.indices.view(np.uint32), compressed.indptr.astype(np.int64)


def _products(rows: Rows, vectors: Matrix) -> Matrix:
    """The product of each row with a vector or with all columns of a matrix."""
    from tikhon.kernels.linear.sparse import row_products, row_products_many  # compiled: not imported for dense data

    out = np.empty((len(rows[2]) - 1, *vectors.shape[1:]))
    (row_products if vectors.ndim == 1 else row_products_many)(*rows, np.ascontiguousarray(vectors), out)
    return out


def sparse_rows(X: Any) -> SparseRows | None:
    """None if compiled products would not pay, or if positions or values are of another type."""
    if X.nnz < LEAST_STORED or X.indices.dtype != np.int32 or X.data.dtype != np.float64:
        return None
    return SparseRows(X)
