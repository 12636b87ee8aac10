"""Which weights a chain CRF has, and where: pairs of features and labels, then transitions.

Weights, in this order: those of the pairs of *dense* features (seen with many labels) feature by feature, those of the
pairs of the other features, label pairs (order 1), label triples (order 2). The kernels want the first in a table and
the rest as they are; so no weight is moved twice. Frequent features come first, so that the weights that most tokens need
share cache lines and pages.
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tikhon.kernels.chain.passes import Lists, Scores, Tokens, add_squares, arrange, mark_seen
from tikhon.objective import Vector

MANY_LABELS = 4  # a feature seen with so many has a row of the dense table: walking a list takes longer
REGISTER = 4  # numbers: rows of tables are filled up to a multiple
UNKNOWN = -1
SEEN_BYTES = 2**26  # of the table in which pairs are marked; more features take more passes


@dataclass(frozen=True, eq=False)
class Sequences:
    """Encoded sequences: tokens one after the other, features of each token as numbers, a label of each token."""

    starts: NDArray[np.int64]  # of each sequence, in tokens; one more than there are sequences
    pointers: NDArray[np.int64]  # of each token, in ``features``; one more than there are tokens
    features: NDArray[np.int32]
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


@dataclass(frozen=True, eq=False)
class Layout:
    """The weights of a chain CRF. ``pair_features`` and ``pair_labels`` name those of the features, in their order."""

    n_features: int
    n_labels: int
    order: int
    pair_features: NDArray[np.int32]
    pair_labels: NDArray[np.int32]
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
    def dense_features(self) -> NDArray[np.int32]:
        """Their numbers, in the order of the rows of the table."""
        return _distinct(self.pair_features[: self.n_dense_pairs])

    @cached_property
    def _listed_features(self) -> NDArray[np.int32]:
        """Their numbers, in the order of the lists; those without any weight have the last ones, which are empty."""
        without = np.ones(self.n_features, bool)
        without[self.pair_features] = False
        listed = _distinct(self.pair_features[self.n_dense_pairs :])
        return np.concatenate([listed, np.flatnonzero(without).astype(np.int32)])

    @cached_property
    def _row_of(self) -> NDArray[np.uint32]:
        """Of each feature, its row in the table or its list."""
        rows = np.empty(self.n_features, np.uint32)
        for features in (self.dense_features, self._listed_features):
            rows[features] = np.arange(len(features))
        return rows

    @cached_property
    def _slots(self) -> NDArray[np.int64]:
        """Where the weights of dense pairs stand in the flat table."""
        dense = slice(self.n_dense_pairs)
        return self._row_of[self.pair_features[dense]].astype(np.int64) * self.width + self.pair_labels[dense]

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
        """Of each feature, the weighted sum of the squares of its values."""
        dense = np.zeros(len(self.dense_features))
        listed = np.zeros(len(self._listed_features))
        add_squares(tokens, row_weights, dense, listed)
        squares = np.empty(self.n_features)
        squares[self.dense_features], squares[self._listed_features] = dense, listed
        return squares

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
        for places, part in zip(self._places, self.transition_parts(weights), strict=True):
            edges[places] += part
        return edges

    @cached_property
    def _places(self) -> list[tuple[Any, ...]]:
        """Where the weights of steps stand in the table: of label pairs whatever comes before them."""
        return [(*[slice(None)] * (3 - rows.shape[1]), *rows.T) for rows in self.transitions]

    def zeros(self) -> Scores:
        return Scores(
            np.zeros((len(self.dense_features), self.width)),
            np.zeros(self.n_pairs - self.n_dense_pairs),
            np.zeros(self.edge_shape),
        )

    def collected(self, found: Scores) -> Vector:
        """The adjoint of ``scores``."""
        flat = np.empty(self.n_weights)
        flat[: self.n_dense_pairs] = found.dense.ravel()[self._slots]
        flat[self.n_dense_pairs : self.n_pairs] = found.sparse
        for places, into in zip(self._places, self.transition_parts(flat), strict=True):
            steps = found.edges[places]
            into[:] = steps.sum(axis=0) if steps.ndim == 2 else steps
        return flat

    def transition_weights(self, weights: Vector, n_back: int) -> NDArray[np.float64]:
        """The weights of steps over so many labels, an axis for each label; 0 where there is none."""
        table = np.zeros((self.n_labels,) * (n_back + 1))
        table[tuple(self.transitions[n_back - 1].T)] = self.transition_parts(weights)[n_back - 1]
        return table

    def transition_parts(self, weights: Vector) -> list[Vector]:
        """Views of the weights of label pairs and triples."""
        return [weights[start:end] for start, end in self._transition_ends]

    @cached_property
    def _transition_ends(self) -> list[tuple[int, int]]:
        ends = self.n_pairs + np.cumsum([0, *(len(rows) for rows in self.transitions)])
        return list(pairwise(ends.tolist()))


def layout_of(data: Sequences, order: int, *, all_pairs: bool = False) -> Layout:
    """Weights for the pairs, and the transitions, that are seen in the data, or for all there could be."""
    features, labels = _all_pairs(data) if all_pairs else _seen_pairs(data)
    is_dense = np.bincount(features, minlength=data.n_features) >= MANY_LABELS
    n_uses = np.bincount(data.features, minlength=data.n_features)
    rank = np.empty(data.n_features, np.int64)
    rank[np.lexsort((-n_uses, ~is_dense))] = np.arange(data.n_features)
    order_of_pairs = np.argsort(rank[features], kind="stable")
    return Layout(
        data.n_features, data.n_labels, order, features[order_of_pairs], labels[order_of_pairs],
        int(is_dense[features].sum()),
        tuple(_transitions(data, 1 + back, all_pairs) for back in range(1, order + 1)),
    )  # fmt: skip


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
    """Features and labels of codes, in a compact form: they are as many as the weights."""
    return (codes // n_labels).astype(np.int32), (codes % n_labels).astype(np.int32)


def _transitions(data: Sequences, n: int, all_pairs: bool) -> NDArray[np.int64]:
    """Rows of n labels that follow each other."""
    if all_pairs:
        return np.stack(np.meshgrid(*[np.arange(data.n_labels)] * n, indexing="ij"), axis=-1).reshape(-1, n)
    codes = step_codes(data.starts, data.labels, data.n_labels, n)[1]
    return np.stack(np.unravel_index(np.unique(codes), (data.n_labels,) * n), axis=1)


def step_codes(
    starts: NDArray[np.int64], labels: NDArray[np.int32], n_labels: int, n: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Tokens at which n known labels in a row end, and these labels as one number, the last one counting least."""
    place = np.arange(len(labels)) - np.repeat(starts[:-1], np.diff(starts))
    last = np.flatnonzero(place >= n - 1)
    codes, known = np.zeros(len(last), np.int64), np.ones(len(last), bool)
    for back in range(n - 1, -1, -1):
        label = labels[last - back]
        codes = codes * n_labels + label
        known &= label != UNKNOWN
    return last[known], codes[known]


def _distinct(ordered: NDArray[np.int32]) -> NDArray[np.int32]:
    """The values of an array in which equal ones are neighbours."""
    return ordered[np.concatenate([[True], ordered[1:] != ordered[:-1]])] if len(ordered) else ordered


def added(total: Scores, part: Scores) -> Scores:
    """The sum, in the place of the first."""
    for into, more in zip(total, part, strict=True):
        into += more
    return total
