"""Chains of labels: conditional random fields of order 1 and 2."""

from collections.abc import Iterator
from functools import cached_property, reduce
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from tikhon.kernels.chain.passes import EdgeTable, Scores, diagonal_pass, gradient_pass, product_pass
from tikhon.models.chain.chunks import chunks_of, mapped
from tikhon.models.chain.layout import UNKNOWN, Layout, Sequences, added, step_codes
from tikhon.models.memo import LastPoint
from tikhon.objective import Hints, Product, Vector

Work: TypeAlias = tuple[tuple[int, int], Scores]

MANY_WEIGHTS, MANY_GAP, FEW_GAP = 10_000, 1e-8, 1e-5  # relative gaps down to which fits use gradients alone
WIDEST = 300.0  # range of edge scores over the steps that count: exp(-708) is the least that floating point knows


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
        self._tokens = layout.tokens(data)  # the data themselves are not kept
        self._begin(layout, np.ones(data.n_sequences) if row_weights is None else row_weights, n_threads)

    def _begin(self, layout: Layout, row_weights: Vector, n_threads: int) -> None:
        self.layout, self.row_weights, self.n_threads = layout, row_weights, n_threads
        self._value = LastPoint(self._loss_gradient)

    def reweighted(self, row_weights: Vector) -> "Chain":
        view = object.__new__(Chain)
        view._tokens = self._tokens
        view._begin(self.layout, row_weights, self.n_threads)
        return view

    @cached_property
    def is_convex(self) -> bool:
        counted = np.repeat(self.row_weights > 0.0, np.diff(self._tokens.starts))
        return not (self._tokens.labels[counted] == UNKNOWN).any()

    @property
    def n_weights(self) -> int:
        return self.layout.n_weights

    @property
    def n_rows(self) -> int:
        return len(self.row_weights)

    @cached_property
    def hints(self) -> Hints:
        return Hints(
            baseline=self.baseline_weights,
            baseline_diagonal=self.baseline_diagonal,
            natural_strengths=self.natural_strengths,
            hessian_diagonal=self.hessian_diagonal,
            # Where features are many and rare, gradients alone take a quarter of the passes, a product counted as two. A few
            # weights with strengths far apart are another matter: conjugate gradients end there, L-BFGS hardly.
            lbfgs_gap=MANY_GAP if self.n_weights >= MANY_WEIGHTS else FEW_GAP,
            row_losses=self.row_losses,
        )

    def baseline_weights(self) -> Vector:
        return np.zeros(self.n_weights)

    def baseline_diagonal(self) -> Vector:
        """Where each label, and each step between labels, has its share in the data whatever the token.

        A weight's curvature is then q (1 - q) times the sum of its feature's squares, q being the share.
        """
        tokens, layout = self._tokens, self.layout
        token_weights = np.repeat(self.row_weights, np.diff(tokens.starts))
        by_feature = layout.squares(tokens, self.row_weights)
        counts = self._counts(token_weights, 1)
        spread = _spread(counts) / max(float(counts.sum()), 1e-300)
        curvature = [by_feature[layout.pair_features] * spread[layout.pair_labels]]
        for rows in layout.transitions:
            n = rows.shape[1]
            spread = _spread(self._counts(token_weights, n))
            curvature.append(spread[np.ravel_multi_index(tuple(rows.T), (layout.n_labels,) * n)])
        return np.concatenate(curvature)

    def natural_strengths(self) -> Vector:
        """The mean square of each feature's values, 1 for steps: a weight changes the log-odds of a label by about 1.

        Curvature is no guide here: most features are rare, and the weights that the few tokens decide are no larger.
        """
        tokens, layout, counted = self._tokens, self.layout, (self.row_weights > 0.0).astype(np.float64)
        counts = layout.squares(tokens._replace(values=np.empty(0)), counted)
        squares = layout.squares(tokens, counted)
        means = np.divide(squares, counts, out=np.ones_like(counts), where=squares > 0.0)
        return np.concatenate([means[layout.pair_features], np.ones(layout.n_weights - layout.n_pairs)])

    def _counts(self, token_weights: Vector, n: int) -> Vector:
        """How often n labels follow each other, weighted, by their code."""
        last, codes = step_codes(self._tokens.starts, self._tokens.labels, self.layout.n_labels, n)
        counts: Vector = np.bincount(codes, token_weights[last], self.layout.n_labels**n).astype(np.float64)
        return counts

    def loss_gradient(self, weights: Vector) -> tuple[float, Vector]:
        loss, gradient = self._value.at(weights)
        return loss, gradient.copy()

    def _loss_gradient(self, weights: Vector) -> tuple[float, Vector]:
        scores = self.layout.scores(weights)
        table = edge_table(scores.edges, self.layout.n_labels)

        def one(work: Work) -> tuple[float, Scores]:
            chunk, into = work
            return gradient_pass(*chunk, self._tokens, self.layout.lists, scores, table, self.row_weights, into), into

        def summed(first: tuple[float, Scores], second: tuple[float, Scores]) -> tuple[float, Scores]:
            return first[0] + second[0], added(first[1], second[1])

        loss, total = reduce(summed, mapped(one, self._work(), self.n_threads))
        return float(loss), self.layout.collected(total)

    def row_losses(self, weights: Vector) -> Vector:
        scores, into = self.layout.scores(weights), self.layout.zeros()
        table = edge_table(scores.edges, self.layout.n_labels)

        def one(place: int) -> float:
            return gradient_pass(
                place, place + 1, self._tokens, self.layout.lists, scores, table, self.row_weights, into
            )

        return np.array([one(int(place)) for place in np.flatnonzero(self.row_weights)])

    def hessian_at(self, weights: Vector) -> Product:
        """Keeps the weights in the form that the kernels want, nothing of the size of the data."""
        scores = self.layout.scores(weights)
        table = edge_table(scores.edges, self.layout.n_labels)

        def product(v: Vector) -> Vector:
            rates = self.layout.scores(v)

            def one(work: Work) -> Scores:
                chunk, into = work
                product_pass(*chunk, self._tokens, self.layout.lists, scores, table, rates, self.row_weights, into)
                return into

            return self.layout.collected(reduce(added, mapped(one, self._work(), self.n_threads)))

        return product

    def hessian_diagonal(self, weights: Vector) -> Vector:
        """Of log Z, by the variances of single labels and steps: exact for features that no sequence has twice.

        For a preconditioner, and for strengths to begin with, that is near enough.
        """
        scores = self.layout.scores(weights)
        table = edge_table(scores.edges, self.layout.n_labels)

        def one(work: Work) -> Scores:
            chunk, into = work
            diagonal_pass(*chunk, self._tokens, self.layout.lists, scores, table, self.row_weights, into)
            return into

        return self.layout.collected(reduce(added, mapped(one, self._work(), self.n_threads)))

    def _work(self) -> Iterator[Work]:
        """Chunks of sequences, each with zeros to add to; these are made here, since threads have heaps of their own."""
        return ((chunk, self.layout.zeros()) for chunk in self._chunks)

    @cached_property
    def _chunks(self) -> list[tuple[int, int]]:
        return chunks_of(self._tokens.starts)


def _spread(counts: Vector) -> Vector:
    """n q (1 - q) for the shares q of counts that sum to n."""
    return counts * (1.0 - counts / max(float(counts.sum()), 1e-300))


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
