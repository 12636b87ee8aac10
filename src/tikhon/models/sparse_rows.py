"""A large sparse matrix with compiled products: with itself, with its transpose, with its squared entries."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tikhon.objective import Matrix, Vector

LEAST_STORED = 1_000_000  # entries: of fewer, products take no time that counts beside compiling


class SparseRows:
    """A CSR matrix of float64 with 32-bit positions."""

    def __init__(self, X: Any) -> None:
        self._shape: tuple[int, int] = X.shape
        self._rows: tuple[Vector, NDArray[np.uint32], NDArray[np.int64]]
        self._rows = X.data, X.indices.view(np.uint32), X.indptr.astype(np.int64)

    def times(self, vectors: Matrix) -> Matrix:
        """X v, or X V for a matrix of columns."""
        from tikhon.kernels.sparse import row_products, row_products_many  # compiled: not for dense data

        out = np.empty((self._shape[0], *vectors.shape[1:]))
        (row_products if vectors.ndim == 1 else row_products_many)(*self._rows, np.ascontiguousarray(vectors), out)
        return out

    def transpose_times(self, vectors: Matrix) -> Matrix:
        """X' v, or X' V."""
        from tikhon.kernels.sparse import transposed_product, transposed_products

        vectors = np.ascontiguousarray(vectors)
        out = np.empty((self._shape[1], *vectors.shape[1:]))
        if vectors.ndim == 1:
            transposed_product(*self._rows, vectors, out)
        else:
            transposed_products(*self._rows, vectors, False, out)
        return out

    def squares_times(self, vectors: Matrix) -> Matrix:
        """The transpose of the squared entries, times columns."""
        from tikhon.kernels.sparse import transposed_products

        out = np.empty((self._shape[1], vectors.shape[1]))
        transposed_products(*self._rows, np.ascontiguousarray(vectors), True, out)
        return out


def sparse_rows(X: Any) -> SparseRows | None:
    """None where compiled products would not pay, and where positions or values are of another kind."""
    if X.nnz < LEAST_STORED or X.indices.dtype != np.int32 or X.data.dtype != np.float64:
        return None
    return SparseRows(X)
