"""RNA sequences and structures in the form of the kernels, and the features of a known structure."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tikhon.data.dot_bracket import SOME_PARTNER
from tikhon.kernels.folding.inside import ANY, LONGEST, NONE, Molecule
from tikhon.kernels.folding.uses import count_structure
from tikhon.models.folding.weights import LETTERS, N_SCORES, OTHER, uses_of
from tikhon.objective import Matrix, Vector

Letters = NDArray[np.int64]
Partners = NDArray[np.int64]  # of letters 1 to n, at 0 to n - 1: ANY, SOME_PARTNER, NONE or the number of a letter
COMPLEMENTARY = ("AU", "CG", "GU")


@dataclass(frozen=True, kw_only=True)
class Rules:
    """The possible structures."""

    least_hairpin: int = 0
    longest_loop: int = LONGEST  # unpaired letters of a bulge or internal loop
    all_pairs: bool = False  # may any two letters pair, not only AU, CG and GU?
    counts_parses: bool = False  # count structures with several pairs in a loop as often as CONTRAfold parses them?

    def can_pair(self) -> NDArray[np.bool_]:
        """By letters; unknown letters pair with nothing."""
        table = np.zeros((5, 5), bool)
        if self.all_pairs:
            table[:OTHER, :OTHER] = True
        for pair in COMPLEMENTARY:
            a, b = map(LETTERS.index, pair)
            table[a, b] = table[b, a] = True
        return table


def encoded(sequence: str) -> Letters:
    """The numbers of the letters; T is read as U, and anything that is not a letter of RNA as OTHER."""
    codes = np.full(128, OTHER, np.int64)
    for code, letter in enumerate(LETTERS):
        codes[ord(letter)] = codes[ord(letter.lower())] = code
    codes[ord("T")] = codes[ord("t")] = LETTERS.index("U")
    text = np.frombuffer(sequence.encode("ascii", "replace"), np.uint8)
    return codes[np.minimum(text, 127)]


def unknown_molecule(letters: Letters, rules: Rules) -> Molecule:
    """A sequence of which nothing else is known."""
    n = len(letters)
    return molecule(letters, rules, np.full(n, ANY, np.int64))


def strangers(letters: Letters, partners: Partners, rules: Rules) -> NDArray[np.intp]:
    """Positions, from 0, of letters whose partner they cannot pair with."""
    places = np.flatnonzero(partners > NONE)
    odd: NDArray[np.intp] = places[~rules.can_pair()[letters[places], letters[partners[places] - 1]]]
    return odd


def lonely(letters: Letters, partners: Partners, rules: Rules) -> NDArray[np.intp]:
    """Positions, from 0, of letters known to pair for which no possible partner is left, whatever the others do."""
    n, can_pair = len(letters), rules.can_pair()
    loops, open_ones = np.zeros(n, np.int64), [-1]  # by the known pair around each letter
    for place, partner in enumerate(partners.tolist()):
        if partner > NONE and partner - 1 < place:
            open_ones.pop()
        loops[place] = open_ones[-1]
        if partner - 1 > place:
            open_ones.append(place)
    odd = []
    for i in np.flatnonzero(partners == SOME_PARTNER).tolist():
        others = (partners < NONE) & (loops == loops[i]) & can_pair[letters[i], letters]
        if not (others & (np.abs(np.arange(n) - i) > rules.least_hairpin)).any():
            odd.append(i)
    return np.array(odd, np.intp)


def contradiction(letters: Letters, partners: Partners, rules: Rules) -> str | None:
    """A description of a contradiction found among single letters and pairs; None if there is none."""
    names, places = LETTERS + "N", np.flatnonzero(partners > NONE)
    near = places[np.abs(places - partners[places] + 1) <= rules.least_hairpin]
    odd, alone = np.append(strangers(letters, partners, rules), near), lonely(letters, partners, rules)
    if len(odd):
        i, j = int(odd[0]), int(partners[odd[0]]) - 1
        return (
            f"pairs {names[letters[i]]} at {i + 1} with {names[letters[j]]} at {j + 1}, which the model does not allow: "
            "write '?' for both"
        )
    if len(alone):
        i = int(alone[0])
        return (
            f"says that {names[letters[i]]} at {i + 1} pairs, and there is no letter that it could pair with: write '?'"
        )
    return None


def known_pairs(letters: Letters, partners: Partners, rules: Rules) -> Partners:
    """The structure with the pairs that the rules do not allow read as unpaired."""
    known = partners.copy()
    known[strangers(letters, partners, rules)] = NONE
    return known


def pair_counts(truth: Partners, guess: Partners) -> tuple[int, int, int]:
    """Numbers of pairs correctly predicted, known, and predicted, without pairs of two letters whose partners are unknown.

    If the partner of one of them is known, the pair counts as correct or wrong.
    """
    told = np.where((guess > NONE) & (truth < NONE) & (truth[guess - 1] < NONE), NONE, guess)
    right, known, predicted = (
        int(np.sum(mask)) // 2 for mask in ((truth == told) & (truth > NONE), truth > NONE, told > NONE)
    )
    return right, known, predicted


def share(part: int, whole: int) -> float:
    """The share; 1 if the whole is 0."""
    return part / whole if whole else 1.0


def molecule(letters: Letters, rules: Rules, partners: Partners) -> Molecule:
    """A sequence with what is known of it.

    With ``counts_parses`` it is the mirror image: CONTRAfold's parses differ in the letters after the last pair of a loop, ours
    in those before the first.
    """
    n, inner = len(letters), slice(1, -1)
    if rules.counts_parses:
        letters = letters[::-1]
        partners = np.where(partners > NONE, n + 1 - partners, partners)[::-1]
    known = np.full(n + 2, ANY, np.int64)
    padded = np.full(n + 2, OTHER, np.int64)
    known[inner], padded[inner] = np.where(partners == SOME_PARTNER, ANY, partners), letters
    bound = np.zeros(n + 2, bool)  # letters beyond the ends do not pair, so that loops need not stop there
    bound[inner] = (partners > NONE) | (partners == SOME_PARTNER)
    return Molecule(
        n=n, letters=padded, partners=known, is_free=np.where(bound, 0.0, 1.0), free_after=_run_after(bound),
        free_before=_run_after(bound[::-1])[::-1].copy(), bound=np.cumsum(bound), can_pair=rules.can_pair(),
        least_hairpin=rules.least_hairpin, counts_parses=rules.counts_parses,
    )  # fmt: skip


def _run_after(bound: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The number of consecutive letters after each one that are not bound, at most LONGEST."""
    places = np.where(bound, np.arange(len(bound)), len(bound) + LONGEST)
    following = np.minimum.accumulate(places[::-1])[::-1]  # the next bound letter, including this one
    runs = np.zeros(len(bound), np.int64)
    runs[:-1] = following[1:] - np.arange(1, len(bound))
    return np.minimum(runs, LONGEST)


