"""Cholesky factors of many small matrices at once: the matrices are indexed by the last axis, along which all operations run.

For the few classes of a softmax this is several times as fast as one LAPACK call per matrix.
"""

import numpy as np
from numpy.typing import NDArray

Blocks = NDArray[np.float64]  # K x K x n
Matrix = NDArray[np.float64]  # K x n
LEAST_PIVOT = 1e-10  # for matrices with eigenvalues in (0, 1]: smaller pivots are rounding error


def row_cholesky(matrices: Blocks) -> Blocks:
    """L with L L' = M for each of n matrices; pivots are bounded away from 0. Entries above the diagonal are not used."""
    factor = matrices.copy()
    for j in range(len(factor)):
        if j:
            factor[j:, j] -= np.einsum("kln,ln->kn", factor[j:, :j], factor[j, :j])
        pivot = np.sqrt(np.maximum(factor[j, j], LEAST_PIVOT))
        factor[j, j] = pivot
        factor[j + 1 :, j] /= pivot
    return factor


def row_cholesky_solve(factor: Blocks, right: Matrix) -> Matrix:
    """(L L')^-1 b for each of n vectors."""
    solution, K = right.copy(), len(right)
    for j in range(K):
        if j:
            solution[j] -= np.einsum("ln,ln->n", factor[j, :j], solution[:j])
        solution[j] /= factor[j, j]
    for j in reversed(range(K)):
        if j + 1 < K:
            solution[j] -= np.einsum("ln,ln->n", factor[j + 1 :, j], solution[j + 1 :])
        solution[j] /= factor[j, j]
    return solution
