"""Products of sparse rows with vectors and with a few vectors at once.

scipy takes 50 % longer: it accumulates in memory instead of registers, and its product with the transpose accesses
the result at random. Indices are unsigned, which saves the check for negative ones.
"""

import numpy as np
from numpy.typing import NDArray

from tikhon.kernels.compiling import compiled

Array = NDArray[np.float64]
Index = NDArray[np.uint32]


@compiled
def row_products(values: Array, columns: Index, pointers: NDArray[np.int64], vector: Array, out: Array) -> None:
    """out_i = sum_j x_ij v_j."""
    for i in range(len(out)):
        total = 0.0
        for q in range(np.uint64(pointers[i]), np.uint64(pointers[i + 1])):
            total += values[q] * vector[columns[q]]
        out[i] = total


@compiled
def row_products_many(values: Array, columns: Index, pointers: NDArray[np.int64], matrix: Array, out: Array) -> None:
    """out_ik = sum_j x_ij m_jk, four entries of a row at a time."""
    width = matrix.shape[1]
    for i in range(out.shape[0]):
        into = out[i]
        into[:] = 0.0
        q, end = np.uint64(pointers[i]), np.uint64(pointers[i + 1])
        while q + np.uint64(3) < end:
            q1, q2, q3 = q + np.uint64(1), q + np.uint64(2), q + np.uint64(3)
            a, b, c, d = values[q], values[q1], values[q2], values[q3]
            row_a, row_b, row_c, row_d = (
                matrix[columns[q]],
                matrix[columns[q1]],
                matrix[columns[q2]],
                matrix[columns[q3]],
            )
            for k in range(width):
                into[k] += a * row_a[k] + b * row_b[k] + c * row_c[k] + d * row_d[k]
            q += np.uint64(4)
        while q < end:
            value, row = values[q], matrix[columns[q]]
            for k in range(width):
                into[k] += value * row[k]
            q += np.uint64(1)


@compiled
def transposed_products(
    values: Array, columns: Index, pointers: NDArray[np.int64], matrix: Array, squared: bool, out: Array
) -> None:
    """out_jk = sum_i x_ij m_ik, or with ``squared`` sum_i x_ij^2 m_ik, row by row."""
    width = matrix.shape[1]
    out[:] = 0.0
    for i in range(matrix.shape[0]):
        row = matrix[i]
        for q in range(np.uint64(pointers[i]), np.uint64(pointers[i + 1])):
            value = values[q] * values[q] if squared else values[q]
            into = out[columns[q]]
            for k in range(width):
                into[k] += value * row[k]


@compiled
def transposed_product(values: Array, columns: Index, pointers: NDArray[np.int64], vector: Array, out: Array) -> None:
    """out_j = sum_i x_ij v_i, row by row."""
    out[:] = 0.0
    for i in range(len(vector)):
        weight = vector[i]
        for q in range(np.uint64(pointers[i]), np.uint64(pointers[i + 1])):
            out[columns[q]] += values[q] * weight


@compiled
def count_columns(columns: Index, counts: NDArray[np.int64]) -> None:
    """Adds to ``counts`` how often each column occurs; numpy would first copy the columns as 64-bit numbers."""
    for q in range(len(columns)):
        counts[columns[q]] += 1
