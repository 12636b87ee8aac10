"""The weights of a log-linear model of RNA structures, and the scores of loops and junctions that they add up to.

The features are those of CONTRAfold (Do, Woods, Batzoglou 2006) in its second version: 708 weights in 15 groups. All scores
used by the dynamic programme are sums of weights, so one sparse matrix computes them, and its transpose turns expected
uses of the scores into expected counts of the features.
"""

from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tikhon.kernels.folding.outside import LONGEST_HAIRPIN, Uses
from tikhon.objective import Vector

LETTERS = "ACGU"
OTHER = 4  # any other letter, and what lies beyond the ends: it pairs with nothing and has score 0
LONGEST_LOOP = 30  # unpaired letters of a bulge or internal loop, at most
LONGEST_SYMMETRIC, LARGEST_ASYMMETRY, LARGEST_EXPLICIT = 15, 28, 4

GROUPS = (
    "base_pair", "terminal_mismatch", "hairpin_length", "internal_explicit", "bulge_length", "internal_length",
    "internal_symmetric_length", "internal_asymmetry", "bulge_0x1_nucleotides", "internal_1x1_nucleotides",
    "helix_stacking", "helix_closing", "multi_length", "dangle", "external_length",
)  # fmt: skip


class ScoreTables(NamedTuple):
    """Views of one vector: scores of the elements of a structure, or how often each is used.

    A pair is seen from a loop as (a, b): the loop continues after a and returns before b. ``closing`` and ``branch`` also
    have the letter after a and the one before b.
    """

    pair: NDArray[np.float64]  # (5, 5)
    stack: NDArray[np.float64]  # (5, 5, 5, 5): a pair and the one inside it
    closing: NDArray[np.float64]  # (5, 5, 5, 5): at hairpins, bulges and internal loops
    branch: NDArray[np.float64]  # (5, 5, 5, 5): in multiloops and outside
    loop: NDArray[np.float64]  # (31, 31): unpaired letters on the left and on the right
    bulge: NDArray[np.float64]  # (5,): the letter of a bulge of one
    internal: NDArray[np.float64]  # (5, 5): the letters of an internal loop of one and one
    hairpin: NDArray[np.float64]  # (31,): unpaired letters
    multi: NDArray[np.float64]  # a multiloop, its unpaired letters, its pairs
    external: NDArray[np.float64]  # (2,): unpaired letters, pairs


SHAPES = {
    "pair": (5, 5), "stack": (5, 5, 5, 5), "closing": (5, 5, 5, 5), "branch": (5, 5, 5, 5), "loop": (31, 31),
    "bulge": (5,), "internal": (5, 5), "hairpin": (31,), "multi": (3,), "external": (2,),
}  # fmt: skip
_ENDS = np.cumsum([int(np.prod(shape)) for shape in SHAPES.values()])
N_SCORES = int(_ENDS[-1])


def tables_of(flat: NDArray[Any]) -> ScoreTables:
    """Views of a vector of length N_SCORES."""
    parts = np.split(flat, _ENDS[:-1])
    return ScoreTables(*(part.reshape(shape) for part, shape in zip(parts, SHAPES.values(), strict=True)))


def uses_of(flat: NDArray[Any]) -> Uses:
    """Views of a vector, with four letters as one number."""
    tables = tables_of(flat)
    by_number = {name: getattr(tables, name).ravel() for name in ("stack", "closing", "branch")}
    return Uses(**{**tables._asdict(), **by_number})


@dataclass(frozen=True, eq=False)
class FoldingWeights:
    """Names and groups of all weights, in the order of CONTRAfold's parameter files, and the matrix of the scores."""

    names: tuple[str, ...]
    groups: NDArray[np.intp]
    rows: NDArray[np.intp]  # row (score) of each entry of the matrix, all of which are 1
    columns: NDArray[np.intp]  # column (weight) of each entry

    @property
    def count(self) -> int:
        return len(self.names)

    @cached_property
    def scores(self) -> Any:
        """A CSR matrix, N_SCORES x weights."""
        import scipy.sparse as sp  # takes a fifth of the time to fold a short molecule, which only needs sums

        return sp.csr_matrix((np.ones(len(self.rows)), (self.rows, self.columns)), shape=(N_SCORES, self.count))


def mirrored() -> NDArray[np.int64]:
    """The index, in a molecule's scores, of each score of its mirror image; applied twice, it is the identity."""
    flat = np.arange(N_SCORES)
    tables = tables_of(flat)
    turned = {
        "stack": tables.stack.transpose(1, 0, 3, 2), "closing": tables.closing.transpose(1, 0, 3, 2),
        "branch": tables.branch.transpose(1, 0, 3, 2), "loop": tables.loop.T, "pair": tables.pair.T,
        "internal": tables.internal.T,
    }  # fmt: skip
    return np.concatenate([np.ravel(table) for table in (tables._asdict() | turned).values()])


