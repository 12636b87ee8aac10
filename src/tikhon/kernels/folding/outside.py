"""The outside pass over one RNA: the weight of each entry of the inside tables, hence the expected uses of scores.

The outside value of an entry is the derivative of log Z with respect to it; its product with the inside value is the
probability that a structure uses it. Letters are processed in the order of dependence, i ascending and j descending,
and each outside value overwrites an inside value that is no longer needed:

    pairs, loops, first, two    of the same entry
    one_turned                  the transpose of ``two``

``inner``, ``one``, ``many`` and ``many_turned`` are not changed.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tikhon.kernels.compiling import compiled, inlined
from tikhon.kernels.folding.inside import (
    LONGEST,
    MARGIN,
    SIDE,
    Array,
    Boltzmann,
    Molecule,
    Tables,
    Tile,
    dot,
    four,
    in_full,
    index,
    long_dot,
    rows_sum,
)

LONGEST_HAIRPIN = 30  # from here on all have the same score


class Uses(NamedTuple):
    """The expected uses of each score; four letters as one number."""

    pair: Array  # (5, 5)
    stack: Array  # (625,)
    closing: Array  # (625,)
    branch: Array  # (625,)
    loop: Array  # (31, 31)
    bulge: Array  # (5,)
    internal: Array  # (5, 5)
    hairpin: Array  # (31,)
    multi: Array  # (3,): multiloops, their unpaired letters, their pairs
    external: Array  # (2,): unpaired letters, pairs


@inlined
def lie_in_loops(
    i: int, tile: Tile, molecule: Molecule, boltzmann: Boltzmann, pairs: Array, loops: Array, inner: Array, junctions: Array,
    uses: Uses,
) -> None:  # fmt: skip
    """Sets ``junctions``, for the pairs of the tile that start at i, to the sum over all bulges and internal loops outside.

    The pair itself is excluded. In the row of i, ``pairs`` has inside values; in earlier rows, ``loops`` has outside values.
    """
    x, r = molecule.letters, i + MARGIN
    a, most_left, free_left = x[i - 1], molecule.free_before[i], molecule.is_free[i - 1]
    for j in range(max(i + 1, tile.first_j), tile.last_j + 1):
        c = j + MARGIN
        if pairs[r, c] == 0.0:
            continue
        b, most_right, free_right = x[j + 1], molecule.free_after[j], molecule.is_free[j + 1]
        total, left = 0.0, 0
        while left <= most_left:
            width = in_full(left, most_left, most_right)
            if width > 0:
                total += rows_sum(loops, r - 1 - left, -1, c + 1, boltzmann.loop, left, 0, width)
                left += 8
            else:
                right = min(most_right, LONGEST - left)
                total += dot(loops, r - 1 - left, c + 1, boltzmann.loop, left, 0, right + 1)
                left += 1
        bulge_left = boltzmann.bulge_left[a] * free_left * loops[r - 2, c + 1]
        bulge_right = boltzmann.bulge_right[b] * free_right * loops[r - 1, c + 2]
        internal = boltzmann.internal[a, b] * free_left * free_right * loops[r - 2, c + 2]
        uses.bulge[a] += bulge_left * inner[r, c]
        uses.loop[1, 0] += bulge_left * inner[r, c]
        uses.bulge[b] += bulge_right * inner[r, c]
        uses.loop[0, 1] += bulge_right * inner[r, c]
        uses.internal[a, b] += internal * inner[r, c]
        uses.loop[1, 1] += internal * inner[r, c]
        junctions[c] = total + bulge_left + bulge_right + internal


@inlined
def count_loops(
    i: int, tile: Tile, molecule: Molecule, loops: Array, inner: Array, closers: NDArray[np.int64], sums: Array
) -> None:
    """Adds to ``sums`` the contents of the loops closed by the pairs of the tile that start at i, by the lengths of the loops.

    This excludes the Boltzmann factors of the loops themselves, which are the same for all pairs. ``sums`` is a table like
    ``turned_loop``, ``loops`` has the outside values, ``closers`` is scratch for n + 3 letters. Four pairs at a time: a
    quarter of the loads and stores of the sums.
    """
    r = i + MARGIN
    row = loops[r]
    count = 0
    for j in range(max(i + 3, tile.first_j), tile.last_j + 1):
        if row[j + MARGIN] != 0.0:
            if molecule.free_before[j] < LONGEST:
                _count_cut_loops(i, j, molecule, row[j + MARGIN], inner, sums)
            else:
                closers[count] = j + MARGIN
                count += 1
    closers[count : count + 3] = MARGIN  # where everything is 0
    for left in range(min(molecule.free_after[i], molecule.n - i - 2) + 1):
        width = (LONGEST + 8 - left) // 8 * 8  # sums of loops that are too long are not used
        first, below = SIDE - width, r + 1 + left
        for p in range(0, count, 4):
            c0, c1, c2, c3 = closers[p], closers[p + 1], closers[p + 2], closers[p + 3]
            o0, o1, o2, o3 = row[c0], row[c1], row[c2], row[c3]
            for k in range(width):
                a0, a1 = inner[index(below), index(c0 - width + k)], inner[index(below), index(c1 - width + k)]
                a2, a3 = inner[index(below), index(c2 - width + k)], inner[index(below), index(c3 - width + k)]
                sums[index(left), index(first + k)] += o0 * a0 + o1 * a1 + o2 * a2 + o3 * a3


@inlined
def _count_cut_loops(i: int, j: int, molecule: Molecule, outside: float, inner: Array, sums: Array) -> None:
    """The same for one pair, if constraints cut loops short."""
    most_left, most_right = min(molecule.free_after[i], j - i - 3), molecule.free_before[j]
    for left in range(most_left + 1):
        right = min(most_right, LONGEST - left)
        row, into = inner[i + MARGIN + 1 + left, j + MARGIN - 1 - right :], sums[left, LONGEST + 1 - right :]
        for k in range(right + 1):
            into[k] += outside * row[k]


@compiled
def outside(
    tile: Tile, molecule: Molecule, boltzmann: Boltzmann, tables: Tables, before: Array, after: Array, ones: Array, uses: Uses,
    probabilities: NDArray[np.float64],
) -> None:  # fmt: skip
    """Adds to ``uses``; fills a tile of ``probabilities`` (n + 2 square, or empty). Tiles above it and to the right are done.

    ``ones`` has, for each i, the outside value of ``one`` at the start of the tile to the right, then at that of this one.
    """
    n, x = molecule.n, molecule.letters
    pairs, inner, loops, two, two_turned = tables.pairs, tables.inner, tables.loops, tables.two, tables.one_turned
    per_z = 1.0 / before[n]
    junctions = np.zeros(n + MARGIN + 1)
    loop_sums, closers = np.zeros_like(boltzmann.loop), np.empty(n + 3, np.int64)
    for i in range(tile.first_i, tile.last_i + 1):
        lie_in_loops(i, tile, molecule, boltzmann, pairs, loops, inner, junctions, uses)
        r = i + MARGIN
        unpaired_before = boltzmann.multi_unpaired * molecule.is_free[i - 1]
        unpaired_i = boltzmann.multi_unpaired * molecule.is_free[i]
        outside_one = ones[i]
        for j in range(tile.last_j, max(i, tile.first_j) - 1, -1):
            c = j + MARGIN
            # ``many`` before a further pair, and as ``two`` within i - 1 and j + 1 that close a multiloop
            outside_many = long_dot(two, r, c + 1, tables.one, c + 1, c + 1, n - j)
            earlier = unpaired_before * tables.first[r - 1, c]
            if molecule.counts_parses:
                outside_many += earlier
            outside_two, outside_stack = outside_many, 0.0
            around = four(x[i - 1], x[j + 1], x[i], x[j])
            outside_around = pairs[r - 1, c + 1] * boltzmann.pair[x[i - 1], x[j + 1]]
            if outside_around != 0.0:
                outside_two += outside_around * boltzmann.branch[around] * boltzmann.multi_closing
                outside_stack = outside_around * boltzmann.stack[around]
            outside_first = outside_many if molecule.counts_parses else outside_many + earlier
            later = tables.many[r + 1, c] if molecule.counts_parses else tables.first[r + 1, c]
            uses.multi[1] += unpaired_i * later * outside_first
            outside_one = (
                outside_first
                + boltzmann.multi_unpaired * molecule.is_free[j + 1] * outside_one
                + long_dot(two_turned, c, MARGIN + 1, tables.many_turned, r - 1, MARGIN + 1, i - 1)
            )
            uses.multi[1] += boltzmann.multi_unpaired * molecule.is_free[j] * tables.one[r, c - 1] * outside_one
            outside_pair, outside_loops = 0.0, 0.0
            value = pairs[r, c]
            if value != 0.0:
                turned = four(x[j], x[i], x[j + 1], x[i - 1])
                outer = four(x[i], x[j], x[i + 1], x[j - 1])
                as_external = before[i - 1] * after[j + 1] * per_z * boltzmann.branch[turned] * boltzmann.external_pair
                as_branch = outside_one * boltzmann.branch[turned] * boltzmann.multi_pair
                as_inner = junctions[c] * boltzmann.closing[turned]
                outside_pair = as_external + as_branch + outside_stack + as_inner
                uses.external[1] += as_external * value
                uses.multi[2] += as_branch * value
                uses.branch[turned] += (as_external + as_branch) * value
                uses.closing[turned] += as_inner * value
                uses.stack[around] += outside_stack * value
                uses.pair[x[i], x[j]] += outside_pair * value
                if len(probabilities):
                    probabilities[i, j] = outside_pair * value
                within = outside_pair * boltzmann.pair[x[i], x[j]]
                outside_loops = within * boltzmann.closing[outer]
                if molecule.bound[j - 1] == molecule.bound[i]:
                    hairpin = outside_loops * boltzmann.hairpin[j - i - 1]
                    uses.hairpin[min(j - i - 1, LONGEST_HAIRPIN)] += hairpin
                    uses.closing[outer] += hairpin
                uses.closing[outer] += outside_loops * loops[r, c]
                closes = within * boltzmann.branch[outer] * boltzmann.multi_closing * two[r + 1, c - 1]
                uses.multi[0] += closes
                uses.multi[2] += closes
                uses.branch[outer] += closes
            pairs[r, c], loops[r, c] = outside_pair, outside_loops
            tables.first[r, c] = outside_first
            two[r, c] = two_turned[c, r] = outside_two
        ones[i] = outside_one
        count_loops(i, tile, molecule, loops, inner, closers, loop_sums)
    for left in range(LONGEST + 1):
        for right in range(LONGEST + 1 - left):
            uses.loop[left, right] += boltzmann.loop[left, right] * loop_sums[left, LONGEST + 1 - right]
