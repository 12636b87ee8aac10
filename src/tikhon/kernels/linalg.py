"""Dense factorisations by direct LAPACK calls: scipy's wrappers cost more than small problems do."""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import blas, lapack

Matrix = NDArray[np.float64]

BLOCK = 128  # rows and columns that fit into the cache


def cholesky(matrix: Matrix) -> Matrix:
    """The lower Cholesky factor, in Fortran order; raises LinAlgError if not positive definite."""
    if matrix.shape[0] == 0:  # LAPACK rejects it
        return matrix
    factor, info = lapack.dpotrf(matrix, lower=1, clean=0, overwrite_a=0)
    if info != 0:
        raise np.linalg.LinAlgError(
            f"leading minor {info} of a {matrix.shape[0]} x {matrix.shape[0]} matrix is not positive"
        )
    return np.asarray(factor)


def cholesky_solve(factor: Matrix, right: Matrix) -> Matrix:
    """(L L')^-1 B for a vector or a matrix."""
    if factor.shape[0] == 0:
        return right
    solution, info = lapack.dpotrs(factor, right, lower=1)
    if info != 0:
        raise np.linalg.LinAlgError(f"argument {-info} of dpotrs is invalid")
    return np.asarray(solution)


def cholesky_inverse(factor: Matrix) -> Matrix:
    """(L L')^-1, both triangles."""
    if factor.shape[0] == 0:
        return factor
    inverse, info = lapack.dpotri(factor, lower=1)
    if info != 0:
        raise np.linalg.LinAlgError(f"the factor's diagonal entry {info} is 0")
    mirror(inverse)
    return np.asarray(inverse)


def add_squares(gram: Matrix, rows: Matrix) -> None:
    """Add X'X of rows in C order to the lower triangle of a matrix in Fortran order, in place."""
    if rows.shape[0] > 0 and gram.shape[0] > 0:
        blas.dsyrk(1.0, rows.T, beta=1.0, c=gram, lower=1, overwrite_c=1)


def mirror(lower: Matrix) -> None:
    """Copy the lower triangle to the upper one in place, in blocks to keep memory access local."""
    if len(lower) <= BLOCK:
        np.copyto(lower, lower.T.copy(), where=_above_diagonal(len(lower)))
        return
    for start in range(0, len(lower), BLOCK):
        rows, rest = slice(start, start + BLOCK), slice(start + BLOCK, None)
        corner = lower[rows, rows]
        np.copyto(corner, corner.T.copy(), where=_above_diagonal(len(corner)))
        lower[rows, rest] = lower[rest, rows].T


@lru_cache(maxsize=BLOCK)
def _above_diagonal(size: int) -> NDArray[np.bool_]:
    return np.triu(np.ones((size, size), dtype=bool), 1)


def triangular_solve(factor: Matrix, right: Matrix) -> Matrix:
    """L^-1 B for a matrix."""
    if factor.shape[0] == 0:
        return right
    solution, info = lapack.dtrtrs(factor, right, lower=1)
    if info != 0:
        raise np.linalg.LinAlgError(f"the factor's diagonal entry {info} is 0")
    return np.asarray(solution)
