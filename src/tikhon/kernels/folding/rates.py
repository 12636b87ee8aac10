"""Inside and outside passes along a direction: values together with their derivatives.

If the scores change at given rates, every quantity q changes at a rate dq; the rates of expected uses are a product with the
Hessian. The steps are those of ``inside.py`` and ``outside.py``, and the tables are overwritten in the same way. A number
and its rate form a pair; sums over rows process both at once, since they are limited by memory and not by arithmetic.
"""

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
    four,
    in_full,
    index,
    may_pair,
)
from tikhon.kernels.folding.outside import LONGEST_HAIRPIN, Uses

Moving = tuple[float, float]


@inlined
def times(a: Moving, b: Moving) -> Moving:
    return a[0] * b[0], a[0] * b[1] + a[1] * b[0]


@inlined
def plus(a: Moving, b: Moving) -> Moving:
    return a[0] + b[0], a[1] + b[1]


@inlined
def moving_dot(
    a: Array, da: Array, row: int, start: int, b: Array, db: Array, b_row: int, b_start: int, n: int
) -> Moving:
    """As ``dot``. The two parts of the rate are separate sums, so that neither waits for the other."""
    total, rate, other = 0.0, 0.0, 0.0
    for k in range(n):
        x, dx = a[index(row), index(start + k)], da[index(row), index(start + k)]
        y, dy = b[index(b_row), index(b_start + k)], db[index(b_row), index(b_start + k)]
        total += x * y
        rate += x * dy
        other += dx * y
    return total, rate + other


