"""The n most probable structures, one after the other, from the tables of ``best.py``.

A partial structure has some pairs, and segments ("spans") for which the tables give the best completion; so the best
structure that it can become is known exactly (Wuchty et al. 1999). The most promising one is completed by the best choice for
each span, which gives the next structure; the alternatives are stored. Each structure has a single derivation, so the stored
partial structures have no completions in common and at least one each: no more are needed than structures are still wanted,
which bounds memory.
"""

import math
from heapq import heappop, heappush

import numpy as np
from numpy.typing import NDArray

from tikhon.kernels.compiling import compiled, inlined_late
from tikhon.kernels.folding.inside import LONGEST, MARGIN, Array, Boltzmann, Molecule, Tables, four
from tikhon.kernels.folding.trace import FIRST, MANY, ONE, PAIR, TWO, loop_boltzmann

Numbers = NDArray[np.int32]
Kept = tuple[float, int, int]  # of a partial structure: -prospect, its row, and the number of spans left to do

# Kinds of spans in addition to those of ``trace.py``: the letters up to j, outside of all pairs; none.
EXTERIOR, NOTHING = 5, -1
MOST_LOOPS = (LONGEST + 1) * (LONGEST + 2) // 2  # bulges and internal loops that a pair can close
FIRST_ROOM = 64  # partial structures for which memory is allocated at first


@inlined_late
def _add(number: int, values: Array, spans: Numbers, value: float, kind: int, i: int, j: int) -> int:
    """Add a choice that leaves one span, if it is possible; returns the number of choices."""
    if not value > 0.0:  # infinities times zeros give NaN
        return number
    values[number] = value
    spans[number, 0, 0], spans[number, 0, 1], spans[number, 0, 2] = kind, i, j
    spans[number, 1, 0] = NOTHING
    return number + 1


@inlined_late
def _pair_ways(
    i: int, j: int, molecule: Molecule, boltzmann: Boltzmann, tables: Tables, values: Array, spans: Numbers
) -> int:
    """The choices inside a pair."""
    x = molecule.letters
    r, c = i + MARGIN, j + MARGIN
    outer, pair = four(x[i], x[j], x[i + 1], x[j - 1]), boltzmann.pair[x[i], x[j]]
    closing, number = pair * boltzmann.closing[outer], 0
    if molecule.bound[j - 1] == molecule.bound[i]:
        number = _add(number, values, spans, closing * boltzmann.hairpin[j - i - 1], NOTHING, 0, 0)
    stacked = pair * boltzmann.stack[outer] * tables.pairs[r + 1, c - 1]
    number = _add(number, values, spans, stacked, PAIR, i + 1, j - 1)
    most_right = molecule.free_before[j]
    for left in range(min(molecule.free_after[i], j - i - 3) + 1):
        for right in range(min(most_right, LONGEST - left, j - i - 3 - left) + 1):
            inner = tables.inner[r + 1 + left, c - 1 - right]
            if inner == 0.0:
                continue
            loop = loop_boltzmann(left, right, x[i + 1], x[j - 1], boltzmann)
            number = _add(number, values, spans, closing * loop * inner, PAIR, i + 1 + left, j - 1 - right)
    multi = pair * boltzmann.branch[outer] * boltzmann.multi_closing * tables.two[r + 1, c - 1]
    return _add(number, values, spans, multi, TWO, i + 1, j - 1)


@inlined_late
def _exterior_ways(
    j: int, molecule: Molecule, boltzmann: Boltzmann, tables: Tables, before: Array, values: Array, spans: Numbers
) -> int:
    """The choices outside of all pairs, from letter j down."""
    x = molecule.letters
    unpaired = before[j - 1] * boltzmann.external_unpaired * molecule.is_free[j]
    number = _add(0, values, spans, unpaired, EXTERIOR, 1, j - 1)
    for i in range(1, j):
        pairs = tables.pairs[i + MARGIN, j + MARGIN]
        if pairs != 0.0:
            branch = boltzmann.branch[four(x[j], x[i], x[j + 1], x[i - 1])] * boltzmann.external_pair
            after = _add(number, values, spans, before[i - 1] * pairs * branch, EXTERIOR, 1, i - 1)
            if after > number:
                spans[number, 1, 0], spans[number, 1, 1], spans[number, 1, 2] = PAIR, i, j
            number = after
    return number


@inlined_late
def _ways(
    kind: int, i: int, j: int, molecule: Molecule, boltzmann: Boltzmann, tables: Tables, before: Array, values: Array,
    spans: Numbers,
) -> tuple[int, float]:  # fmt: skip
    """The number of choices for a span, and the value of the best, from the tables.

    Fills the value of each and the (at most two) spans that it leaves, in the order of ``trace``, so that ties are resolved
    equally.
    """
    x = molecule.letters
    r, c = i + MARGIN, j + MARGIN
    if kind == EXTERIOR:
        return _exterior_ways(j, molecule, boltzmann, tables, before, values, spans), before[j]
    if kind == PAIR:
        return _pair_ways(i, j, molecule, boltzmann, tables, values, spans), tables.pairs[r, c]
    if kind == TWO:
        number = 0
        for k in range(i, j):
            value = tables.many[r, k + MARGIN] * tables.one_turned[c, k + 1 + MARGIN]
            after = _add(number, values, spans, value, MANY, i, k)
            if after > number:
                spans[number, 1, 0], spans[number, 1, 1], spans[number, 1, 2] = ONE, k + 1, j
            number = after
        return number, tables.two[r, c]
    if kind == MANY:
        number = _add(0, values, spans, tables.two[r, c], TWO, i, j)
        return _add(number, values, spans, tables.first[r, c], FIRST, i, j), tables.many[r, c]
    if kind == FIRST:
        unpaired = boltzmann.multi_unpaired * molecule.is_free[i]
        number = _add(0, values, spans, tables.one[r, c], ONE, i, j)
        return _add(number, values, spans, unpaired * tables.first[r + 1, c], FIRST, i + 1, j), tables.first[r, c]
    unpaired = boltzmann.multi_unpaired * molecule.is_free[j]
    branch = boltzmann.branch[four(x[j], x[i], x[j + 1], x[i - 1])] * boltzmann.multi_pair
    number = _add(0, values, spans, tables.one[r, c - 1] * unpaired, ONE, i, j - 1)
    return _add(number, values, spans, tables.pairs[r, c] * branch, PAIR, i, j), tables.one[r, c]


