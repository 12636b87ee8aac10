"""What a chain CRF says of new sequences: the best labels, several of the best, probabilities, labels drawn at random."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tikhon.kernels.chain.decode import best_paths, draw_paths, viterbi_pass
from tikhon.kernels.chain.passes import Scores, Tokens, marginals_pass, score_sequence
from tikhon.models.chain.chunks import chunks_of, mapped
from tikhon.models.chain.layout import Layout, Sequences
from tikhon.models.chain.objective import edge_table
from tikhon.objective import Matrix, Vector

Path = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Rules:
    """Which labels may come first, and which may follow which; a forbidden step has probability 0."""

    first: NDArray[np.bool_]  # K
    steps: NDArray[np.bool_]  # K x K, from the earlier label to the later


@dataclass(frozen=True, eq=False)
class Labelling:
    """Labels of one sequence, the logarithm of their probability."""

    labels: Path
    log_probability: float


class ChainDecoder:
    """Weights at work. The labels of the sequences that it is given are taken as known; -1 leaves a token free."""

    def __init__(self, layout: Layout, weights: Vector, rules: Rules | None = None, *, n_threads: int = 1) -> None:
        self.layout, self.n_threads = layout, n_threads
        scores = layout.scores(weights)
        self._first = np.zeros(layout.n_labels)
        if rules is not None:
            edges = scores.edges.copy()
            edges[:, :, : layout.n_labels][:, ~rules.steps] = -np.inf
            scores = scores._replace(edges=edges)
            self._first = np.where(rules.first, 0.0, -np.inf)
        self._scores: Scores = scores

    def best(self, data: Sequences) -> tuple[Path, Vector]:
        """The most probable labels of all tokens, one sequence after the other, and the score of each sequence.

        A score of -inf says that the rules and the known labels leave nothing.
        """
        paths, scores = np.zeros(data.n_tokens, np.int32), np.zeros(data.n_sequences)
        tokens = self.layout.tokens(data)

        def one(chunk: tuple[int, int]) -> None:
            viterbi_pass(*chunk, tokens, self.layout.lists, self._scores, self._first, paths, scores)

        list(mapped(one, chunks_of(data.starts), self.n_threads))
        return paths, scores

    def marginals(self, data: Sequences) -> tuple[Matrix, Vector]:
        """The probability of each label at each token, and log Z of each sequence."""
        table = edge_table(self._scores.edges, self.layout.n_labels)
        marginals, log_sums = np.zeros((data.n_tokens, self.layout.n_labels)), np.zeros(data.n_sequences)
        tokens = self.layout.tokens(data)

        def one(chunk: tuple[int, int]) -> None:
            marginals_pass(*chunk, tokens, self.layout.lists, self._scores, table, self._first, marginals, log_sums)

        list(mapped(one, chunks_of(data.starts), self.n_threads))
        return marginals, log_sums

    def log_likelihoods(self, data: Sequences) -> tuple[Vector, Vector]:
        """log p(labels | tokens) of each sequence, summed over labels that are not given, and log Z of all labellings."""
        log_sums = self.marginals(replace(data, labels=np.full_like(data.labels, -1)))[1]
        possible = log_sums > -np.inf
        known = np.full(data.n_sequences, -np.inf)
        known[possible] = self.marginals(data)[1][possible] - log_sums[possible]
        return known, log_sums

    def several_best(self, data: Sequences, n_best: int) -> list[list[Labelling]]:
        """Of each sequence, up to so many labellings, the most probable first."""
        log_sums = self.marginals(data)[1]
        found = []
        for i, raw in enumerate(self._raw(data)):
            if len(raw) == 0:
                found.append([Labelling(np.zeros(0, np.int32), 0.0)])
                continue
            paths, scores = np.zeros((n_best, len(raw)), np.int32), np.zeros(n_best)
            count = best_paths(raw, len(raw), self._scores.edges, paths, scores)
            found.append([Labelling(paths[n], float(scores[n] - log_sums[i])) for n in range(count)])
        return found

    def drawn(self, data: Sequences, n_draws: int, rng: np.random.Generator) -> tuple[list[NDArray[np.int32]], Vector]:
        """Of each sequence, so many labellings (n_draws x length), drawn by their probability, and log Z."""
        found, log_sums = [], np.zeros(data.n_sequences)
        for i, raw in enumerate(self._raw(data)):
            paths = np.zeros((n_draws, len(raw)), np.int32)
            if len(raw):
                log_sums[i] = draw_paths(raw, len(raw), self._scores.edges, rng.random((n_draws, len(raw))), paths)
            found.append(paths)
        return found, log_sums

    def _raw(self, data: Sequences) -> list[Matrix]:
        """The scores of the labels of each sequence, length x P."""
        tokens: Tokens = self.layout.tokens(data)
        found = []
        for start, end in zip(data.starts[:-1].tolist(), data.starts[1:].tolist(), strict=True):
            raw = np.empty((end - start, self.layout.width))
            if end > start:
                score_sequence(
                    start, end - start, tokens, self.layout.lists, self._scores, self.layout.n_labels, self._first, raw
                )
            found.append(raw)
        return found