@lru_cache(maxsize=2)
def score_matrix(counts_parses: bool) -> Any:
    """The matrix from weights to scores in the form of the kernels: of the mirror image if parses are counted."""
    scores = folding_weights().scores
    return scores[mirrored()] if counts_parses else scores


def scores_from(weights: Vector, counts_parses: bool) -> Vector:
    """The product of that matrix with weights, with the same order of summation."""
    made = folding_weights()
    scores: Vector = np.bincount(made.rows, weights[made.columns], N_SCORES).astype(np.float64, copy=False)
    return scores[mirrored()] if counts_parses else scores


@lru_cache(maxsize=1)
def folding_weights() -> FoldingWeights:
    """The default model."""
    made = _Builder()
    rows = tables_of(np.arange(N_SCORES))
    letters = range(len(LETTERS))
    for a, b in product(letters, letters):
        made.add(0, f"base_pair_{_tied(a, b)}", [rows.pair[a, b]])
    for a, b, c, d in product(letters, repeat=4):
        made.add(1, f"terminal_mismatch_{_word(a, b, c, d)}", [rows.closing[a, b, c, d]])
    for k in range(LONGEST_HAIRPIN + 1):
        made.add(2, f"hairpin_length_at_least_{k}", rows.hairpin[k:])
    _add_loops(made, rows.loop)
    for a in letters:
        made.add(8, f"bulge_0x1_nucleotides_{_word(a)}", [rows.bulge[a]])
    for a, b in product(letters, letters):
        made.add(9, f"internal_1x1_nucleotides_{_tied(a, b)}", [rows.internal[a, b]])
    for a, b, c, d in product(letters, repeat=4):
        made.add(10, f"helix_stacking_{min(_word(a, b, c, d), _word(d, c, b, a))}", [rows.stack[a, b, c, d]])
    for a, b in product(letters, letters):
        made.add(11, f"helix_closing_{_word(a, b)}", [*rows.closing[a, b].ravel(), *rows.branch[a, b].ravel()])
    for name, row in zip(("multi_base", "multi_unpaired", "multi_paired"), rows.multi, strict=True):
        made.add(12, name, [row])
    for a, b, c in product(letters, repeat=3):
        made.add(13, f"dangle_left_{_word(a, b, c)}", rows.branch[a, b, c, :])
    for a, b, d in product(letters, repeat=3):
        made.add(13, f"dangle_right_{_word(a, b, d)}", rows.branch[a, b, :, d])
    for name, row in zip(("external_unpaired", "external_paired"), rows.external, strict=True):
        made.add(14, name, [row])
    return made.finished()


def _add_loops(made: "_Builder", loop: NDArray[Any]) -> None:
    """Scores of bulges and internal loops by their numbers of unpaired letters.

    A weight "at least k" is used by all lengths from k on.
    """
    left, right = np.indices(loop.shape)
    total, uneven = left + right, np.abs(left - right)
    fits = (total >= 1) & (total <= LONGEST_LOOP)
    is_internal = fits & (left > 0) & (right > 0)
    for i in range(1, LARGEST_EXPLICIT + 1):
        for j in range(i, LARGEST_EXPLICIT + 1):
            made.add(3, f"internal_explicit_{i}_{j}", {loop[i, j], loop[j, i]})
    for k in range(1, LONGEST_LOOP + 1):
        made.add(4, f"bulge_length_at_least_{k}", loop[fits & ~is_internal & (total >= k)])
    for k in range(2, LONGEST_LOOP + 1):
        made.add(5, f"internal_length_at_least_{k}", loop[is_internal & (total >= k)])
    for k in range(1, LONGEST_SYMMETRIC + 1):
        made.add(6, f"internal_symmetric_length_at_least_{k}", loop[is_internal & (uneven == 0) & (left >= k)])
    for k in range(1, LARGEST_ASYMMETRY + 1):
        made.add(7, f"internal_asymmetry_at_least_{k}", loop[is_internal & (uneven >= k)])


class _Builder:
    """Collects the scores that each weight contributes to; weights of the same name are one."""

    def __init__(self) -> None:
        self._index: dict[str, int] = {}
        self._groups: list[int] = []
        self._rows: list[int] = []
        self._columns: list[int] = []

    def add(self, group: int, name: str, rows: Any) -> None:
        column = self._index.setdefault(name, len(self._index))
        if column == len(self._groups):
            self._groups.append(group)
        self._rows += [int(row) for row in rows]
        self._columns += [column] * len(rows)

    def finished(self) -> FoldingWeights:
        rows, columns = (np.array(numbers, np.intp) for numbers in (self._rows, self._columns))
        order = np.lexsort((columns, rows))
        return FoldingWeights(tuple(self._index), np.array(self._groups, np.intp), rows[order], columns[order])


def _word(*letters: int) -> str:
    return "".join(LETTERS[letter] for letter in letters)


def _tied(a: int, b: int) -> str:
    return _word(min(a, b), max(a, b))
