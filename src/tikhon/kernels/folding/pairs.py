"""The nested set of pairs with the largest sum of gains, as needed by posterior decoding.

Each letter that stays unpaired gains u_i, each pair g_ij. A pair matters only if g_ij > u_i + u_j: otherwise breaking it
loses nothing and leaves all others unchanged. So few pairs remain, at any length.
"""

import numpy as np
from numpy.typing import NDArray

from tikhon.kernels.compiling import compiled
from tikhon.kernels.folding.inside import Array


@compiled
def best_pairs(
    unpaired: Array, starts: NDArray[np.int64], ends: NDArray[np.int64], gains: Array, partners: NDArray[np.int64]
) -> float:
    """Fills ``partners`` (0 if unpaired) and returns the sum.

    Letters are numbered from 1, and ``unpaired`` and ``partners`` have n + 2 entries. The pairs of letter i are i with ends[k]
    and the gain gains[k] for k from starts[i] to starts[i + 1].

    best[i, j] = max(u_i + best[i + 1, j], g_ik + best[i + 1, k - 1] + best[k + 1, j] for k <= j).
    """
    n = len(unpaired) - 2
    best = np.zeros((n + 2, n + 2))
    choice = np.zeros((n + 2, n + 2), np.int32)
    for i in range(n, 0, -1):
        row, below, chosen = best[i], best[i + 1], choice[i]
        for j in range(i, n + 1):
            row[j] = unpaired[i] + below[j]
        for p in range(starts[i], starts[i + 1]):
            k = ends[p]
            within = gains[p] + below[k - 1]
            rest = best[k + 1]
            for j in range(k, n + 1):
                value = within + rest[j]
                if value > row[j]:
                    row[j], chosen[j] = value, k
    partners[:] = 0
    stack = np.empty((n + 1, 2), np.int64)
    stack[0, 0], stack[0, 1] = 1, n
    depth = 1
    while depth > 0:
        depth -= 1
        i, j = stack[depth]
        while i <= j:
            k = choice[i, j]
            if k == 0:
                i += 1
                continue
            partners[i], partners[k] = k, i
            stack[depth, 0], stack[depth, 1] = i + 1, k - 1
            depth += 1
            i = k + 1
    return float(best[1, n]) if n > 0 else 0.0
