"""A chain that learns from a few sequences at a time, and the share of labels that it gets wrong."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tikhon.errors import InputError
from tikhon.kernels.chain.decode import viterbi_pass
from tikhon.kernels.chain.learning import Lesson, StepWeights
from tikhon.kernels.chain.passes import marginals_pass
from tikhon.models.chain.label_chain import LabelChain
from tikhon.models.chain.layout import ChainLayout
from tikhon.models.chain.sequences import UNKNOWN
from tikhon.models.chain.transitions import step_table
from tikhon.objective import Vector

MOST_STEPS = 2**23  # entries of the table of all steps between labels, which learners need
BLOCK = 2_000  # tokens that are decoded at a time


@dataclass(frozen=True, eq=False)
class Sizes:
    """What step sizes are relative to."""

    n_sequences: int  # of positive weight
    n_tokens: int
    squared_norm: float  # mean over tokens, of their features

    @property
    def mean_length(self) -> float:
        return max(self.n_tokens / max(self.n_sequences, 1), 1.0)


class ChainLearner:
    """The weights of a chain, moved by one batch of sequences after another."""

    def __init__(self, chain: LabelChain, weights: Vector) -> None:
        self._chain, self._layout = chain, chain.layout
        steps = self._layout.steps
        if int(np.prod(steps.edge_shape)) > MOST_STEPS:
            raise InputError(
                f"{steps.n_labels} labels with order={steps.order}: trainers other than 'lbfgs' work on a table of all steps "
                f"between labels, at most {MOST_STEPS:,}; set trainer='lbfgs' or order=1"
            )
        self._emission = self._layout.emission.learner(chain.tokens)
        self._free_pairs, self._free_triples = steps.learning_tables(np.ones(steps.n_weights))
        self.set(weights)

    def set(self, weights: Vector) -> None:
        own, of_steps = self._layout.split(weights)
        self._emission.set(own)
        pairs, triples = self._layout.steps.learning_tables(of_steps)
        scores = self._layout.steps.edge_scores(of_steps)
        self._steps = StepWeights(pairs, triples, self._free_pairs, self._free_triples, scores)

    def weights(self) -> Vector:
        found = np.empty(self._chain.n_weights)
        own, of_steps = self._layout.split(found)
        self._emission.collect(own)
        self._layout.steps.collect_tables((self._steps.pairs, self._steps.triples), of_steps)
        return found

    def learn(
        self, rows: NDArray[np.intp], rates: Vector, *, batch: int, likelihood: bool, margin: float = 0.0
    ) -> float:  # fmt: skip
        """Visit these sequences; returns the sum of their losses, each at the weights that it met.

        ``rates`` are the step sizes of the parts of the emission, as its ``part_sizes`` lists them, and of the steps.
        """
        lesson = Lesson(rows, batch, self._chain.row_weights, likelihood, margin)
        return float(self._emission.learn(lesson, self._steps, rates))


def sizes_of(chain: LabelChain) -> Sizes:
    lengths = np.diff(chain.starts)
    counted = chain.row_weights > 0.0
    token_weights = np.repeat(counted.astype(np.float64), lengths)
    n_tokens = int(token_weights.sum())
    norm = chain.layout.emission.sum_of_squares(chain.tokens, counted.astype(np.float64)) / max(n_tokens, 1)
    return Sizes(int(counted.sum()), n_tokens, norm)


def share_wrong(chain: LabelChain, layout: ChainLayout[Any], weights: Vector, *, by_token: bool) -> float:
    """The weighted share of the known labels that decoding gets wrong, sequence by sequence or ``by_token``.

    ``layout`` may score labels otherwise than that of the chain does.
    """
    own, of_steps = layout.split(weights)
    edges = layout.steps.edge_scores(of_steps)
    table = step_table(edges, layout.n_labels) if by_token else None
    rows = np.flatnonzero(chain.row_weights)
    lengths = np.diff(chain.starts)[rows]
    blocks = np.split(rows, np.flatnonzero(np.diff(np.cumsum(lengths) // BLOCK)) + 1)
    wrong, known = 0.0, 0.0
    for block in blocks:
        scores = layout.emission.scores_of(block, chain.tokens, own)[0]
        starts = np.concatenate([[0], np.cumsum(chain.starts[block + 1] - chain.starts[block])]).astype(np.int64)
        found = np.zeros(int(starts[-1]), np.int32)
        if table is None:
            viterbi_pass(0, len(block), starts, scores, edges, found, np.zeros(len(block)))
        else:
            marginals = np.zeros((len(found), layout.n_labels))
            free = np.full(len(found), UNKNOWN, np.int32)
            marginals_pass(0, len(block), starts, free, scores, table, marginals, np.zeros(len(block)))
            found = marginals.argmax(axis=1).astype(np.int32)
        labels = np.concatenate([chain.labels[chain.starts[row] : chain.starts[row + 1]] for row in block.tolist()])
        weight = np.repeat(chain.row_weights[block], np.diff(starts)) * (labels != UNKNOWN)
        wrong, known = wrong + float(weight @ (found != labels)), known + float(weight.sum())
    return wrong / known if known > 0.0 else np.nan
