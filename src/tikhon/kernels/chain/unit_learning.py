"""Learning a layer of hidden units from a few sequences at a time."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tikhon.kernels.chain.forward_backward import Array
from tikhon.kernels.chain.hidden_units import (
    LOG_OF_RANGE,
    WIDEST,
    derive,
    derive_best_states,
    exponentials,
    score_best_states,
    score_labels,
    split_exponentials,
)
from tikhon.kernels.chain.learning import Lesson, StepWeights, learn_sequence, longest_of, move_steps, table_of
from tikhon.kernels.chain.sequence import room_for
from tikhon.kernels.compiling import compiled, inlined_late


class SequenceRows(NamedTuple):
    """Sequences whose tokens are rows of a matrix; tokens of a sequence that are alike share a row."""

    starts: NDArray[np.int64]  # token at which each sequence starts
    labels: NDArray[np.int32]
    row_starts: NDArray[np.int64]  # position in ``rows`` at which each sequence starts
    rows: NDArray[np.intp]
    places: NDArray[np.intp]  # for each token, the number of its row among those of its sequence
    dense: Array  # rows x D; no rows: these are sparse
    pointers: NDArray[np.int64]
    columns: NDArray[np.int32]
    values: Array  # empty where all are 1


class UnitWeights(NamedTuple):
    of_features: Array  # D x H
    of_units: Array  # H
    of_labels: Array  # P x H
    scores: Array  # 3 x P: of all tokens, first ones, last ones


@compiled
def learn_units(
    lesson: Lesson, tokens: SequenceRows, weights: UnitWeights, steps: StepWeights, rates: Array
) -> float:  # fmt: skip
    """Moves ``weights`` and ``steps`` at the ``rates`` of features, units, labels of units, labels, and steps.

    Returns the summed loss on the way; infinity where the weights of labels leave the range of the kernels. Perceptrons score
    labels together with the best states of the units.
    """
    edges, width = np.zeros(steps.scores.shape), steps.scores.shape[2]
    work = np.empty((3, width))
    table = table_of(steps.scores, edges, work)
    most = longest_of(lesson.order, tokens.starts)
    room, own, best = room_for(most, table), np.zeros(most, np.int32), np.zeros(most, np.int32)
    factors, span = exponentials(weights.of_labels), span_for(weights.of_labels)
    n_units = weights.of_features.shape[1]
    total = 0.0
    for first in range(0, len(lesson.order), lesson.batch):
        order = lesson.order[first : first + lesson.batch]
        rows = rows_of(order, tokens)
        inputs = inputs_of(rows, tokens, weights)
        scores, by_row = np.zeros((len(rows), width)), np.zeros((len(rows), width))
        decays, growths = inputs, inputs
        if lesson.likelihood:
            if span == 0:
                return np.inf
            decays, growths = np.empty_like(inputs), np.empty_like(inputs)
            split_exponentials(inputs, decays, growths)
            score_labels(decays, growths, factors, span, scores)
        else:
            score_best_states(inputs, weights.of_labels, scores)
        by_scores, offset, moved = np.zeros((3, width)), 0, False
        for i in order:
            start, length = tokens.starts[i], tokens.starts[i + 1] - tokens.starts[i]
            for t in range(length):
                raw, given = room.raw[t], scores[offset + tokens.places[start + t]]
                for k in range(width):
                    raw[k] = given[k] + weights.scores[0, k]
            if length > 0:
                room.raw[0] += weights.scores[1]
                room.raw[length - 1] += weights.scores[2]
            labels = tokens.labels[start : start + length]
            value, moves = learn_sequence(lesson, length, labels, lesson.row_weights[i], table, room, own, best)
            total, moved = total + value, moved or moves
            for t in range(length):
                given, into = room.nodes[t], by_row[offset + tokens.places[start + t]]
                for k in range(width):
                    into[k] += given[k]
                    by_scores[0, k] += given[k]
            if length > 0:
                by_scores[1] += room.nodes[0]
                by_scores[2] += room.nodes[length - 1]
            offset += tokens.row_starts[i + 1] - tokens.row_starts[i]
        if not moved:
            continue
        by_input, by_label = np.empty((len(rows), n_units)), np.zeros((width, n_units))
        if lesson.likelihood:
            derive(decays, growths, factors, by_row, by_input, by_label)
        else:
            derive_best_states(inputs, weights.of_labels, by_row, by_input, by_label)
        move_features(rates[0], rows, tokens, by_row, by_input, weights.of_features)
        for row in by_input:
            for h in range(n_units):
                weights.of_units[h] -= rates[1] * row[h]
        for k in range(width):
            into, found = weights.of_labels[k], by_label[k]
            for h in range(n_units):
                into[h] -= rates[2] * found[h]
        for n in range(3):
            for k in range(width):
                weights.scores[n, k] -= rates[3] * by_scores[n, k]
        move_steps(rates[4], steps, table, room, work[2])
        if lesson.likelihood:
            table = table_of(steps.scores, edges, work)
            factors, span = exponentials(weights.of_labels), span_for(weights.of_labels)
    return total


@inlined_late
def span_for(label_weights: Array) -> int:
    """Factors whose product stays within range; 0: none."""
    largest = 0.0
    for row in label_weights:
        for v in row:
            largest = max(largest, abs(v))
    return int(LOG_OF_RANGE / (largest + np.log(2.0))) if largest <= WIDEST else 0


@inlined_late
def rows_of(order: NDArray[np.intp], tokens: SequenceRows) -> NDArray[np.intp]:
    count = 0
    for i in order:
        count += tokens.row_starts[i + 1] - tokens.row_starts[i]
    rows, place = np.empty(count, np.intp), 0
    for i in order:
        for p in range(tokens.row_starts[i], tokens.row_starts[i + 1]):
            rows[place] = tokens.rows[p]
            place += 1
    return rows


@inlined_late
def inputs_of(rows: NDArray[np.intp], tokens: SequenceRows, weights: UnitWeights) -> Array:
    """The inputs of the units, rows x H."""
    inputs = np.empty((len(rows), len(weights.of_units)))
    if len(tokens.dense) > 0:
        given = np.empty((len(rows), tokens.dense.shape[1]))
        for place in range(len(rows)):
            given[place] = tokens.dense[rows[place]]
        np.dot(given, weights.of_features, inputs)
        for place in range(len(rows)):
            inputs[place] += weights.of_units
        return inputs
    for place in range(len(rows)):
        into = inputs[place]
        into[:] = weights.of_units
        for p in range(tokens.pointers[rows[place]], tokens.pointers[rows[place] + 1]):
            value = tokens.values[p] if len(tokens.values) > 0 else 1.0
            row = weights.of_features[tokens.columns[p]]
            for h in range(len(into)):
                into[h] += value * row[h]
    return inputs


@inlined_late
def move_features(
    rate: float, rows: NDArray[np.intp], tokens: SequenceRows, by_row: Array, by_input: Array, weights: Array
) -> None:  # fmt: skip
    """Moves the weights of features (D x H) against derivatives by input; rows without any are left out."""
    n_units = weights.shape[1]
    used, count = np.empty(len(rows), np.intp), 0
    for place in range(len(rows)):
        touched = False
        for k in range(by_row.shape[1]):
            touched = touched or by_row[place, k] != 0.0
        if touched:
            used[count] = place
            count += 1
    if len(tokens.dense) == 0:
        for place in used[:count]:
            given = by_input[place]
            for p in range(tokens.pointers[rows[place]], tokens.pointers[rows[place] + 1]):
                scale = rate * (tokens.values[p] if len(tokens.values) > 0 else 1.0)
                row = weights[tokens.columns[p]]
                for h in range(n_units):
                    row[h] -= scale * given[h]
        return
    features, kept = np.empty((count, tokens.dense.shape[1])), np.empty((count, n_units))
    for i in range(count):
        features[i], kept[i] = tokens.dense[rows[used[i]]], by_input[used[i]]
    moves = np.dot(features.T, kept)
    for d in range(len(weights)):
        row, move = weights[d], moves[d]
        for h in range(n_units):
            row[h] -= rate * move[h]
