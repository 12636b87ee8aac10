"""The table of features by labels, as an emission: scores of tokens, and derivatives by score back to its weights.

Weights of (feature, label) pairs come in two forms. Features seen with many labels are rows of a dense table,
padded with zeros; the others have a list of labels and weights each. A token's dense features come first.

A pass over some sequences does all work while a sequence is in the cache: its scores, the chain over its labels
(``sequence.py``), its part of the gradient, Hessian product or diagonal.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tikhon.kernels.chain.forward_backward import UNKNOWN, Array
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
from tikhon.kernels.compiling import compiled, inlined_late


class Tokens(NamedTuple):
    """Sequences of tokens with their features; all arrays are contiguous."""

    starts: NDArray[np.int64]  # token at which each sequence starts; one more than there are sequences
    pointers: NDArray[np.int64]  # position in ``features`` at which each token starts; one more than there are tokens
    middles: NDArray[np.int64]  # end of the dense features of each token
    features: NDArray[np.uint32]  # rows of the dense table, or lists
    values: Array  # of the features; empty where all are 1
    labels: NDArray[np.int32]  # of each token; UNKNOWN if not given


class Lists(NamedTuple):
    """The labels of the features that have lists."""

    pointers: NDArray[np.uint32]  # small types: they are looked up at random, limited by the cache
    labels: NDArray[np.uint16]


class TableWeights(NamedTuple):
    """Weights, or their rates of change, or sums by weight."""

    dense: Array  # features x P
    sparse: Array  # one per entry of the lists


@compiled
def arrange(
    pointers: NDArray[np.int64], features: NDArray[np.int32], values: Array, is_dense: NDArray[np.bool_],
    row_of: NDArray[np.uint32], middles: NDArray[np.int64], rows: NDArray[np.uint32], row_values: Array,
) -> None:  # fmt: skip
    """Fills ``middles``, ``rows`` and ``row_values`` of Tokens: each token's features renumbered, dense ones first."""
    weighted = len(values) > 0
    for token in range(len(middles)):
        place = pointers[token]
        for turn in range(2):
            for p in range(pointers[token], pointers[token + 1]):
                if is_dense[features[p]] == (turn == 0):
                    rows[place] = row_of[features[p]]
                    if weighted:
                        row_values[place] = values[p]
                    place += 1
            if turn == 0:
                middles[token] = place


@compiled
def add_squares(tokens: Tokens, row_weights: Array, dense: Array, listed: Array) -> None:
    """Adds the weighted squares of each feature's values to its entry of ``dense`` or ``listed``."""
    weighted = len(tokens.values) > 0
    for i in range(len(row_weights)):
        for token in range(tokens.starts[i], tokens.starts[i + 1]):
            for p in range(tokens.pointers[token], tokens.pointers[token + 1]):
                value = tokens.values[p] if weighted else 1.0
                into = dense if p < tokens.middles[token] else listed
                into[tokens.features[p]] += row_weights[i] * value * value


@compiled
def mark_seen(
    pointers: NDArray[np.int64], features: NDArray[np.int32], labels: NDArray[np.int32], first: int,
    seen: NDArray[np.bool_],
) -> None:  # fmt: skip
    """Marks in ``seen`` (features x K) which labels the features from ``first`` on were seen with."""
    last = first + len(seen)
    for token in range(len(labels)):
        label = labels[token]
        if label != UNKNOWN:
            for p in range(pointers[token], pointers[token + 1]):
                if first <= features[p] < last:
                    seen[features[p] - first, label] = True


