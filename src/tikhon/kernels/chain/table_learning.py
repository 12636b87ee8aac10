"""Learning the table of features by labels from a few sequences at a time."""

import numpy as np

from tikhon.kernels.chain.feature_table import Lists, TableWeights, Tokens, score
from tikhon.kernels.chain.forward_backward import Array
from tikhon.kernels.chain.learning import Lesson, StepWeights, learn_sequence, longest_of, move_steps, table_of
from tikhon.kernels.chain.sequence import room_for
from tikhon.kernels.compiling import compiled, inlined_late


@compiled
def learn_table(
    lesson: Lesson, tokens: Tokens, lists: Lists, weights: TableWeights, free: Array, steps: StepWeights, rates: Array
) -> float:  # fmt: skip
    """Moves ``weights`` and ``steps`` at the ``rates`` of features and of steps; returns the summed loss on the way.

    ``free`` is 1 where the dense table has a weight, 0 elsewhere.
    """
    edges, width = np.zeros(steps.scores.shape), steps.scores.shape[2]
    work = np.empty((3, width))
    table = table_of(steps.scores, edges, work)
    most = longest_of(lesson.order, tokens.starts)
    room, own, best = room_for(most, table), np.zeros(most, np.int32), np.zeros(most, np.int32)
    total = 0.0
    for first in range(0, len(lesson.order), lesson.batch):
        rows = lesson.order[first : first + lesson.batch]
        n_tokens = 0
        for row in rows:
            n_tokens += tokens.starts[row + 1] - tokens.starts[row]
        by_score, place, moved = np.empty((n_tokens, width)), 0, False
        for row in rows:
            start = tokens.starts[row]
            length = tokens.starts[row + 1] - start
            for t in range(length):
                score(start + t, tokens, lists, weights, room.raw[t])
            labels = tokens.labels[start : start + length]
            value, moves = learn_sequence(lesson, length, labels, lesson.row_weights[row], table, room, own, best)
            total, moved = total + value, moved or moves
            by_score[place : place + length] = room.nodes[:length]
            place += length
        if not moved:
            continue
        place = 0
        for row in rows:
            for token in range(tokens.starts[row], tokens.starts[row + 1]):
                move_features(token, rates[0], tokens, lists, by_score[place], weights, free)
                place += 1
        move_steps(rates[1], steps, table, room, work[2])
        if lesson.likelihood:
            table = table_of(steps.scores, edges, work)
    return total


@inlined_late
def move_features(
    token: int, rate: float, tokens: Tokens, lists: Lists, by_score: Array, weights: TableWeights, free: Array
) -> None:  # fmt: skip
    """Moves the weights of a token's features against the derivatives of its scores."""
    touched = False
    for k in range(len(by_score)):
        touched = touched or by_score[k] != 0.0
    if not touched:
        return
    weighted = len(tokens.values) > 0
    for p in range(tokens.pointers[token], tokens.middles[token]):
        scale = rate * (tokens.values[p] if weighted else 1.0)
        row, mask = weights.dense[tokens.features[p]], free[tokens.features[p]]
        for k in range(len(by_score)):
            row[k] -= scale * mask[k] * by_score[k]
    for p in range(tokens.middles[token], tokens.pointers[token + 1]):
        scale = rate * (tokens.values[p] if weighted else 1.0)
        feature = tokens.features[p]
        for q in range(np.uint64(lists.pointers[feature]), np.uint64(lists.pointers[feature + 1])):
            weights.sparse[q] -= scale * by_score[lists.labels[q]]
