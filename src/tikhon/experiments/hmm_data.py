"""Sequences from the hidden Markov model of Do, Foo, Ng 2008, section 5, as encoded chains.

Binary states, the first one uniform, each equal to the previous one with probability 0.6. A token has 40 binary
observations: the relevant ones equal the state with probability 0.6, the others are noise.

The CRF has a weight for the state of the first token, for each transition, and for each value of each observation with
each state: the potentials of the paper. With weights for ones alone, the number of ones would be evidence for a state,
the more so the more observations are relevant, and a single strength could not compensate for that.
"""

from dataclasses import dataclass, replace

import numpy as np

from tikhon.groups import Groups
from tikhon.models.chain.layout import Layout, layout_of
from tikhon.models.chain.objective import Chain
from tikhon.models.chain.sequences import UNKNOWN, Sequences

N_OBSERVED = 40
LENGTH = 10
N_STATES = 2
STAYS = 0.6
AGREES = 0.6
FIRST = 2 * N_OBSERVED  # the feature of first tokens; value v of observation j is feature 2 j + v


@dataclass(frozen=True, eq=False)
class Draw:
    """The objectives of one run, and the layout by which strengths are tied."""

    train: Chain
    holdout: Chain
    both: Chain  # training and hold-out sequences
    test: Sequences
    layout: Layout

    @property
    def unlabelled_test(self) -> Sequences:
        return replace(self.test, labels=np.full_like(self.test.labels, UNKNOWN))


def drawn(n_train: int, n_holdout: int, n_test: int, n_relevant: int, seed: int) -> Draw:
    """Training, hold-out and test sequences of one run."""
    rng = np.random.default_rng([seed, n_train, n_relevant])
    learned_from, test = (_sequences(n, n_relevant, rng) for n in (n_train + n_holdout, n_test))
    layout = layout_of(learned_from, 1, all_pairs=True)
    both = Chain(learned_from, layout)
    in_training = (np.arange(n_train + n_holdout) < n_train).astype(np.float64)
    return Draw(both.reweighted(in_training), both.reweighted(1.0 - in_training), both, test, layout)


def _sequences(n: int, n_relevant: int, rng: np.random.Generator) -> Sequences:
    states = np.empty((n, LENGTH), np.int64)
    states[:, 0] = rng.integers(0, N_STATES, n)
    for t in range(1, LENGTH):
        states[:, t] = states[:, t - 1] ^ (rng.random(n) >= STAYS)
    observed = rng.integers(0, 2, (n, LENGTH, N_OBSERVED))
    agrees = rng.random((n, LENGTH, n_relevant)) < AGREES
    observed[:, :, :n_relevant] = np.where(agrees, states[:, :, None], 1 - states[:, :, None])
    active = np.zeros((n * LENGTH, FIRST + 1), bool)
    np.put_along_axis(active, 2 * np.arange(N_OBSERVED) + observed.reshape(n * LENGTH, N_OBSERVED), True, axis=1)
    active[::LENGTH, FIRST] = True
    token, feature = np.nonzero(active)
    per_token = np.bincount(token, minlength=n * LENGTH)
    return Sequences(
        np.arange(0, n * LENGTH + 1, LENGTH), np.concatenate([[0], np.cumsum(per_token)]).astype(np.int64),
        feature.astype(np.int32), None, states.ravel().astype(np.int32), FIRST + 1, N_STATES,
    )  # fmt: skip


def tied(layout: Layout, scheme: str, n_relevant: int) -> Groups:
    """One strength for all weights ("single"), one for each ("separate"), or three ("grouped").

    The three groups are transitions and first states, relevant observations, and noise (if there is any).
    """
    names: tuple[str, ...]
    if scheme == "single":
        index, names = np.zeros(layout.n_weights, np.intp), ("all",)
    elif scheme == "separate":
        index = np.arange(layout.n_weights)
        names = tuple(f"weight {place}" for place in index)
    else:
        feature = layout.pair_features
        of_pairs = np.where(feature == FIRST, 0, np.where(feature < 2 * n_relevant, 1, 2))
        index = np.concatenate([of_pairs, np.zeros(layout.n_weights - layout.n_pairs, np.int64)])
        names = ("transitions", "relevant", "noise") if n_relevant < N_OBSERVED else ("transitions", "relevant")
    return Groups(index.astype(np.intp), names, np.full(len(names), np.nan))
