"""Passes over sequences with given scores, whatever their source."""

import math

import numpy as np
from numpy.typing import NDArray

from tikhon.kernels.chain.forward_backward import UNKNOWN, UNREACHED, Array, Labels, backward, exponentials, forward
from tikhon.kernels.chain.logs import in_logs
from tikhon.kernels.chain.sequence import (
    StepTable,
    add_step_rates_of,
    add_steps_of,
    longest,
    loss_by_scores,
    rates_by_scores,
    room_for,
    tangent_room_for,
    variances,
)
from tikhon.kernels.compiling import compiled


@compiled
def rows_pass(
    rows: NDArray[np.intp], starts: NDArray[np.int64], labels: Labels, scores: Array, table: StepTable, row_weights: Array,
    by_score: Array, edges_into: Array,
) -> float:  # fmt: skip
    """The summed loss of sequences (repetitions are allowed); fills ``by_score`` with its derivatives.

    ``scores`` and ``by_score`` hold the concatenated tokens of the rows.
    """
    most = 0
    for row in rows:
        most = max(most, starts[row + 1] - starts[row])
    room = room_for(most, table)
    loss, place = 0.0, 0
    for row in rows:
        start, end = starts[row], starts[row + 1]
        length, weight = end - start, row_weights[row]
        if weight == 0.0:
            by_score[place : place + length] = 0.0
        else:
            room.raw[:length] = scores[place : place + length]
            loss = loss_by_scores(loss, length, labels[start:end], weight, table, room)
            by_score[place : place + length] = room.nodes[:length]
        place += length
    add_steps_of(table, room, edges_into)
    return loss


@compiled
def rates_pass(
    rows: NDArray[np.intp], starts: NDArray[np.int64], labels: Labels, scores: Array, rates: Array, table: StepTable,
    edge_rates: Array, row_weights: Array, by_score: Array, edges_into: Array,
) -> None:  # fmt: skip
    """Fills ``by_score`` with the rates at which the derivatives of ``rows_pass`` change if the scores move at ``rates``."""
    most = 0
    for row in rows:
        most = max(most, starts[row + 1] - starts[row])
    room, tangent = room_for(most, table), tangent_room_for(most, table, edge_rates)
    place = 0
    for row in rows:
        start, end = starts[row], starts[row + 1]
        length, weight = end - start, row_weights[row]
        if weight == 0.0:
            by_score[place : place + length] = 0.0
        else:
            room.raw[:length] = scores[place : place + length]
            tangent.raw[:length] = rates[place : place + length]
            rates_by_scores(length, labels[start:end], weight, table, room, tangent)
            by_score[place : place + length] = room.nodes[:length]
        place += length
    add_step_rates_of(table, room, tangent, edges_into)


@compiled
def variances_pass(
    rows: NDArray[np.intp], starts: NDArray[np.int64], labels: Labels, scores: Array, table: StepTable, row_weights: Array,
    by_score: Array, edges_into: Array,
) -> None:  # fmt: skip
    """Fills ``by_score`` with the weighted variances of the labels of tokens, and adds those of steps to ``edges_into``."""
    most = 0
    for row in rows:
        most = max(most, starts[row + 1] - starts[row])
    room = room_for(most, table)
    place = 0
    for row in rows:
        start, end = starts[row], starts[row + 1]
        length, weight = end - start, row_weights[row]
        if weight == 0.0:
            by_score[place : place + length] = 0.0
        else:
            room.raw[:length] = scores[place : place + length]
            variances(length, labels[start:end], weight, table, room, edges_into)
            by_score[place : place + length] = room.nodes[:length]
        place += length


@compiled
def restrict(
    first: int, last: int, starts: NDArray[np.int64], labels: Labels, first_scores: Array, scores: Array
) -> None:  # fmt: skip
    """Sets the scores of labels excluded by the given ones to -inf; adds ``first_scores`` to those of first tokens.

    ``scores`` begin with the first of these sequences.
    """
    n_labels, offset = len(first_scores), starts[first]
    for i in range(first, last):
        for token in range(starts[i], starts[i + 1]):
            row, given = scores[token - offset], labels[token]
            for k in range(n_labels):
                if given not in (UNKNOWN, k):
                    row[k] = UNREACHED
                if token == starts[i]:
                    row[k] += first_scores[k]


@compiled
def marginals_pass(
    first: int, last: int, starts: NDArray[np.int64], labels: Labels, scores: Array, table: StepTable, marginals: Array,
    log_sums: Array,
) -> None:  # fmt: skip
    """Fills ``marginals`` (tokens x K) and ``log_sums`` (log Z) of sequences; given labels are taken as certain.

    ``scores`` are restricted, and begin with the first of these sequences.
    """
    edges, offset = table.edges, starts[first]
    n_labels = edges.shape[1]
    room = room_for(longest(first, last, starts), table)
    nodes = room.nodes
    for i in range(first, last):
        start, end = starts[i], starts[i + 1]
        length = end - start
        if length == 0:
            log_sums[i] = 0.0
            continue
        raw, given = scores[start - offset : end - offset], labels[start:end]
        nodes[:length] = 0.0
        largest = exponentials(raw, length, n_labels, given, True, room.ex)
        logarithm = UNREACHED
        if table.scaled and math.isfinite(largest):
            logarithm = forward(room.ex, length, edges, room.alpha, room.sums)
        if logarithm == UNREACHED:
            log_sums[i] = in_logs(
                raw, room.no_rates, length, given, True, table.scores, room.no_edge_rates, 1.0, False, nodes,
                room.edge_marginals,
            )  # fmt: skip
        else:
            log_sums[i] = logarithm + largest + (length - 1) * table.shift
            backward(room.ex, length, edges, room.alpha, room.sums, 1.0, room.beta, room.ahead, nodes, room.edge_sums)
        marginals[start:end] = nodes[:length, :n_labels]
