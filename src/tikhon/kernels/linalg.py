"""Dense factorisations, straight to LAPACK: the wrappers of scipy cost more than small problems do."""

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack

Matrix = NDArray[np.float64]


def cholesky(matrix: Matrix) -> Matrix:
    """The lower Cholesky factor, in Fortran order; raises LinAlgError if not positive definite."""
    factor, info = lapack.dpotrf(matrix, lower=1, clean=0, overwrite_a=0)
    if info != 0:
        raise np.linalg.LinAlgError(
            f"leading minor {info} of a {matrix.shape[0]} x {matrix.shape[0]} matrix is not positive"
        )
    return np.asarray(factor)


def cholesky_solve(factor: Matrix, right: Matrix) -> Matrix:
    """(L L')^-1 B for a vector or a matrix of columns."""
    solution, info = lapack.dpotrs(factor, right, lower=1)
    if info != 0:
        raise np.linalg.LinAlgError(f"argument {-info} of dpotrs is bad")
    return np.asarray(solution)
