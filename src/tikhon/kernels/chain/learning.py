"""Learning a chain from a few sequences at a time: stochastic gradients of the loss, and perceptrons.

The kernels of emissions (``learn_table``, ``learn_units``) visit batches of sequences in a given order and move the weights, in
place, after each. The chain over the labels of a sequence is the same for all (``learn_sequence``).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tikhon.kernels.chain.decode import Path, viterbi
from tikhon.kernels.chain.forward_backward import UNKNOWN, UNREACHED, Array, Labels
from tikhon.kernels.chain.hidden_units import fill_exponentials
from tikhon.kernels.chain.sequence import Room, StepTable, loss_by_scores, path_score, subtract_path
from tikhon.kernels.compiling import inlined_late

WIDEST = 300.0  # range of the scores of steps within which scaled probabilities are reliable, as in models/chain/transitions.py


class Lesson(NamedTuple):
    """Which sequences are visited, and what is learned from them."""

    order: NDArray[np.intp]  # sequences, batch after batch
    batch: int  # sequences after which the weights move
    row_weights: Array
    likelihood: bool  # descend the loss; otherwise perceptron updates
    margin: float  # added to the scores of wrong labels by perceptrons


class StepWeights(NamedTuple):
    """The weights of steps between labels while they are learned: their scores are sums over pairs and triples of labels."""

    pairs: Array  # K x P
    triples: Array  # H x K x P; no rows for order 1
    free_pairs: Array  # 1 where there is a weight, 0 elsewhere
    free_triples: Array
    scores: Array  # H x K x P


@inlined_late
def learn_sequence(
    lesson: Lesson, length: int, labels: Labels, weight: float, table: StepTable, room: Room, own: Path, best: Path
) -> tuple[float, bool]:  # fmt: skip
    """Derivatives by score go to ``nodes``, those by step are added to the sums of the room.

    Returns the loss, and whether any derivative is not 0.

    A perceptron's loss is by how much the best labels score more than the given ones, with ``margin`` for each wrong label of
    the former; its derivatives are the counts of the best less those of the given labels (Collins 2002). Where labels are
    unknown, the best ones that agree with the others take their place.
    """
    raw, nodes, n_labels = room.raw, room.nodes, table.scores.shape[1]
    if lesson.likelihood:
        return loss_by_scores(0.0, length, labels, weight, table, room), True
    nodes[:length] = 0.0
    if length == 0:
        return 0.0, False
    known = True
    for t in range(length):
        own[t], best[t] = labels[t], 0
        known = known and labels[t] != UNKNOWN
    if not known:
        for t in range(length):
            for k in range(n_labels):
                room.ex[t, k] = raw[t, k] if labels[t] == UNKNOWN or labels[t] == k else UNREACHED
        viterbi(room.ex, length, table.scores, own)
    for t in range(length):
        for k in range(n_labels):
            raw[t, k] += 0.0 if k == own[t] else lesson.margin
    top = viterbi(raw, length, table.scores, best)
    wrong = False
    for t in range(length):
        wrong = wrong or best[t] != own[t]
    if not wrong:
        return 0.0, False
    subtract_path(length, own, weight, nodes, room.edge_marginals)
    subtract_path(length, best, -weight, nodes, room.edge_marginals)
    return weight * (top - path_score(raw, length, own, table.scores)), True


@inlined_late
def table_of(scores: Array, edges: Array, exponents: Array) -> StepTable:
    """As ``models.chain.transitions.step_table``, in memory that is used again. ``exponents`` (2 x P) is for work."""
    n_before, n_labels, width = scores.shape
    largest, least = scores[0, 0, 0], scores[0, 0, 0]
    for h in range(n_before):
        for j in range(n_labels):
            for k in range(n_labels):
                largest, least = max(largest, scores[h, j, k]), min(least, scores[h, j, k])
    for h in range(n_before):
        for j in range(n_labels):
            for k in range(width):
                exponents[0, k] = scores[h, j, k] - largest
            fill_exponentials(exponents[0], edges[h, j], exponents[1])
            edges[h, j, n_labels:] = 0.0
    n_steps = 1 if n_before == 1 else 2
    return StepTable(scores, edges, largest, n_steps * (largest - least) <= WIDEST)


@inlined_late
def move_steps(rate: float, steps: StepWeights, table: StepTable, room: Room, sums: Array) -> None:
    """Moves the weights of steps against their derivatives, and clears the sums of the room. ``sums`` (P) is for work."""
    n_before, n_labels, width = table.scores.shape
    has_triples = len(steps.triples) > 0
    for j in range(n_labels):
        sums[:] = 0.0
        for h in range(n_before):
            found, edges, counts = room.edge_sums[h, j], table.edges[h, j], room.edge_marginals[h, j]
            for k in range(width):
                counts[k] += found[k] * edges[k]
                sums[k] += counts[k]
        pair, free = steps.pairs[j], steps.free_pairs[j]
        for k in range(width):
            pair[k] -= rate * free[k] * sums[k]
        for h in range(n_before):
            into, counts = steps.scores[h, j], room.edge_marginals[h, j]
            if has_triples:
                triple, free = steps.triples[h, j], steps.free_triples[h, j]
                for k in range(width):
                    triple[k] -= rate * free[k] * counts[k]
                    into[k] = pair[k] + triple[k]
            else:
                for k in range(width):
                    into[k] = pair[k]
            room.edge_sums[h, j, :] = 0.0
            counts[:] = 0.0


@inlined_late
def longest_of(order: NDArray[np.intp], starts: NDArray[np.int64]) -> int:
    """Tokens of the longest of these sequences."""
    most = 0
    for i in order:
        most = max(most, starts[i + 1] - starts[i])
    return most
