"""The most probable structure: the inside pass with maxima instead of sums.

The tables have the same meaning as in ``inside.py``, with "the best structure" for "all structures".
"""

from tikhon.kernels.compiling import compiled, inlined_late
from tikhon.kernels.folding.inside import LONGEST, MARGIN, Array, Boltzmann, Molecule, Tables, four, may_pair


@inlined_late
def largest_product(a: Array, b: Array, n: int) -> float:
    largest = 0.0
    for k in range(n):
        largest = max(largest, a[k] * b[k])
    return largest


@inlined_late
def best_loop(i: int, j: int, molecule: Molecule, boltzmann: Boltzmann, inner: Array) -> float:
    """As ``close_loops``."""
    x = molecule.letters
    r, c = i + MARGIN, j + MARGIN
    last_left, most_right = min(molecule.free_after[i], j - i - 3), molecule.free_before[j]
    best = 0.0
    for left in range(last_left + 1):
        right = min(most_right, LONGEST - left)
        row, turned = inner[r + 1 + left, c - 1 - right :], boltzmann.turned_loop[left, LONGEST + 1 - right :]
        best = max(best, largest_product(row, turned, right + 1))
    if last_left >= 1:
        best = max(best, boltzmann.bulge_left[x[i + 1]] * inner[r + 2, c - 1])
    if last_left >= 0 and most_right >= 1:
        best = max(best, boltzmann.bulge_right[x[j - 1]] * inner[r + 1, c - 2])
    if last_left >= 1 and most_right >= 1:
        best = max(best, boltzmann.internal[x[i + 1], x[j - 1]] * inner[r + 2, c - 2])
    return best


@compiled
def best_inside(molecule: Molecule, boltzmann: Boltzmann, tables: Tables) -> None:
    """Fills the tables, which are all 0 at first."""
    n, x = molecule.n, molecule.letters
    pairs, inner, one, two, many = tables.pairs, tables.inner, tables.one, tables.two, tables.many
    for i in range(n, 0, -1):
        r = i + MARGIN
        unpaired_i = boltzmann.multi_unpaired * molecule.is_free[i]
        for j in range(i, n + 1):
            c = j + MARGIN
            begins = one[r, c - 1] * boltzmann.multi_unpaired * molecule.is_free[j]
            if may_pair(i, j, molecule):
                outer, turned = four(x[i], x[j], x[i + 1], x[j - 1]), four(x[j], x[i], x[j + 1], x[i - 1])
                loops = best_loop(i, j, molecule, boltzmann, inner)
                hairpin = boltzmann.hairpin[j - i - 1] if molecule.bound[j - 1] == molecule.bound[i] else 0.0
                value = boltzmann.closing[outer] * max(hairpin, loops)
                value = max(value, boltzmann.stack[outer] * pairs[r + 1, c - 1])
                value = max(value, boltzmann.branch[outer] * boltzmann.multi_closing * two[r + 1, c - 1])
                value *= boltzmann.pair[x[i], x[j]]
                pairs[r, c], tables.loops[r, c] = value, loops
                inner[r, c] = value * boltzmann.closing[turned]
                begins = max(begins, value * boltzmann.branch[turned] * boltzmann.multi_pair)
            one[r, c] = tables.one_turned[c, r] = begins
            tables.first[r, c] = max(begins, unpaired_i * tables.first[r + 1, c])
            two[r, c] = largest_product(many[r, r:], tables.one_turned[c, r + 1 :], j - i)
            many[r, c] = max(two[r, c], tables.first[r, c])


@compiled
def best_exterior(molecule: Molecule, boltzmann: Boltzmann, pairs: Array, before: Array) -> float:
    """As ``exterior``, for the letters before."""
    n, x = molecule.n, molecule.letters
    before[0] = 1.0
    for j in range(1, n + 1):
        best = before[j - 1] * boltzmann.external_unpaired * molecule.is_free[j]
        for i in range(1, j):
            value = pairs[i + MARGIN, j + MARGIN]
            if value != 0.0:
                branch = boltzmann.branch[four(x[j], x[i], x[j + 1], x[i - 1])] * boltzmann.external_pair
                best = max(best, before[i - 1] * value * branch)
        before[j] = best
    return float(before[n])
