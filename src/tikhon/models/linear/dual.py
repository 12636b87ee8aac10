"""Dual form of penalised least squares, for fewer rows than weights.

H = X~' A X~ + S, with weights A of m rows and strengths S, is inverted through an m x m matrix. Split the columns into
those with a strength, X with S, and a few without one or with a tiny one, Z with T (including the intercept's column of
ones). Then H (x, z) = (f, h) reads, with l = A (X x + Z z),

    S x + X' l = f,        T z + Z' l = h,        A^-1 l = X x + Z z.

Substituting x = S^-1 (f - X' l) from the first into the last gives, with K = X S^-1 X' and M = (A^-1 + K)^-1

    l = M (X S^-1 f + Z z),        (T + Z' M Z) z = h - Z' M X S^-1 f.

So one m x m factor and a small one for Z solve it exactly. M = D (I + D K D)^-1 D with D = A^1/2 divides by no weight, so
rows of weight 0 drop out. Rows that are left out of a view are left out of K: the kernel of all rows serves every view.
"""

from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack

from tikhon.kernels.linalg import cholesky, cholesky_solve
from tikhon.models.linear.design import Design
from tikhon.objective import Matrix, Vector

WEAK = 1e-5  # of a column's curvature: dividing by a smaller strength costs more than five digits
COLUMNS_PER_PART = 15  # summing a stored kernel takes as long as computing one from this many columns
PARTS_BYTES = 2**27  # limit on stored kernels of columns with a common strength


class SharedKernel:
    """K = X diag(d) X' over all rows, cached for the last d, which all views request in turn. Thread-safe.

    Columns that share a strength do so throughout a tuning. If few strengths differ, K is the sum of the kernels of the
    columns with a common one, K = sum_g d_g X_g X_g', and these are stored. Whether and how this is done follows from d
    alone, so that the same d gives the same bits.
    """

    def __init__(self, X: Matrix) -> None:
        self._X = X
        self._lock = Lock()
        self._last: tuple[Vector, Matrix] | None = None
        self._parts: _Parts | None = None

    def at(self, d: Vector) -> Matrix:
        """The lower triangle, in Fortran order; not to be modified."""
        with self._lock:
            if self._last is None or not np.array_equal(self._last[0], d):
                self._last = (d.copy(), self._formed(d))
            return self._last[1]

    def _formed(self, d: Vector) -> Matrix:
        n_rows, p = self._X.shape
        part_of, values = _alike(d)
        if len(values) * COLUMNS_PER_PART > p or 4 * len(values) * n_rows**2 > PARTS_BYTES:
            return kernel(self._X, d)
        if self._parts is None or not np.array_equal(part_of, self._parts.part_of):
            self._parts = _parts(self._X, part_of)
        return _unpacked(values @ self._parts.kernels, n_rows)


def kernel(X: Matrix, d: Vector) -> Matrix:
    """X diag(d) X' for d >= 0, in Fortran order."""
    scaled = X * np.sqrt(d)
    return np.asarray((scaled @ scaled.T).T)  # numpy calls syrk for this


@dataclass(frozen=True, eq=False)
class _Parts:
    """X_g X_g' for the sets g of columns with equal d."""

    part_of: NDArray[np.intp]  # the set of each column
    kernels: Matrix  # one packed lower triangle per set: half the memory, and half the time to sum


def _alike(d: Vector) -> tuple[NDArray[np.intp], Vector]:
    """The number of each entry's value, in order of first appearance, and the values in that order."""
    values, first, number = np.unique(d, return_index=True, return_inverse=True)
    order = np.argsort(first)
    return np.argsort(order)[number], values[order]


def _parts(X: Matrix, part_of: NDArray[np.intp]) -> _Parts:
    n_rows, n_parts = len(X), int(part_of.max()) + 1
    kernels = np.empty((n_parts, n_rows * (n_rows + 1) // 2))
    for g in range(n_parts):
        columns = X[:, part_of == g]
        kernels[g], _ = lapack.dtrttp((columns @ columns.T).T, uplo="L")
    return _Parts(part_of, kernels)


def _unpacked(triangle: Vector, n_rows: int) -> Matrix:
    matrix, _ = lapack.dtpttr(n_rows, triangle, uplo="L")
    return np.asarray(matrix)


def inverse_strengths(strength: Vector, curvature: Vector, *, fit_intercept: bool) -> Vector:
    """d = 1 / strength, and 0 for the columns of Z: the intercept, and others whose strength is too weak to divide by."""
    strong = strength > np.maximum(WEAK * curvature, 1e-200)
    if fit_intercept:
        strong[-1] = False
    return np.divide(1.0, strength, out=np.zeros(len(strength)), where=strong)


def by_rows(
    design: Design, row_weights: Vector, strength: Vector, d: Vector, kernel: Matrix
) -> Callable[[Matrix], Matrix]:
    """The map V -> (X~' A X~ + S)^-1 V for a matrix V, with d = ``inverse_strengths``.

    ``kernel`` is X diag(d) X', its lower triangle in Fortran order, and is overwritten. Raises LinAlgError if the
    columns of Z are collinear.
    """
    X, p, m = design.X, design.n_columns, design.n_rows
    root, weak, d = np.sqrt(row_weights)[:, None], d == 0.0, d[:, None]
    if (root != 1.0).any():
        kernel *= root
        kernel *= root.T
    kernel.flat[:: m + 1] += 1.0
    factor = cholesky(kernel)

    def weighted(right: Matrix) -> Matrix:
        """M times a matrix."""
        return np.asarray(root * cholesky_solve(factor, root * right))

    Z = X[:, weak[:p]]
    if design.fit_intercept:
        Z = np.column_stack([Z, np.ones(m)])
    MZ = weighted(Z) if Z.shape[1] else Z
    corner = Z.T @ MZ
    corner.flat[:: len(corner) + 1] += strength[weak]
    corner_factor = cholesky(corner)

    def solve(right: Matrix) -> Matrix:
        x = d * right
        q = X @ x[:p]
        z = cholesky_solve(corner_factor, right[weak] - MZ.T @ q)
        pull = weighted(q + Z @ z)  # l in the module docstring
        x[:p] -= d[:p] * (X.T @ pull)
        x[weak] = z
        return x

    return solve
