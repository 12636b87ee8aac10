"""Tables of long molecules in tiles, for reuse in caches and so that threads can share one molecule.

Tiles depend on the number of letters alone: sums do not depend on the number of threads.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

from tikhon.kernels.folding.inside import Tile
from tikhon.threads import ThreadPool

Found = TypeVar("Found")

WHOLE = 500  # up to this many letters the tables are a single tile
SIDE_OF_TILE = 256


def diagonals(n: int) -> list[list[Tile]]:
    """The tiles of n letters by distance from the diagonal: those at the same distance are independent."""
    if n <= WHOLE:
        return [[Tile(1, n, 1, n)]]
    stretches = [(first, min(first + SIDE_OF_TILE - 1, n)) for first in range(1, n + 1, SIDE_OF_TILE)]
    return [
        [Tile(*stretches[k], *stretches[k + distance]) for k in range(len(stretches) - distance)]
        for distance in range(len(stretches))
    ]


def each(function: Callable[[Tile], Found], tiles: Sequence[Tile], n_threads: int) -> list[Found]:
    """The results of a function, which should release the GIL, for independent tiles."""
    with ThreadPool(min(n_threads, len(tiles))) as pool:
        return pool.map(function, tiles)
