"""Products of sparse rows, one per token, with a dense matrix of features by hidden units."""

import numpy as np
from numpy.typing import NDArray

from tikhon.kernels.compiling import compiled

Array = NDArray[np.float64]


@compiled
def rows_times(
    numbers: NDArray[np.intp], pointers: NDArray[np.int64], features: NDArray[np.int32], values: Array, weights: Array,
    out: Array,
) -> None:  # fmt: skip
    """Fills ``out`` (rows x H) with the rows of these numbers times ``weights`` (D x H); no values: all are 1."""
    for place in range(len(numbers)):
        into, first, last = out[place], pointers[numbers[place]], pointers[numbers[place] + 1]
        into[:] = 0.0
        for p in range(first, last):
            value = values[p] if len(values) > 0 else 1.0
            row = weights[features[p]]
            for h in range(len(into)):
                into[h] += value * row[h]


@compiled
def add_transposed(
    numbers: NDArray[np.intp], pointers: NDArray[np.int64], features: NDArray[np.int32], values: Array, by_row: Array,
    squared: bool, into: Array,
) -> None:  # fmt: skip
    """Adds the transposed rows, or their squares, times ``by_row`` to ``into`` (D x H)."""
    for place in range(len(numbers)):
        given = by_row[place]
        for p in range(pointers[numbers[place]], pointers[numbers[place] + 1]):
            value = values[p] if len(values) > 0 else 1.0
            value = value * value if squared else value
            row = into[features[p]]
            for h in range(len(given)):
                row[h] += value * given[h]


@compiled
def sum_by_place(places: NDArray[np.intp], values: Array, into: Array) -> None:
    """Adds each row of ``values`` to the row of ``into`` that its place names."""
    for token in range(len(places)):
        given, row = values[token], into[places[token]]
        for k in range(len(given)):
            row[k] += given[k]