@inlined_late
def score(token: int, tokens: Tokens, lists: Lists, weights: TableWeights, out: Array) -> None:
    """The scores of all labels of a token."""
    weighted = len(tokens.values) > 0
    width = len(out)
    p, middle, end = tokens.pointers[token], tokens.middles[token], tokens.pointers[token + 1]
    out[:] = 0.0
    while p + 4 <= middle:  # four rows at a time: a quarter of the loads and stores of ``out``
        a, b, c, d = 1.0, 1.0, 1.0, 1.0
        if weighted:
            a, b, c, d = tokens.values[p], tokens.values[p + 1], tokens.values[p + 2], tokens.values[p + 3]
        q, r = weights.dense[tokens.features[p]], weights.dense[tokens.features[p + 1]]
        s, t = weights.dense[tokens.features[p + 2]], weights.dense[tokens.features[p + 3]]
        for k in range(width):
            out[k] += a * q[k] + b * r[k] + c * s[k] + d * t[k]
        p += 4
    while p < middle:
        a, q = tokens.values[p] if weighted else 1.0, weights.dense[tokens.features[p]]
        for k in range(width):
            out[k] += a * q[k]
        p += 1
    while p < end:
        a, feature = tokens.values[p] if weighted else 1.0, tokens.features[p]
        for i in range(np.uint64(lists.pointers[feature]), np.uint64(lists.pointers[feature + 1])):
            out[lists.labels[i]] += a * weights.sparse[i]
        p += 1


@inlined_late
def scatter(token: int, tokens: Tokens, lists: Lists, by_label: Array, into: TableWeights) -> None:
    """The adjoint of ``score``."""
    weighted = len(tokens.values) > 0
    for p in range(tokens.pointers[token], tokens.middles[token]):
        value = tokens.values[p] if weighted else 1.0
        row = into.dense[tokens.features[p]]
        for k in range(len(by_label)):
            row[k] += value * by_label[k]
    for p in range(tokens.middles[token], tokens.pointers[token + 1]):
        value = tokens.values[p] if weighted else 1.0
        feature = tokens.features[p]
        for q in range(np.uint64(lists.pointers[feature]), np.uint64(lists.pointers[feature + 1])):
            into.sparse[q] += value * by_label[lists.labels[q]]


@inlined_late
def scatter_squares(token: int, tokens: Tokens, lists: Lists, by_label: Array, into: TableWeights) -> None:
    """As ``scatter``, with the squares of the features' values."""
    weighted = len(tokens.values) > 0
    for p in range(tokens.pointers[token], tokens.pointers[token + 1]):
        value = tokens.values[p] * tokens.values[p] if weighted else 1.0
        feature = tokens.features[p]
        if p < tokens.middles[token]:
            row = into.dense[feature]
            for k in range(len(by_label)):
                row[k] += value * by_label[k]
        else:
            for q in range(np.uint64(lists.pointers[feature]), np.uint64(lists.pointers[feature + 1])):
                into.sparse[q] += value * by_label[lists.labels[q]]


@compiled
def gradient_pass(
    first: int, last: int, tokens: Tokens, lists: Lists, weights: TableWeights, table: StepTable, row_weights: Array,
    into: TableWeights, edges_into: Array,
) -> float:  # fmt: skip
    """The summed loss of sequences first … last - 1; its gradient is added to ``into`` and ``edges_into``."""
    room = room_for(longest(first, last, tokens.starts), table)
    loss = 0.0
    for i in range(first, last):
        weight, start = row_weights[i], tokens.starts[i]
        length = tokens.starts[i + 1] - start
        if weight == 0.0:
            continue
        for t in range(length):
            score(start + t, tokens, lists, weights, room.raw[t])
        loss = loss_by_scores(loss, length, tokens.labels[start : start + length], weight, table, room)
        for t in range(length):
            scatter(start + t, tokens, lists, room.nodes[t], into)
    add_steps_of(table, room, edges_into)
    return loss


@compiled
def product_pass(
    first: int, last: int, tokens: Tokens, lists: Lists, weights: TableWeights, table: StepTable, rates: TableWeights,
    edge_rates: Array, row_weights: Array, into: TableWeights, edges_into: Array,
) -> None:  # fmt: skip
    """Adds the Hessian of ``gradient_pass`` times the rates to ``into`` and ``edges_into``."""
    most = longest(first, last, tokens.starts)
    room, tangent = room_for(most, table), tangent_room_for(most, table, edge_rates)
    for i in range(first, last):
        weight, start = row_weights[i], tokens.starts[i]
        length = tokens.starts[i + 1] - start
        if weight == 0.0:
            continue
        for t in range(length):
            score(start + t, tokens, lists, weights, room.raw[t])
            score(start + t, tokens, lists, rates, tangent.raw[t])
        rates_by_scores(length, tokens.labels[start : start + length], weight, table, room, tangent)
        for t in range(length):
            scatter(start + t, tokens, lists, room.nodes[t], into)
    add_step_rates_of(table, room, tangent, edges_into)


