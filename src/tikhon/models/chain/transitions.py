"""The weights of steps between labels: which exist, and their positions in the tables of the kernels."""

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tikhon.kernels.chain.few_steps import FewSteps
from tikhon.kernels.chain.sequence import StepTable
from tikhon.models.chain.sequences import Sequences, step_codes
from tikhon.objective import Vector

Table: TypeAlias = StepTable | FewSteps

REGISTER = 4  # numbers per register: rows of tables are padded to a multiple
MANY_LABELS, MANY_STEPS = 64, 32  # from so many labels on, with K^2 / 32 weights or fewer, only these are worked on
WIDEST = 300.0  # limit on the range of edge scores in the exponent: exp(-708) is the smallest normal number


def padded(n_labels: int) -> int:
    """Labels, rounded up."""
    return -(-n_labels // REGISTER) * REGISTER


@dataclass(frozen=True, eq=False)
class Transitions:
    """Weights of label pairs (order 1), then of label triples (order 2)."""

    n_labels: int
    order: int
    rows: tuple[NDArray[np.int64], ...]  # for each order, rows of labels, oldest first

    @property
    def n_weights(self) -> int:
        return sum(len(rows) for rows in self.rows)

    @property
    def edge_shape(self) -> tuple[int, int, int]:
        return (1 if self.order == 1 else self.n_labels + 1), self.n_labels, padded(self.n_labels)

    @property
    def are_few(self) -> bool:
        """Do so few steps of so many labels have a weight that tables of all steps would be mostly zeros?"""
        return self.order == 1 and self.n_labels >= MANY_LABELS and MANY_STEPS * self.n_weights <= self.n_labels**2

    def edge_scores(self, weights: Vector) -> NDArray[np.float64]:
        """(H, K, P): the scores of steps from label j, preceded by h, to k; padding is 0."""
        edges = np.zeros(self.edge_shape)
        for places, part in zip(self._places, self.parts(weights), strict=True):
            edges[places] += part
        return edges

    def rates(self, weights: Vector, table: Table) -> NDArray[np.float64]:
        """Rates of the weights in the form of a table."""
        return np.ascontiguousarray(weights) if isinstance(table, FewSteps) else self.edge_scores(weights)

    def add(self, edges: NDArray[np.float64], out: Vector) -> None:
        """Adds sums by step, in the form of a table, to ``out``: the adjoint of ``rates``."""
        if edges.ndim == 1:
            out += edges
            return
        for places, into in zip(self._places, self.parts(out), strict=True):
            steps = edges[places]
            into += steps.sum(axis=0) if steps.ndim == 2 else steps

    def learning_tables(self, weights: Vector) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The weights of pairs (K x P) and triples (H x K x P, or none) by label."""
        n_before, n_labels, width = self.edge_shape
        pairs, triples = np.zeros((n_labels, width)), np.zeros((0 if self.order == 1 else n_before, n_labels, width))
        for table, rows, part in zip((pairs, triples), self.rows, self.parts(weights), strict=False):
            table[tuple(rows.T)] = part
        return pairs, triples

    def collect_tables(self, tables: tuple[NDArray[np.float64], NDArray[np.float64]], out: Vector) -> None:
        """Sets ``out`` to the weights in these tables."""
        for table, rows, part in zip(tables, self.rows, self.parts(out), strict=False):
            part[:] = table[tuple(rows.T)]

    def table(self, weights: Vector) -> Table:
        if self.are_few and max(float(weights.max(initial=0.0)), 0.0) - float(weights.min(initial=0.0)) <= WIDEST:
            return self._few._replace(scores=np.ascontiguousarray(weights), exps=np.exp(weights))
        return step_table(self.edge_scores(weights), self.n_labels)

    @cached_property
    def _few(self) -> FewSteps:
        """All but the scores; rows are in lexicographic order."""
        before, after = (column.astype(np.int32) for column in self.rows[0].T)
        ordered = np.lexsort((before, after)).astype(np.int64)
        labels, nothing = np.arange(self.n_labels + 1), np.empty(0)
        return FewSteps(
            nothing, nothing, before, after, np.searchsorted(before, labels).astype(np.int64), ordered,
            np.searchsorted(after[ordered], labels).astype(np.int64), self.n_labels,
        )  # fmt: skip

    def weights_by_label(self, weights: Vector, n_back: int) -> NDArray[np.float64]:
        """The weights of steps over ``n_back`` + 1 labels, one axis per label; 0 where there is none."""
        table = np.zeros((self.n_labels,) * (n_back + 1))
        table[tuple(self.rows[n_back - 1].T)] = self.parts(weights)[n_back - 1]
        return table

    def parts(self, weights: Vector) -> list[Vector]:
        """Views of the weights of label pairs and triples."""
        return [weights[start:end] for start, end in self._ends]

    @cached_property
    def _ends(self) -> list[tuple[int, int]]:
        return list(pairwise(np.cumsum([0, *(len(rows) for rows in self.rows)]).tolist()))

    @cached_property
    def _places(self) -> list[tuple[Any, ...]]:
        """The positions of the weights of steps in the table: for label pairs, whatever label precedes them."""
        return [(*[slice(None)] * (3 - rows.shape[1]), *rows.T) for rows in self.rows]


def step_table(edge_scores: NDArray[np.float64], n_labels: int) -> StepTable:
    """The exponentials for scaled probabilities, and whether these can be used.

    From two states the same labels can be reached, in one step for order 1, in two for order 2; so the remaining sequence
    favours one of them by at most the range of that many edge scores. If that is small relative to the range of
    floating-point numbers, probabilities that underflow on the way stay negligible in the end.
    """
    inside = edge_scores[:, :, :n_labels]
    largest, least = float(inside.max(initial=-np.inf)), float(inside.min(initial=np.inf))
    steps = 1 if len(edge_scores) == 1 else 2
    shift = largest if np.isfinite(largest) else 0.0
    edges = np.zeros_like(edge_scores)
    edges[:, :, :n_labels] = np.exp(inside - shift)
    return StepTable(edge_scores, edges, shift, bool(steps * (largest - least) <= WIDEST))


def transitions_of(data: Sequences, order: int, *, all_pairs: bool = False) -> Transitions:
    """Weights for the steps that occur in the data, or for all possible ones."""
    rows = tuple(_rows(data, 1 + back, all_pairs) for back in range(1, order + 1))
    return Transitions(data.n_labels, order, rows)


def _rows(data: Sequences, n: int, all_pairs: bool) -> NDArray[np.int64]:
    """Rows of n consecutive labels."""
    if all_pairs:
        return np.stack(np.meshgrid(*[np.arange(data.n_labels)] * n, indexing="ij"), axis=-1).reshape(-1, n)
    codes = step_codes(data.starts, data.labels, data.n_labels, n)[1]
    return np.stack(np.unravel_index(np.unique(codes), (data.n_labels,) * n), axis=1)
