"""Which weights a chain CRF has, and where: pairs of features and labels, then transitions.

Weights, in this order: those of the pairs of *dense* features (seen with many labels) feature by feature, those of the
pairs of the other features, label pairs (order 1), label triples (order 2). The kernels want the first in a table and
the rest as they are; so no weight is moved twice.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from tikhon.kernels.chain_pass import Lists, Scores, Tokens
from tikhon.objective import Vector

MANY_LABELS = 4  # a feature seen with so many has a row of the dense table: walking a list takes longer
REGISTER = 4  # numbers: rows of tables are filled up to a multiple
UNKNOWN = -1


@dataclass(frozen=True, eq=False)
class Sequences:
    """Encoded sequences: tokens one after the other, features of each token as numbers, a label of each token."""

    starts: NDArray[np.int64]  # of each sequence, in tokens; one more than there are sequences
    pointers: NDArray[np.int64]  # of each token, in ``features``; one more than there are tokens
    features: NDArray[np.int64]
    values: Vector | None  # None: all are 1
    labels: NDArray[np.int32]  # -1: not given
    n_features: int
    n_labels: int

    @property
    def n_sequences(self) -> int:
        return len(self.starts) - 1

    @property
    def n_tokens(self) -> int:
        return len(self.pointers) - 1

    @property
    def token_of_feature(self) -> NDArray[np.int64]:
        """The token that each entry of ``features`` belongs to."""
        return np.repeat(np.arange(self.n_tokens), np.diff(self.pointers))

    def steps(self, n_labels_back: int) -> NDArray[np.int64]:
        """The tokens that have so many tokens before them in their sequence."""
        place = np.arange(self.n_tokens) - np.repeat(self.starts[:-1], np.diff(self.starts))
        return np.flatnonzero(place >= n_labels_back)


@dataclass(frozen=True, eq=False)
class Layout:
    """The weights of a chain CRF. ``pair_features`` and ``pair_labels`` name those of the features, in their order."""

    n_features: int
    n_labels: int
    order: int
    pair_features: NDArray[np.int64]
    pair_labels: NDArray[np.int64]
    n_dense_pairs: int
    transitions: tuple[NDArray[np.int64], ...]  # for each order, rows of labels, oldest first

    @property
    def n_pairs(self) -> int:
        return len(self.pair_features)

    @property
    def n_weights(self) -> int:
        return self.n_pairs + sum(len(rows) for rows in self.transitions)

    @property
    def width(self) -> int:
        """Labels, rounded up."""
        return -(-self.n_labels // REGISTER) * REGISTER

    @property
    def edge_shape(self) -> tuple[int, int, int]:
        return (1 if self.order == 1 else self.n_labels + 1), self.n_labels, self.width

    @cached_property
    def dense_features(self) -> NDArray[np.int64]:
        """Their numbers, in the order of the rows of the table."""
        return _distinct(self.pair_features[: self.n_dense_pairs])

    @cached_property
    def _row_of(self) -> NDArray[np.int64]:
        """Of each feature, its row in the table or its list."""
        rows = np.full(self.n_features, -1, np.int64)
        rows[self.dense_features] = np.arange(len(self.dense_features))
        rows[rows < 0] = np.arange(self.n_features - len(self.dense_features))
        return rows

    @cached_property
    def _slots(self) -> NDArray[np.int64]:
        """Where the weights of dense pairs stand in the flat table."""
        dense = slice(self.n_dense_pairs)
        return self._row_of[self.pair_features[dense]] * self.width + self.pair_labels[dense]

    @cached_property
    def lists(self) -> Lists:
        listed = slice(self.n_dense_pairs, None)
        n_lists = self.n_features - len(self.dense_features)
        lengths = np.bincount(self._row_of[self.pair_features[listed]], minlength=n_lists)
        return Lists(
            np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64), self.pair_labels[listed].astype(np.uint32)
        )

    def tokens(self, data: Sequences) -> Tokens:
        """The sequences with features renumbered, dense ones first in each token."""
        is_dense = np.zeros(self.n_features, bool)
        is_dense[self.dense_features] = True
        dense = is_dense[data.features]
        before = np.concatenate([[0], np.cumsum(dense)])
        middles = data.pointers[:-1] + np.diff(before[data.pointers])
        token = data.token_of_feature
        rank = before[:-1] - before[data.pointers[token]]  # among the dense ones of its token
        place = np.where(dense, data.pointers[token] + rank, 0)
        listed = ~dense
        offset = np.arange(len(dense)) - data.pointers[token] - rank
        place[listed] = (middles[token] + offset)[listed]
        features = np.empty(len(dense), np.uint32)
        features[place] = self._row_of[data.features]
        values = np.empty(0)
        if data.values is not None:
            values = np.empty(len(dense))
            values[place] = data.values
        return Tokens(data.starts, data.pointers, middles, features, values, data.labels)

    # Weights to the forms that the kernels want, and back.

    def scores(self, weights: Vector) -> Scores:
        dense = np.zeros((len(self.dense_features), self.width))
        dense.ravel()[self._slots] = weights[: self.n_dense_pairs]
        return Scores(
            dense, np.ascontiguousarray(weights[self.n_dense_pairs : self.n_pairs]), self.edge_scores(weights)
        )

    def edge_scores(self, weights: Vector) -> NDArray[np.float64]:
        """(H, K, P): the scores of steps from label j, preceded by h, to k; padding is 0."""
        edges = np.zeros(self.edge_shape)
        for rows, part in zip(self.transitions, self._parts(weights), strict=True):
            if rows.shape[1] == 2:
                edges[:, rows[:, 0], rows[:, 1]] += part
            else:
                edges[rows[:, 0], rows[:, 1], rows[:, 2]] += part
        return edges

    def zeros(self) -> Scores:
        return Scores(
            np.zeros((len(self.dense_features), self.width)),
            np.zeros(self.n_pairs - self.n_dense_pairs),
            np.zeros(self.edge_shape),
        )

    def collected(self, parts: Sequence[Scores]) -> Vector:
        """The adjoint of ``scores``, of a sum in the order given."""
        flat = np.empty(self.n_weights)
        flat[: self.n_dense_pairs] = _summed([part.dense for part in parts]).ravel()[self._slots]
        flat[self.n_dense_pairs : self.n_pairs] = _summed([part.sparse for part in parts])
        edges = _summed([part.edges for part in parts])
        for rows, into in zip(self.transitions, self._parts(flat), strict=True):
            if rows.shape[1] == 2:
                into[:] = edges.sum(axis=0)[rows[:, 0], rows[:, 1]]
            else:
                into[:] = edges[rows[:, 0], rows[:, 1], rows[:, 2]]
        return flat

    def _parts(self, weights: Vector) -> list[Vector]:
        """Views of the weights of label pairs and triples."""
        ends = self.n_pairs + np.cumsum([0, *(len(rows) for rows in self.transitions)])
        return [weights[start:end] for start, end in pairwise(ends)]


def layout_of(data: Sequences, order: int, *, all_pairs: bool = False) -> Layout:
    """Weights for the pairs, and the transitions, that are seen in the data, or for all there could be."""
    features, labels = _all_pairs(data) if all_pairs else _seen_pairs(data)
    counts = np.bincount(features, minlength=data.n_features)
    dense = counts[features] >= MANY_LABELS
    order_of_pairs = np.argsort(~dense, kind="stable")
    return Layout(
        data.n_features, data.n_labels, order, features[order_of_pairs], labels[order_of_pairs], int(dense.sum()),
        tuple(_transitions(data, 1 + back, all_pairs) for back in range(1, order + 1)),
    )  # fmt: skip


def _seen_pairs(data: Sequences) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    label = np.repeat(data.labels, np.diff(data.pointers)).astype(np.int64)
    known = label != UNKNOWN
    codes = np.unique(data.features[known] * data.n_labels + label[known])
    return codes // data.n_labels, codes % data.n_labels


def _all_pairs(data: Sequences) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    codes = np.arange(data.n_features * data.n_labels)
    return codes // data.n_labels, codes % data.n_labels


def _transitions(data: Sequences, n: int, all_pairs: bool) -> NDArray[np.int64]:
    """Rows of n labels that follow each other."""
    if all_pairs:
        return np.stack(np.meshgrid(*[np.arange(data.n_labels)] * n, indexing="ij"), axis=-1).reshape(-1, n)
    last = data.steps(n - 1)
    rows = np.stack([data.labels[last - back] for back in range(n - 1, -1, -1)], axis=1).astype(np.int64)
    return np.unique(rows[(rows != UNKNOWN).all(axis=1)], axis=0)


def _distinct(ordered: NDArray[np.int64]) -> NDArray[np.int64]:
    """The values of an array in which equal ones are neighbours."""
    return ordered[np.concatenate([[True], ordered[1:] != ordered[:-1]])] if len(ordered) else ordered


def _summed(parts: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total
