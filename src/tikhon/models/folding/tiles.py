"""Tables of long molecules in tiles, so that what is read again stays in the caches and threads can share one molecule.

Tiles depend on the number of letters alone: whatever the number of threads, sums are the same.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

from tikhon.kernels.folding.inside import Tile
from tikhon.threads import ThreadPool

Found = TypeVar("Found")

WHOLE = 500  # letters up to which the tables are one tile
SIDE_OF_TILE = 256


def diagonals(n: int) -> list[list[Tile]]:
    """The tiles of n letters by their distance from the diagonal: those of one do not depend on each other."""
    if n <= WHOLE:
        return [[Tile(1, n, 1, n)]]
    stretches = [(first, min(first + SIDE_OF_TILE - 1, n)) for first in range(1, n + 1, SIDE_OF_TILE)]
    return [
        [Tile(*stretches[k], *stretches[k + distance]) for k in range(len(stretches) - distance)]
        for distance in range(len(stretches))
    ]


def each(function: Callable[[Tile], Found], tiles: Sequence[Tile], n_threads: int) -> list[Found]:
    """What a function, which should release the GIL, makes of tiles that do not depend on each other."""
    with ThreadPool(min(n_threads, len(tiles))) as pool:
        return pool.map(function, tiles)
