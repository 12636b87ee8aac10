"""Forward-backward over chains of labels: partition functions, marginals, and their derivatives along a direction.

A chain of order 1 or 2 has the score sum_t r_t[y_t] + sum_{t>0} a[y_{t-2}, y_{t-1}, y_t]. Both orders share the code: a
state at position t is (h, k), the label k and, for order 2, the one before it. ``edges`` has the shape (H, K, P): from
label j, preceded by h, to k. With order 1, H = 1 and h = 0; with order 2, H = K + 1 and h = K means that nothing precedes
j. P is K rounded up, so that inner loops fill whole registers; entries beyond K have probability 0.

Probabilities are scaled to sum to 1 at each position. If scores differ so widely that all of them underflow, the caller
repeats the sequence in logarithms (``kernels/chain/logs.py``).

Along a direction in which the scores change at the rates dr and da, every quantity q has the derivative dq: one tangent
pass gives those of all marginals, hence a product with the Hessian.
"""

import math

import numpy as np
from numpy.typing import NDArray

from tikhon.kernels.compiling import inlined_late

Array = NDArray[np.float64]
Labels = NDArray[np.int32]

LEAST_SUM = 1e-270  # limit on scaled sums at one position; below it, products lose digits
UNKNOWN = -1  # an unknown label
UNREACHED = -np.inf


