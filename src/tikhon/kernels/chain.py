"""Forward-backward over chains of labels: partition functions, marginals, and their derivatives along a direction.

A chain of order 1 or 2 has the score sum_t r_t[y_t] + sum_{t>0} a[y_{t-2}, y_{t-1}, y_t]. Both orders share the code: a
state at position t is (h, k), the label k and, for order 2, the one before it. ``edges`` has the shape (H, K, P): from
label j, preceded by h, to k. With order 1, H = 1 and h = 0; with order 2, H = K + 1 and h = K says that nothing comes
before j. P is K rounded up, so that inner loops fill whole registers; entries beyond K have probability 0.

Probabilities are scaled to sum to 1 at each position. Where scores are so far apart that all of them underflow, the
caller does the sequence once more in logarithms (``kernels/chain_logs.py``).

Along a direction in which the scores move at the rates dr and da, every quantity q has the derivative dq: one tangent
pass gives those of all marginals, hence a product with the Hessian.
"""

import math

import numba
import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Labels = NDArray[np.int32]

LEAST_SUM = 1e-270  # of scaled probabilities at one position; below, products lose digits
UNKNOWN = -1  # a label that is not given
UNREACHED = -np.inf

# Sums may be reordered, which vectorises them; infinities and NaN keep their meaning.
compiled = numba.njit(cache=True, nogil=True, fastmath={"contract", "reassoc", "nsz"}, error_model="numpy")


@compiled
def exponentials(raw: Array, length: int, n_labels: int, labels: Labels, constrained: bool, ex: Array) -> float:
    """exp(r - max r) of the labels that are allowed, row by row; returns the sum of the maxima.

    With ``constrained``, only the given label is allowed where one is given.
    """
    total = 0.0
    for t in range(length):
        fixed = labels[t] if constrained else UNKNOWN
        largest = UNREACHED
        for k in range(n_labels):
            if fixed in (UNKNOWN, k):
                largest = max(largest, raw[t, k])
        total += largest
        for k in range(ex.shape[1]):
            ex[t, k] = 0.0
        for k in range(n_labels):
            if fixed in (UNKNOWN, k):
                ex[t, k] = math.exp(raw[t, k] - largest)
    return total


@compiled
def forward(ex: Array, length: int, edges: Array, alpha: Array, sums: Array) -> float:
    """Scaled forward probabilities; returns the logarithm of the product of the sums, or -inf if one underflows.

    ``edges`` are exponentials; ``alpha`` (L, H, P) and ``sums`` (L) are filled.
    """
    n_before, n_labels, width = edges.shape
    second = 0 if n_before == 1 else 1
    logarithm = 0.0
    for t in range(length):
        now = alpha[t]
        now[:] = 0.0
        if t == 0:
            for k in range(width):
                now[n_before - 1, k] = ex[0, k]
        else:
            for h in range(n_before):
                for j in range(n_labels):
                    a = alpha[t - 1, h, j]
                    if a != 0.0:
                        row, into = edges[h, j], now[second * j]
                        for k in range(width):
                            into[k] += a * row[k]
            for h in range(n_before):
                for k in range(width):
                    now[h, k] *= ex[t, k]
        total = 0.0
        for h in range(n_before):
            for k in range(width):
                total += now[h, k]
        if not total >= LEAST_SUM:
            return UNREACHED
        sums[t] = total
        logarithm += math.log(total)
        inverse = 1.0 / total
        for h in range(n_before):
            for k in range(width):
                now[h, k] *= inverse
    return logarithm


