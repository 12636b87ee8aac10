"""Chains of labels: conditional random fields of order 1 and 2."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tikhon.kernels.chain_pass import EdgeTable, Scores, gradient_pass, product_pass
from tikhon.models.chain_layout import UNKNOWN, Layout, Sequences
from tikhon.models.memo import LastPoint
from tikhon.objective import Product, Vector

WIDEST = 300.0  # range of edge scores over the steps that count: exp(-708) is the least that floating point knows
CHUNKS = 4  # of sequences, whatever the number of threads: sums are made in the same order


class Chain:
    """sum_i a_i [log Z(x_i) - score(x_i, y_i)] over sequences, with row weights a.

    The score of labels y is sum_t sum_f x_tf w[f, y_t] + sum_{t>0} w[y_{t-1}, y_t], and for order 2 also
    + sum_{t>1} w[y_{t-2}, y_{t-1}, y_t]; Z sums its exponential over all labellings (Do, Foo, Ng 2008, equation 1). Labels
    that are not given are summed over as well: the loss is then log Z less the log of the sum over all labellings that
    agree with those given, and not convex.

    The gradient is what the model expects of each feature less what it sees; a Hessian product is the derivative of those
    expectations along a direction.
    """

    def __init__(
        self, data: Sequences, layout: Layout, *, row_weights: Vector | None = None, n_threads: int = 1
    ) -> None:
        self.data, self.layout, self.n_threads = data, layout, n_threads
        self.row_weights = np.ones(data.n_sequences) if row_weights is None else row_weights
        self._tokens = layout.tokens(data)
        self._value = LastPoint(self._loss_gradient)

    def reweighted(self, row_weights: Vector) -> "Chain":
        view = object.__new__(Chain)
        view.data, view.layout, view.n_threads, view._tokens = self.data, self.layout, self.n_threads, self._tokens
        view.row_weights = row_weights
        view._value = LastPoint(view._loss_gradient)
        return view

    @cached_property
    def is_convex(self) -> bool:
        return not (self.data.labels == UNKNOWN).any()

    @property
    def n_weights(self) -> int:
        return self.layout.n_weights

    @property
    def n_rows(self) -> int:
        return self.data.n_sequences

    @property
    def is_gentle(self) -> bool:
        """Features of tokens are many and rare: gradients alone bring a rough fit."""
        return True

    def baseline_weights(self) -> Vector:
        return np.zeros(self.n_weights)

    def baseline_curvature(self) -> Vector:
        """Where each label, and each step between labels, has its share in the data whatever the token.

        A weight's curvature is then q (1 - q) times the sum of its feature's squares, q being the share.
        """
        data, layout = self.data, self.layout
        token_weights = np.repeat(self.row_weights, np.diff(data.starts))
        squares = np.repeat(token_weights, np.diff(data.pointers))
        if data.values is not None:
            squares = squares * np.square(data.values)
        by_feature = np.bincount(data.features, squares, data.n_features)
        known = data.labels != UNKNOWN
        shares = np.bincount(data.labels[known], token_weights[known], data.n_labels) / max(
            token_weights[known].sum(), 1e-300
        )
        curvature = [by_feature[layout.pair_features] * (shares * (1.0 - shares))[layout.pair_labels]]
        for rows in layout.transitions:
            n_back = rows.shape[1] - 1
            last = data.steps(n_back)
            steps = np.stack([data.labels[last - back] for back in range(n_back, -1, -1)], axis=1).astype(np.int64)
            seen = (steps != UNKNOWN).all(axis=1)
            shape = (data.n_labels,) * (n_back + 1)
            codes = np.ravel_multi_index(tuple(steps[seen].T), shape)
            counts = np.bincount(codes, token_weights[last][seen], int(np.prod(shape)))
            total = max(float(counts.sum()), 1e-300)
            share = counts[np.ravel_multi_index(tuple(rows.T), shape)] / total
            curvature.append(total * share * (1.0 - share))
        return np.concatenate(curvature)

    def loss_gradient(self, weights: Vector) -> tuple[float, Vector]:
        loss, gradient = self._value.at(weights)
        return loss, gradient.copy()

    def _loss_gradient(self, weights: Vector) -> tuple[float, Vector]:
        scores = self.layout.scores(weights)
        table = edge_table(scores.edges, self.layout.n_labels)

        def one(chunk: tuple[int, int]) -> tuple[float, Scores]:
            into = self.layout.zeros()
            loss = gradient_pass(*chunk, self._tokens, self.layout.lists, scores, table, self.row_weights, into)
            return loss, into

        found = self._mapped(one)
        return float(sum(loss for loss, _ in found)), self.layout.collected([into for _, into in found])

    def hessian_at(self, weights: Vector) -> Product:
        """Keeps the weights in the form that the kernels want, nothing of the size of the data."""
        scores = self.layout.scores(weights)
        table = edge_table(scores.edges, self.layout.n_labels)

        def product(v: Vector) -> Vector:
            rates = self.layout.scores(v)

            def one(chunk: tuple[int, int]) -> Scores:
                into = self.layout.zeros()
                product_pass(*chunk, self._tokens, self.layout.lists, scores, table, rates, self.row_weights, into)
                return into

            return self.layout.collected(self._mapped(one))

        return product

    def _mapped(self, function: Callable[[tuple[int, int]], Any]) -> Sequence[Any]:
        """Of each chunk, in order."""
        if self.n_threads == 1 or len(self._chunks) == 1:
            return [function(chunk) for chunk in self._chunks]
        with ThreadPoolExecutor(self.n_threads) as pool:
            return list(pool.map(function, self._chunks))

    @cached_property
    def _chunks(self) -> list[tuple[int, int]]:
        """Runs of sequences with about the same number of tokens each."""
        n = self.data.n_tokens
        ends = np.searchsorted(self.data.starts, np.linspace(0, n, CHUNKS + 1))
        ends[0], ends[-1] = 0, self.data.n_sequences
        return [(int(a), int(b)) for a, b in pairwise(ends) if a < b]


def edge_table(edge_scores: NDArray[np.float64], n_labels: int) -> EdgeTable:
    """The exponentials that scaled probabilities are made of, or word that they will not do.

    From two states the same labels can be reached, in one step for order 1, in two for order 2; so what lies ahead favours
    one of them by no more than the range of that many edge scores. Where that is small beside the range of floating-point
    numbers, probabilities that underflow on the way stay next to nothing in the end.
    """
    inside = edge_scores[:, :, :n_labels]
    largest, least = float(inside.max(initial=-np.inf)), float(inside.min(initial=np.inf))
    steps = 1 if len(edge_scores) == 1 else 2
    shift = largest if np.isfinite(largest) else 0.0
    edges = np.zeros_like(edge_scores)
    edges[:, :, :n_labels] = np.exp(inside - shift)
    return EdgeTable(edges, shift, bool(steps * (largest - least) <= WIDEST))
