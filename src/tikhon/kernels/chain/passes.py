"""One pass over some sequences: scores, forward-backward and gradient (or Hessian product) while all is in the cache.

Weights of (feature, label) pairs come in two forms. Features that were seen with many labels are rows of a dense table,
padded with zeros; the others have a list of labels and weights each. A token's dense features come first.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tikhon.kernels.chain.forward_backward import (
    UNKNOWN,
    UNREACHED,
    Array,
    backward,
    exponentials,
    forward,
    tangent_backward,
    tangent_forward,
)
from tikhon.kernels.chain.logs import in_logs
from tikhon.kernels.compiling import compiled, inlined_late


class Tokens(NamedTuple):
    """Sequences of tokens with their features; all arrays are contiguous."""

    starts: NDArray[np.int64]  # of each sequence, in tokens; one more than there are sequences
    pointers: NDArray[np.int64]  # of each token, in ``features``; one more than there are tokens
    middles: NDArray[np.int64]  # of each token: where its dense features end
    features: NDArray[np.uint32]  # rows of the dense table, or lists
    values: Array  # of the features; empty where all are 1
    labels: NDArray[np.int32]  # of each token; UNKNOWN where not given


class Lists(NamedTuple):
    """The labels of the features that have lists."""

    pointers: NDArray[np.uint32]  # small types: they are looked up at random, and the cache is the limit
    labels: NDArray[np.uint16]


class EdgeTable(NamedTuple):
    """Exponentials of the edge scores, and whether scaled probabilities can be trusted with them."""

    edges: Array  # exp(scores - shift), 0 in the padding
    shift: float
    scaled: bool


class Scores(NamedTuple):
    """Weights, or rates at which they move."""

    dense: Array  # features x P
    sparse: Array  # one per entry of the lists
    edges: Array  # H x K x P


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
def score(token: int, tokens: Tokens, lists: Lists, weights: Scores, out: Array) -> None:
    """The scores of all labels of a token."""
    weighted = len(tokens.values) > 0
    width = len(out)
    p, middle, end = tokens.pointers[token], tokens.middles[token], tokens.pointers[token + 1]
    out[:] = 0.0
    while p + 4 <= middle:  # four rows at a time: ``out`` is loaded and stored a quarter as often
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
def scatter(token: int, tokens: Tokens, lists: Lists, by_label: Array, into: Scores) -> None:
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
def longest(first: int, last: int, tokens: Tokens) -> int:
    """Tokens of the longest of these sequences."""
    most = 0
    for i in range(first, last):
        most = max(most, tokens.starts[i + 1] - tokens.starts[i])
    return most


@inlined_late
def path_score(raw: Array, length: int, labels: NDArray[np.int32], edge_scores: Array) -> float:
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
def subtract_path(length: int, labels: NDArray[np.int32], weight: float, nodes: Array, edge_marginals: Array) -> None:
    """Take the labels given out of the marginals."""
    n_before = edge_marginals.shape[0]
    for t in range(length):
        nodes[t, labels[t]] -= weight
        if t > 0:
            h = 0 if n_before == 1 else (labels[t - 2] if t > 1 else n_before - 1)
            edge_marginals[h, labels[t - 1], labels[t]] -= weight


@compiled
def gradient_pass(
    first: int, last: int, tokens: Tokens, lists: Lists, weights: Scores, table: EdgeTable, row_weights: Array, into: Scores
) -> float:  # fmt: skip
    """The summed loss of sequences first … last - 1; its gradient is added to ``into``.

    The loss of a sequence is log Z less the score of its labels or, where some are
    unknown, less the log partition function of all labellings that agree with those given.
    """
    edges, shift = table.edges, table.shift
    n_before, n_labels, width = edges.shape
    most = longest(first, last, tokens)
    raw, ex, nodes = np.empty((most, width)), np.empty((most, width)), np.empty((most, width))
    alpha, sums = np.empty((most, n_before, width)), np.empty(most)
    beta, ahead = np.zeros((2, n_before, width)), np.empty((most, n_labels if n_before > 1 else 1, width))
    edge_sums, edge_marginals = np.zeros(edges.shape), np.zeros(edges.shape)
    no_rates, no_edge_rates = np.zeros((most, width)), np.zeros(edges.shape)
    loss = 0.0
    for i in range(first, last):
        weight, start = row_weights[i], tokens.starts[i]
        length = tokens.starts[i + 1] - start
        if weight == 0.0:
            continue
        labels = tokens.labels[start : start + length]
        for t in range(length):
            score(start + t, tokens, lists, weights, raw[t])
            nodes[t] = 0.0
        own = path_score(raw, length, labels, weights.edges)
        for constrained in range(1 if own != UNREACHED else 2):
            sign = -weight if constrained else weight
            largest = exponentials(raw, length, n_labels, labels, constrained == 1, ex)
            logarithm = forward(ex, length, edges, alpha, sums) if table.scaled else UNREACHED
            if logarithm == UNREACHED:
                logarithm = in_logs(
                    raw, no_rates, length, labels, constrained == 1, weights.edges, no_edge_rates, sign, False, nodes,
                    edge_marginals,
                )  # fmt: skip
            else:
                logarithm += largest + (length - 1) * shift
                backward(ex, length, edges, alpha, sums, sign, beta, ahead, nodes, edge_sums)
            loss += sign * logarithm
        if own != UNREACHED:
            loss -= weight * own
            subtract_path(length, labels, weight, nodes, edge_marginals)
        for t in range(length):
            scatter(start + t, tokens, lists, nodes[t], into)
    into.edges[:] += edge_sums * edges + edge_marginals
    return loss


@compiled
def product_pass(
    first: int, last: int, tokens: Tokens, lists: Lists, weights: Scores, table: EdgeTable, rates: Scores,
    row_weights: Array, into: Scores,
) -> None:  # fmt: skip
    """Adds the Hessian of ``gradient_pass`` times ``rates`` to ``into``."""
    edges = table.edges
    n_before, n_labels, width = edges.shape
    most = longest(first, last, tokens)
    raw, raw_rates = np.empty((most, width)), np.empty((most, width))
    ex, nodes = np.empty((most, width)), np.empty((most, width))
    alpha, d_alpha = np.empty((most, n_before, width)), np.empty((most, n_before, width))
    sums, d_sums = np.empty(most), np.empty(most)
    beta, d_beta, part = np.zeros((2, n_before, width)), np.zeros((2, n_before, width)), np.empty(width)
    n_ahead = n_labels if n_before > 1 else 1
    ahead, d_ahead = np.empty((most, n_ahead, width)), np.empty((most, n_ahead, width))
    edge_slopes = edges * rates.edges
    edge_sums, d_edge_sums, edge_marginals = np.zeros(edges.shape), np.zeros(edges.shape), np.zeros(edges.shape)
    for i in range(first, last):
        weight, start = row_weights[i], tokens.starts[i]
        length = tokens.starts[i + 1] - start
        if weight == 0.0:
            continue
        labels = tokens.labels[start : start + length]
        known = True
        for t in range(length):
            score(start + t, tokens, lists, weights, raw[t])
            score(start + t, tokens, lists, rates, raw_rates[t])
            nodes[t] = 0.0
            known = known and labels[t] != UNKNOWN
        for constrained in range(1 if known else 2):
            sign = -weight if constrained else weight
            exponentials(raw, length, n_labels, labels, constrained == 1, ex)
            if not table.scaled or forward(ex, length, edges, alpha, sums) == UNREACHED:
                in_logs(
                    raw, raw_rates, length, labels, constrained == 1, weights.edges, rates.edges, sign, True, nodes,
                    edge_marginals,
                )  # fmt: skip
            else:
                tangent_forward(ex, raw_rates, length, edges, edge_slopes, alpha, sums, d_alpha, d_sums, part)
                tangent_backward(
                    ex, raw_rates, length, edges, edge_slopes, alpha, sums, d_alpha, d_sums, sign, beta, d_beta, ahead,
                    d_ahead, part, nodes, edge_sums, d_edge_sums,
                )  # fmt: skip
        for t in range(length):
            scatter(start + t, tokens, lists, nodes[t], into)
    into.edges[:] += edge_slopes * edge_sums + edges * d_edge_sums + edge_marginals


@compiled
def diagonal_pass(
    first: int, last: int, tokens: Tokens, lists: Lists, weights: Scores, table: EdgeTable, row_weights: Array, into: Scores
) -> None:  # fmt: skip
    """Adds the variances of labels and of steps, token by token, to ``into``: those of log Z alone, labels not given.

    Between tokens labels vary together, which matters only to features that a sequence has more than once. Where
    probabilities are not scaled, steps count as if they were certain never to be seen again: p instead of p (1 - p).
    """
    edges = table.edges
    n_before, n_labels, width = edges.shape
    most = longest(first, last, tokens)
    raw, ex, nodes = np.empty((most, width)), np.empty((most, width)), np.empty((most, width))
    alpha, sums = np.empty((most, n_before, width)), np.empty(most)
    beta, ahead = np.zeros((2, n_before, width)), np.empty((most, n_labels if n_before > 1 else 1, width))
    unused, no_rates, no_edge_rates = np.zeros(edges.shape), np.zeros((most, width)), np.zeros(edges.shape)
    for i in range(first, last):
        weight, start = row_weights[i], tokens.starts[i]
        length = tokens.starts[i + 1] - start
        if weight == 0.0:
            continue
        labels = tokens.labels[start : start + length]
        for t in range(length):
            score(start + t, tokens, lists, weights, raw[t])
            nodes[t] = 0.0
        exponentials(raw, length, n_labels, labels, False, ex)
        if not table.scaled or forward(ex, length, edges, alpha, sums) == UNREACHED:
            unused[:] = 0.0
            in_logs(raw, no_rates, length, labels, False, weights.edges, no_edge_rates, 1.0, False, nodes, unused)
            into.edges[:] += weight * unused
        else:
            backward(ex, length, edges, alpha, sums, 1.0, beta, ahead, nodes, unused)
            for t in range(length - 1):
                for h in range(n_before):
                    for j in range(n_labels):
                        a, row = alpha[t, h, j], edges[h, j]
                        reach, found = ahead[t, j if n_before > 1 else 0], into.edges[h, j]
                        for k in range(width):
                            share = a * row[k] * reach[k]
                            found[k] += weight * share * (1.0 - share)
        for t in range(length):
            for k in range(width):
                nodes[t, k] = weight * nodes[t, k] * (1.0 - nodes[t, k]) if k < n_labels else 0.0
            scatter_squares(start + t, tokens, lists, nodes[t], into)


@inlined_late
def scatter_squares(token: int, tokens: Tokens, lists: Lists, by_label: Array, into: Scores) -> None:
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


@inlined_late
def score_sequence(
    start: int,
    length: int,
    tokens: Tokens,
    lists: Lists,
    weights: Scores,
    n_labels: int,
    first_scores: Array,
    raw: Array,
) -> None:
    """The scores of a sequence's labels: -inf for those that its given labels exclude; ``first_scores`` add to the first."""
    for t in range(length):
        score(start + t, tokens, lists, weights, raw[t])
        given = tokens.labels[start + t]
        for k in range(n_labels):
            if given not in (UNKNOWN, k):
                raw[t, k] = UNREACHED
    for k in range(n_labels):
        raw[0, k] += first_scores[k]


