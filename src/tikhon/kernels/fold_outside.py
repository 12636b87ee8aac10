"""The outside pass over one RNA: how much each entry of the inside tables matters, hence what structures use on average.

The outside value of an entry is the derivative of log Z by it; its product with the inside value is the probability that a
structure uses it. Letters are taken in the order in which outside values depend on each other, i ascending and j descending,
and each outside value overwrites an inside value that is no longer needed:

    pairs, loops, one, first, two    of the same entry
    one_turned                       the transpose of ``two``

``inner``, ``many`` and ``many_turned`` stay as they are.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tikhon.kernels.fold_inside import LONGEST, MARGIN, Array, Factors, Molecule, Tables, compiled, dot, four, rows_sum

LONGEST_HAIRPIN = 30  # from which all have the same score


class Uses(NamedTuple):
    """How often structures use each score, on average; four letters as one number."""

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


@compiled
def outside_loop_sum(
    i: int, j: int, molecule: Molecule, factors: Factors, loops: Array, inner: float, uses: Uses
) -> float:
    """All bulges and internal loops that the pair of i and j lies in, up to its junction with them.

    ``loops`` has outside values; ``inner`` is the inside value.
    """
    x, n = molecule.letters, molecule.n
    r, c = i + MARGIN, j + MARGIN
    most_left, most_right = min(molecule.free_before[i], i - 2), min(molecule.free_after[j], n - j - 1)
    total, left = 0.0, 0
    while left + 8 <= most_left + 1:
        right = min(most_right, LONGEST - left)
        total += rows_sum(loops, r - 1 - left, -1, c + 1, factors.loop, left, 0, right + 1)
        left += 8
    while left <= most_left:
        right = min(most_right, LONGEST - left)
        total += dot(loops[r - 1 - left, c + 1 :], factors.loop[left], right + 1)
        left += 1
    if most_left >= 1:
        term = factors.bulge_left[x[i - 1]] * loops[r - 2, c + 1]
        uses.bulge[x[i - 1]] += term * inner
        uses.loop[1, 0] += term * inner
        total += term
    if most_right >= 1:
        term = factors.bulge_right[x[j + 1]] * loops[r - 1, c + 2]
        uses.bulge[x[j + 1]] += term * inner
        uses.loop[0, 1] += term * inner
        total += term
    if most_left >= 1 and most_right >= 1:
        term = factors.internal[x[i - 1], x[j + 1]] * loops[r - 2, c + 2]
        uses.internal[x[i - 1], x[j + 1]] += term * inner
        uses.loop[1, 1] += term * inner
        total += term
    return total


@compiled
def count_loops(i: int, j: int, molecule: Molecule, outside: float, inner: Array, sums: Array) -> None:
    """Adds to ``sums`` (31 x 31, rows from their end) what i and j, which close a loop, have inside it.

    Without the factors of the loops themselves, which are the same for all pairs.
    """
    r, c = i + MARGIN, j + MARGIN
    most_left = min(molecule.free_after[i], j - i - 3)
    most_right = min(molecule.free_before[j], j - i - 3)
    for left in range(most_left + 1):
        right = min(most_right, LONGEST - left)
        row, into = inner[r + 1 + left, c - 1 - right :], sums[left, LONGEST - right :]
        for k in range(right + 1):
            into[k] += outside * row[k]


@compiled
def outside(
    molecule: Molecule, factors: Factors, tables: Tables, before: Array, after: Array, uses: Uses,
    probabilities: NDArray[np.float64],
) -> None:  # fmt: skip
    """Adds to ``uses``; fills ``probabilities`` (n + 2 square, or empty) with those of pairs."""
    n, x = molecule.n, molecule.letters
    pairs, inner, loops, two, two_turned = tables.pairs, tables.inner, tables.loops, tables.two, tables.one_turned
    per_z = 1.0 / before[n]
    loop_sums = np.zeros_like(factors.loop)
    for j in range(1, n + 1):
        uses.external[0] += before[j - 1] * factors.external_unpaired * molecule.is_free[j] * after[j + 1] * per_z
    for i in range(1, n + 1):
        r = i + MARGIN
        unpaired_before = factors.multi_unpaired * molecule.is_free[i - 1]
        unpaired_i = factors.multi_unpaired * molecule.is_free[i]
        for j in range(n, i - 1, -1):
            c = j + MARGIN
            # ``many`` before a further pair, and as ``two`` within i - 1 and j + 1 that close a multiloop
            outside_many = dot(two[r, c + 1 :], tables.one[c + 1, c + 1 :], n - j)
            outside_two, outside_stack = outside_many, 0.0
            around = four(x[i - 1], x[j + 1], x[i], x[j])
            outside_around = pairs[r - 1, c + 1] * factors.pair[x[i - 1], x[j + 1]]
            if outside_around != 0.0:
                outside_two += outside_around * factors.branch[around] * factors.multi_closing
                outside_stack = outside_around * factors.stack[around]
            outside_first = outside_many + unpaired_before * tables.first[r - 1, c]
            uses.multi[1] += unpaired_i * tables.first[r + 1, c] * outside_first
            outside_one = (
                outside_first
                + factors.multi_unpaired * molecule.is_free[j + 1] * tables.one[r, c + 1]
                + dot(two_turned[c, MARGIN + 1 :], tables.many_turned[r - 1, MARGIN + 1 :], i - 1)
            )
            uses.multi[1] += factors.multi_unpaired * molecule.is_free[j] * tables.one[r, c - 1] * outside_one
            outside_pair, outside_loops = 0.0, 0.0
            value = pairs[r, c]
            if value != 0.0:
                turned = four(x[j], x[i], x[j + 1], x[i - 1])
                outer = four(x[i], x[j], x[i + 1], x[j - 1])
                as_external = before[i - 1] * after[j + 1] * per_z * factors.branch[turned] * factors.external_pair
                as_branch = outside_one * factors.branch[turned] * factors.multi_pair
                junction = outside_loop_sum(i, j, molecule, factors, loops, inner[r, c], uses)
                as_inner = junction * factors.closing[turned]
                outside_pair = as_external + as_branch + outside_stack + as_inner
                uses.external[1] += as_external * value
                uses.multi[2] += as_branch * value
                uses.branch[turned] += (as_external + as_branch) * value
                uses.closing[turned] += as_inner * value
                uses.stack[around] += outside_stack * value
                uses.pair[x[i], x[j]] += outside_pair * value
                if len(probabilities):
                    probabilities[i, j] = outside_pair * value
                within = outside_pair * factors.pair[x[i], x[j]]
                outside_loops = within * factors.closing[outer]
                if molecule.bound[j - 1] == molecule.bound[i]:
                    hairpin = outside_loops * factors.hairpin[j - i - 1]
                    uses.hairpin[min(j - i - 1, LONGEST_HAIRPIN)] += hairpin
                    uses.closing[outer] += hairpin
                uses.closing[outer] += outside_loops * loops[r, c]
                count_loops(i, j, molecule, outside_loops, inner, loop_sums)
                closes = within * factors.branch[outer] * factors.multi_closing * two[r + 1, c - 1]
                uses.multi[0] += closes
                uses.multi[2] += closes
                uses.branch[outer] += closes
            pairs[r, c], loops[r, c] = outside_pair, outside_loops
            tables.first[r, c], tables.one[r, c] = outside_first, outside_one
            two[r, c] = two_turned[c, r] = outside_two
    for left in range(LONGEST + 1):
        for right in range(LONGEST + 1 - left):
            uses.loop[left, right] += factors.loop[left, right] * loop_sums[left, LONGEST - right]
