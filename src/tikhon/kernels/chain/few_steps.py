"""Chains of order 1 with many labels, few of whose steps have a weight: each token takes time in proportion to the weights.

A step from j to k without a weight has the score 0, so its factor is 1. With the set I(k) of steps into k that have one,

    sum_j a_j e_jk = (sum_j a_j - sum_{j in I(k)} a_j) + sum_{j in I(k)} a_j exp(w_jk),

and likewise backward. Where the difference would cancel, the labels outside I(k) are added up one by one.

Shapes are those of ``forward_backward.py``, with sums over steps by weight; scores are those of the tokens of some sequences,
one after the other.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tikhon.kernels.chain.forward_backward import UNKNOWN, UNREACHED, Array, Labels, exponentials
from tikhon.kernels.compiling import compiled, inlined_late

CANCELLED = 1e-5  # share of a sum below which it is not found as a difference: that would cost five digits


class FewSteps(NamedTuple):
    """Steps with a weight, by the label before and then the one after; and their order by the one after."""

    scores: Array
    exps: Array
    before: NDArray[np.int32]
    after: NDArray[np.int32]
    out_of: NDArray[np.int64]  # where the steps out of each label begin; one more than there are labels
    ordered: NDArray[np.int64]  # the steps by the label after, then the one before
    into: NDArray[np.int64]  # where the steps into each label begin in ``ordered``
    n_labels: int


class Scratch(NamedTuple):
    """Memory for sequences up to some length."""

    ex: Array
    alpha: Array
    sums: Array
    beta: Array  # of the position after and of this one
    ahead: Array
    nodes: Array
    edge_sums: Array  # by step, without the factor exp(w)


class TangentScratch(NamedTuple):
    """The same for rates of change."""

    alpha: Array
    sums: Array
    beta: Array
    ahead: Array
    edge_sums: Array


@inlined_late
def scratch_for(most: int, width: int, n_steps: int) -> Scratch:
    return Scratch(
        np.empty((most, width)), np.empty((most, width)), np.empty(most), np.empty((2, width)), np.empty(width),
        np.empty((most, width)), np.zeros(n_steps),
    )  # fmt: skip


@inlined_late
def longest_row(rows: NDArray[np.intp], starts: NDArray[np.int64]) -> int:
    most = 0
    for row in rows:
        most = max(most, starts[row + 1] - starts[row])
    return most


@inlined_late
def reached(a: Array, total: float, k: int, steps: FewSteps) -> float:
    """The sum over j of a_j e_jk; ``total`` is the sum of a, whose entries are not negative."""
    taken, weighted = 0.0, 0.0
    for q in range(steps.into[k], steps.into[k + 1]):
        p = steps.ordered[q]
        share = a[steps.before[p]]
        taken += share
        weighted += share * steps.exps[p]
    rest = total - taken
    if rest + weighted < CANCELLED * total:
        rest, q = 0.0, steps.into[k]
        for j in range(steps.n_labels):
            if q < steps.into[k + 1] and steps.before[steps.ordered[q]] == j:
                q += 1
            else:
                rest += a[j]
    return rest + weighted


@inlined_late
def left(b: Array, total: float, j: int, steps: FewSteps) -> float:
    """The sum over k of e_jk b_k; ``total`` is the sum of b, whose entries are not negative."""
    taken, weighted = 0.0, 0.0
    for p in range(steps.out_of[j], steps.out_of[j + 1]):
        share = b[steps.after[p]]
        taken += share
        weighted += share * steps.exps[p]
    rest = total - taken
    if rest + weighted < CANCELLED * total:
        rest, p = 0.0, steps.out_of[j]
        for k in range(steps.n_labels):
            if p < steps.out_of[j + 1] and steps.after[p] == k:
                p += 1
            else:
                rest += b[k]
    return rest + weighted


@inlined_late
def reached_rate(a: Array, d_a: Array, k: int, steps: FewSteps, edge_rates: Array) -> float:
    """The derivative of ``reached``, of probabilities a that sum to 1, so that the sum of their derivatives d_a is 0."""
    taken, weighted, d_taken, d_weighted = 0.0, 0.0, 0.0, 0.0
    for q in range(steps.into[k], steps.into[k + 1]):
        p = steps.ordered[q]
        j, factor = steps.before[p], steps.exps[p]
        taken += a[j]
        weighted += a[j] * factor
        d_taken += d_a[j]
        d_weighted += (d_a[j] + a[j] * edge_rates[p]) * factor
    d_rest = -d_taken
    if 1.0 - taken + weighted < CANCELLED:
        d_rest, q = 0.0, steps.into[k]
        for j in range(steps.n_labels):
            if q < steps.into[k + 1] and steps.before[steps.ordered[q]] == j:
                q += 1
            else:
                d_rest += d_a[j]
    return d_rest + d_weighted


@inlined_late
def left_rate(b: Array, total: float, d_b: Array, d_total: float, j: int, steps: FewSteps, edge_rates: Array) -> float:
    """The derivative of ``left``."""
    taken, weighted, d_taken, d_weighted = 0.0, 0.0, 0.0, 0.0
    for p in range(steps.out_of[j], steps.out_of[j + 1]):
        k, factor = steps.after[p], steps.exps[p]
        taken += b[k]
        weighted += b[k] * factor
        d_taken += d_b[k]
        d_weighted += (d_b[k] + b[k] * edge_rates[p]) * factor
    d_rest = d_total - d_taken
    if total - taken + weighted < CANCELLED * total:
        d_rest, p = 0.0, steps.out_of[j]
        for k in range(steps.n_labels):
            if p < steps.out_of[j + 1] and steps.after[p] == k:
                p += 1
            else:
                d_rest += d_b[k]
    return d_rest + d_weighted


@inlined_late
def forward_few(length: int, steps: FewSteps, room: Scratch) -> float:
    """Scaled forward probabilities; returns the logarithm of the product of the sums."""
    logarithm = 0.0
    for t in range(length):
        now, here, total = room.alpha[t], room.ex[t], 0.0
        for k in range(steps.n_labels):
            value = here[k]
            if t > 0 and value != 0.0:
                value *= reached(room.alpha[t - 1], 1.0, k, steps)
            now[k] = value
            total += value
        room.sums[t] = total
        logarithm += math.log(total)
        for k in range(steps.n_labels):
            now[k] /= total
    return logarithm


@inlined_late
def backward_few(length: int, steps: FewSteps, room: Scratch, weight: float, squares: Array) -> None:
    """Adds weight times the marginals to ``nodes``, and those of steps, without their factor, to ``edge_sums``.

    Their squares, without that of the factor, are added to ``squares``, unless it is empty.
    """
    K = steps.n_labels
    room.beta[(length - 1) % 2] = 1.0
    for t in range(length - 1, -1, -1):
        now = room.beta[t % 2]
        if t < length - 1:
            after, here, total = room.beta[(t + 1) % 2], room.ex[t + 1], 0.0
            for k in range(K):
                room.ahead[k] = here[k] * after[k] / room.sums[t + 1]
                total += room.ahead[k]
            for j in range(K):
                now[j] = left(room.ahead, total, j, steps)
            a = room.alpha[t]
            for j in range(K):
                share = weight * a[j]
                if share != 0.0:
                    for p in range(steps.out_of[j], steps.out_of[j + 1]):
                        pair = share * room.ahead[steps.after[p]]
                        room.edge_sums[p] += pair
                        if len(squares) > 0:
                            squares[p] += pair * pair
        for k in range(K):
            room.nodes[t, k] += weight * room.alpha[t, k] * now[k]


@inlined_late
def step_between(j: int, k: int, steps: FewSteps) -> int:
    """The number of the step from j to k; -1 if it has no weight."""
    low, high = steps.out_of[j], steps.out_of[j + 1]
    while low < high:
        middle = (low + high) // 2
        if steps.after[middle] < k:
            low = middle + 1
        else:
            high = middle
    return low if low < steps.out_of[j + 1] and steps.after[low] == k else -1


@inlined_late
def known_path(raw: Array, labels: Labels, length: int, steps: FewSteps) -> float:
    """The score of the given labels; UNREACHED if one is unknown."""
    total = 0.0
    for t in range(length):
        if labels[t] == UNKNOWN:
            return UNREACHED
        total += raw[t, labels[t]]
        if t > 0:
            p = step_between(labels[t - 1], labels[t], steps)
            if p >= 0:
                total += steps.scores[p]
    return total


@compiled
def few_rows_pass(
    rows: NDArray[np.intp], starts: NDArray[np.int64], labels: Labels, scores: Array, steps: FewSteps, row_weights: Array,
    by_score: Array, edges_into: Array,
) -> float:  # fmt: skip
    """As ``passes.rows_pass``."""
    K, width = steps.n_labels, scores.shape[1]
    room = scratch_for(longest_row(rows, starts), width, len(steps.scores))
    observed, no_squares = np.zeros(len(steps.scores)), np.empty(0)
    loss, place = 0.0, 0
    for row in rows:
        length, weight, given = starts[row + 1] - starts[row], row_weights[row], labels[starts[row] : starts[row + 1]]
        into, raw = by_score[place : place + length], scores[place : place + length]
        place += length
        into[:] = 0.0
        if weight == 0.0 or length == 0:
            continue
        room.nodes[:length] = 0.0
        own = known_path(raw, given, length, steps)
        for constrained in range(1 if own != UNREACHED else 2):
            sign = -weight if constrained else weight
            largest = exponentials(raw, length, K, given, constrained == 1, room.ex)
            loss += sign * (forward_few(length, steps, room) + largest)
            backward_few(length, steps, room, sign, no_squares)
        if own != UNREACHED:
            loss -= weight * own
            for t in range(length):
                room.nodes[t, given[t]] -= weight
                if t > 0:
                    p = step_between(given[t - 1], given[t], steps)
                    if p >= 0:
                        observed[p] += weight
        into[:] = room.nodes[:length]
    for p in range(len(observed)):
        edges_into[p] += room.edge_sums[p] * steps.exps[p] - observed[p]
    return loss


@compiled
def few_rates_pass(
    rows: NDArray[np.intp], starts: NDArray[np.int64], labels: Labels, scores: Array, rates: Array, steps: FewSteps,
    edge_rates: Array, row_weights: Array, by_score: Array, edges_into: Array,
) -> None:  # fmt: skip
    """As ``passes.rates_pass``."""
    K, width, n_steps = steps.n_labels, scores.shape[1], len(steps.scores)
    most = longest_row(rows, starts)
    room = scratch_for(most, width, n_steps)
    tangent = TangentScratch(
        np.empty((most, width)), np.empty(most), np.empty((2, width)), np.empty(width), np.zeros(n_steps)
    )
    place = 0
    for row in rows:
        length, weight, given = starts[row + 1] - starts[row], row_weights[row], labels[starts[row] : starts[row + 1]]
        into, raw, rate = (
            by_score[place : place + length],
            scores[place : place + length],
            rates[place : place + length],
        )
        place += length
        into[:] = 0.0
        if weight == 0.0 or length == 0:
            continue
        room.nodes[:length] = 0.0
        is_known = True
        for t in range(length):
            is_known = is_known and given[t] != UNKNOWN
        for constrained in range(1 if is_known else 2):
            sign = -weight if constrained else weight
            exponentials(raw, length, K, given, constrained == 1, room.ex)
            forward_few(length, steps, room)
            tangent_forward_few(rate, length, steps, edge_rates, room, tangent)
            tangent_backward_few(rate, length, steps, edge_rates, room, tangent, sign)
        into[:] = room.nodes[:length]
    for p in range(n_steps):
        edges_into[p] += steps.exps[p] * (edge_rates[p] * room.edge_sums[p] + tangent.edge_sums[p])


@inlined_late
def tangent_forward_few(
    rates: Array, length: int, steps: FewSteps, edge_rates: Array, room: Scratch, tangent: TangentScratch
) -> None:
    """The derivatives of ``alpha`` and of the logarithms of ``sums``."""
    K = steps.n_labels
    for t in range(length):
        now, d_now, here, total = room.alpha[t], tangent.alpha[t], room.ex[t], 0.0
        for k in range(K):
            value = now[k] * rates[t, k]
            if t > 0 and here[k] != 0.0:
                moved = reached_rate(room.alpha[t - 1], tangent.alpha[t - 1], k, steps, edge_rates)
                value += moved * here[k] / room.sums[t]
            d_now[k] = value
            total += value
        tangent.sums[t] = total
        for k in range(K):
            d_now[k] -= now[k] * total


@inlined_late
def tangent_backward_few(
    rates: Array, length: int, steps: FewSteps, edge_rates: Array, room: Scratch, tangent: TangentScratch, weight: float
) -> None:
    """Adds weight times the derivatives of the marginals to ``nodes``, and to the sums those of steps."""
    K = steps.n_labels
    room.beta[(length - 1) % 2] = 1.0
    tangent.beta[(length - 1) % 2] = 0.0
    for t in range(length - 1, -1, -1):
        now, d_now = room.beta[t % 2], tangent.beta[t % 2]
        if t < length - 1:
            after, d_after, here = room.beta[(t + 1) % 2], tangent.beta[(t + 1) % 2], room.ex[t + 1]
            total, d_total = 0.0, 0.0
            for k in range(K):
                scaled = here[k] / room.sums[t + 1]
                room.ahead[k] = scaled * after[k]
                tangent.ahead[k] = scaled * d_after[k] + room.ahead[k] * (rates[t + 1, k] - tangent.sums[t + 1])
                total += room.ahead[k]
                d_total += tangent.ahead[k]
            for j in range(K):
                now[j] = left(room.ahead, total, j, steps)
                d_now[j] = left_rate(room.ahead, total, tangent.ahead, d_total, j, steps, edge_rates)
                a, d_a = weight * room.alpha[t, j], weight * tangent.alpha[t, j]
                for p in range(steps.out_of[j], steps.out_of[j + 1]):
                    k = steps.after[p]
                    room.edge_sums[p] += a * room.ahead[k]
                    tangent.edge_sums[p] += a * tangent.ahead[k] + d_a * room.ahead[k]
        for k in range(K):
            room.nodes[t, k] += weight * (tangent.alpha[t, k] * now[k] + room.alpha[t, k] * d_now[k])


@compiled
def few_variances_pass(
    rows: NDArray[np.intp], starts: NDArray[np.int64], labels: Labels, scores: Array, steps: FewSteps, row_weights: Array,
    by_score: Array, edges_into: Array,
) -> None:  # fmt: skip
    """As ``passes.variances_pass``."""
    K, width = steps.n_labels, scores.shape[1]
    room = scratch_for(longest_row(rows, starts), width, len(steps.scores))
    squares = np.zeros(len(steps.scores))
    place = 0
    for row in rows:
        length, weight, given = starts[row + 1] - starts[row], row_weights[row], labels[starts[row] : starts[row + 1]]
        into, raw = by_score[place : place + length], scores[place : place + length]
        place += length
        into[:] = 0.0
        if weight == 0.0 or length == 0:
            continue
        room.nodes[:length] = 0.0
        exponentials(raw, length, K, given, False, room.ex)
        forward_few(length, steps, room)
        squares[:] = 0.0
        room.edge_sums[:] = 0.0
        backward_few(length, steps, room, 1.0, squares)
        for p in range(len(squares)):
            factor = steps.exps[p]
            edges_into[p] += weight * factor * (room.edge_sums[p] - factor * squares[p])
        for t in range(length):
            for k in range(K):
                into[t, k] = weight * room.nodes[t, k] * (1.0 - room.nodes[t, k])
