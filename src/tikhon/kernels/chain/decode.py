"""The best labellings of a chain, and random samples of labellings.

States and shapes are those of ``forward_backward.py``. Scores of -inf forbid a label at a token or a step between labels.
"""

import math

import numpy as np
from numpy.typing import NDArray

from tikhon.kernels.chain.forward_backward import UNKNOWN, UNREACHED, Array
from tikhon.kernels.chain.logs import log_forward
from tikhon.kernels.compiling import compiled, inlined_late

Path = NDArray[np.int32]


@inlined_late
def viterbi(raw: Array, length: int, edge_scores: Array, path: Path) -> float:
    """Fills ``path`` with the best labels and returns their score; -inf if all are forbidden."""
    n_before, n_labels, width = edge_scores.shape
    second = 0 if n_before == 1 else 1
    best, now = np.full((n_before, width), UNREACHED), np.empty((n_before, width))
    back = np.zeros((length, n_before, width), np.int32)  # the preceding label or, for order 2, the one before that
    for k in range(n_labels):
        best[n_before - 1, k] = raw[0, k]
    for t in range(1, length):
        now[:] = UNREACHED
        for h in range(n_before):
            for j in range(n_labels):
                so_far = best[h, j]
                if so_far == UNREACHED:
                    continue
                row, into, came = edge_scores[h, j], now[second * j], back[t, second * j]
                source = h if second == 1 else j
                for k in range(width):  # stored unconditionally, which vectorises; padding is never read
                    total = so_far + row[k]
                    better = total > into[k]
                    came[k] = source if better else came[k]
                    into[k] = total if better else into[k]
        for h in range(n_before):
            for k in range(n_labels):
                best[h, k] = now[h, k] + raw[t, k]
            for k in range(n_labels, width):
                best[h, k] = UNREACHED
    top_h, top_k, top = 0, 0, UNREACHED
    for h in range(n_before):
        for k in range(n_labels):
            if best[h, k] > top:
                top_h, top_k, top = h, k, best[h, k]
    if top > UNREACHED:
        follow(back, length, second, top_h, top_k, path)
    return top


@compiled
def viterbi_pass(
    first: int, last: int, starts: NDArray[np.int64], scores: Array, edge_scores: Array, paths: Path, path_scores: Array
) -> None:  # fmt: skip
    """The best labels of sequences, concatenated in ``paths``, and their scores.

    ``scores`` begin with the first of these sequences.
    """
    offset = starts[first]
    for i in range(first, last):
        start, end = starts[i], starts[i + 1]
        if end == start:
            path_scores[i] = 0.0
            continue
        path_scores[i] = viterbi(scores[start - offset : end - offset], end - start, edge_scores, paths[start:end])


@inlined_late
def follow(back: NDArray[np.int32], length: int, second: int, h: int, k: int, path: Path) -> None:
    """The labels that lead to the state (h, k) at the end."""
    for t in range(length - 1, -1, -1):
        path[t] = k
        if t > 0:
            source = back[t, h, k]
            if second == 1:
                h, k = source, h
            else:
                k = source