@inlined_late
def _copy(source: Numbers, target: Numbers, n: int) -> None:
    """Copies the first n entries. An assignment of slices would take seconds to compile."""
    for k in range(n):
        target[k] = source[k]


@inlined_late
def _opened(todo: Numbers, depth: int, left: Numbers) -> int:
    """Pushes the spans that a choice leaves onto the stack; returns its depth."""
    for m in range(2):
        if left[m, 0] == NOTHING:
            break
        if left[m, 2] > 0:  # else no letters are left outside
            _copy(left[m], todo[3 * depth :], 3)
            depth += 1
    return depth


@inlined_late
def _with_room(rows: Numbers) -> Numbers:
    """The same rows and as many again."""
    more = np.empty((2 * rows.shape[0], rows.shape[1]), np.int32)
    _copy(rows.ravel(), more.ravel(), rows.size)
    return more


@inlined_late
def _forget(heap: list[Kept], free_rows: list[int], most: int) -> list[Kept]:
    """Keeps those with the best prospects, sorted, which is a heap too."""
    kept = [heappop(heap) for _ in range(most)]
    for _, row, _ in heap:
        free_rows.append(row)
    return kept


@compiled
def several_best(
    molecule: Molecule, boltzmann: Boltzmann, tables: Tables, before: Array, count: int
) -> tuple[Numbers, Array]:
    """Partners (n + 2 columns, 0 if unpaired) of up to ``count`` structures, the best first, and log(value) of each."""
    n = molecule.n
    width = 3 * (n // 2 + 2)  # spans are disjoint, and all but the exterior have two letters or more
    most_ways = max(n, MOST_LOOPS) + 4
    values, spans = np.empty(most_ways), np.empty((most_ways, 2, 3), np.int32)
    partners, todo = np.zeros(n + 2, np.int32), np.zeros(width, np.int32)
    todo[0], todo[1], todo[2] = EXTERIOR, 1, n
    kept_partners, kept_todo = np.empty((FIRST_ROOM, n + 2), np.int32), np.empty((FIRST_ROOM, width), np.int32)
    _copy(partners, kept_partners[0], n + 2)
    _copy(todo, kept_todo[0], 3)
    heap, free_rows = [(-math.log(before[n]), 0, min(n, 1))], list(range(FIRST_ROOM - 1, 0, -1))
    found, totals = np.empty((FIRST_ROOM, n + 2), np.int32), [0.0 for _ in range(0)]
    floor = -np.inf  # lower prospects are not needed: there are enough better ones
    while len(totals) < count and len(heap) > 0:
        minus_total, row, depth = heappop(heap)
        total, others = -minus_total, count - len(totals) - 1
        _copy(kept_partners[row], partners, n + 2)
        _copy(kept_todo[row], todo, 3 * depth)
        free_rows.append(row)
        while depth > 0:
            depth -= 1
            kind, i, j = todo[3 * depth], todo[3 * depth + 1], todo[3 * depth + 2]
            if kind == PAIR:
                partners[i], partners[j] = j, i
            number, value = _ways(kind, i, j, molecule, boltzmann, tables, before, values, spans)
            best, log_value = np.argmax(values[:number]), math.log(value)
            least = value * math.exp(min(floor - total, 0.0))  # ``floor`` as a value of this span
            for way in range(number if others > 0 else 0):
                if way == best or values[way] < least:
                    continue
                if len(heap) > 2 * others:  # drop half of them; searching for them each time would take longer
                    heap = _forget(heap, free_rows, others)
                    floor = -heap[-1][0]
                    least = value * math.exp(min(floor - total, 0.0))
                if len(free_rows) == 0:
                    rows = len(kept_partners)
                    kept_partners, kept_todo = _with_room(kept_partners), _with_room(kept_todo)
                    free_rows.extend(range(2 * rows - 1, rows - 1, -1))
                row = free_rows.pop()
                _copy(partners, kept_partners[row], n + 2)
                _copy(todo, kept_todo[row], 3 * depth)
                prospect = total + math.log(values[way]) - log_value
                heappush(heap, (-prospect, row, _opened(kept_todo[row], depth, spans[way])))
            total += math.log(values[best]) - log_value
            depth = _opened(todo, depth, spans[best])
        if len(totals) == len(found):
            found = _with_room(found)
        _copy(partners, found[len(totals)], n + 2)
        totals.append(total)
    return found[: len(totals)], np.array(totals)


@compiled
def log_parses(partners: Numbers) -> float:
    """log of the number of parses of a structure with ``counts_parses``; entries as in a molecule.

    A multiloop with m pairs inside and t letters before the first of them has C(t + m - 2, m - 2) parses.
    """
    total = 0.0
    for i in range(1, len(partners) - 1):
        inside, leading, k = 0, 0, i + 1
        while k < partners[i]:
            if partners[k] == 0:
                leading += inside == 0
                k += 1
            else:
                inside += 1
                k = partners[k] + 1
        if inside > 2:
            total += math.lgamma(leading + inside - 1) - math.lgamma(inside - 1) - math.lgamma(leading + 1)
    return total
