"""Marginals and best paths of chains few of whose steps have a weight, as in ``few_steps.py``."""

import math

import numpy as np
from numpy.typing import NDArray

from tikhon.kernels.chain.few_steps import FewSteps, backward_few, forward_few, longest_row, scratch_for, step_between
from tikhon.kernels.chain.forward_backward import UNREACHED, Array, Labels, exponentials
from tikhon.kernels.compiling import compiled


@compiled
def few_marginals_pass(
    first: int, last: int, starts: NDArray[np.int64], labels: Labels, scores: Array, steps: FewSteps, marginals: Array,
    log_sums: Array,
) -> None:  # fmt: skip
    """As ``passes.marginals_pass``."""
    K, offset = steps.n_labels, starts[first]
    room = scratch_for(longest_row(np.arange(first, last), starts), scores.shape[1], len(steps.scores))
    for i in range(first, last):
        start, end = starts[i], starts[i + 1]
        length = end - start
        log_sums[i] = 0.0
        if length == 0:
            continue
        room.nodes[:length] = 0.0
        largest = exponentials(scores[start - offset : end - offset], length, K, labels[start:end], True, room.ex)
        log_sums[i] = largest
        if math.isfinite(largest):
            log_sums[i] += forward_few(length, steps, room)
            backward_few(length, steps, room, 1.0, np.empty(0))
        marginals[start:end] = room.nodes[:length, :K]


@compiled
def few_viterbi_pass(
    first: int, last: int, starts: NDArray[np.int64], scores: Array, steps: FewSteps, paths: NDArray[np.int32],
    path_scores: Array,
) -> None:  # fmt: skip
    """As ``decode.viterbi_pass``: the best label before k has a step into it, or is the best of those that have none."""
    K, offset = steps.n_labels, starts[first]
    most = longest_row(np.arange(first, last), starts)
    best, now, back = np.empty(K), np.empty(K), np.zeros((max(most, 1), K), np.int32)
    for i in range(first, last):
        start, length = starts[i] - offset, starts[i + 1] - starts[i]
        path_scores[i] = 0.0
        if length == 0:
            continue
        for k in range(K):
            best[k] = scores[start, k]
        for t in range(1, length):
            ranked = np.argsort(-best)
            for k in range(K):
                top, came = UNREACHED, 0
                for j in ranked:
                    if step_between(j, k, steps) < 0:
                        top, came = best[j], j
                        break
                for q in range(steps.into[k], steps.into[k + 1]):
                    p = steps.ordered[q]
                    total = best[steps.before[p]] + steps.scores[p]
                    if total > top or (total == top and steps.before[p] < came):
                        top, came = total, steps.before[p]
                now[k], back[t, k] = top + scores[start + t, k], came
            best[:] = now
        label = 0
        for k in range(K):
            if best[k] > best[label]:
                label = k
        path_scores[i] = best[label]
        for t in range(length - 1, -1, -1):
            paths[starts[i] + t] = label
            label = back[t, label]
