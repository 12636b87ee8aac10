"""Encoded sequences of tokens, and the runs of labels in them."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tikhon.objective import Vector

UNKNOWN = -1  # an unknown label


@dataclass(frozen=True, eq=False)
class Sequences:
    """Encoded sequences: concatenated tokens, the features of each token as numbers, a label of each token."""

    starts: NDArray[np.int64]  # token at which each sequence starts; one more than there are sequences
    pointers: NDArray[np.int64]  # position in ``features`` at which each token starts; one more than there are tokens
    features: NDArray[np.int32]
    values: Vector | None  # None: all are 1
    labels: NDArray[np.int32]  # -1: unknown
    n_features: int
    n_labels: int

    @property
    def n_sequences(self) -> int:
        return len(self.starts) - 1

    @property
    def n_tokens(self) -> int:
        return len(self.pointers) - 1


def step_codes(
    starts: NDArray[np.int64], labels: NDArray[np.int32], n_labels: int, n: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Tokens at which n known labels in a row end, and these labels as one number, the last one least significant."""
    place = np.arange(len(labels)) - np.repeat(starts[:-1], np.diff(starts))
    last = np.flatnonzero(place >= n - 1)
    codes, known = np.zeros(len(last), np.int64), np.ones(len(last), bool)
    for back in range(n - 1, -1, -1):
        label = labels[last - back]
        codes = codes * n_labels + label
        known &= label != UNKNOWN
    return last[known], codes[known]
