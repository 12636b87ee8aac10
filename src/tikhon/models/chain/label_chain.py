"""The loss of chains over labels, with any emission."""

from collections.abc import Iterator
from functools import cached_property, reduce
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tikhon.kernels.chain.few_steps import FewSteps, few_rows_pass
from tikhon.kernels.chain.passes import rows_pass
from tikhon.models.chain.chunks import chunks_of, mapped
from tikhon.models.chain.emission import Run, Sums
from tikhon.models.chain.layout import ChainLayout
from tikhon.models.chain.sequences import UNKNOWN, Sequences
from tikhon.models.chain.transitions import Table
from tikhon.models.memo import LastPoint
from tikhon.objective import Product, Vector

Work: TypeAlias = tuple[tuple[int, int], Sums[Any]]


class LabelChain:
    """sum_i a_i [log Z(x_i) - score(x_i, y_i)] over sequences, with row weights a.

    The score of labels y is sum_t s_t[y_t] + sum_{t>0} w[y_{t-1}, y_t], and for order 2 also
    + sum_{t>1} w[y_{t-2}, y_{t-1}, y_t], with the emission's scores s of tokens; Z sums its exponential over all labellings.
    Unknown labels are summed over as well: the loss is then log Z less the log of the sum over all labellings that agree
    with the known ones, and not convex.
    """

    def __init__(
        self, data: Sequences, layout: ChainLayout[Any], *, row_weights: Vector | None = None, n_threads: int = 1
    ) -> None:
        self._tokens = layout.emission.tokens(data)  # the data themselves are not kept
        self._starts, self._labels = data.starts, data.labels
        self._begin(layout, np.ones(data.n_sequences) if row_weights is None else row_weights, n_threads)

    by_token = False  # are labels predicted token by token, and so their errors counted?

    def _begin(self, layout: Any, row_weights: Vector, n_threads: int) -> None:
        self.layout, self.row_weights, self.n_threads = layout, row_weights, n_threads
        self._value = LastPoint(self._loss_gradient)

    def reweighted(self, row_weights: Vector) -> Self:
        view = object.__new__(type(self))
        view._tokens, view._starts, view._labels = self._tokens, self._starts, self._labels
        view.by_token = self.by_token
        view._begin(self.layout, row_weights, self.n_threads)
        return view

    @cached_property
    def is_convex(self) -> bool:
        counted = np.repeat(self.row_weights > 0.0, np.diff(self._starts))
        return self.layout.emission.is_linear and not (self._labels[counted] == UNKNOWN).any()

    # For trainers, which visit sequences one by one.

    @property
    def tokens(self) -> Any:
        """The sequences in the form that the emission reads."""
        return self._tokens

    @property
    def starts(self) -> NDArray[np.int64]:
        return self._starts

    @property
    def labels(self) -> NDArray[np.int32]:
        return self._labels

    @property
    def n_weights(self) -> int:
        return int(self.layout.n_weights)

    @property
    def n_rows(self) -> int:
        return len(self.row_weights)

    def loss_gradient(self, weights: Vector) -> tuple[float, Vector]:
        loss, gradient = self._value.at(weights)
        return loss, gradient.copy()

    def _loss_gradient(self, weights: Vector) -> tuple[float, Vector]:
        emission = self.layout.emission
        unpacked, table = self._at(weights)

        def one(work: Work) -> tuple[float, Sums[Any]]:
            chunk, into = work
            return emission.add_gradient(Run(*chunk, self.row_weights, table), self._tokens, unpacked, into), into

        def summed(first: tuple[float, Sums[Any]], second: tuple[float, Sums[Any]]) -> tuple[float, Sums[Any]]:
            return first[0] + second[0], _added(first[1], second[1])

        loss, total = reduce(summed, mapped(one, self._work(table), self.n_threads))
        return float(loss), self._collected(total)

    def row_losses(self, weights: Vector) -> Vector:
        emission = self.layout.emission
        unpacked, table = self._at(weights)
        into = self._zeros(table)

        def one(place: int) -> float:
            run = Run(place, place + 1, self.row_weights, table)
            return float(emission.add_gradient(run, self._tokens, unpacked, into))

        return np.array([one(int(place)) for place in np.flatnonzero(self.row_weights)])

    def hessian_at(self, weights: Vector) -> Product:
        """Keeps the weights in the form that the kernels need, but nothing of the size of the data."""
        emission, steps = self.layout.emission, self.layout.steps
        unpacked, table = self._at(weights)

        def product(v: Vector) -> Vector:
            own, of_steps = self.layout.split(v)
            rates, edge_rates = emission.unpacked(own), steps.rates(of_steps, table)

            def one(work: Work) -> Sums[Any]:
                chunk, into = work
                run = Run(*chunk, self.row_weights, table)
                emission.add_product(run, self._tokens, unpacked, rates, edge_rates, into)
                return into

            return self._collected(reduce(_added, mapped(one, self._work(table), self.n_threads)))

        return product

    def hessian_diagonal(self, weights: Vector) -> Vector:
        """The diagonal for log Z, by the variances of single labels and steps: exact for features at most once per sequence.

        That is accurate enough for a preconditioner and for initial strengths.
        """
        emission = self.layout.emission
        unpacked, table = self._at(weights)

        def one(work: Work) -> Sums[Any]:
            chunk, into = work
            emission.add_diagonal(Run(*chunk, self.row_weights, table), self._tokens, unpacked, into)
            return into

        return self._collected(reduce(_added, mapped(one, self._work(table), self.n_threads)))

    # A few sequences.

    def add_gradient(self, weights: Vector, rows: NDArray[np.intp], out: Vector, scale: float = 1.0) -> float:
        emission, steps = self.layout.emission, self.layout.steps
        rows = np.asarray(rows, np.intp)
        own, of_steps = self.layout.split(weights)
        scores, forward = emission.scores_of(rows, self._tokens, own)
        table = steps.table(of_steps)
        by_score, edges = np.empty_like(scores), np.zeros_like(table.scores)
        add_loss = few_rows_pass if isinstance(table, FewSteps) else rows_pass
        loss = add_loss(rows, self._starts, self._labels, scores, table, self.row_weights, by_score, edges)
        own_out, steps_out = self.layout.split(out)
        emission.back_propagate(rows, self._tokens, forward, scale * by_score, own_out)
        steps.add(scale * edges, steps_out)
        return float(loss)

    def support(self, rows: NDArray[np.intp]) -> NDArray[np.intp]:
        """Weights of the features of these sequences, and all transitions."""
        n_own = self.layout.emission.n_weights
        own = self.layout.emission.support(np.asarray(rows, np.intp), self._tokens)
        return np.concatenate([own, np.arange(n_own, self.n_weights if len(rows) else n_own)])

    # Weights in the form that the kernels need, and back.

    def _at(self, weights: Vector) -> tuple[Any, Table]:
        own, of_steps = self.layout.split(weights)
        return self.layout.emission.unpacked(own), self.layout.steps.table(of_steps)

    def _zeros(self, table: Table) -> Sums[Any]:
        return Sums(self.layout.emission.zeros(), np.zeros_like(table.scores))

    def _collected(self, total: Sums[Any]) -> Vector:
        flat = np.empty(self.n_weights)
        own, of_steps = self.layout.split(flat)
        self.layout.emission.collect(total.emission, own)
        of_steps[:] = 0.0
        self.layout.steps.add(total.edges, of_steps)
        return flat

    def _work(self, table: Table) -> Iterator[Work]:
        """Chunks of sequences, each with zeros to add to; these are allocated here, since threads have heaps of their own."""
        return ((chunk, self._zeros(table)) for chunk in self._chunks)

    @cached_property
    def _chunks(self) -> list[tuple[int, int]]:
        return chunks_of(self._starts)


def _added(total: Sums[Any], part: Sums[Any]) -> Sums[Any]:
    """The sum, in place of the first."""
    for into, more in zip((*total.emission, total.edges), (*part.emission, part.edges), strict=True):
        into += more
    return total