def known_uses(letters: Letters, partners: Partners, rules: Rules) -> Vector:
    """The uses of each score by a structure; a ValueError says why it is impossible."""
    padded = np.concatenate([[OTHER], letters, [OTHER]])
    partner = np.concatenate([[NONE], partners, [NONE]])
    can_pair = rules.can_pair()
    for i in np.flatnonzero(partner > np.arange(len(partner))).tolist():
        j = int(partner[i])
        if not can_pair[padded[i], padded[j]]:
            raise ValueError(f"letters {i} and {j} cannot pair")
        if j - i - 1 < rules.least_hairpin:
            raise ValueError(f"letters {i} and {j} are closer than {rules.least_hairpin} letters")
        pairs, unpaired = _within(partner, i, j)
        if pairs == 1 and unpaired > rules.longest_loop:
            raise ValueError(
                f"the loop that letters {i} and {j} close has {unpaired} unpaired letters, {rules.longest_loop} at most"
            )
    (uses,) = structure_uses(padded, partner[None])
    return np.asarray(uses)


def _within(partner: Partners, i: int, j: int) -> tuple[int, int]:
    """The number of pairs directly between i and j, and of unpaired letters there."""
    pairs, unpaired, k = 0, 0, i + 1
    while k < j:
        if partner[k] == NONE:
            unpaired, k = unpaired + 1, k + 1
        else:
            pairs, k = pairs + 1, int(partner[k]) + 1
    return pairs, unpaired


def structure_uses(letters: Letters, structures: NDArray[np.int64]) -> Matrix:
    """The uses of each score by these structures (rows of partners); letters and partners extend beyond the ends."""
    flat = np.zeros((len(structures), N_SCORES))
    for uses, partners in zip(flat, structures, strict=True):
        count_structure(letters, partners, uses_of(uses))
    return flat
