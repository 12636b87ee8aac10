"""Forward-backward in logarithms, for scores whose range makes the scaled probabilities of ``forward_backward.py`` underflow.

States and shapes are those of ``forward_backward.py``. Backwards, a pair of states gets its share of the marginal of the
later one: P(s | s') = exp(log alpha[s] + a[s, s'] - log sum over s), which never leaves [0, 1]. The derivative of a
log-sum is the mean of the derivatives of its terms, weighted by the same shares.
"""

import math

import numpy as np

from tikhon.kernels.chain.forward_backward import UNKNOWN, UNREACHED, Array, Labels
from tikhon.kernels.compiling import inlined_late


@inlined_late
def in_logs(
    raw: Array, rates: Array, length: int, labels: Labels, constrained: bool, edge_scores: Array, edge_rates: Array,
    weight: float, tangent: bool, nodes: Array, edge_marginals: Array,
) -> float:  # fmt: skip
    """The log partition function; adds weight times the marginals, or with ``tangent`` their derivatives."""
    n_before, n_labels, _ = edge_scores.shape
    log_alpha = np.empty((length, n_before, n_labels))
    d_log_alpha = np.empty((length, n_before, n_labels))
    log_sums, d_log_sums = np.empty(length), np.empty(length)
    logarithm = log_forward(
        raw, rates, length, labels, constrained, edge_scores, edge_rates, log_alpha, d_log_alpha, log_sums, d_log_sums
    )
    if logarithm != UNREACHED:
        spread(
            raw, rates, length, edge_scores, edge_rates, log_alpha, d_log_alpha, log_sums, d_log_sums, weight, tangent, nodes,
            edge_marginals,
        )  # fmt: skip
    return logarithm


@inlined_late
def log_forward(
    raw: Array, rates: Array, length: int, labels: Labels, constrained: bool, edge_scores: Array, edge_rates: Array,
    log_alpha: Array, d_log_alpha: Array, log_sums: Array, d_log_sums: Array,
) -> float:  # fmt: skip
    """Logarithms of forward probabilities and of their normalisers, and the derivatives of both.

    Returns the log partition function, -inf if no labelling is allowed.
    """
    n_before, n_labels, _ = edge_scores.shape
    second = 0 if n_before == 1 else 1
    log_alpha[:] = UNREACHED
    d_log_alpha[:] = 0.0
    logarithm = 0.0
    for t in range(length):
        now, d_now = log_alpha[t], d_log_alpha[t]
        if t == 0:
            for k in range(n_labels):
                if not constrained or labels[0] in (UNKNOWN, k):
                    now[n_before - 1, k], d_now[n_before - 1, k] = raw[0, k], rates[0, k]
        else:
            for into in range(n_labels if second == 1 else 1):
                for k in range(n_labels):
                    if constrained and labels[t] not in (UNKNOWN, k):
                        continue
                    reach(
                        log_alpha[t - 1], d_log_alpha[t - 1], edge_scores, edge_rates, into, k, raw[t, k], rates[t, k], now,
                        d_now,
                    )  # fmt: skip
        largest = now.max()
        if largest == UNREACHED:
            return UNREACHED
        total, d_total = 0.0, 0.0
        for h in range(n_before):
            for k in range(n_labels):
                share = math.exp(now[h, k] - largest)
                total += share
                d_total += share * d_now[h, k]
        log_sums[t], d_log_sums[t] = largest + math.log(total), d_total / total
        logarithm += log_sums[t]
        now -= log_sums[t]
        d_now -= d_log_sums[t]
    return logarithm


@inlined_late
def reach(
    before: Array, d_before: Array, edge_scores: Array, edge_rates: Array, into: int, k: int, score: float, rate: float,
    now: Array, d_now: Array,
) -> None:  # fmt: skip
    """now[into, k] = score + log sum over the states that lead there, and its derivative."""
    n_before, n_labels, _ = edge_scores.shape
    first, last = (into, into + 1) if n_before > 1 else (0, n_labels)
    largest = UNREACHED
    for h in range(n_before):
        for j in range(first, last):
            largest = max(largest, before[h, j] + edge_scores[h, j, k])
    if largest == UNREACHED:
        return
    total, d_total = 0.0, 0.0
    for h in range(n_before):
        for j in range(first, last):
            share = math.exp(before[h, j] + edge_scores[h, j, k] - largest)
            total += share
            d_total += share * (d_before[h, j] + edge_rates[h, j, k])
    now[into, k] = score + largest + math.log(total)
    d_now[into, k] = rate + d_total / total


@inlined_late
def spread(
    raw: Array, rates: Array, length: int, edge_scores: Array, edge_rates: Array, log_alpha: Array, d_log_alpha: Array,
    log_sums: Array, d_log_sums: Array, weight: float, tangent: bool, nodes: Array, edge_marginals: Array,
) -> None:  # fmt: skip
    """Marginals from the last position to the first."""
    n_before, n_labels, _ = edge_scores.shape
    second = 0 if n_before == 1 else 1
    now = np.exp(log_alpha[length - 1])
    d_now = now * d_log_alpha[length - 1]
    for t in range(length - 1, -1, -1):
        if t < length - 1:
            later, d_later = now, d_now
            now, d_now = np.zeros((n_before, n_labels)), np.zeros((n_before, n_labels))
            for h in range(n_before):
                for j in range(n_labels):
                    if log_alpha[t, h, j] == UNREACHED:
                        continue
                    into = second * j
                    for k in range(n_labels):
                        if later[into, k] == 0.0 and d_later[into, k] == 0.0:
                            continue
                        log_sum = log_alpha[t + 1, into, k] + log_sums[t + 1] - raw[t + 1, k]
                        d_log_sum = d_log_alpha[t + 1, into, k] + d_log_sums[t + 1] - rates[t + 1, k]
                        share = math.exp(log_alpha[t, h, j] + edge_scores[h, j, k] - log_sum)
                        d_share = share * (d_log_alpha[t, h, j] + edge_rates[h, j, k] - d_log_sum)
                        pair = later[into, k] * share
                        d_pair = d_later[into, k] * share + later[into, k] * d_share
                        now[h, j] += pair
                        d_now[h, j] += d_pair
                        edge_marginals[h, j, k] += weight * (d_pair if tangent else pair)
        for h in range(n_before):
            for k in range(n_labels):
                nodes[t, k] += weight * (d_now[h, k] if tangent else now[h, k])