@compiled
def best_paths(raw: Array, length: int, edge_scores: Array, paths: NDArray[np.int32], scores: Array) -> int:
    """Fills ``paths`` (N, L) and ``scores`` (N) with the N best labellings, best first; returns how many there are.

    Each state keeps its N best prefixes: a score, the previous state and the rank among its prefixes.
    """
    n_before, n_labels, _ = edge_scores.shape
    n_best = len(scores)
    second = 0 if n_before == 1 else 1
    best = np.full((length, n_before, n_labels, n_best), UNREACHED)
    source = np.zeros((length, n_before, n_labels, n_best), np.int32)
    rank = np.zeros((length, n_before, n_labels, n_best), np.int32)
    for k in range(n_labels):
        best[0, n_before - 1, k, 0] = raw[0, k]
    for t in range(1, length):
        for h in range(n_before):
            for j in range(n_labels):
                into = second * j
                for r in range(n_best):
                    so_far = best[t - 1, h, j, r]
                    if so_far == UNREACHED:
                        break
                    for k in range(n_labels):
                        total = so_far + edge_scores[h, j, k] + raw[t, k]
                        insert(
                            total, h if second == 1 else j, r, best[t, into, k], source[t, into, k], rank[t, into, k]
                        )
    # The same for the ends of all states.
    states, ranks = np.zeros(n_best, np.int32), np.zeros(n_best, np.int32)
    scores[:] = UNREACHED
    for h in range(n_before):
        for k in range(n_labels):
            for r in range(n_best):
                if best[length - 1, h, k, r] == UNREACHED:
                    break
                insert(best[length - 1, h, k, r], h * n_labels + k, r, scores, states, ranks)
    found = 0
    for n in range(n_best):
        if scores[n] == UNREACHED:
            break
        found += 1
        h, k, r = states[n] // n_labels, states[n] % n_labels, ranks[n]
        for t in range(length - 1, -1, -1):
            paths[n, t] = k
            if t > 0:
                came, r = source[t, h, k, r], rank[t, h, k, r]
                if second == 1:
                    h, k = came, h
                else:
                    k = came
    return found


@inlined_late
def insert(
    score: float, state: int, rank: int, scores: Array, states: NDArray[np.int32], ranks: NDArray[np.int32]
) -> None:
    """Insert a score into the best ones, in descending order; among ties the earlier stays first."""
    last = len(scores) - 1
    if not score > scores[last]:
        return
    place = last
    while place > 0 and score > scores[place - 1]:
        scores[place], states[place], ranks[place] = scores[place - 1], states[place - 1], ranks[place - 1]
        place -= 1
    scores[place], states[place], ranks[place] = score, state, rank


@compiled
def draw_paths(raw: Array, length: int, edge_scores: Array, uniforms: Array, paths: NDArray[np.int32]) -> float:
    """Fills ``paths`` (N, L) with sampled labellings; ``uniforms`` (N, L) are in [0, 1).

    Forward pass in logarithms, then label by label from the last to the first. Returns log Z.
    """
    n_before, n_labels, _ = edge_scores.shape
    second = 0 if n_before == 1 else 1
    log_alpha, unused = np.empty((length, n_before, n_labels)), np.empty((length, n_before, n_labels))
    log_sums, unused_sums = np.empty(length), np.empty(length)
    no_rates, no_labels = np.zeros(raw.shape), np.full(length, UNKNOWN, np.int32)
    logarithm = log_forward(
        raw, no_rates, length, no_labels, False, edge_scores, np.zeros(edge_scores.shape), log_alpha, unused, log_sums,
        unused_sums,
    )  # fmt: skip
    if logarithm == UNREACHED:
        return logarithm
    logs = np.empty(n_before * n_labels)
    for n in range(len(paths)):
        logs[:] = log_alpha[length - 1].ravel()
        state = choose(logs, n_before * n_labels, uniforms[n, length - 1])
        h, k = state // n_labels, state % n_labels
        paths[n, length - 1] = k
        for t in range(length - 2, -1, -1):
            if second == 1:
                for before in range(n_before):
                    logs[before] = log_alpha[t, before, h] + edge_scores[before, h, k]
                h, k = choose(logs, n_before, uniforms[n, t]), h
            else:
                for j in range(n_labels):
                    logs[j] = log_alpha[t, 0, j] + edge_scores[0, j, k]
                k = choose(logs, n_labels, uniforms[n, t])
            paths[n, t] = k
    return logarithm


@inlined_late
def choose(logs: Array, count: int, uniform: float) -> int:
    """The first entry at which the cumulative sum of exp(logs) exceeds ``uniform`` times the total."""
    largest = UNREACHED
    for i in range(count):
        largest = max(largest, logs[i])
    total = 0.0
    for i in range(count):
        total += math.exp(logs[i] - largest)
    left, last = uniform * total, 0
    for i in range(count):
        share = math.exp(logs[i] - largest)
        if share > 0.0:
            last = i
            if left < share:
                return i
            left -= share
    return last
