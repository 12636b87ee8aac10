"""The inside pass over one RNA: sums over all structures of each segment, and the tables for all other passes.

A structure is scored by its pairs and loops; Z sums exp(score) over all allowed structures. Every letter carries a factor
exp(-scale), so that Z exp(-scale n) stays within floating point; the caller chooses the scale and tries another if that
fails.

Letters are numbered from 1; ``letters[0]`` and ``letters[n + 1]`` lie beyond the ends. Tables are square with a margin of
zeros, so that loops need not check where the molecule ends: the entry of (i, j) is at [i + MARGIN, j + MARGIN].

    pairs[i, j]    i pairs with j
    inner[i, j]    the same, times its junction with the bulge or internal loop around it
    loops[i, j]    all bulges and internal loops that i and j close
    one[i, j]      part of a multiloop: a pair that starts at i, then unpaired letters
    first[i, j]    unpaired letters, then ``one``
    two[i, j]      two pairs or more
    many[i, j]     one pair or more: first + two

``one_turned`` and ``many_turned`` are transposes: they are read by rows, which are contiguous in memory.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tikhon.kernels.compiling import compiled, inlined

Array = NDArray[np.float64]

MARGIN = 34  # more than the letters of a loop and the pair inside it
LONGEST = 30  # unpaired letters of a bulge or internal loop
SIDE = 32  # of tables of loops: the last row and column, and the entries of too long loops, are 0
ANY, NONE = -1, 0  # partners: unknown, unpaired; else the number of a letter
index = np.uint64  # see ``dot``


class Molecule(NamedTuple):
    """One sequence and what is known of its structure. All arrays have n + 2 entries, one beyond each end."""

    n: int
    letters: NDArray[np.int64]
    partners: NDArray[np.int64]  # ANY, NONE or a letter
    is_free: Array  # 1 where a letter may be unpaired, else 0
    free_after: NDArray[np.int64]  # number of consecutive letters after this one that may be unpaired, at most LONGEST
    free_before: NDArray[np.int64]
    bound: NDArray[np.int64]  # number of letters up to this one that may not be unpaired
    can_pair: NDArray[np.bool_]  # (5, 5), by letters
    least_hairpin: int
    counts_parses: bool  # unpaired letters before several pairs count once for each pair but the last, as in CONTRAfold


class Boltzmann(NamedTuple):
    """The Boltzmann factors exp(score) of elements, each including those of its letters; four letters as one number."""

    pair: Array  # (5, 5)
    stack: Array  # (625,), with two letters
    closing: Array  # (625,)
    branch: Array  # (625,)
    loop: Array  # (32, 32), with the letters of the loop and two; 0 if there is none or letters matter
    turned_loop: Array  # the same, with each row reversed
    bulge_left: Array  # (5,), bulges of one letter, with three letters
    bulge_right: Array
    internal: Array  # (5, 5), internal loops of one and one, with four letters
    hairpin: Array  # (n + 1,), with the letters of the loop and two
    multi_closing: float  # a multiloop and the pair that closes it, with its two letters
    multi_unpaired: float  # with one letter
    multi_pair: float
    external_unpaired: float  # with one letter
    external_pair: float


class Tables(NamedTuple):
    """See above. Each is a square with ``table_side(n)`` rows."""

    pairs: Array
    inner: Array
    loops: Array
    one: Array
    one_turned: Array
    first: Array
    two: Array
    many: Array
    many_turned: Array


class Tile(NamedTuple):
    """A part of the tables: pairs of a letter from ``first_i`` to ``last_i`` with one from ``first_j`` to ``last_j``.

    Tables of long molecules are filled tile by tile: those at the same distance from the diagonal are independent.
    """

    first_i: int
    last_i: int
    first_j: int
    last_j: int


def table_side(n: int) -> int:
    return n + 2 * MARGIN + 2


@inlined
def four(a: int, b: int, c: int, d: int) -> int:
    """Four letters as one number."""
    return ((a * 5 + b) * 5 + c) * 5 + d


@inlined
def may_pair(i: int, j: int, molecule: Molecule) -> bool:
    if j - i - 1 < molecule.least_hairpin or not molecule.can_pair[molecule.letters[i], molecule.letters[j]]:
        return False
    left, right = molecule.partners[i], molecule.partners[j]
    return bool(left in (ANY, j) and right in (ANY, i))


@inlined
def dot(a: Array, row: int, start: int, b: Array, b_row: int, b_start: int, n: int) -> float:
    """sum_k a[row, start + k] b[b_row, b_start + k] over k < n.

    Here and below, indices are converted to unsigned where they are used: the compiler then knows that they do not count from
    the end, and vectorises loops over them.
    """
    total = 0.0
    for k in range(n):
        total += a[index(row), index(start + k)] * b[index(b_row), index(b_start + k)]
    return total


@inlined
def long_dot(a: Array, row: int, start: int, b: Array, b_row: int, b_start: int, n: int) -> float:
    """The same if one of the rows continues with zeros: rounds n up to a multiple of sixteen, to leave no remainder."""
    return dot(a, row, start, b, b_row, b_start, (n + 15) // 16 * 16)


@inlined
def rows_sum(a: Array, row: int, down: int, start: int, b: Array, b_row: int, b_start: int, n: int) -> float:
    """sum_k sum_m a[row + down m, start + k] b[b_row + m, b_start + k] over k < n and eight rows m.

    Single rows would be too short for efficient loops.
    """
    total = 0.0
    for k in range(n):
        column = 0.0
        for m in range(8):
            column += a[index(row + down * m), index(start + k)] * b[index(b_row + m), index(b_start + k)]
        total += column
    return total


@inlined
def in_full(left: int, most_left: int, most_right: int) -> int:
    """The number of columns of the eight rows from ``left`` on, a multiple of eight; 0 if constraints cut them off.

    Loops that would be too long have the factor 0, so including them is harmless.
    """
    if left + 8 > SIDE or most_right < LONGEST - left or most_left < min(left + 7, LONGEST):
        return 0
    return (LONGEST + 8 - left) // 8 * 8


@inlined
def close_loops(i: int, tile: Tile, molecule: Molecule, boltzmann: Boltzmann, inner: Array, loops: Array) -> None:
    """Fills the row of i in ``loops``, within the tile.

    A row at a time: passing all these arrays for each pair would take longer.
    """
    x, r = molecule.letters, i + MARGIN
    most_left, free_left = molecule.free_after[i], molecule.is_free[i + 1]
    for j in range(max(i + 3, tile.first_j), tile.last_j + 1):
        if not may_pair(i, j, molecule):
            continue
        c, most_right, free_right = j + MARGIN, molecule.free_before[j], molecule.is_free[j - 1]
        last_left = min(most_left, j - i - 3)
        total, left = 0.0, 0
        while left <= last_left:
            width = in_full(left, most_left, most_right)
            if width > 0:
                # inner[i + 1 + left, j - width + k] for k = 0 ... width - 1
                total += rows_sum(inner, r + 1 + left, 1, c - width, boltzmann.turned_loop, left, SIDE - width, width)
                left += 8
            else:
                right = min(most_right, LONGEST - left)
                first, start = c - 1 - right, LONGEST + 1 - right
                total += dot(inner, r + 1 + left, first, boltzmann.turned_loop, left, start, right + 1)
                left += 1
        total += boltzmann.bulge_left[x[i + 1]] * free_left * inner[r + 2, c - 1]
        total += boltzmann.bulge_right[x[j - 1]] * free_right * inner[r + 1, c - 2]
        total += boltzmann.internal[x[i + 1], x[j - 1]] * free_left * free_right * inner[r + 2, c - 2]
        loops[r, c] = total


@compiled
def inside(tile: Tile, molecule: Molecule, boltzmann: Boltzmann, tables: Tables) -> None:
    """Fills a tile of the tables, which are 0 at first; those to the left of it and below must be done."""
    x = molecule.letters
    pairs, inner, one, two, many = tables.pairs, tables.inner, tables.one, tables.two, tables.many
    for i in range(tile.last_i, tile.first_i - 1, -1):
        close_loops(i, tile, molecule, boltzmann, inner, tables.loops)
        r = i + MARGIN
        unpaired_i = boltzmann.multi_unpaired * molecule.is_free[i]
        for j in range(max(i, tile.first_j), tile.last_j + 1):
            c = j + MARGIN
            begins = one[r, c - 1] * boltzmann.multi_unpaired * molecule.is_free[j]
            if may_pair(i, j, molecule):
                outer, turned = four(x[i], x[j], x[i + 1], x[j - 1]), four(x[j], x[i], x[j + 1], x[i - 1])
                hairpin = boltzmann.hairpin[j - i - 1] if molecule.bound[j - 1] == molecule.bound[i] else 0.0
                value = boltzmann.pair[x[i], x[j]] * (
                    boltzmann.closing[outer] * (hairpin + tables.loops[r, c])
                    + boltzmann.stack[outer] * pairs[r + 1, c - 1]
                    + boltzmann.branch[outer] * boltzmann.multi_closing * two[r + 1, c - 1]
                )
                pairs[r, c] = value
                inner[r, c] = value * boltzmann.closing[turned]
                begins += value * boltzmann.branch[turned] * boltzmann.multi_pair
            one[r, c] = tables.one_turned[c, r] = begins
            later = many[r + 1, c] if molecule.counts_parses else tables.first[r + 1, c]
            tables.first[r, c] = begins + unpaired_i * later
            two[r, c] = long_dot(many, r, r, tables.one_turned, c, r + 1, j - i)
            many[r, c] = tables.many_turned[c, r] = two[r, c] + tables.first[r, c]


@compiled
def exterior(molecule: Molecule, boltzmann: Boltzmann, pairs: Array, before: Array, after: Array) -> float:
    """Sums over the letters before and after each one (n + 2 entries each), outside of all pairs; returns Z."""
    n, x = molecule.n, molecule.letters
    before[0] = after[n + 1] = 1.0
    for j in range(1, n + 1):
        total = before[j - 1] * boltzmann.external_unpaired * molecule.is_free[j]
        for i in range(1, j):
            value = pairs[i + MARGIN, j + MARGIN]
            if value != 0.0:
                total += (
                    before[i - 1]
                    * value
                    * boltzmann.branch[four(x[j], x[i], x[j + 1], x[i - 1])]
                    * boltzmann.external_pair
                )
        before[j] = total
    for i in range(n, 0, -1):
        total = after[i + 1] * boltzmann.external_unpaired * molecule.is_free[i]
        for j in range(i + 1, n + 1):
            value = pairs[i + MARGIN, j + MARGIN]
            if value != 0.0:
                total += (
                    after[j + 1]
                    * value
                    * boltzmann.branch[four(x[j], x[i], x[j + 1], x[i - 1])]
                    * boltzmann.external_pair
                )
        after[i] = total
    return float(before[n])
