"""Passes of an emission that does not interleave its own work with that of the chain: block by block of sequences.

The scores of a block are made first, then the chain over its labels is worked on, then derivatives by score go back to the
weights. That takes more memory traffic than one pass over each sequence, and suits chains of which few steps have a weight.
"""

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tikhon.kernels.chain.few_steps import FewSteps, few_rates_pass, few_rows_pass, few_variances_pass
from tikhon.kernels.chain.passes import rates_pass, rows_pass, variances_pass
from tikhon.models.chain.chunks import blocks_of
from tikhon.models.chain.emission import Run, Sums
from tikhon.objective import Matrix


class LinearEmission(Protocol):
    """An emission whose scores are linear in its weights."""

    def scores(self, first: int, last: int, tokens: Any, weights: Any) -> Matrix: ...

    def scatter(
        self, first: int, last: int, tokens: Any, by_score: Matrix, into: Any, *, squared: bool
    ) -> None:  # fmt: skip
        """Adds the adjoint of ``scores``, or of its square, entry by entry."""
        ...


def add_gradient(
    emission: LinearEmission, starts: NDArray[np.int64], labels: NDArray[np.int32], run: Run, tokens: Any,
    weights: Any, into: Sums[Any],
) -> float:  # fmt: skip
    """As ``Emission.add_gradient``."""
    add_loss: Any = few_rows_pass if isinstance(run.table, FewSteps) else rows_pass
    loss = 0.0
    for first, last in blocks_of(starts, run.first, run.last):
        scores = emission.scores(first, last, tokens, weights)
        by_score, rows = np.empty_like(scores), np.arange(first, last)
        loss += add_loss(rows, starts, labels, scores, run.table, run.row_weights, by_score, into.edges)
        emission.scatter(first, last, tokens, by_score, into.emission, squared=False)
    return loss


def add_product(
    emission: LinearEmission, starts: NDArray[np.int64], labels: NDArray[np.int32], run: Run, tokens: Any,
    weights: Any, rates: Any, edge_rates: NDArray[np.float64], into: Sums[Any],
) -> None:  # fmt: skip
    """As ``Emission.add_product``."""
    move: Any = few_rates_pass if isinstance(run.table, FewSteps) else rates_pass
    for first, last in blocks_of(starts, run.first, run.last):
        scores, moved = (emission.scores(first, last, tokens, part) for part in (weights, rates))
        by_score, rows = np.empty_like(scores), np.arange(first, last)
        move(
            rows, starts, labels, scores, moved, run.table, edge_rates, run.row_weights, by_score, into.edges
        )  # fmt: skip
        emission.scatter(first, last, tokens, by_score, into.emission, squared=False)


def add_diagonal(
    emission: LinearEmission, starts: NDArray[np.int64], labels: NDArray[np.int32], run: Run, tokens: Any,
    weights: Any, into: Sums[Any],
) -> None:  # fmt: skip
    """As ``Emission.add_diagonal``."""
    spread: Any = few_variances_pass if isinstance(run.table, FewSteps) else variances_pass
    for first, last in blocks_of(starts, run.first, run.last):
        scores = emission.scores(first, last, tokens, weights)
        by_score, rows = np.empty_like(scores), np.arange(first, last)
        spread(rows, starts, labels, scores, run.table, run.row_weights, by_score, into.edges)
        emission.scatter(first, last, tokens, by_score, into.emission, squared=True)
