"""Predictions of a chain CRF for new sequences: best and n-best labels, probabilities, random samples of labels."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tikhon.kernels.chain.decode import best_paths, draw_paths, viterbi_pass
from tikhon.kernels.chain.few_steps import FewSteps
from tikhon.kernels.chain.few_steps_decoding import few_marginals_pass, few_viterbi_pass
from tikhon.kernels.chain.passes import marginals_pass, restrict
from tikhon.models.chain.chunks import blocks_of, chunks_of, mapped
from tikhon.models.chain.layout import ChainLayout
from tikhon.models.chain.sequences import Sequences
from tikhon.models.chain.transitions import Table, step_table
from tikhon.objective import Matrix, Vector

Path = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Rules:
    """The labels that may come first, and those that may follow each other; a forbidden step has probability 0."""

    first: NDArray[np.bool_]  # K
    steps: NDArray[np.bool_]  # K x K, from the earlier label to the later


@dataclass(frozen=True, eq=False)
class Labelling:
    """The labels of one sequence and their log probability."""

    labels: Path
    log_probability: float


class ChainDecoder:
    """Decodes with given weights and any emission, of which it needs only the scores of tokens.

    The labels of the given sequences are taken as known; -1 leaves a token free.
    """

    def __init__(
        self, layout: ChainLayout[Any], weights: Vector, rules: Rules | None = None, *, n_threads: int = 1
    ) -> None:
        self.layout, self.n_threads = layout, n_threads
        own, self._of_steps = layout.split(weights)
        self._weights, self._rules = layout.emission.unpacked(own), rules
        self._first = np.zeros(layout.n_labels) if rules is None else np.where(rules.first, 0.0, -np.inf)

    @cached_property
    def _edges(self) -> NDArray[np.float64]:
        edges = self.layout.steps.edge_scores(self._of_steps)
        if self._rules is not None:
            edges[:, :, : self.layout.n_labels][:, ~self._rules.steps] = -np.inf
        return edges

    @cached_property
    def _table(self) -> Table:
        if self._rules is None:
            return self.layout.steps.table(self._of_steps)
        return step_table(self._edges, self.layout.n_labels)

    def best(self, data: Sequences) -> tuple[Path, Vector]:
        """The most probable labels of all tokens, one sequence after the other, and the score of each sequence.

        A score of -inf means that no labelling agrees with the rules and the known labels.
        """
        paths, path_scores = np.zeros(data.n_tokens, np.int32), np.zeros(data.n_sequences)
        tokens, table = self.layout.emission.tokens(data), self._table

        def one(chunk: tuple[int, int]) -> None:
            for first, last, scores in self._scored(data, tokens, chunk):
                if isinstance(table, FewSteps):
                    few_viterbi_pass(first, last, data.starts, scores, table, paths, path_scores)
                else:
                    viterbi_pass(first, last, data.starts, scores, table.scores, paths, path_scores)

        list(mapped(one, chunks_of(data.starts), self.n_threads))
        return paths, path_scores

    def marginals(self, data: Sequences) -> tuple[Matrix, Vector]:
        """The probability of each label at each token, and log Z of each sequence."""
        marginals, log_sums = np.zeros((data.n_tokens, self.layout.n_labels)), np.zeros(data.n_sequences)
        tokens, table = self.layout.emission.tokens(data), self._table

        def one(chunk: tuple[int, int]) -> None:
            for first, last, scores in self._scored(data, tokens, chunk):
                if isinstance(table, FewSteps):
                    few_marginals_pass(first, last, data.starts, data.labels, scores, table, marginals, log_sums)
                else:
                    marginals_pass(first, last, data.starts, data.labels, scores, table, marginals, log_sums)

        list(mapped(one, chunks_of(data.starts), self.n_threads))
        return marginals, log_sums

    def _scored(self, data: Sequences, tokens: Any, chunk: tuple[int, int]) -> Iterator[tuple[int, int, Matrix]]:
        """Blocks of sequences with the scores of their tokens, -inf where a label is excluded."""
        for first, last in blocks_of(data.starts, *chunk):
            scores = self.layout.emission.scores(first, last, tokens, self._weights)
            restrict(first, last, data.starts, data.labels, self._first, scores)
            yield first, last, scores

    def log_likelihoods(self, data: Sequences) -> tuple[Vector, Vector]:
        """log p(labels | tokens) of each sequence, summed over unknown labels, and log Z over all labellings."""
        log_sums = self.marginals(replace(data, labels=np.full_like(data.labels, -1)))[1]
        possible = log_sums > -np.inf
        known = np.full(data.n_sequences, -np.inf)
        known[possible] = self.marginals(data)[1][possible] - log_sums[possible]
        return known, log_sums

    def several_best(self, data: Sequences, n_best: int) -> list[list[Labelling]]:
        """For each sequence, up to ``n_best`` labellings, the most probable first."""
        log_sums = self.marginals(data)[1]
        found = []
        for i, raw in enumerate(self._raw(data)):
            if len(raw) == 0:
                found.append([Labelling(np.zeros(0, np.int32), 0.0)])
                continue
            paths, scores = np.zeros((n_best, len(raw)), np.int32), np.zeros(n_best)
            count = best_paths(raw, len(raw), self._edges, paths, scores)
            found.append([Labelling(paths[n], float(scores[n] - log_sums[i])) for n in range(count)])
        return found

    def drawn(self, data: Sequences, n_draws: int, rng: np.random.Generator) -> tuple[list[NDArray[np.int32]], Vector]:
        """For each sequence, ``n_draws`` labellings (n_draws x length) sampled from their distribution, and log Z."""
        found, log_sums = [], np.zeros(data.n_sequences)
        for i, raw in enumerate(self._raw(data)):
            paths = np.zeros((n_draws, len(raw)), np.int32)
            if len(raw):
                log_sums[i] = draw_paths(raw, len(raw), self._edges, rng.random((n_draws, len(raw))), paths)
            found.append(paths)
        return found, log_sums

    def _raw(self, data: Sequences) -> list[Matrix]:
        """The scores of the labels of each sequence, length x P."""
        scores = self.layout.emission.scores(0, data.n_sequences, self.layout.emission.tokens(data), self._weights)
        restrict(0, data.n_sequences, data.starts, data.labels, self._first, scores)
        return [scores[start:end] for start, end in pairwise(data.starts.tolist())]
