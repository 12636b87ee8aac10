"""RNA sequences and structures as the kernels want them, and the features of a structure that is known."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tikhon.kernels.fold_inside import ANY, LONGEST, NONE, Molecule
from tikhon.kernels.fold_outside import LONGEST_HAIRPIN
from tikhon.models.folding_weights import LETTERS, N_SCORES, OTHER, tables_of
from tikhon.objective import Vector

Letters = NDArray[np.int64]
Partners = NDArray[np.int64]  # of letters 1 to n, at 0 to n - 1: ANY, NONE or the number of a letter
COMPLEMENTARY = ("AU", "CG", "GU")


@dataclass(frozen=True, kw_only=True)
class Rules:
    """What structures there are."""

    least_hairpin: int = 0
    longest_loop: int = LONGEST  # unpaired letters of a bulge or internal loop
    all_pairs: bool = False  # may any two letters pair, not only AU, CG and GU?
    counts_parses: bool = (
        False  # are structures with several pairs in a loop counted as often as CONTRAfold parses them?
    )

    def can_pair(self) -> NDArray[np.bool_]:
        """By letters; other letters pair with nothing."""
        table = np.zeros((5, 5), bool)
        if self.all_pairs:
            table[:OTHER, :OTHER] = True
        for pair in COMPLEMENTARY:
            a, b = map(LETTERS.index, pair)
            table[a, b] = table[b, a] = True
        return table


def encoded(sequence: str) -> Letters:
    """Numbers of the letters; T is U, and what is no letter of RNA is OTHER."""
    codes = np.full(128, OTHER, np.int64)
    for code, letter in enumerate(LETTERS):
        codes[ord(letter)] = codes[ord(letter.lower())] = code
    codes[ord("T")] = codes[ord("t")] = LETTERS.index("U")
    text = np.frombuffer(sequence.encode("ascii", "replace"), np.uint8)
    return codes[np.minimum(text, 127)]


def unknown_molecule(letters: Letters, rules: Rules) -> Molecule:
    """A sequence of which nothing else is known."""
    n = len(letters)
    return molecule(letters, rules, np.full(n, ANY, np.int64), np.zeros(n, bool))


def molecule(letters: Letters, rules: Rules, partners: Partners, must_pair: NDArray[np.bool_]) -> Molecule:
    """A sequence with what is known of it; ``must_pair`` marks letters that pair with one that is not known.

    With ``counts_parses`` it is the mirror image: CONTRAfold's parses differ in the letters after the last pair of a loop, ours
    in those before the first.
    """
    n, inner = len(letters), slice(1, -1)
    if rules.counts_parses:
        letters, must_pair = letters[::-1], must_pair[::-1]
        partners = np.where(partners > NONE, n + 1 - partners, partners)[::-1]
    known = np.full(n + 2, ANY, np.int64)
    padded = np.full(n + 2, OTHER, np.int64)
    known[inner], padded[inner] = partners, letters
    bound = np.zeros(n + 2, bool)  # beyond the ends nothing pairs, so that loops need not stop there
    bound[inner] = (partners > NONE) | must_pair
    return Molecule(
        n=n, letters=padded, partners=known, is_free=np.where(bound, 0.0, 1.0), free_after=_run_after(bound),
        free_before=_run_after(bound[::-1])[::-1].copy(), bound=np.cumsum(bound), can_pair=rules.can_pair(),
        least_hairpin=rules.least_hairpin, counts_parses=rules.counts_parses,
    )  # fmt: skip


def _run_after(bound: NDArray[np.bool_]) -> NDArray[np.int64]:
    """How many letters in a row after each one are not bound, at most LONGEST."""
    places = np.where(bound, np.arange(len(bound)), len(bound) + LONGEST)
    following = np.minimum.accumulate(places[::-1])[::-1]  # the next bound letter, this one included
    runs = np.zeros(len(bound), np.int64)
    runs[:-1] = following[1:] - np.arange(1, len(bound))
    return np.minimum(runs, LONGEST)


def known_uses(letters: Letters, partners: Partners, rules: Rules) -> Vector:
    """How often a structure uses each score; a ValueError says what makes it impossible."""
    n = len(letters)
    x = np.full(n + 2, OTHER, np.int64)
    x[1:-1] = letters
    partner = np.concatenate([[NONE], partners, [NONE]])
    flat = np.zeros(N_SCORES)
    uses = tables_of(flat)
    can_pair = rules.can_pair()

    def branches_within(i: int, j: int) -> tuple[list[tuple[int, int]], int]:
        """Pairs directly between i and j, and the number of unpaired letters there."""
        found, unpaired, k = [], 0, i + 1
        while k < j:
            if partner[k] == NONE:
                unpaired, k = unpaired + 1, k + 1
            else:
                found.append((k, int(partner[k])))
                k = int(partner[k]) + 1
        return found, unpaired

    def branch(i: int, j: int) -> None:
        uses.branch[x[i], x[j], x[i + 1] if i <= n else OTHER, x[j - 1] if j >= 1 else OTHER] += 1.0

    outside, unpaired = branches_within(0, n + 1)
    uses.external[:] = unpaired, len(outside)
    for i, j in outside:
        branch(j, i)
    for i in range(1, n + 1):
        j = int(partner[i])
        if j <= i:
            continue
        if not can_pair[x[i], x[j]]:
            raise ValueError(f"letters {i} and {j} cannot pair")
        if j - i - 1 < rules.least_hairpin:
            raise ValueError(f"letters {i} and {j} are closer than {rules.least_hairpin} letters")
        uses.pair[x[i], x[j]] += 1.0
        inside, unpaired = branches_within(i, j)
        if not inside:
            uses.closing[x[i], x[j], x[i + 1], x[j - 1]] += 1.0
            uses.hairpin[min(unpaired, LONGEST_HAIRPIN)] += 1.0
        elif len(inside) > 1:
            uses.multi[:] += 1.0, unpaired, len(inside) + 1
            branch(i, j)
            for p, q in inside:
                branch(q, p)
        elif unpaired == 0:
            uses.stack[x[i], x[j], x[i + 1], x[j - 1]] += 1.0
        else:
            ((p, q),) = inside
            left, right = p - i - 1, j - q - 1
            if unpaired > rules.longest_loop:
                raise ValueError(
                    f"the loop that letters {i} and {j} close has {unpaired} unpaired letters, {rules.longest_loop} at most"
                )
            uses.loop[left, right] += 1.0
            uses.closing[x[i], x[j], x[i + 1], x[j - 1]] += 1.0
            uses.closing[x[q], x[p], x[q + 1], x[p - 1]] += 1.0
            if unpaired == 1:
                uses.bulge[x[i + 1] if left else x[j - 1]] += 1.0
            elif left == right == 1:
                uses.internal[x[i + 1], x[j - 1]] += 1.0
    return flat