@compiled
def marginals_pass(
    first: int, last: int, tokens: Tokens, lists: Lists, weights: Scores, table: EdgeTable, first_scores: Array,
    marginals: Array, log_sums: Array,
) -> None:  # fmt: skip
    """Fills ``marginals`` (tokens x K) and ``log_sums`` (log Z) of sequences; labels that are given are taken for granted."""
    edges, shift = table.edges, table.shift
    n_before, n_labels, width = edges.shape
    most = longest(first, last, tokens)
    raw, ex, nodes = np.empty((most, width)), np.empty((most, width)), np.empty((most, width))
    alpha, sums = np.empty((most, n_before, width)), np.empty(most)
    beta, ahead = np.zeros((2, n_before, width)), np.empty((most, n_labels if n_before > 1 else 1, width))
    unused, no_rates, no_edge_rates = np.zeros(edges.shape), np.zeros((most, width)), np.zeros(edges.shape)
    for i in range(first, last):
        start = tokens.starts[i]
        length = tokens.starts[i + 1] - start
        if length == 0:
            log_sums[i] = 0.0
            continue
        labels = tokens.labels[start : start + length]
        score_sequence(start, length, tokens, lists, weights, n_labels, first_scores, raw)
        nodes[:length] = 0.0
        largest = exponentials(raw, length, n_labels, labels, True, ex)
        logarithm = forward(ex, length, edges, alpha, sums) if table.scaled and math.isfinite(largest) else UNREACHED
        if logarithm == UNREACHED:
            log_sums[i] = in_logs(
                raw, no_rates, length, labels, True, weights.edges, no_edge_rates, 1.0, False, nodes, unused
            )
        else:
            log_sums[i] = logarithm + largest + (length - 1) * shift
            backward(ex, length, edges, alpha, sums, 1.0, beta, ahead, nodes, unused)
        marginals[start : start + length] = nodes[:length, :n_labels]
