"""Work on sequences in chunks that do not depend on the number of threads, so that sums are computed in the same order."""

from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from tikhon.threads import ThreadPool

Item = TypeVar("Item")
Found = TypeVar("Found")

MOST = 4  # limit on the number of chunks: each has its own gradient
TOKENS = 2_000  # least size of a chunk: fewer tokens take less time than the call
BLOCK = 2_000  # tokens whose scores are computed at a time: they stay in the cache


def chunks_of(starts: NDArray[np.int64]) -> list[tuple[int, int]]:
    """Runs of sequences, first and last + 1, with about the same number of tokens each."""
    count = int(np.clip(starts[-1] // TOKENS, 1, MOST))
    ends = np.searchsorted(starts, np.linspace(0, starts[-1], count + 1))
    ends[0], ends[-1] = 0, len(starts) - 1
    return [(int(a), int(b)) for a, b in pairwise(ends) if a < b]


def blocks_of(starts: NDArray[np.int64], first: int, last: int) -> Iterator[tuple[int, int]]:
    """Runs of sequences among first ... last - 1 with few tokens each, at least one sequence."""
    while first < last:
        end = int(np.searchsorted(starts, starts[first] + BLOCK, side="right")) - 1
        end = min(max(end, first + 1), last)
        yield first, end
        first = end


def mapped(function: Callable[[Item], Found], items: Iterable[Item], n_threads: int) -> Iterator[Found]:
    """The results of the function, which should release the GIL, for all items, in order.

    At most as many items as there are threads are taken at a time, so that their memory does not accumulate.
    """
    with ThreadPool(n_threads) as pool:
        yield from pool.in_order(function, items, n_threads)
