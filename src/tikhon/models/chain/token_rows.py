"""The features of tokens as the rows of a matrix: dense or sparse, and each only once if many tokens are alike."""

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Protocol, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tikhon.kernels.chain.token_rows import add_transposed, rows_times, sum_by_place
from tikhon.kernels.chain.unit_learning import SequenceRows
from tikhon.models.chain.sequences import Sequences
from tikhon.objective import Matrix, Vector

Numbers: TypeAlias = NDArray[np.intp] | slice

DENSE_SHARE = 0.25  # of the features of tokens: from there on, dense products take less time than sparse ones
REPEATED = 2  # tokens per distinct row from which it pays to compute each row once


class Rows(Protocol):
    """Rows of features, stored in one of two ways."""

    def take(self, numbers: Numbers) -> Self: ...

    def times(self, weights: Matrix) -> Matrix:
        """Rows times features x H."""
        ...

    def add_transposed(self, by_row: Matrix, into: Matrix, *, squared: bool) -> None:
        """The adjoint of ``times``, or of the same with squared values, added to ``into``."""
        ...

    def features(self) -> NDArray[np.intp]:
        """The features that may differ from 0, in ascending order."""
        ...

    def squares(self, row_weights: Vector, n_features: int) -> tuple[Vector, Vector]:
        """For each feature, the weighted sum of its squared values, and the weight of rows in which it is not 0."""
        ...


@dataclass(frozen=True, eq=False)
class DenseRows:
    values: Matrix

    def take(self, numbers: Numbers) -> Self:
        return replace(self, values=self.values[numbers])

    def times(self, weights: Matrix) -> Matrix:
        return self.values @ weights

    def add_transposed(self, by_row: Matrix, into: Matrix, *, squared: bool) -> None:
        into += (self.values**2 if squared else self.values).T @ by_row

    def features(self) -> NDArray[np.intp]:
        return np.arange(self.values.shape[1])

    def squares(self, row_weights: Vector, n_features: int) -> tuple[Vector, Vector]:
        return row_weights @ self.values**2, row_weights @ (self.values != 0.0)


@dataclass(frozen=True, eq=False)
class SparseRows:
    numbers: NDArray[np.intp]  # of the rows that were taken
    pointers: NDArray[np.int64]
    columns: NDArray[np.int32]
    values: Vector  # empty where all are 1

    def take(self, numbers: Numbers) -> Self:
        return replace(self, numbers=self.numbers[numbers])

    def times(self, weights: Matrix) -> Matrix:
        found = np.empty((len(self.numbers), weights.shape[1]))
        rows_times(self.numbers, self.pointers, self.columns, self.values, weights, found)
        return found

    def add_transposed(self, by_row: Matrix, into: Matrix, *, squared: bool) -> None:
        add_transposed(self.numbers, self.pointers, self.columns, self.values, by_row, squared, into)

    def features(self) -> NDArray[np.intp]:
        own = [self.columns[self.pointers[i] : self.pointers[i + 1]] for i in self.numbers.tolist()]
        return np.unique(np.concatenate([np.zeros(0, np.int32), *own])).astype(np.intp)

    def squares(self, row_weights: Vector, n_features: int) -> tuple[Vector, Vector]:
        sums, counts = np.zeros((n_features, 1)), np.zeros((n_features, 1))
        by_row = row_weights[:, None]
        self.add_transposed(by_row, sums, squared=True)
        replace(self, values=np.empty(0)).add_transposed(by_row, counts, squared=True)
        return sums[:, 0], counts[:, 0]


