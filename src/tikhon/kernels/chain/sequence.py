"""One sequence, given the scores of its tokens: loss, marginals and their derivatives, whatever the source of the scores.

The passes of an emission (``feature_table.py``) fill ``raw`` of a ``Room``, call one of these functions, which are inlined,
and read the derivatives by score from ``nodes``, all while the sequence is in the cache. Sums over steps between labels stay
in the room until ``add_steps_of`` adds them up at the end of a pass.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tikhon.kernels.chain.forward_backward import (
    UNKNOWN,
    UNREACHED,
    Array,
    Labels,
    backward,
    exponentials,
    forward,
    tangent_backward,
    tangent_forward,
)
from tikhon.kernels.chain.logs import in_logs
from tikhon.kernels.compiling import inlined_late


class StepTable(NamedTuple):
    """The scores of steps between labels, their exponentials, and whether scaled probabilities are reliable with them."""

    scores: Array  # H x K x P
    edges: Array  # exp(scores - shift), 0 in the padding
    shift: float
    scaled: bool


class Room(NamedTuple):
    """Memory for sequences up to some length, and the sums over all those processed."""

    raw: Array  # scores of the labels of each token
    nodes: Array  # derivatives of the loss with respect to the scores
    ex: Array
    alpha: Array
    sums: Array
    beta: Array
    ahead: Array
    edge_sums: Array  # of steps, without their factor ``edges``
    edge_marginals: Array
    no_rates: Array
    no_edge_rates: Array


class TangentRoom(NamedTuple):
    """The same for rates of change."""

    raw: Array
    edge_rates: Array
    edge_slopes: Array
    alpha: Array
    sums: Array
    beta: Array
    ahead: Array
    part: Array
    edge_sums: Array


@inlined_late
def longest(first: int, last: int, starts: NDArray[np.int64]) -> int:
    """Tokens of the longest of these sequences."""
    most = 0
    for i in range(first, last):
        most = max(most, starts[i + 1] - starts[i])
    return most


@inlined_late
def room_for(most: int, table: StepTable) -> Room:
    n_before, n_labels, width = table.edges.shape
    raw, ex, nodes = np.empty((most, width)), np.empty((most, width)), np.empty((most, width))
    alpha, sums = np.empty((most, n_before, width)), np.empty(most)
    beta, ahead = np.zeros((2, n_before, width)), np.empty((most, n_labels if n_before > 1 else 1, width))
    edge_sums, edge_marginals = np.zeros(table.edges.shape), np.zeros(table.edges.shape)
    no_rates, no_edge_rates = np.zeros((most, width)), np.zeros(table.edges.shape)
    return Room(raw, nodes, ex, alpha, sums, beta, ahead, edge_sums, edge_marginals, no_rates, no_edge_rates)


@inlined_late
def tangent_room_for(most: int, table: StepTable, edge_rates: Array) -> TangentRoom:
    n_before, n_labels, width = table.edges.shape
    raw, alpha, sums = np.empty((most, width)), np.empty((most, n_before, width)), np.empty(most)
    beta, ahead = np.zeros((2, n_before, width)), np.empty((most, n_labels if n_before > 1 else 1, width))
    edge_slopes, edge_sums = table.edges * edge_rates, np.zeros(table.edges.shape)
    return TangentRoom(raw, edge_rates, edge_slopes, alpha, sums, beta, ahead, np.empty(width), edge_sums)


@inlined_late
def path_score(raw: Array, length: int, labels: Labels, edge_scores: Array) -> float:
    """The score of the labels given; UNREACHED where one is unknown."""
    n_before = edge_scores.shape[0]
    total = 0.0
    for t in range(length):
        k = labels[t]
        if k == UNKNOWN:
            return UNREACHED
        total += raw[t, k]
        if t > 0:
            h = 0 if n_before == 1 else (labels[t - 2] if t > 1 else n_before - 1)
            total += edge_scores[h, labels[t - 1], k]
    return total


@inlined_late
def subtract_path(length: int, labels: Labels, weight: float, nodes: Array, edge_marginals: Array) -> None:
    """Subtract the given labels from the marginals."""
    n_before = edge_marginals.shape[0]
    for t in range(length):
        nodes[t, labels[t]] -= weight
        if t > 0:
            h = 0 if n_before == 1 else (labels[t - 2] if t > 1 else n_before - 1)
            edge_marginals[h, labels[t - 1], labels[t]] -= weight


@inlined_late
def loss_by_scores(loss: float, length: int, labels: Labels, weight: float, table: StepTable, room: Room) -> float:
    """Adds the weighted loss of a sequence to ``loss``; fills ``nodes`` with its derivatives by score.

    The loss is log Z less the score of the labels or, if some are unknown, less the log partition function of all
    labellings that agree with the given ones.
    """
    raw, nodes = room.raw, room.nodes
    n_labels = table.edges.shape[1]
    nodes[:length] = 0.0
    own = path_score(raw, length, labels, table.scores)
    for constrained in range(1 if own != UNREACHED else 2):
        sign = -weight if constrained else weight
        largest = exponentials(raw, length, n_labels, labels, constrained == 1, room.ex)
        logarithm = forward(room.ex, length, table.edges, room.alpha, room.sums) if table.scaled else UNREACHED
        if logarithm == UNREACHED:
            logarithm = in_logs(
                raw, room.no_rates, length, labels, constrained == 1, table.scores, room.no_edge_rates, sign, False, nodes,
                room.edge_marginals,
            )  # fmt: skip
        else:
            logarithm += largest + max(length - 1, 0) * table.shift
            backward(
                room.ex, length, table.edges, room.alpha, room.sums, sign, room.beta, room.ahead, nodes, room.edge_sums
            )
        loss += sign * logarithm
    if own != UNREACHED:
        loss -= weight * own
        subtract_path(length, labels, weight, nodes, room.edge_marginals)
    return loss


@inlined_late
def rates_by_scores(
    length: int, labels: Labels, weight: float, table: StepTable, room: Room, tangent: TangentRoom
) -> None:
    """Fills ``nodes`` with the rates at which the derivatives by score change along ``tangent``."""
    raw, nodes = room.raw, room.nodes
    n_labels = table.edges.shape[1]
    nodes[:length] = 0.0
    known = True
    for t in range(length):
        known = known and labels[t] != UNKNOWN
    for constrained in range(1 if known else 2):
        sign = -weight if constrained else weight
        exponentials(raw, length, n_labels, labels, constrained == 1, room.ex)
        if not table.scaled or forward(room.ex, length, table.edges, room.alpha, room.sums) == UNREACHED:
            in_logs(
                raw, tangent.raw, length, labels, constrained == 1, table.scores, tangent.edge_rates, sign, True, nodes,
                room.edge_marginals,
            )  # fmt: skip
        else:
            tangent_forward(
                room.ex, tangent.raw, length, table.edges, tangent.edge_slopes, room.alpha, room.sums, tangent.alpha,
                tangent.sums, tangent.part,
            )  # fmt: skip
            tangent_backward(
                room.ex, tangent.raw, length, table.edges, tangent.edge_slopes, room.alpha, room.sums, tangent.alpha,
                tangent.sums, sign, room.beta, tangent.beta, room.ahead, tangent.ahead, tangent.part, nodes,
                room.edge_sums, tangent.edge_sums,
            )  # fmt: skip


@inlined_late
def variances(length: int, labels: Labels, weight: float, table: StepTable, room: Room, edges_into: Array) -> None:
    """Fills ``nodes`` with the weighted variances of labels, token by token; adds those of steps to ``edges_into``.

    They are those of log Z alone, ignoring given labels. If probabilities are not scaled, steps are treated as rare: p
    instead of p (1 - p).
    """
    raw, nodes, edges, unused = room.raw, room.nodes, table.edges, room.edge_sums
    n_before, n_labels, width = edges.shape
    nodes[:length] = 0.0
    exponentials(raw, length, n_labels, labels, False, room.ex)
    if not table.scaled or forward(room.ex, length, edges, room.alpha, room.sums) == UNREACHED:
        unused[:] = 0.0
        in_logs(
            raw, room.no_rates, length, labels, False, table.scores, room.no_edge_rates, 1.0, False, nodes, unused
        )  # fmt: skip
        edges_into[:] += weight * unused
    else:
        backward(room.ex, length, edges, room.alpha, room.sums, 1.0, room.beta, room.ahead, nodes, unused)
        for t in range(length - 1):
            for h in range(n_before):
                for j in range(n_labels):
                    a, row = room.alpha[t, h, j], edges[h, j]
                    reach, found = room.ahead[t, j if n_before > 1 else 0], edges_into[h, j]
                    for k in range(width):
                        share = a * row[k] * reach[k]
                        found[k] += weight * share * (1.0 - share)
    for t in range(length):
        for k in range(width):
            nodes[t, k] = weight * nodes[t, k] * (1.0 - nodes[t, k]) if k < n_labels else 0.0


@inlined_late
def add_steps_of(table: StepTable, room: Room, edges_into: Array) -> None:
    """Adds what ``loss_by_scores`` has summed over the steps of all sequences."""
    edges_into[:] += room.edge_sums * table.edges + room.edge_marginals


@inlined_late
def add_step_rates_of(table: StepTable, room: Room, tangent: TangentRoom, edges_into: Array) -> None:
    """Adds what ``rates_by_scores`` has summed over the steps of all sequences."""
    edges_into[:] += tangent.edge_slopes * room.edge_sums + table.edges * tangent.edge_sums + room.edge_marginals
