"""Precision and recall of chunks, counted as by the conlleval script of the CoNLL tasks.

A chunk is a run of tokens of one kind. It is correct if its first token, last token and kind are. Labels are ``B-x`` (begins
a chunk), ``I-x`` (continues it), ``E-x`` (ends it), ``S-x`` (a chunk of one token) and ``O``; an I that follows nothing of
its kind begins a chunk.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from tikhon.errors import InputError

OUTSIDE = "O"
BEGINS, ENDS = ("B", "S"), ("E", "S")


@dataclass(frozen=True)
class ChunkCounts:
    """Chunks in the truth, in the prediction, and in both."""

    true: int = 0
    predicted: int = 0
    right: int = 0

    @property
    def precision(self) -> float:
        return self.right / self.predicted if self.predicted else 0.0

    @property
    def recall(self) -> float:
        return self.right / self.true if self.true else 0.0

    @property
    def f1(self) -> float:
        return 2.0 * self.right / (self.true + self.predicted) if self.true + self.predicted else 0.0


@dataclass(frozen=True)
class ChunkScores:
    accuracy: float  # of tokens
    n_tokens: int
    all: ChunkCounts
    by_kind: dict[str, ChunkCounts]


def chunks(labels: Sequence[str]) -> set[tuple[int, int, str]]:
    """The chunks of a sequence: first token, last token and kind."""
    found = set()
    start, open_kind, closed = 0, None, True
    for place, label in enumerate([*labels, OUTSIDE]):
        tag, _, kind = label.partition("-")
        outside = tag == OUTSIDE
        if open_kind is not None and (outside or closed or tag in BEGINS or kind != open_kind):
            found.add((start, place - 1, open_kind))
            open_kind = None
        if not outside and open_kind is None:
            start, open_kind = place, kind
        closed = tag in ENDS
    return found


def chunk_scores(truth: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> ChunkScores:
    """Scores over all sequences."""
    if len(truth) != len(predicted):
        raise InputError(f"there are {len(truth)} sequences of true labels, but {len(predicted)} of predicted ones")
    true, guessed, right = Counter[str](), Counter[str](), Counter[str]()
    n_tokens = n_right = 0
    for i, (own, other) in enumerate(zip(truth, predicted, strict=True)):
        if len(own) != len(other):
            raise InputError(f"sequence {i} has {len(own)} true labels, but {len(other)} predicted ones")
        n_tokens += len(own)
        n_right += sum(a == b for a, b in zip(own, other, strict=True))
        in_truth, in_guess = chunks(own), chunks(other)
        true.update(kind for *_, kind in in_truth)
        guessed.update(kind for *_, kind in in_guess)
        right.update(kind for *_, kind in in_truth & in_guess)
    by_kind = {kind: ChunkCounts(true[kind], guessed[kind], right[kind]) for kind in sorted(true | guessed)}
    total = ChunkCounts(true.total(), guessed.total(), right.total())
    return ChunkScores(n_right / n_tokens if n_tokens else 0.0, n_tokens, total, by_kind)