@inlined
def long_moving_dot(
    a: Array, da: Array, row: int, start: int, b: Array, db: Array, b_row: int, b_start: int, n: int
) -> Moving:
    """As ``long_dot``."""
    return moving_dot(a, da, row, start, b, db, b_row, b_start, (n + 15) // 16 * 16)


@inlined
def moving_rows_sum(
    a: Array, da: Array, row: int, down: int, start: int, b: Array, db: Array, b_row: int, b_start: int, n: int
) -> Moving:
    """As ``rows_sum``."""
    total, rate, other = 0.0, 0.0, 0.0
    for k in range(n):
        column, d_column, other_column = 0.0, 0.0, 0.0
        for m in range(8):
            x, dx = a[index(row + down * m), index(start + k)], da[index(row + down * m), index(start + k)]
            y, dy = b[index(b_row + m), index(b_start + k)], db[index(b_row + m), index(b_start + k)]
            column += x * y
            d_column += x * dy
            other_column += dx * y
        total += column
        rate += d_column
        other += other_column
    return total, rate + other


@inlined
def moving_close_loops(
    i: int,
    molecule: Molecule,
    boltzmann: Boltzmann,
    rates: Boltzmann,
    inner: Array,
    d_inner: Array,
    loops: Array,
    d_loops: Array,
) -> None:
    """As ``close_loops``."""
    x, r = molecule.letters, i + MARGIN
    a, most_left, free_left = x[i + 1], molecule.free_after[i], molecule.is_free[i + 1]
    bulge_left = (boltzmann.bulge_left[a] * free_left, rates.bulge_left[a] * free_left)
    for j in range(i + 3, molecule.n + 1):
        if not may_pair(i, j, molecule):
            continue
        b, c, most_right, free_right = x[j - 1], j + MARGIN, molecule.free_before[j], molecule.is_free[j - 1]
        last_left = min(most_left, j - i - 3)
        total, left = (0.0, 0.0), 0
        while left <= last_left:
            row, width = r + 1 + left, in_full(left, most_left, most_right)
            if width > 0:
                term = moving_rows_sum(
                    inner,
                    d_inner,
                    row,
                    1,
                    c - width,
                    boltzmann.turned_loop,
                    rates.turned_loop,
                    left,
                    SIDE - width,
                    width,
                )
                left += 8
            else:
                right = min(most_right, LONGEST - left)
                first, start = c - 1 - right, LONGEST + 1 - right
                term = moving_dot(
                    inner, d_inner, row, first, boltzmann.turned_loop, rates.turned_loop, left, start, right + 1
                )
                left += 1
            total = plus(total, term)
        bulge_right = (boltzmann.bulge_right[b] * free_right, rates.bulge_right[b] * free_right)
        both = free_left * free_right
        internal = (boltzmann.internal[a, b] * both, rates.internal[a, b] * both)
        total = plus(total, times(bulge_left, (inner[r + 2, c - 1], d_inner[r + 2, c - 1])))
        total = plus(total, times(bulge_right, (inner[r + 1, c - 2], d_inner[r + 1, c - 2])))
        total = plus(total, times(internal, (inner[r + 2, c - 2], d_inner[r + 2, c - 2])))
        loops[r, c], d_loops[r, c] = total


@compiled
def moving_inside(molecule: Molecule, boltzmann: Boltzmann, rates: Boltzmann, tables: Tables, d_tables: Tables) -> None:
    """As ``inside``."""
    n, x = molecule.n, molecule.letters
    pairs, inner, one, two, many = tables.pairs, tables.inner, tables.one, tables.two, tables.many
    d_pairs, d_inner, d_one, d_two, d_many = d_tables.pairs, d_tables.inner, d_tables.one, d_tables.two, d_tables.many
    multi_closing = (boltzmann.multi_closing, rates.multi_closing)
    multi_pair = (boltzmann.multi_pair, rates.multi_pair)
    unpaired = (boltzmann.multi_unpaired, rates.multi_unpaired)
    for i in range(n, 0, -1):
        moving_close_loops(i, molecule, boltzmann, rates, inner, d_inner, tables.loops, d_tables.loops)
        r = i + MARGIN
        for j in range(i, n + 1):
            c = j + MARGIN
            begins = times(unpaired, (one[r, c - 1] * molecule.is_free[j], d_one[r, c - 1] * molecule.is_free[j]))
            if may_pair(i, j, molecule):
                outer, turned = four(x[i], x[j], x[i + 1], x[j - 1]), four(x[j], x[i], x[j + 1], x[i - 1])
                loops = (tables.loops[r, c], d_tables.loops[r, c])
                if molecule.bound[j - 1] == molecule.bound[i]:
                    loops = plus(loops, (boltzmann.hairpin[j - i - 1], rates.hairpin[j - i - 1]))
                value = times((boltzmann.closing[outer], rates.closing[outer]), loops)
                stack = (boltzmann.stack[outer], rates.stack[outer])
                value = plus(value, times(stack, (pairs[r + 1, c - 1], d_pairs[r + 1, c - 1])))
                closing = times((boltzmann.branch[outer], rates.branch[outer]), multi_closing)
                value = plus(value, times(closing, (two[r + 1, c - 1], d_two[r + 1, c - 1])))
                value = times(value, (boltzmann.pair[x[i], x[j]], rates.pair[x[i], x[j]]))
                pairs[r, c], d_pairs[r, c] = value
                inner[r, c], d_inner[r, c] = times(value, (boltzmann.closing[turned], rates.closing[turned]))
                branch = times(value, (boltzmann.branch[turned], rates.branch[turned]))
                begins = plus(begins, times(branch, multi_pair))
            one[r, c], d_one[r, c] = begins
            tables.one_turned[c, r], d_tables.one_turned[c, r] = begins
            later = (tables.first[r + 1, c] * molecule.is_free[i], d_tables.first[r + 1, c] * molecule.is_free[i])
            if molecule.counts_parses:
                later = (many[r + 1, c] * molecule.is_free[i], d_many[r + 1, c] * molecule.is_free[i])
            first = plus(begins, times(unpaired, later))
            tables.first[r, c], d_tables.first[r, c] = first
            further = long_moving_dot(many, d_many, r, r, tables.one_turned, d_tables.one_turned, c, r + 1, j - i)
            two[r, c], d_two[r, c] = further
            all_of_it = plus(further, first)
            many[r, c], d_many[r, c] = all_of_it
            tables.many_turned[c, r], d_tables.many_turned[c, r] = all_of_it


@compiled
def moving_exterior(
    molecule: Molecule, boltzmann: Boltzmann, rates: Boltzmann, tables: Tables, d_tables: Tables, before: Array,
    d_before: Array, after: Array, d_after: Array,
) -> None:  # fmt: skip
    """As ``exterior``."""
    n, x = molecule.n, molecule.letters
    pairs, d_pairs = tables.pairs, d_tables.pairs
    unpaired = (boltzmann.external_unpaired, rates.external_unpaired)
    paired = (boltzmann.external_pair, rates.external_pair)
    before[0] = after[n + 1] = 1.0
    for j in range(1, n + 1):
        total = times(unpaired, (before[j - 1] * molecule.is_free[j], d_before[j - 1] * molecule.is_free[j]))
        for i in range(1, j):
            if pairs[i + MARGIN, j + MARGIN] != 0.0:
                turned = four(x[j], x[i], x[j + 1], x[i - 1])
                branch = times(paired, (boltzmann.branch[turned], rates.branch[turned]))
                branch = times(branch, (pairs[i + MARGIN, j + MARGIN], d_pairs[i + MARGIN, j + MARGIN]))
                total = plus(total, times(branch, (before[i - 1], d_before[i - 1])))
        before[j], d_before[j] = total
    for i in range(n, 0, -1):
        total = times(unpaired, (after[i + 1] * molecule.is_free[i], d_after[i + 1] * molecule.is_free[i]))
        for j in range(i + 1, n + 1):
            if pairs[i + MARGIN, j + MARGIN] != 0.0:
                turned = four(x[j], x[i], x[j + 1], x[i - 1])
                branch = times(paired, (boltzmann.branch[turned], rates.branch[turned]))
                branch = times(branch, (pairs[i + MARGIN, j + MARGIN], d_pairs[i + MARGIN, j + MARGIN]))
                total = plus(total, times(branch, (after[j + 1], d_after[j + 1])))
        after[i], d_after[i] = total


@inlined
def moving_lie_in_loops(
    i: int, molecule: Molecule, boltzmann: Boltzmann, rates: Boltzmann, pairs: Array, loops: Array, d_loops: Array,
    inner: Array, d_inner: Array, junctions: Array, d_junctions: Array, d_uses: Uses,
) -> None:  # fmt: skip
    """As ``lie_in_loops``."""
    x, r = molecule.letters, i + MARGIN
    a, most_left, free_left = x[i - 1], molecule.free_before[i], molecule.is_free[i - 1]
    left_term = (boltzmann.bulge_left[a] * free_left, rates.bulge_left[a] * free_left)
    for j in range(i + 1, molecule.n + 1):
        c = j + MARGIN
        if pairs[r, c] == 0.0:
            continue
        b, most_right, free_right = x[j + 1], molecule.free_after[j], molecule.is_free[j + 1]
        total, left = (0.0, 0.0), 0
        while left <= most_left:
            row, width = r - 1 - left, in_full(left, most_left, most_right)
            if width > 0:
                term = moving_rows_sum(loops, d_loops, row, -1, c + 1, boltzmann.loop, rates.loop, left, 0, width)
                left += 8
            else:
                right = min(most_right, LONGEST - left)
                term = moving_dot(loops, d_loops, row, c + 1, boltzmann.loop, rates.loop, left, 0, right + 1)
                left += 1
            total = plus(total, term)
        right_term = (boltzmann.bulge_right[b] * free_right, rates.bulge_right[b] * free_right)
        both = free_left * free_right
        bulge_left = times(left_term, (loops[r - 2, c + 1], d_loops[r - 2, c + 1]))
        bulge_right = times(right_term, (loops[r - 1, c + 2], d_loops[r - 1, c + 2]))
        internal = (boltzmann.internal[a, b] * both, rates.internal[a, b] * both)
        internal = times(internal, (loops[r - 2, c + 2], d_loops[r - 2, c + 2]))
        value = (inner[r, c], d_inner[r, c])
        use_left, use_right, use_internal = (
            times(bulge_left, value)[1],
            times(bulge_right, value)[1],
            times(internal, value)[1],
        )
        d_uses.bulge[a] += use_left
        d_uses.loop[1, 0] += use_left
        d_uses.bulge[b] += use_right
        d_uses.loop[0, 1] += use_right
        d_uses.internal[a, b] += use_internal
        d_uses.loop[1, 1] += use_internal
        junctions[c], d_junctions[c] = plus(plus(total, bulge_left), plus(bulge_right, internal))


@inlined
def moving_count_loops(
    i: int, molecule: Molecule, loops: Array, d_loops: Array, inner: Array, d_inner: Array, closers: NDArray[np.int64],
    sums: Array, d_sums: Array,
) -> None:  # fmt: skip
    """As ``count_loops``, two pairs at a time."""
    r = i + MARGIN
    values, moves = loops[r], d_loops[r]
    count = 0
    for j in range(i + 3, molecule.n + 1):
        if values[j + MARGIN] != 0.0:
            if molecule.free_before[j] < LONGEST:
                outside = (values[j + MARGIN], moves[j + MARGIN])
                _moving_count_cut_loops(i, j, molecule, outside, inner, d_inner, sums, d_sums)
            else:
                closers[count] = j + MARGIN
                count += 1
    closers[count] = MARGIN  # where everything is 0
    for left in range(min(molecule.free_after[i], molecule.n - i - 2) + 1):
        width = (LONGEST + 8 - left) // 8 * 8
        first, row = SIDE - width, r + 1 + left
        for p in range(0, count, 2):
            c0, c1 = closers[p], closers[p + 1]
            o0, o1, do0, do1 = values[c0], values[c1], moves[c0], moves[c1]
            for k in range(width):
                a0, a1 = inner[index(row), index(c0 - width + k)], inner[index(row), index(c1 - width + k)]
                da0, da1 = d_inner[index(row), index(c0 - width + k)], d_inner[index(row), index(c1 - width + k)]
                sums[index(left), index(first + k)] += o0 * a0 + o1 * a1
                d_sums[index(left), index(first + k)] += o0 * da0 + o1 * da1 + do0 * a0 + do1 * a1


@inlined
def _moving_count_cut_loops(
    i: int, j: int, molecule: Molecule, outside: Moving, inner: Array, d_inner: Array, sums: Array, d_sums: Array
) -> None:
    most_left, most_right = min(molecule.free_after[i], j - i - 3), molecule.free_before[j]
    for left in range(most_left + 1):
        right = min(most_right, LONGEST - left)
        row, first, start = i + MARGIN + 1 + left, j + MARGIN - 1 - right, LONGEST + 1 - right
        a, da, into, d_into = inner[row, first:], d_inner[row, first:], sums[left, start:], d_sums[left, start:]
        for k in range(right + 1):
            into[k] += outside[0] * a[k]
            d_into[k] += outside[0] * da[k] + outside[1] * a[k]


@compiled
def moving_outside(
    molecule: Molecule, boltzmann: Boltzmann, rates: Boltzmann, tables: Tables, d_tables: Tables, before: Array,
    d_before: Array, after: Array, d_after: Array, d_uses: Uses,
) -> None:  # fmt: skip
    """As ``outside``; adds the rates of the uses to ``d_uses``."""
    n, x = molecule.n, molecule.letters
    pairs, inner, loops, one, two = tables.pairs, tables.inner, tables.loops, tables.one, tables.two
    d_pairs, d_inner, d_loops, d_one, d_two = (
        d_tables.pairs, d_tables.inner, d_tables.loops, d_tables.one, d_tables.two,
    )  # fmt: skip
    two_turned, d_two_turned = tables.one_turned, d_tables.one_turned
    multi_closing = (boltzmann.multi_closing, rates.multi_closing)
    multi_pair = (boltzmann.multi_pair, rates.multi_pair)
    unpaired = (boltzmann.multi_unpaired, rates.multi_unpaired)
    external_unpaired = (boltzmann.external_unpaired, rates.external_unpaired)
    external_pair = (boltzmann.external_pair, rates.external_pair)
    per_z = (1.0 / before[n], -(d_before[n] / before[n]) / before[n])  # the square may overflow
    junctions, d_junctions = np.zeros((2, n + MARGIN + 1))
    loop_sums, d_loop_sums, closers = (
        np.zeros_like(boltzmann.loop),
        np.zeros_like(boltzmann.loop),
        np.empty(n + 1, np.int64),
    )
    for j in range(1, n + 1):
        around_j = times(times((before[j - 1], d_before[j - 1]), (after[j + 1], d_after[j + 1])), per_z)
        d_uses.external[0] += times(around_j, external_unpaired)[1] * molecule.is_free[j]
    for i in range(1, n + 1):
        moving_lie_in_loops(
            i, molecule, boltzmann, rates, pairs, loops, d_loops, inner, d_inner, junctions, d_junctions, d_uses
        )
        r = i + MARGIN
        for j in range(n, i - 1, -1):
            c = j + MARGIN
            outside_many = long_moving_dot(two, d_two, r, c + 1, one, d_one, c + 1, c + 1, n - j)
            free = molecule.is_free[i - 1]
            earlier = times(unpaired, (tables.first[r - 1, c] * free, d_tables.first[r - 1, c] * free))
            outside_first = plus(outside_many, earlier)
            if molecule.counts_parses:
                outside_many = outside_first
            outside_two, outside_stack = outside_many, (0.0, 0.0)
            around = four(x[i - 1], x[j + 1], x[i], x[j])
            if pairs[r - 1, c + 1] != 0.0:
                pair = (boltzmann.pair[x[i - 1], x[j + 1]], rates.pair[x[i - 1], x[j + 1]])
                outside_around = times((pairs[r - 1, c + 1], d_pairs[r - 1, c + 1]), pair)
                closing = times((boltzmann.branch[around], rates.branch[around]), multi_closing)
                outside_two = plus(outside_two, times(outside_around, closing))
                outside_stack = times(outside_around, (boltzmann.stack[around], rates.stack[around]))
            free = molecule.is_free[i]
            later = times(unpaired, (tables.first[r + 1, c] * free, d_tables.first[r + 1, c] * free))
            if molecule.counts_parses:
                later = times(unpaired, (tables.many[r + 1, c] * free, d_tables.many[r + 1, c] * free))
            d_uses.multi[1] += times(later, outside_first)[1]
            free = molecule.is_free[j + 1]
            outside_one = plus(outside_first, times(unpaired, (one[r, c + 1] * free, d_one[r, c + 1] * free)))
            outside_one = plus(outside_one, long_moving_dot(
                two_turned, d_two_turned, c, MARGIN + 1, tables.many_turned, d_tables.many_turned, r - 1, MARGIN + 1, i - 1
            ))  # fmt: skip
            free = molecule.is_free[j]
            shorter = times(unpaired, (one[r, c - 1] * free, d_one[r, c - 1] * free))
            d_uses.multi[1] += times(shorter, outside_one)[1]
            outside_pair, outside_loops = (0.0, 0.0), (0.0, 0.0)
            value = (pairs[r, c], d_pairs[r, c])
            if value[0] != 0.0:
                turned = four(x[j], x[i], x[j + 1], x[i - 1])
                outer = four(x[i], x[j], x[i + 1], x[j - 1])
                branch = (boltzmann.branch[turned], rates.branch[turned])
                beyond = times(times((before[i - 1], d_before[i - 1]), (after[j + 1], d_after[j + 1])), per_z)
                as_external = times(times(beyond, external_pair), branch)
                as_branch = times(times(outside_one, multi_pair), branch)
                as_inner = times((junctions[c], d_junctions[c]), (boltzmann.closing[turned], rates.closing[turned]))
                outside_pair = plus(plus(as_external, as_branch), plus(outside_stack, as_inner))
                external, multi = times(as_external, value)[1], times(as_branch, value)[1]
                d_uses.external[1] += external
                d_uses.multi[2] += multi
                d_uses.branch[turned] += external + multi
                d_uses.closing[turned] += times(as_inner, value)[1]
                d_uses.stack[around] += times(outside_stack, value)[1]
                d_uses.pair[x[i], x[j]] += times(outside_pair, value)[1]
                within = times(outside_pair, (boltzmann.pair[x[i], x[j]], rates.pair[x[i], x[j]]))
                outside_loops = times(within, (boltzmann.closing[outer], rates.closing[outer]))
                if molecule.bound[j - 1] == molecule.bound[i]:
                    hairpin = times(outside_loops, (boltzmann.hairpin[j - i - 1], rates.hairpin[j - i - 1]))[1]
                    d_uses.hairpin[min(j - i - 1, LONGEST_HAIRPIN)] += hairpin
                    d_uses.closing[outer] += hairpin
                d_uses.closing[outer] += times(outside_loops, (loops[r, c], d_loops[r, c]))[1]
                closing = times((boltzmann.branch[outer], rates.branch[outer]), multi_closing)
                closing = times(closing, (two[r + 1, c - 1], d_two[r + 1, c - 1]))
                closes = times(within, closing)[1]
                d_uses.multi[0] += closes
                d_uses.multi[2] += closes
                d_uses.branch[outer] += closes
            pairs[r, c], d_pairs[r, c] = outside_pair
            loops[r, c], d_loops[r, c] = outside_loops
            tables.first[r, c], d_tables.first[r, c] = outside_first
            one[r, c], d_one[r, c] = outside_one
            two[r, c], d_two[r, c] = outside_two
            two_turned[c, r], d_two_turned[c, r] = outside_two
        moving_count_loops(i, molecule, loops, d_loops, inner, d_inner, closers, loop_sums, d_loop_sums)
    for left in range(LONGEST + 1):
        for right in range(LONGEST + 1 - left):
            d_uses.loop[left, right] += (
                boltzmann.loop[left, right] * d_loop_sums[left, LONGEST + 1 - right]
                + rates.loop[left, right] * loop_sums[left, LONGEST + 1 - right]
            )
