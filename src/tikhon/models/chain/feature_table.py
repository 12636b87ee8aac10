"""The table of features by labels: a token's score of a label is the sum of its features' weights with that label.

Weights, in this order: those of the pairs of *dense* features (seen with many labels), feature by feature, then those of the
pairs of the other features. The kernels need the former in a table and the latter as they are; so no weight is moved twice.
Frequent features come first, so that the weights that most tokens need share cache lines and pages.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray

from tikhon.kernels.chain.feature_table import (
    Lists,
    Pairs,
    TableWeights,
    Tokens,
    add_squares,
    arrange,
    diagonal_pass,
    gradient_pass,
    mark_seen,
    product_pass,
    scatter_pass,
    scatter_rows,
    score_rows,
    scores_pass,
)
from tikhon.kernels.chain.few_steps import FewSteps
from tikhon.kernels.chain.learning import Lesson, StepWeights
from tikhon.kernels.chain.table_learning import learn_table
from tikhon.models.chain import blocks
from tikhon.models.chain.emission import FEATURES_RATE, Run, Sums
from tikhon.models.chain.sequences import Sequences
from tikhon.models.chain.transitions import padded
from tikhon.objective import Matrix, Vector

# A feature seen with this many labels, or this part of many, has a row of the dense table: walking a list takes longer.
MANY_LABELS, SHARE_OF_LABELS = 4, 16
SEEN_BYTES = 2**26  # limit on the table in which pairs are marked; more features take more passes


@dataclass(frozen=True, eq=False)
class FeatureTable:
    """An ``Emission``. ``pair_features`` and ``pair_labels`` name the weights, in their order."""

    n_features: int
    n_labels: int
    pair_features: NDArray[np.int32]
    pair_labels: NDArray[np.int32]
    n_dense_pairs: int

    is_linear = True

    @property
    def n_weights(self) -> int:
        return len(self.pair_features)

    @cached_property
    def dense_features(self) -> NDArray[np.int32]:
        """Their numbers, in the order of the rows of the table."""
        return _distinct(self.pair_features[: self.n_dense_pairs])

    @cached_property
    def _listed_features(self) -> NDArray[np.int32]:
        """Their numbers, in the order of the lists; features without any weight come last, with empty lists."""
        without = np.ones(self.n_features, bool)
        without[self.pair_features] = False
        listed = _distinct(self.pair_features[self.n_dense_pairs :])
        return np.concatenate([listed, np.flatnonzero(without).astype(np.int32)])

    @cached_property
    def _row_of(self) -> NDArray[np.uint32]:
        """For each feature, its row in the table or its list."""
        rows = np.empty(self.n_features, np.uint32)
        for features in (self.dense_features, self._listed_features):
            rows[features] = np.arange(len(features))
        return rows

    @cached_property
    def _slots(self) -> NDArray[np.int64]:
        """The positions of the weights of dense pairs in the flat table."""
        dense = slice(self.n_dense_pairs)
        return (
            self._row_of[self.pair_features[dense]].astype(np.int64) * padded(self.n_labels) + self.pair_labels[dense]
        )

    @cached_property
    def lists(self) -> Lists:
        listed = slice(self.n_dense_pairs, None)
        lengths = np.bincount(self._row_of[self.pair_features[listed]], minlength=len(self._listed_features))
        return Lists(
            np.concatenate([[0], np.cumsum(lengths)]).astype(np.uint32), self.pair_labels[listed].astype(np.uint16)
        )

    def tokens(self, data: Sequences) -> Tokens:
        """The sequences with features renumbered, dense ones first in each token."""
        is_dense = np.zeros(self.n_features, bool)
        is_dense[self.dense_features] = True
        values = np.empty(0) if data.values is None else data.values
        middles, rows = np.empty(data.n_tokens, np.int64), np.empty(len(data.features), np.uint32)
        row_values = np.empty(len(values))
        arrange(data.pointers, data.features, values, is_dense, self._row_of, middles, rows, row_values)
        return Tokens(data.starts, data.pointers, middles, rows, row_values, data.labels)

    def squares(self, tokens: Tokens, row_weights: Vector) -> Vector:
        """For each feature, the weighted sum of the squares of its values."""
        dense = np.zeros(len(self.dense_features))
        listed = np.zeros(len(self._listed_features))
        add_squares(tokens, row_weights, dense, listed)
        squares = np.empty(self.n_features)
        squares[self.dense_features], squares[self._listed_features] = dense, listed
        return squares

    # Weights to the forms that the kernels need, and back.

    def unpacked(self, weights: Vector) -> TableWeights:
        found = self._dense_zeros()
        found.ravel()[self._slots] = weights[: self.n_dense_pairs]
        return TableWeights(found, np.ascontiguousarray(weights[self.n_dense_pairs :]))

    def zeros(self) -> TableWeights:
        return TableWeights(self._dense_zeros(), np.zeros(self.n_weights - self.n_dense_pairs))

    def _dense_zeros(self) -> Matrix:
        return np.zeros((len(self.dense_features), padded(self.n_labels)))

    def collect(self, sums: TableWeights, out: Vector) -> None:
        out[: self.n_dense_pairs] = sums.dense.ravel()[self._slots]
        out[self.n_dense_pairs :] = sums.sparse

    # Passes over some sequences.

    def add_gradient(self, run: Run, tokens: Tokens, weights: TableWeights, into: Sums[TableWeights]) -> float:
        if isinstance(run.table, FewSteps):
            return blocks.add_gradient(self, tokens.starts, tokens.labels, run, tokens, weights, into)
        return gradient_pass(run.first, run.last, tokens, self.lists, weights, run.table, run.row_weights, *into)

    def add_product(
        self, run: Run, tokens: Tokens, weights: TableWeights, rates: TableWeights, edge_rates: NDArray[np.float64],
        into: Sums[TableWeights],
    ) -> None:  # fmt: skip
        if isinstance(run.table, FewSteps):
            blocks.add_product(self, tokens.starts, tokens.labels, run, tokens, weights, rates, edge_rates, into)
            return
        product_pass(
            run.first, run.last, tokens, self.lists, weights, run.table, rates, edge_rates, run.row_weights, *into
        )  # fmt: skip

    def add_diagonal(self, run: Run, tokens: Tokens, weights: TableWeights, into: Sums[TableWeights]) -> None:
        """By the variances of single labels: exact for features that occur at most once per sequence."""
        if isinstance(run.table, FewSteps):
            blocks.add_diagonal(self, tokens.starts, tokens.labels, run, tokens, weights, into)
            return
        diagonal_pass(run.first, run.last, tokens, self.lists, weights, run.table, run.row_weights, *into)

    def scores(self, first: int, last: int, tokens: Tokens, weights: TableWeights) -> Matrix:
        found = np.empty((int(tokens.starts[last] - tokens.starts[first]), padded(self.n_labels)))
        scores_pass(first, last, tokens, self.lists, weights, found)
        return found

    def scatter(
        self, first: int, last: int, tokens: Tokens, by_score: Matrix, into: TableWeights, *, squared: bool
    ) -> None:  # fmt: skip
        scatter_pass(first, last, tokens, self.lists, by_score, squared, into)

    # A few sequences, straight from the flat weights.

    def scores_of(self, rows: NDArray[np.intp], tokens: Tokens, weights: Vector) -> tuple[Matrix, None]:
        n_tokens = int((tokens.starts[rows + 1] - tokens.starts[rows]).sum())
        found = np.empty((n_tokens, padded(self.n_labels)))
        score_rows(rows, tokens, self._pairs, weights, found)
        return found, None

    def back_propagate(
        self, rows: NDArray[np.intp], tokens: Tokens, forward: None, by_score: Matrix, out: Vector
    ) -> None:  # fmt: skip
        scatter_rows(rows, tokens, self._pairs, by_score, out)

    def support(self, rows: NDArray[np.intp], tokens: Tokens) -> NDArray[np.intp]:
        pointers = self._pairs.pointers
        found = [np.zeros(0, np.int64)]
        for row in rows.tolist():
            first, last = int(tokens.starts[row]), int(tokens.starts[row + 1])
            own = slice(int(tokens.pointers[first]), int(tokens.pointers[last]))
            of_token = np.repeat(tokens.middles[first:last], np.diff(tokens.pointers[first : last + 1]))
            is_listed = np.arange(own.start, own.stop) >= of_token
            found.append(tokens.features[own].astype(np.int64) + is_listed * self._pairs.n_dense)
        features = np.unique(np.concatenate(found))
        counts = pointers[features + 1] - pointers[features]
        ends = np.cumsum(counts)
        places: NDArray[np.intp] = np.repeat(pointers[features] - ends + counts, counts) + np.arange(int(counts.sum()))
        return places

    # Learning from a few sequences at a time.

    def sum_of_squares(self, tokens: Tokens, row_weights: Vector) -> float:
        return float(self.squares(tokens, row_weights).sum())

    @property
    def part_sizes(self) -> tuple[int, ...]:
        return (self.n_weights,)

    def perceptron_rates(self, squared_norm: float) -> Vector:
        return np.array([FEATURES_RATE / max(squared_norm, 1e-300), 1.0])

    def with_best_states(self) -> Self:
        return self

    def learner(self, tokens: Tokens) -> "TableLearner":
        return TableLearner(self, tokens)

    @cached_property
    def _pairs(self) -> Pairs:
        """Features by their rows: dense ones, then those with lists."""
        features = np.concatenate([self.dense_features, self._listed_features])
        counts = np.bincount(self.pair_features, minlength=self.n_features)[features]
        pointers = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        return Pairs(pointers, self.pair_labels, len(self.dense_features))


class TableLearner:
    """A ``Learner``; its rates are those of features and of steps."""

    def __init__(self, emission: FeatureTable, tokens: Tokens) -> None:
        self._emission, self._tokens = emission, tokens
        self._free = emission.unpacked(np.ones(emission.n_weights)).dense

    def set(self, weights: Vector) -> None:
        self._weights = self._emission.unpacked(weights.copy())

    def collect(self, out: Vector) -> None:
        self._emission.collect(self._weights, out)

    def learn(self, lesson: Lesson, steps: StepWeights, rates: Vector) -> float:
        return learn_table(lesson, self._tokens, self._emission.lists, self._weights, self._free, steps, rates)


def feature_table_of(data: Sequences, *, all_pairs: bool = False) -> FeatureTable:
    """Weights for the pairs that occur in the data, or for all possible ones."""
    features, labels = _all_pairs(data) if all_pairs else _seen_pairs(data)
    is_dense = np.bincount(features, minlength=data.n_features) >= max(MANY_LABELS, data.n_labels // SHARE_OF_LABELS)
    n_uses = np.bincount(data.features, minlength=data.n_features)
    rank = np.empty(data.n_features, np.int64)
    rank[np.lexsort((-n_uses, ~is_dense))] = np.arange(data.n_features)
    order_of_pairs = np.argsort(rank[features], kind="stable")
    n_dense_pairs = int(is_dense[features].sum())
    return FeatureTable(data.n_features, data.n_labels, features[order_of_pairs], labels[order_of_pairs], n_dense_pairs)


def _seen_pairs(data: Sequences) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    block = max(1, SEEN_BYTES // data.n_labels)
    found = []
    for first in range(0, data.n_features, block):
        seen = np.zeros((min(block, data.n_features - first), data.n_labels), bool)
        mark_seen(data.pointers, data.features, data.labels, first, seen)
        found.append(np.flatnonzero(seen) + first * data.n_labels)
    return _divided(np.concatenate([np.zeros(0, np.int64), *found]), data.n_labels)


def _all_pairs(data: Sequences) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    return _divided(np.arange(data.n_features * data.n_labels), data.n_labels)


def _divided(codes: NDArray[np.int64], n_labels: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Features and labels of codes, in compact types: there are as many as weights."""
    return (codes // n_labels).astype(np.int32), (codes % n_labels).astype(np.int32)


def _distinct(ordered: NDArray[np.int32]) -> NDArray[np.int32]:
    """The distinct values of an array in which equal ones are adjacent."""
    return ordered[np.concatenate([[True], ordered[1:] != ordered[:-1]])] if len(ordered) else ordered