@inlined_late
def exponentials(raw: Array, length: int, n_labels: int, labels: Labels, constrained: bool, ex: Array) -> float:
    """exp(r - max r) of the allowed labels, row by row; returns the sum of the maxima.

    With ``constrained``, only the given label is allowed, if there is one.
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


@inlined_late
def arrive(before: Array, edges: Array, j: int, into: Array) -> None:
    """into[k] = the sum of before times edges over all states with a step to k: all labels or, for order 2, those of label
    j."""
    n_before, n_labels, width = edges.shape
    second = n_before > 1
    count = n_before if second else n_labels
    into[:] = 0.0
    i = 0
    while i + 4 <= count:  # four rows at a time: a quarter of the loads and stores of ``into``
        if second:
            a, b, c, d = before[i, j], before[i + 1, j], before[i + 2, j], before[i + 3, j]
            p, q, r, s = edges[i, j], edges[i + 1, j], edges[i + 2, j], edges[i + 3, j]
        else:
            a, b, c, d = before[0, i], before[0, i + 1], before[0, i + 2], before[0, i + 3]
            p, q, r, s = edges[0, i], edges[0, i + 1], edges[0, i + 2], edges[0, i + 3]
        for k in range(width):
            into[k] += a * p[k] + b * q[k] + c * r[k] + d * s[k]
        i += 4
    while i < count:
        a = before[i, j] if second else before[0, i]
        p = edges[i, j] if second else edges[0, i]
        for k in range(width):
            into[k] += a * p[k]
        i += 1


@inlined_late
def forward(ex: Array, length: int, edges: Array, alpha: Array, sums: Array) -> float:
    """Scaled forward probabilities; returns the logarithm of the product of the sums, or -inf if one underflows.

    ``edges`` are exponentials; ``alpha`` (L, H, P) and ``sums`` (L) are filled.
    """
    n_before, n_labels, width = edges.shape
    second = n_before > 1
    logarithm = 0.0
    for t in range(length):
        now, here, total = alpha[t], ex[t], 0.0
        if t == 0:
            now[:] = 0.0
            row = now[n_before - 1]
            for k in range(width):
                row[k] = here[k]
                total += here[k]
        else:
            for j in range(n_labels if second else 1):
                row = now[j]
                arrive(alpha[t - 1], edges, j, row)
                for k in range(width):
                    reached = row[k] * here[k]
                    row[k] = reached
                    total += reached
            if second:
                now[n_before - 1] = 0.0
        if not total >= LEAST_SUM:
            return UNREACHED
        sums[t] = total
        logarithm += math.log(total)
        inverse = 1.0 / total
        for h in range(n_before):
            row = now[h]
            for k in range(width):
                row[k] *= inverse
    return logarithm


@inlined_late
def backward(
    ex: Array, length: int, edges: Array, alpha: Array, sums: Array, weight: float, beta: Array, ahead: Array,
    nodes: Array, edge_sums: Array,
) -> None:  # fmt: skip
    """Adds weight times the marginals to ``nodes``, and those of pairs, without their factor ``edges``, to ``edge_sums``.

    beta (2, H, P) and ahead (L, 1 or K, P) are scratch.
    """
    n_before, n_labels, width = edges.shape
    second = n_before > 1
    beta[(length - 1) % 2] = 1.0
    for t in range(length - 1, -1, -1):
        now = beta[t % 2]
        if t < length - 1:
            here, inverse = ex[t + 1], 1.0 / sums[t + 1]
            for j in range(n_labels if second else 1):
                after, reach = beta[(t + 1) % 2, j], ahead[t, j]
                for k in range(width):
                    reach[k] = here[k] * after[k] * inverse
            for h in range(n_before):
                leave(edges[h], ahead[t], now[h])
        into = nodes[t]
        for h in range(n_before):
            a, b = alpha[t, h], now[h]
            for k in range(n_labels):
                into[k] += weight * a[k] * b[k]
    add_steps(length - 1, alpha, ahead, weight, edge_sums)


@inlined_late
def leave(edges: Array, ahead: Array, into: Array) -> None:
    """into[j] = the sum over k of edges[j, k] times the values ahead: ahead[0, k] or, for order 2, ahead[j, k]."""
    n_labels, width = edges.shape
    second = len(ahead) > 1
    j = 0
    while j + 2 <= n_labels:
        p, q = edges[j], edges[j + 1]
        u, v = (ahead[j], ahead[j + 1]) if second else (ahead[0], ahead[0])
        x, y = 0.0, 0.0
        for k in range(width):
            x += p[k] * u[k]
            y += q[k] * v[k]
        into[j], into[j + 1] = x, y
        j += 2
    if j < n_labels:
        p, u, x = edges[j], ahead[j] if second else ahead[0], 0.0
        for k in range(width):
            x += p[k] * u[k]
        into[j] = x


@inlined_late
def add_steps(count: int, alpha: Array, ahead: Array, weight: float, edge_sums: Array) -> None:
    """edge_sums[h, j, k] += weight times the sum over t < count of alpha[t, h, j] ahead[t, 0 or j, k]."""
    n_before, n_labels, width = edge_sums.shape
    second = n_before > 1
    t = 0
    while t + 4 <= count:  # four steps at a time, as in ``arrive``
        for h in range(n_before):
            for j in range(n_labels):
                s = j if second else 0
                a, b = weight * alpha[t, h, j], weight * alpha[t + 1, h, j]
                c, d = weight * alpha[t + 2, h, j], weight * alpha[t + 3, h, j]
                p, q, r, u = ahead[t, s], ahead[t + 1, s], ahead[t + 2, s], ahead[t + 3, s]
                into = edge_sums[h, j]
                for k in range(width):
                    into[k] += a * p[k] + b * q[k] + c * r[k] + d * u[k]
        t += 4
    while t < count:
        for h in range(n_before):
            for j in range(n_labels):
                a, p, into = weight * alpha[t, h, j], ahead[t, j if second else 0], edge_sums[h, j]
                for k in range(width):
                    into[k] += a * p[k]
        t += 1


@inlined_late
def tangent_forward(
    ex: Array, rates: Array, length: int, edges: Array, edge_slopes: Array, alpha: Array, sums: Array, d_alpha: Array,
    d_sums: Array, part: Array,
) -> float:  # fmt: skip
    """The derivatives of ``alpha`` and of the logarithms of ``sums``; returns that of the log partition function.

    ``rates`` (L, P) are the derivatives of the scores, ``edge_slopes`` (H, K, P) those of ``edges``; part (P) is scratch.
    """
    n_before, n_labels, width = edges.shape
    second = n_before > 1
    logarithm = 0.0
    for t in range(length):
        now, here, rate, total = d_alpha[t], ex[t], rates[t], 0.0
        if t == 0:
            now[:] = 0.0
        else:
            inverse = 1.0 / sums[t]
            for j in range(n_labels if second else 1):
                row = now[j]
                arrive(d_alpha[t - 1], edges, j, row)
                arrive(alpha[t - 1], edge_slopes, j, part)
                for k in range(width):
                    row[k] = (row[k] + part[k]) * here[k] * inverse
            if second:
                now[n_before - 1] = 0.0
        for h in range(n_before):
            row, a = now[h], alpha[t, h]
            for k in range(width):
                row[k] += a[k] * rate[k]
                total += row[k]
        d_sums[t] = total
        logarithm += total
        for h in range(n_before):
            row, a = now[h], alpha[t, h]
            for k in range(width):
                row[k] -= a[k] * total
    return logarithm


@inlined_late
def tangent_backward(
    ex: Array, rates: Array, length: int, edges: Array, edge_slopes: Array, alpha: Array, sums: Array, d_alpha: Array,
    d_sums: Array, weight: float, beta: Array, d_beta: Array, ahead: Array, d_ahead: Array, part: Array, nodes: Array,
    edge_sums: Array, d_edge_sums: Array,
) -> None:  # fmt: skip
    """Adds weight times the derivatives of the marginals to ``nodes``, and the terms of those of pairs to the sums.

    The marginal of a pair is edges times its ``edge_sums``, so its derivative is edge_slopes edge_sums + edges d_edge_sums.
    """
    n_before, n_labels, width = edges.shape
    second = n_before > 1
    beta[(length - 1) % 2] = 1.0
    d_beta[(length - 1) % 2] = 0.0
    for t in range(length - 1, -1, -1):
        now, d_now = beta[t % 2], d_beta[t % 2]
        if t < length - 1:
            here, inverse, rate, shift = ex[t + 1], 1.0 / sums[t + 1], rates[t + 1], d_sums[t + 1]
            for j in range(n_labels if second else 1):
                after, d_after = beta[(t + 1) % 2, j], d_beta[(t + 1) % 2, j]
                reach, d_reach = ahead[t, j], d_ahead[t, j]
                for k in range(width):
                    scaled = here[k] * inverse
                    reach[k] = scaled * after[k]
                    d_reach[k] = scaled * d_after[k] + reach[k] * (rate[k] - shift)
            for h in range(n_before):
                leave(edges[h], ahead[t], now[h])
                leave(edges[h], d_ahead[t], d_now[h])
                leave(edge_slopes[h], ahead[t], part)
                for j in range(n_labels):
                    d_now[h, j] += part[j]
        into = nodes[t]
        for h in range(n_before):
            a, b, d_a, d_b = alpha[t, h], now[h], d_alpha[t, h], d_now[h]
            for k in range(n_labels):
                into[k] += weight * (d_a[k] * b[k] + a[k] * d_b[k])
    add_steps(length - 1, alpha, ahead, weight, edge_sums)
    add_steps(length - 1, alpha, d_ahead, weight, d_edge_sums)
    add_steps(length - 1, d_alpha, ahead, weight, d_edge_sums)