@compiled
def diagonal_pass(
    first: int, last: int, tokens: Tokens, lists: Lists, weights: TableWeights, table: StepTable, row_weights: Array,
    into: TableWeights, edges_into: Array,
) -> None:  # fmt: skip
    """Adds the variances of labels and of steps, token by token, to ``into`` and ``edges_into``.

    It ignores covariances between tokens, which matter only for features that occur more than once in a sequence.
    """
    room = room_for(longest(first, last, tokens.starts), table)
    for i in range(first, last):
        weight, start = row_weights[i], tokens.starts[i]
        length = tokens.starts[i + 1] - start
        if weight == 0.0:
            continue
        for t in range(length):
            score(start + t, tokens, lists, weights, room.raw[t])
        variances(length, tokens.labels[start : start + length], weight, table, room, edges_into)
        for t in range(length):
            scatter_squares(start + t, tokens, lists, room.nodes[t], into)


@compiled
def scores_pass(first: int, last: int, tokens: Tokens, lists: Lists, weights: TableWeights, scores: Array) -> None:
    """Fills ``scores`` (tokens of these sequences x P)."""
    start = tokens.starts[first]
    for token in range(start, tokens.starts[last]):
        score(token, tokens, lists, weights, scores[token - start])


@compiled
def scatter_pass(
    first: int, last: int, tokens: Tokens, lists: Lists, by_score: Array, squared: bool, into: TableWeights
) -> None:  # fmt: skip
    """The adjoint of ``scores_pass``, or of its square, added to ``into``."""
    start = tokens.starts[first]
    for token in range(start, tokens.starts[last]):
        if squared:
            scatter_squares(token, tokens, lists, by_score[token - start], into)
        else:
            scatter(token, tokens, lists, by_score[token - start], into)


# A few sequences, straight from the flat weights: nothing of the size of the weights is allocated.


class Pairs(NamedTuple):
    """The positions of the weights of each feature among the flat ones, dense features first, and their labels."""

    pointers: NDArray[np.int64]
    labels: NDArray[np.int32]
    n_dense: int  # features


@compiled
def score_rows(rows: NDArray[np.intp], tokens: Tokens, pairs: Pairs, weights: Array, scores: Array) -> None:
    """Fills ``scores`` (tokens of all rows x P) of sequences; repetitions are allowed."""
    weighted = len(tokens.values) > 0
    place = 0
    scores[:] = 0.0
    for row in rows:
        for token in range(tokens.starts[row], tokens.starts[row + 1]):
            for p in range(tokens.pointers[token], tokens.pointers[token + 1]):
                value = tokens.values[p] if weighted else 1.0
                feature = np.int64(tokens.features[p]) + (0 if p < tokens.middles[token] else pairs.n_dense)
                for i in range(pairs.pointers[feature], pairs.pointers[feature + 1]):
                    scores[place, pairs.labels[i]] += value * weights[i]
            place += 1


@compiled
def scatter_rows(rows: NDArray[np.intp], tokens: Tokens, pairs: Pairs, by_score: Array, out: Array) -> None:
    """The adjoint of ``score_rows``, added to ``out``."""
    weighted = len(tokens.values) > 0
    place = 0
    for row in rows:
        for token in range(tokens.starts[row], tokens.starts[row + 1]):
            for p in range(tokens.pointers[token], tokens.pointers[token + 1]):
                value = tokens.values[p] if weighted else 1.0
                feature = np.int64(tokens.features[p]) + (0 if p < tokens.middles[token] else pairs.n_dense)
                for i in range(pairs.pointers[feature], pairs.pointers[feature + 1]):
                    out[i] += value * by_score[place, pairs.labels[i]]
            place += 1