@dataclass(frozen=True, eq=False)
class TokenRows:
    """``places`` names the row of each token; None: row i is that of token i."""

    rows: Rows
    places: NDArray[np.intp] | None
    tokens_per_row: int
    n_features: int

    def of(self, tokens: Numbers) -> Self:
        """Those of some tokens."""
        if self.places is None:
            return replace(self, rows=self.rows.take(tokens))
        used, places = np.unique(self.places[tokens], return_inverse=True)
        return replace(self, rows=self.rows.take(used), places=places)

    def features_of(self, tokens: Numbers) -> NDArray[np.intp]:
        return self.of(tokens).rows.features()

    def mean_squares(self, token_weights: Vector) -> Vector:
        """For each feature, the mean square of its values where it is not 0; 1 if it always is."""
        sums, counts = self.rows.squares(self.gathered(token_weights[:, None])[:, 0], self.n_features)
        return np.divide(sums, counts, out=np.ones_like(sums), where=sums > 0.0)

    def sum_of_squares(self, token_weights: Vector) -> float:
        """Of all features, weighted."""
        return float(self.rows.squares(self.gathered(token_weights[:, None])[:, 0], self.n_features)[0].sum())

    def times(self, weights: Matrix) -> Matrix:
        """By row, not by token."""
        return self.rows.times(weights)

    def add_transposed(self, by_row: Matrix, into: Matrix, *, squared: bool = False) -> None:
        self.rows.add_transposed(by_row, into, squared=squared)

    def spread(self, by_row: Matrix) -> Matrix:
        """From rows to tokens."""
        return by_row if self.places is None else by_row[self.places]

    def gathered(self, by_token: Matrix) -> Matrix:
        """The adjoint of ``spread``."""
        if self.places is None:
            return by_token
        found = np.zeros((int(self.places.max(initial=-1)) + 1, by_token.shape[1]))
        sum_by_place(self.places, by_token, found)
        return found


def token_rows_of(data: Sequences) -> TokenRows:
    places, firsts = _distinct(data)
    if len(firsts) * REPEATED > data.n_tokens:
        places, firsts = None, np.arange(data.n_tokens)
    values = np.empty(0) if data.values is None else data.values
    sparse = SparseRows(firsts, data.pointers, data.features, values)
    tokens_per_row = max(1, data.n_tokens // max(len(firsts), 1))
    if len(data.features) < DENSE_SHARE * data.n_tokens * data.n_features:
        return TokenRows(sparse, places, tokens_per_row, data.n_features)
    dense = np.zeros((len(firsts), data.n_features))
    for row, token in enumerate(firsts.tolist()):
        own = slice(int(data.pointers[token]), int(data.pointers[token + 1]))
        np.add.at(dense[row], data.features[own], 1.0 if data.values is None else data.values[own])
    return TokenRows(DenseRows(dense), places, tokens_per_row, data.n_features)


def learning_rows(given: TokenRows, starts: NDArray[np.int64], labels: NDArray[np.int32]) -> SequenceRows:
    """The rows of each sequence in the form of the kernels that learn from a few sequences at a time."""
    row_starts, rows, places = [0], list[NDArray[np.intp]](), np.empty(len(labels), np.intp)
    for first, last in pairwise(starts.tolist()):
        if given.places is None:
            own = np.arange(first, last)
            places[first:last] = np.arange(last - first)
        else:
            own, places[first:last] = np.unique(given.places[first:last], return_inverse=True)
        rows.append(own)
        row_starts.append(row_starts[-1] + len(own))
    of_sequences = np.asarray(row_starts, np.int64), np.concatenate([np.zeros(0, np.intp), *rows]), places
    if isinstance(given.rows, DenseRows):
        nothing = np.zeros(0, np.int64), np.zeros(0, np.int32), np.zeros(0)
        return SequenceRows(starts, labels, *of_sequences, given.rows.values, *nothing)
    sparse = given.rows
    assert isinstance(sparse, SparseRows)
    numbers = sparse.numbers[of_sequences[1]]
    return SequenceRows(
        starts, labels, of_sequences[0], numbers, places, np.zeros((0, 0)), sparse.pointers, sparse.columns, sparse.values
    )  # fmt: skip


def _distinct(data: Sequences) -> tuple[NDArray[np.intp] | None, NDArray[np.intp]]:
    """The number of each token's row among the distinct ones, and the first token of each."""
    numbers: dict[bytes, int] = {}
    places, firsts = np.empty(data.n_tokens, np.intp), list[int]()
    for token, (start, end) in enumerate(zip(data.pointers[:-1].tolist(), data.pointers[1:].tolist(), strict=True)):
        key = data.features[start:end].tobytes()
        if data.values is not None:
            key += data.values[start:end].tobytes()
        number = numbers.setdefault(key, len(numbers))
        if number == len(firsts):
            firsts.append(token)
        places[token] = number
    return places, np.array(firsts, np.intp)
