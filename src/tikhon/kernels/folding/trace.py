"""Structures from finished tables: samples from those of the inside pass, or the best one from those of ``best.py``.

Both use the same traceback: at each place one of the terms of the entry is chosen, the largest, or one at random in proportion
to its size. Terms are visited one after the other, and a random choice replaces the previous one with probability
term / sum so far, so no list of them is needed.
"""

import numpy as np
from numpy.typing import NDArray

from tikhon.kernels.compiling import compiled, inlined_late
from tikhon.kernels.folding.inside import LONGEST, MARGIN, Array, Boltzmann, Molecule, Tables, four

PAIR, TWO, MANY, FIRST, ONE = 0, 1, 2, 3, 4  # kinds of segments


@inlined_late
def chosen(term: float, so_far: float, generator: np.random.Generator, drawn: bool) -> tuple[bool, float]:
    """Whether this term replaces the choice, and the sum (or the maximum) of all terms so far."""
    if not drawn:
        return term > so_far, max(term, so_far)
    total = so_far + term
    return term > 0.0 and generator.random() * total < term, total


@inlined_late
def loop_boltzmann(left: int, right: int, first: int, last: int, boltzmann: Boltzmann) -> float:
    """The factor of a bulge or internal loop of this size; ``first`` and ``last`` are its letters next to the outer pair."""
    if left == 1 and right == 0:
        return float(boltzmann.bulge_left[first])
    if left == 0 and right == 1:
        return float(boltzmann.bulge_right[last])
    if left == 1 and right == 1:
        return float(boltzmann.internal[first, last])
    return float(boltzmann.loop[left, right])


@inlined_late
def _choose_loop(
    i: int, j: int, molecule: Molecule, boltzmann: Boltzmann, inner: Array, generator: np.random.Generator, drawn: bool
) -> tuple[int, int]:
    """The pair inside a bulge or internal loop that i and j close."""
    x = molecule.letters
    last_left, most_right = min(molecule.free_after[i], j - i - 3), molecule.free_before[j]
    so_far, p, q = 0.0, 0, 0
    for left in range(last_left + 1):
        for right in range(min(most_right, LONGEST - left, j - i - 3 - left) + 1):
            value = inner[i + 1 + left + MARGIN, j - 1 - right + MARGIN]
            if value == 0.0:
                continue
            loop = loop_boltzmann(left, right, x[i + 1], x[j - 1], boltzmann)
            taken, so_far = chosen(loop * value, so_far, generator, drawn)
            if taken:
                p, q = i + 1 + left, j - 1 - right
    return p, q


@compiled
def trace(
    molecule: Molecule, boltzmann: Boltzmann, tables: Tables, before: Array, generator: np.random.Generator, drawn: bool,
    partners: NDArray[np.int64],
) -> None:  # fmt: skip
    """Fills ``partners`` (n + 2 entries, 0 if unpaired)."""
    n, x = molecule.n, molecule.letters
    stack = np.empty((n + 2, 3), np.int64)
    depth = 0
    partners[:] = 0
    j = n
    while j > 0:
        so_far, partner = before[j - 1] * boltzmann.external_unpaired * molecule.is_free[j], 0
        for i in range(1, j):
            value = tables.pairs[i + MARGIN, j + MARGIN]
            if value != 0.0:
                branch = boltzmann.branch[four(x[j], x[i], x[j + 1], x[i - 1])] * boltzmann.external_pair
                taken, so_far = chosen(before[i - 1] * value * branch, so_far, generator, drawn)
                if taken:
                    partner = i
        if partner == 0:
            j -= 1
        else:
            stack[depth] = PAIR, partner, j
            depth += 1
            j = partner - 1
    while depth > 0:
        depth -= 1
        kind, i, j = stack[depth]
        r, c = i + MARGIN, j + MARGIN
        if kind == PAIR:
            partners[i], partners[j] = j, i
            outer = four(x[i], x[j], x[i + 1], x[j - 1])
            is_hairpin = molecule.bound[j - 1] == molecule.bound[i]
            choice, so_far = 0, boltzmann.closing[outer] * boltzmann.hairpin[j - i - 1] if is_hairpin else 0.0
            taken, so_far = chosen(boltzmann.stack[outer] * tables.pairs[r + 1, c - 1], so_far, generator, drawn)
            choice = 1 if taken else choice
            taken, so_far = chosen(boltzmann.closing[outer] * tables.loops[r, c], so_far, generator, drawn)
            choice = 2 if taken else choice
            multi = boltzmann.branch[outer] * boltzmann.multi_closing * tables.two[r + 1, c - 1]
            taken, so_far = chosen(multi, so_far, generator, drawn)
            choice = 3 if taken else choice
            if choice == 1:
                stack[depth] = PAIR, i + 1, j - 1
                depth += 1
            elif choice == 2:
                p, q = _choose_loop(i, j, molecule, boltzmann, tables.inner, generator, drawn)
                stack[depth] = PAIR, p, q
                depth += 1
            elif choice == 3:
                stack[depth] = TWO, i + 1, j - 1
                depth += 1
        elif kind == TWO:
            so_far, split = 0.0, i
            for k in range(i, j):
                term = tables.many[r, k + MARGIN] * tables.one[k + 1 + MARGIN, c]
                taken, so_far = chosen(term, so_far, generator, drawn)
                split = k if taken else split
            stack[depth] = MANY, i, split
            stack[depth + 1] = ONE, split + 1, j
            depth += 2
        elif kind == MANY:
            taken, _ = chosen(tables.first[r, c], tables.two[r, c], generator, drawn)
            stack[depth] = FIRST if taken else TWO, i, j
            depth += 1
        elif kind == FIRST:
            unpaired = boltzmann.multi_unpaired * molecule.is_free[i]
            later = tables.many[r + 1, c] if molecule.counts_parses else tables.first[r + 1, c]
            taken, _ = chosen(unpaired * later, tables.one[r, c], generator, drawn)
            if taken:
                stack[depth] = MANY if molecule.counts_parses else FIRST, i + 1, j
            else:
                stack[depth] = ONE, i, j
            depth += 1
        else:
            shorter = tables.one[r, c - 1] * boltzmann.multi_unpaired * molecule.is_free[j]
            turned = four(x[j], x[i], x[j + 1], x[i - 1])
            taken, _ = chosen(
                tables.pairs[r, c] * boltzmann.branch[turned] * boltzmann.multi_pair, shorter, generator, drawn
            )
            if taken:
                stack[depth] = PAIR, i, j
            else:
                stack[depth] = ONE, i, j - 1
            depth += 1
