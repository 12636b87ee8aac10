"""A design matrix, dense or sparse, with an intercept: the linear algebra shared by all linear models.

Weights of a model with K outputs and p columns are its K x p coefficients, row by row, then its K intercepts. Scores
are ``X W' + b``. Sparse matrices are never made dense, dense ones never copied as a whole.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tikhon.kernels.linalg import add_squares, mirror
from tikhon.models.linear.sparse_pairs import SparsePairs, sparse_pairs
from tikhon.models.linear.sparse_rows import SparseRows, sparse_rows
from tikhon.objective import Matrix, Product, Vector

Data: TypeAlias = Any  # a dense float64 matrix or a CSR matrix; the stubs of scipy.sparse cannot express it usefully
BLOCK_BYTES = 4 * 2**20  # temporary memory for a block of rows: about what fits into the cache
WIDE, NARROW = 120, 26  # columns from which, and up to which, products are computed differently
MOST_SIDE = 4000  # of a square matrix that is stored and factorised: it takes 128 MB
SPARSE_SLOWDOWN = 10.0  # cost per multiplication of a sparse-by-sparse product, relative to a dense one
CONSTANT = 1e-13  # of a column's squares: less than this after centring is rounding error
LBFGS_GAP = 1e-4  # relative gap down to which L-BFGS is faster
FAR_APART = 50.0  # ratio of column scales: a gradient so much larger hides the others from a low-accuracy fit
SUBSET_BYTES = 2**28  # above this, rows of weight 0 are multiplied by 0 instead of copying the others


@dataclass(frozen=True, eq=False)
class Design:
    """X (n x p) and whether a column of ones is appended."""

    X: Data
    fit_intercept: bool

    @property
    def n_rows(self) -> int:
        return int(self.X.shape[0])

    @property
    def n_columns(self) -> int:
        return int(self.X.shape[1])

    @property
    def width(self) -> int:
        """The number of columns of X, plus that of ones."""
        return self.n_columns + self.fit_intercept

    @cached_property
    def is_sparse(self) -> bool:
        return bool(sp.issparse(self.X))

    @property
    def lbfgs_gap(self) -> float:
        """The relative gap down to which L-BFGS takes half of Newton's passes; not for dense columns, which are correlated."""
        return LBFGS_GAP if self.is_sparse else np.inf

    @property
    def n_stored(self) -> int:
        return int(self.X.nnz) if self.is_sparse else self.n_rows * self.n_columns

    def gradient_norm(self, n_outputs: int) -> Callable[[Vector], float] | None:
        """In units of the entries of each weight's column, 1 for intercepts; None if these do not differ widely."""
        if self._column_units is None:
            return None
        precisions, n_coefficients = self._column_units**-2.0, n_outputs * self.n_columns

        def norm(gradient: Vector) -> float:
            coefficients = gradient[:n_coefficients].reshape(n_outputs, -1)
            intercepts = gradient[n_coefficients:]
            squares = np.einsum("kj,kj,j->", coefficients, coefficients, precisions) + intercepts @ intercepts
            return float(np.sqrt(squares))

        return norm

    @cached_property
    def _column_units(self) -> Vector | None:
        """For sparse columns only: their fits may be of low accuracy, where the gradient of a large column hides the others.

        Only non-zero entries count: a rare column does not have a small scale. Dense columns are fitted to many digits.
        """
        if not self.is_sparse or self.X.nnz == 0:
            return None
        compiled = self._rows
        counts = np.bincount(self.X.indices, minlength=self.n_columns) if compiled is None else compiled.column_counts()
        squares = self._squares_times(np.ones((self.n_rows, 1)))[:, 0]
        units = np.sqrt(np.divide(squares, counts, out=np.zeros(self.n_columns), where=counts > 0))
        used = units > 0.0
        if not used.any():  # all entries are stored zeros
            return None
        return np.where(used, units, 1.0) if units.max() > FAR_APART * units[used].min() else None

    def scores(self, weights: Vector) -> Vector:
        """X w + b, for one output."""
        scores: Vector = self._times(weights[: self.n_columns])
        return scores + weights[-1] if self.fit_intercept else scores

    def adjoint(self, residual: Vector) -> Vector:
        """The adjoint of ``scores``: (X' r, sum r)."""
        gradient = self._transpose_times(residual)
        if not self.fit_intercept:
            return gradient
        out = np.empty(self.width, gradient.dtype)
        out[:-1], out[-1] = gradient, residual.sum()
        return out

    def _times(self, v: Matrix) -> Matrix:
        """X v for one or many columns, real or complex."""
        rows = self._rows
        if not self.is_sparse and v.ndim == 2 and self.n_columns >= WIDE:
            return np.ascontiguousarray((v.T @ self.X.T).T)  # BLAS is faster if the short side comes first
        product: Matrix = self.X @ v if rows is None or v.dtype != np.float64 else rows.times(v)
        return product

    def _transpose_times(self, v: Matrix) -> Matrix:
        rows = self._rows
        product: Matrix = self.X.T @ v if rows is None or v.dtype != np.float64 else rows.transpose_times(v)
        return product

    def _squares_times(self, v: Matrix) -> Matrix:
        """The transpose of a sparse X with its entries squared, times columns."""
        if self._rows is not None:
            return self._rows.squares_times(v)
        squared = sp.csr_array((np.square(self.X.data), self.X.indices, self.X.indptr), shape=self.X.shape)
        product: Matrix = squared.T @ v
        return product

    @cached_property
    def _rows(self) -> SparseRows | None:
        return sparse_rows(self.X) if self.is_sparse else None

    def scores_many(self, weights: Vector, n_outputs: int) -> Matrix:
        """X W' + b, for many outputs, n x K."""
        n_coefficients = n_outputs * self.n_columns
        scores: Matrix = self._times(weights[:n_coefficients].reshape(n_outputs, self.n_columns).T)
        if self.fit_intercept:
            scores += weights[n_coefficients:]
        return scores

    def adjoint_many(self, residual: Matrix) -> Vector:
        """The adjoint of ``scores_many``: (R' X, column sums of R)."""
        # A sparse X comes first, or scipy would transpose the product itself.
        gradient = self._transpose_times(residual).T if self.is_sparse else residual.T @ self.X
        if not self.fit_intercept:
            return np.ascontiguousarray(gradient).ravel()
        out = np.empty(gradient.size + len(gradient), gradient.dtype)
        out[: gradient.size].reshape(gradient.shape)[:] = gradient
        residual.sum(axis=0, out=out[gradient.size :])
        return out

    def by_output(self, weights: Vector, n_outputs: int) -> Matrix:
        """K x (p + 1): the weights of each output with its intercept."""
        coefficients = weights[: n_outputs * self.n_columns].reshape(n_outputs, -1)
        return np.column_stack([coefficients, weights[coefficients.size :]]) if self.fit_intercept else coefficients

    def gram(self, working_weights: Vector) -> Matrix:
        """X~' diag(c) X~ with X~ = (X, 1), for c >= 0: a dense width x width matrix."""
        if self._pairs is not None:
            return self._pairs.gram(working_weights)
        if not self.is_sparse:
            return self._dense_gram(np.sqrt(working_weights))
        p = self.n_columns
        gram = np.empty((self.width, self.width), order="F")
        scaled = sp.csr_array(
            (self.X.data * np.repeat(working_weights, np.diff(self.X.indptr)), self.X.indices, self.X.indptr),
            shape=self.X.shape,
        )
        gram[:p, :p] = (self.X.T @ scaled).toarray()
        if self.fit_intercept:
            gram[p, :p] = gram[:p, p] = self.X.T @ working_weights
            gram[p, p] = working_weights.sum()
        return gram

    def _dense_gram(self, root: Vector) -> Matrix:
        """From rows times the roots of their working weights, block by block."""
        gram = np.zeros((self.width, self.width), order="F")
        scaled = np.empty((0, self.width))
        for rows in self.blocks():
            size = rows.stop - rows.start
            if len(scaled) < size:
                scaled = np.empty((size, self.width))
            block = scaled[:size]
            np.multiply(self.X[rows], root[rows, None], out=block[:, : self.n_columns])
            if self.fit_intercept:
                block[:, -1] = root[rows]
            add_squares(gram, block)
        mirror(gram)
        return gram

    def grams(self, working_weights: Matrix) -> NDArray[np.float64]:
        """The Gram matrices of several vectors of working weights, one per column: K x q x q.

        For few columns all pairwise products are computed, in blocks that fit into the cache, for one matrix product instead
        of many small ones.
        """
        q, K = self.width, working_weights.shape[1]
        if self.is_sparse or q > NARROW:
            return np.array([self.gram(working_weights) for working_weights in working_weights.T])
        first, second = np.triu_indices(q)
        sums = np.zeros((K, len(first)))
        for rows in self.blocks(4 * len(first)):
            sums += working_weights[rows].T @ pair_products(self.block(rows)).T
        grams = np.empty((K, q, q))
        grams[:, first, second] = grams[:, second, first] = sums
        return grams

    @cached_property
    def _pairs(self) -> SparsePairs | None:
        return sparse_pairs(self.X, self.fit_intercept) if self.is_sparse else None

    def quadratics(self, matrix: Matrix) -> Vector:
        """x~_i' M x~_i of all rows, for a symmetric matrix."""
        if self._pairs is not None:
            return self._pairs.quadratics(matrix)
        found = np.empty(self.n_rows)
        for rows in self.blocks():
            found[rows] = self.row_products(rows, self.times(rows, matrix))
        return found

    def squared_sums(self, by_column: Vector) -> Vector:
        """sum_j x~_ij^2 by_column_j of all rows of a dense matrix."""
        sums: Vector = np.einsum("ij,ij,j->i", self.X, self.X, by_column[: self.n_columns])
        return sums + by_column[-1] if self.fit_intercept else sums

    def times(self, rows: slice, matrix: Matrix) -> Matrix:
        """Some rows of (X, 1) times a matrix."""
        product: Matrix = self.X[rows] @ matrix[: self.n_columns]
        return product + matrix[-1] if self.fit_intercept else product

    def row_products(self, rows: slice, other: Matrix) -> Vector:
        """x~_i . other_i for some rows."""
        X, inner = self.X[rows], other[:, : self.n_columns]
        if self.is_sparse:
            row = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
            products: Vector = np.bincount(row, X.data * inner[row, X.indices], X.shape[0]).astype(
                np.float64, copy=False
            )
        else:
            products = np.einsum("ij,ij->i", X, inner)
        return products + other[:, -1] if self.fit_intercept else products

    @property
    def gram_multiplications(self) -> float:
        """Multiplications for a Gram matrix, as a dense product counts them; for sparse rows, their lengths squared."""
        per_row = self.n_stored / max(self.n_rows, 1)
        slower = SPARSE_SLOWDOWN if self.is_sparse else 1.0
        return slower * self.n_rows * (per_row + 1.0) ** 2 / 2

    def gram_cost(self, n_outputs: int) -> float:
        """The cost of a Gram matrix and its factor in Hessian products."""
        n_factor = self.gram_multiplications + self.width**3 / 3
        return factor_products(n_factor, 2.0 * self.n_stored * n_outputs)

    def squares(self, working_weights: Matrix) -> Matrix:
        """sum_i c_ik x~_ij^2, one row per output: the diagonals of K Gram matrices; ``working_weights`` is n x K."""
        n_outputs = working_weights.shape[1]
        sums = np.zeros((n_outputs, self.n_columns))
        if self.is_sparse:
            sums += self._squares_times(working_weights).T
        else:
            for rows in self.blocks():
                sums += working_weights[rows].T @ np.square(self.X[rows])
        return np.concatenate([sums.ravel(), working_weights.sum(axis=0)]) if self.fit_intercept else sums.ravel()

    def centred_squares(self, working_weights: Matrix) -> tuple[Vector, Matrix | None]:
        """sum_i c_ik (x_ij - m_kj)^2 around the weighted means m (K x p), then sum_i c_ik; without intercept m = 0."""
        squares = self.squares(working_weights)
        if not self.fit_intercept:
            return squares, None
        K, p = working_weights.shape[1], self.n_columns
        total = np.maximum(working_weights.sum(axis=0), np.finfo(float).tiny)
        sums = self._transpose_times(working_weights).T
        means = sums / total[:, None]
        centred = squares[: K * p].reshape(K, p) - means * sums
        centred[centred < CONSTANT * squares[: K * p].reshape(K, p)] = 0.0  # a constant column, up to rounding
        return np.concatenate([centred.ravel(), squares[K * p :]]), means

    def preconditioner(self, working_weights: Matrix, strength: Vector) -> Product:
        """An approximate inverse of the K blocks X~' diag(c_k) X~ + diag(s), for working weights n x K.

        Each block is approximated as diagonal after centring its columns by the weighted means m_k = X'c_k / sum c_k: with
        the shear T: (w, b) -> (w, b - m.w) the inverse is T diag(1 / D) T', where D_j = sum_i c_i (x_ij - m_j)^2 + s_j.
        Otherwise columns with a large mean, such as counts, would couple all weights to the intercept.
        """
        K, p = working_weights.shape[1], self.n_columns
        centred, means = self.centred_squares(working_weights)
        diagonal = centred + strength
        if means is None:
            diagonal = floored(diagonal)
            return lambda v: v / diagonal
        centred, corner = floored(diagonal[: K * p]).reshape(K, p), floored(diagonal[K * p :])

        def apply(v: Vector) -> Vector:
            coefficients, intercepts = v[: K * p].reshape(K, p), v[K * p :]
            moved = (coefficients - means * intercepts[:, None]) / centred
            return np.concatenate([moved.ravel(), intercepts / corner - np.einsum("kj,kj->k", means, moved)])

        return apply

    def block(self, rows: slice) -> Matrix:
        """Some rows of (X, 1), dense."""
        X = self.X[rows].toarray() if self.is_sparse else self.X[rows]
        return np.column_stack([X, np.ones(X.shape[0])]) if self.fit_intercept else X

    def blocks(self, width: int = 0) -> Iterator[slice]:
        """Slices of rows whose temporaries (of ``width`` columns) stay small."""
        size = max(1, BLOCK_BYTES // (8 * max(width, self.n_columns, 1)))
        for start in range(0, self.n_rows, size):
            yield slice(start, min(start + size, self.n_rows))


def pair_products(rows: Matrix) -> Matrix:
    """x_ij x_il of all pairs of columns j <= l: pairs x n, in the order of ``numpy.triu_indices``."""
    columns, start = np.ascontiguousarray(rows.T), 0
    q = len(columns)
    products = np.empty((q * (q + 1) // 2, columns.shape[1]))
    for j in range(q):
        np.multiply(columns[j:], columns[j], out=products[start : start + q - j])
        start += q - j
    return products


def floored(diagonal: Matrix) -> Matrix:
    """Entries of at least 1e-8 of the largest, so that dividing by them is safe."""
    largest = float(diagonal.max(initial=0.0))
    return np.maximum(diagonal, 1e-8 * largest if largest > 0 else 1.0)


def factor_products(n_factor: float, n_product: float) -> float:
    """The cost of a factorisation in Hessian products, from their counts of multiplications.

    Matrix products run about three times as fast per multiplication as the matrix-vector products they replace; the calls
    themselves cost about as much as 3e5 multiplications.
    """
    return n_factor / (3.0 * n_product + 3e5)


def active_rows(X: Data, fit_intercept: bool, row_weights: Vector) -> tuple[Design, NDArray[np.intp] | slice]:
    """The rows to compute with: those of non-zero weight if copying them saves time, else all.

    A copy of the few rows of a fold costs memory once and then saves their share of every pass. Large data are not
    copied: their rows of weight 0 are multiplied by 0.
    """
    used = np.flatnonzero(row_weights)
    if len(used) > 0.95 * len(row_weights):
        return Design(X, fit_intercept), slice(None)
    whole = Design(X, fit_intercept)
    bytes_each = 12 if whole.is_sparse else 8  # a sparse entry also stores a column number
    if whole.n_stored * bytes_each * len(used) / max(len(row_weights), 1) > SUBSET_BYTES:
        return whole, slice(None)
    return Design(X[used], fit_intercept), used
