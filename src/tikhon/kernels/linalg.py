"""Dense factorisations, straight to LAPACK: the wrappers of scipy cost more than small problems do."""

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack

Matrix = NDArray[np.float64]


def cholesky(matrix: Matrix) -> Matrix:
    """The lower Cholesky factor, in Fortran order; raises LinAlgError if not positive definite."""
    if matrix.shape[0] == 0:  # which LAPACK refuses
        return matrix
    factor, info = lapack.dpotrf(matrix, lower=1, clean=0, overwrite_a=0)
    if info != 0:
        raise np.linalg.LinAlgError(
            f"leading minor {info} of a {matrix.shape[0]} x {matrix.shape[0]} matrix is not positive"
        )
    return np.asarray(factor)


def cholesky_solve(factor: Matrix, right: Matrix) -> Matrix:
    """(L L')^-1 B for a vector or a matrix of columns."""
    if factor.shape[0] == 0:
        return right
    solution, info = lapack.dpotrs(factor, right, lower=1)
    if info != 0:
        raise np.linalg.LinAlgError(f"argument {-info} of dpotrs is bad")
    return np.asarray(solution)


def cholesky_inverse(factor: Matrix) -> Matrix:
    """(L L')^-1, both triangles."""
    if factor.shape[0] == 0:
        return factor
    inverse, info = lapack.dpotri(factor, lower=1)
    if info != 0:
        raise np.linalg.LinAlgError(f"the factor's diagonal entry {info} is 0")
    lower = np.tril(inverse)
    lower += np.tril(inverse, -1).T
    return np.asarray(lower)


def triangular_solve(factor: Matrix, right: Matrix) -> Matrix:
    """L^-1 B for a matrix of columns."""
    if factor.shape[0] == 0:
        return right
    solution, info = lapack.dtrtrs(factor, right, lower=1)
    if info != 0:
        raise np.linalg.LinAlgError(f"the factor's diagonal entry {info} is 0")
    return np.asarray(solution)