@compiled
def backward(
    ex: Array, length: int, edges: Array, alpha: Array, sums: Array, weight: float, beta: Array, ahead: Array,
    nodes: Array, edge_sums: Array,
) -> None:  # fmt: skip
    """Adds weight times the marginals to ``nodes``, and those of pairs, less their factor ``edges``, to ``edge_sums``.

    beta (2, H, P) and ahead (P) are scratch.
    """
    n_before, n_labels, width = edges.shape
    second = 0 if n_before == 1 else 1
    now = 0
    beta[now] = 1.0
    for t in range(length - 1, -1, -1):
        if t < length - 1:
            later, now = now, 1 - now
            inverse = 1.0 / sums[t + 1]
            for j in range(n_labels):
                if second == 1 or j == 0:
                    after = beta[later, second * j]
                    for k in range(width):
                        ahead[k] = ex[t + 1, k] * after[k] * inverse
                for h in range(n_before):
                    row, into = edges[h, j], edge_sums[h, j]
                    a = weight * alpha[t, h, j]
                    total = 0.0
                    for k in range(width):
                        total += row[k] * ahead[k]
                    for k in range(width):
                        into[k] += a * ahead[k]
                    beta[now, h, j] = total
        for h in range(n_before):
            for k in range(n_labels):
                nodes[t, k] += weight * alpha[t, h, k] * beta[now, h, k]


@compiled
def tangent_forward(
    ex: Array, rates: Array, length: int, edges: Array, edge_rates: Array, alpha: Array, sums: Array, d_alpha: Array,
    d_sums: Array,
) -> float:  # fmt: skip
    """The derivatives of ``alpha`` and of the logarithms of ``sums``; returns that of the log partition function.

    ``rates`` (L, P) and ``edge_rates`` (H, K, P) are the derivatives of the scores.
    """
    n_before, n_labels, width = edges.shape
    second = 0 if n_before == 1 else 1
    logarithm = 0.0
    for t in range(length):
        now = d_alpha[t]
        now[:] = 0.0
        inverse = 1.0 / sums[t]
        if t > 0:
            for h in range(n_before):
                for j in range(n_labels):
                    a, d = alpha[t - 1, h, j], d_alpha[t - 1, h, j]
                    row, rate, into = edges[h, j], edge_rates[h, j], now[second * j]
                    for k in range(width):
                        into[k] += (d + a * rate[k]) * row[k]
            for h in range(n_before):
                for k in range(width):
                    now[h, k] *= ex[t, k] * inverse
        total = 0.0
        for h in range(n_before):
            for k in range(width):
                now[h, k] += alpha[t, h, k] * rates[t, k]
                total += now[h, k]
        d_sums[t] = total
        logarithm += total
        for h in range(n_before):
            for k in range(width):
                now[h, k] -= alpha[t, h, k] * total
    return logarithm


@compiled
def tangent_backward(
    ex: Array, rates: Array, length: int, edges: Array, edge_rates: Array, alpha: Array, sums: Array, d_alpha: Array,
    d_sums: Array, weight: float, beta: Array, d_beta: Array, ahead: Array, d_ahead: Array, nodes: Array,
    edge_sums: Array,
) -> None:  # fmt: skip
    """Adds weight times the derivatives of the marginals to ``nodes`` and, less the factor ``edges``, to ``edge_sums``."""
    n_before, n_labels, width = edges.shape
    second = 0 if n_before == 1 else 1
    now = 0
    beta[now] = 1.0
    d_beta[now] = 0.0
    for t in range(length - 1, -1, -1):
        if t < length - 1:
            later, now = now, 1 - now
            inverse = 1.0 / sums[t + 1]
            for j in range(n_labels):
                if second == 1 or j == 0:
                    after, d_after = beta[later, second * j], d_beta[later, second * j]
                    for k in range(width):
                        reached = ex[t + 1, k] * inverse
                        ahead[k] = reached * after[k]
                        d_ahead[k] = reached * d_after[k] + ahead[k] * (rates[t + 1, k] - d_sums[t + 1])
                for h in range(n_before):
                    row, rate, into = edges[h, j], edge_rates[h, j], edge_sums[h, j]
                    a, d = weight * alpha[t, h, j], weight * d_alpha[t, h, j]
                    total, d_total = 0.0, 0.0
                    for k in range(width):
                        moved = d_ahead[k] + ahead[k] * rate[k]
                        total += row[k] * ahead[k]
                        d_total += row[k] * moved
                        into[k] += a * moved + d * ahead[k]
                    beta[now, h, j] = total
                    d_beta[now, h, j] = d_total
        for h in range(n_before):
            for k in range(n_labels):
                nodes[t, k] += weight * (d_alpha[t, h, k] * beta[now, h, k] + alpha[t, h, k] * d_beta[now, h, k])
