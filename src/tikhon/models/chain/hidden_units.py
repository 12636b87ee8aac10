"""A layer of binary hidden units between the features of a token and its labels, summed out, as an emission.

Label k of a token with features x scores

    c_k + sum_h softplus(b_h + w_h . x + v_kh)    (+ r_k at the first token of a sequence, + q_k at its last)

less a term that is the same for all labels (van der Maaten, Welling, Saul 2011, section 2.2).

Weights, in this order: w by feature, then unit; b; v by label, then unit; c; r; q. At zero weights all units are alike, and
remain so however long a fit runs: fits need a start that tells them apart (``start``).
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tikhon.kernels.chain.few_steps import FewSteps, few_rates_pass, few_rows_pass, few_variances_pass
from tikhon.kernels.chain.learning import Lesson, StepWeights
from tikhon.kernels.chain.passes import rates_pass, rows_pass, variances_pass
from tikhon.kernels.chain.unit_learning import UnitWeights, learn_units
from tikhon.models.chain.emission import FEATURES_RATE, Run, Sums
from tikhon.models.chain.sequences import Sequences
from tikhon.models.chain.token_rows import TokenRows, learning_rows, token_rows_of
from tikhon.models.chain.transitions import padded
from tikhon.models.chain.units import BestStates, units_at
from tikhon.objective import Matrix, Vector

BLOCK = 100_000  # inputs of units that are worked on at a time: they stay in the cache
START = 0.1  # standard deviation of the weights at which fits begin
UNITS_RATE = 3.0  # of perceptrons, for biases of units relative to their weights of labels
FEW_UNITS = 50  # with fewer, perceptrons do not take larger steps: units would be switched off for good
VANISHED = 1e-3  # weights v below this hardly affect which label is best


@dataclass(frozen=True, eq=False)
class HiddenWeights:
    """Weights, their rates of change, or sums by weight; labels are padded to P with zeros."""

    of_features: Matrix  # D x H
    of_units: Vector  # H
    of_labels: Matrix  # P x H
    scores: Matrix  # 3 x P: of all tokens, first ones, last ones

    def __iter__(self) -> Iterator[NDArray[np.float64]]:
        return iter((self.of_features, self.of_units, self.of_labels, self.scores))


@dataclass(frozen=True, eq=False)
class Forward:
    """What the derivatives of some sequences need of the computation of their scores."""

    rows: TokenRows
    units: Any  # SmoothUnits or BestStates
    ends: tuple[NDArray[np.intp], NDArray[np.intp]]  # places of first and last tokens


@dataclass(frozen=True, eq=False)
class HiddenTokens:
    """Sequences whose tokens are rows of a matrix."""

    starts: NDArray[np.int64]
    labels: NDArray[np.int32]
    rows: TokenRows


@dataclass(frozen=True, eq=False)
class HiddenLayer:
    """An ``Emission``; with ``in_best_states`` for scores and gradients alone."""

    n_features: int
    n_labels: int
    n_hidden: int
    seed: int = 0  # of ``start``
    in_best_states: bool = False

    is_linear = False

    def with_best_states(self) -> Self:
        """Scores labels together with the states of units that score best, max(u, 0) in place of softplus(u).

        The best labelling is then part of the best joint assignment of labels and units (section 3.2 there).
        """
        return replace(self, in_best_states=True)

    @property
    def n_weights(self) -> int:
        return self._ends[-1]

    @cached_property
    def _ends(self) -> tuple[int, ...]:
        """Where the parts of the flat weights begin and end."""
        H, K = self.n_hidden, self.n_labels
        return (0, *np.cumsum([self.n_features * H, H, K * H, 3 * K]).tolist())

    def parts(self, weights: Vector) -> tuple[Matrix, Vector, Matrix, Matrix]:
        """Views: w (D x H), b (H), v (K x H), and c, r, q (3 x K)."""
        w, b, v, c = (weights[start:end] for start, end in pairwise(self._ends))
        return w.reshape(-1, self.n_hidden), b, v.reshape(self.n_labels, self.n_hidden), c.reshape(3, self.n_labels)

    def start(self) -> Vector:
        """Random weights of features and labels, 0 for all others."""
        rng, weights = np.random.default_rng(self.seed), np.zeros(self.n_weights)
        w, _, v, _ = self.parts(weights)
        w[:], v[:] = START * rng.normal(size=w.shape), START * rng.normal(size=v.shape)
        return weights

    def revive(self, weights: Vector) -> None:
        """Begin units anew that score all labels alike: if both w and v are 0, so is their gradient."""
        (w, _, v, _), (new_w, _, new_v, _) = self.parts(weights), self.parts(self.start())
        vanished = (np.abs(v) < VANISHED).all(axis=0)
        w[:, vanished], v[:, vanished] = new_w[:, vanished], new_v[:, vanished]

    def remove(self, weights: Vector) -> None:
        """Let all units score all labels alike."""
        self.parts(weights)[2][:] = 0.0

    def tokens(self, data: Sequences) -> HiddenTokens:
        return HiddenTokens(data.starts, data.labels, token_rows_of(data))

    # Weights to the form that the kernels need, and back.

    def unpacked(self, weights: Vector) -> HiddenWeights:
        w, b, v, c = self.parts(weights)
        found = HiddenWeights(w, b, *self._padded_zeros())
        found.of_labels[: self.n_labels], found.scores[:, : self.n_labels] = v, c
        return found

    def zeros(self) -> HiddenWeights:
        return HiddenWeights(
            np.zeros((self.n_features, self.n_hidden)), np.zeros(self.n_hidden), *self._padded_zeros()
        )  # fmt: skip

    def _padded_zeros(self) -> tuple[Matrix, Matrix]:
        width = padded(self.n_labels)
        return np.zeros((width, self.n_hidden)), np.zeros((3, width))

    def collect(self, sums: HiddenWeights, out: Vector) -> None:
        w, b, v, c = self.parts(out)
        w[:], b[:], v[:], c[:] = (
            sums.of_features, sums.of_units, sums.of_labels[: self.n_labels], sums.scores[:, : self.n_labels]
        )  # fmt: skip

    # Passes over some sequences.

    def add_gradient(
        self, run: Run, tokens: HiddenTokens, weights: HiddenWeights, into: Sums[HiddenWeights]
    ) -> float:  # fmt: skip
        add_loss: Any = few_rows_pass if isinstance(run.table, FewSteps) else rows_pass
        loss = 0.0
        for numbers in self._blocks(run, tokens):
            scores, forward = self._scored(numbers, tokens, weights)
            by_score = np.zeros_like(scores)
            loss += add_loss(
                numbers, tokens.starts, tokens.labels, scores, run.table, run.row_weights, by_score, into.edges
            )
            self._add_derivatives(forward, by_score, into.emission)
        return loss

    def add_product(
        self, run: Run, tokens: HiddenTokens, weights: HiddenWeights, rates: HiddenWeights,
        edge_rates: NDArray[np.float64], into: Sums[HiddenWeights],
    ) -> None:  # fmt: skip
        few = isinstance(run.table, FewSteps)
        add_loss: Any = few_rows_pass if few else rows_pass
        move: Any = few_rates_pass if few else rates_pass
        for numbers in self._blocks(run, tokens):
            scores, forward = self._scored(numbers, tokens, weights)
            moved = self._end_scores(forward, rates, len(scores))
            input_rates = forward.rows.times(rates.of_features) + rates.of_units
            moved += forward.rows.spread(forward.units.score_rates(input_rates, rates.of_labels))
            by_score, by_score_rates = np.zeros_like(scores), np.zeros_like(scores)
            chain = (numbers, tokens.starts, tokens.labels)
            add_loss(*chain, scores, run.table, run.row_weights, by_score, np.zeros_like(into.edges))
            move(
                *chain, scores, moved, run.table, edge_rates, run.row_weights, by_score_rates, into.edges
            )  # fmt: skip
            own = forward.rows.gathered(by_score), forward.rows.gathered(by_score_rates)
            by_input = forward.units.derive_rates(input_rates, rates.of_labels, *own, into.emission.of_labels)
            self._add_inputs(forward, by_input, by_score_rates, into.emission)

    def add_diagonal(
        self, run: Run, tokens: HiddenTokens, weights: HiddenWeights, into: Sums[HiddenWeights]
    ) -> None:  # fmt: skip
        """By the variances of single labels, those of the units' states left out: positive, and near the diagonal where
        labels are certain."""
        spread: Any = few_variances_pass if isinstance(run.table, FewSteps) else variances_pass
        for numbers in self._blocks(run, tokens):
            scores, forward = self._scored(numbers, tokens, weights)
            by_score = np.zeros_like(scores)
            spread(numbers, tokens.starts, tokens.labels, scores, run.table, run.row_weights, by_score, into.edges)
            by_input = forward.units.derive_squares(forward.rows.gathered(by_score), into.emission.of_labels)
            self._add_inputs(forward, by_input, by_score, into.emission, squared=True)

    def scores(self, first: int, last: int, tokens: HiddenTokens, weights: HiddenWeights) -> Matrix:
        return self._scored(np.arange(first, last), tokens, weights)[0]

    # A few sequences.

    def scores_of(
        self, rows: NDArray[np.intp], tokens: HiddenTokens, weights: Vector
    ) -> tuple[Matrix, Forward]:  # fmt: skip
        return self._scored(rows, tokens, self.unpacked(weights))

    def back_propagate(
        self, rows: NDArray[np.intp], tokens: HiddenTokens, forward: Forward, by_score: Matrix, out: Vector
    ) -> None:  # fmt: skip
        w, b, v, c = self.parts(out)
        found = HiddenWeights(w, b, *self._padded_zeros())
        self._add_derivatives(forward, by_score, found)
        v += found.of_labels[: self.n_labels]
        c += found.scores[:, : self.n_labels]

    def support(self, rows: NDArray[np.intp], tokens: HiddenTokens) -> NDArray[np.intp]:
        if len(rows) == 0:
            return np.zeros(0, np.intp)
        features = tokens.rows.features_of(_token_numbers(rows, tokens.starts))
        of_features = (features[:, None] * self.n_hidden + np.arange(self.n_hidden)).ravel()
        return np.concatenate([of_features, np.arange(self._ends[1], self.n_weights)])

    # Learning from a few sequences at a time.

    def sum_of_squares(self, tokens: HiddenTokens, row_weights: Vector) -> float:
        token_weights = np.repeat(row_weights, np.diff(tokens.starts))
        return tokens.rows.sum_of_squares(token_weights)

    @property
    def part_sizes(self) -> tuple[int, ...]:
        return tuple(end - start for start, end in pairwise(self._ends))

    def perceptron_rates(self, squared_norm: float) -> Vector:
        H = max(self.n_hidden, FEW_UNITS)
        return np.array([FEATURES_RATE / (max(squared_norm, 1e-300) * H), UNITS_RATE / H, 1.0 / H, 1.0, 1.0])

    def learner(self, tokens: HiddenTokens) -> "UnitLearner":
        return UnitLearner(self, tokens)

    # Implementation.

    def _blocks(self, run: Run, tokens: HiddenTokens) -> Iterator[NDArray[np.intp]]:
        """The sequences of positive weight, a few at a time."""
        numbers = run.first + np.flatnonzero(run.row_weights[run.first : run.last])
        most = max(1, BLOCK * tokens.rows.tokens_per_row // self.n_hidden)
        ends = np.cumsum(tokens.starts[numbers + 1] - tokens.starts[numbers])
        first = 0
        while first < len(numbers):
            done = ends[first - 1] if first else 0
            last = max(first + 1, int(np.searchsorted(ends, done + most, side="right")))
            yield numbers[first:last]
            first = last

    def _scored(
        self, numbers: NDArray[np.intp], tokens: HiddenTokens, weights: HiddenWeights
    ) -> tuple[Matrix, Forward]:  # fmt: skip
        rows = tokens.rows.of(_token_numbers(numbers, tokens.starts))
        inputs = rows.times(weights.of_features) + weights.of_units
        units = (BestStates if self.in_best_states else units_at)(inputs, weights.of_labels)
        lengths = tokens.starts[numbers + 1] - tokens.starts[numbers]
        ends, lasting = np.cumsum(lengths), lengths > 0
        forward = Forward(rows, units, ((ends - lengths)[lasting], ends[lasting] - 1))
        scores = self._end_scores(forward, weights, int(lengths.sum()))
        scores += rows.spread(units.score())
        return scores, forward

    def _end_scores(self, forward: Forward, weights: HiddenWeights, n_tokens: int) -> Matrix:
        """The part of the scores that does not depend on features."""
        scores = np.tile(weights.scores[0], (n_tokens, 1))
        for places, added in zip(forward.ends, weights.scores[1:], strict=True):
            scores[places] += added
        return scores

    def _add_derivatives(self, forward: Forward, by_score: Matrix, into: HiddenWeights) -> None:
        by_input = forward.units.derive(forward.rows.gathered(by_score), into.of_labels)
        self._add_inputs(forward, by_input, by_score, into)

    def _add_inputs(
        self, forward: Forward, by_input: Matrix, by_score: Matrix, into: HiddenWeights, *, squared: bool = False
    ) -> None:  # fmt: skip
        """Adds derivatives by input of units, and by score, to those of the weights that make these up."""
        forward.rows.add_transposed(by_input, into.of_features, squared=squared)
        into.of_units[:] += by_input.sum(axis=0)
        into.scores[0] += by_score.sum(axis=0)
        for places, sums in zip(forward.ends, into.scores[1:], strict=True):
            sums += by_score[places].sum(axis=0)


class UnitLearner:
    """A ``Learner``; its rates are those of the weights of features, of units, of labels by unit, of labels, and of steps."""

    def __init__(self, emission: HiddenLayer, tokens: HiddenTokens) -> None:
        self._emission = emission
        self._tokens = learning_rows(tokens.rows, tokens.starts, tokens.labels)

    def set(self, weights: Vector) -> None:
        self._weights = self._emission.unpacked(weights.copy())

    def collect(self, out: Vector) -> None:
        self._emission.collect(self._weights, out)

    def learn(self, lesson: Lesson, steps: StepWeights, rates: Vector) -> float:
        return learn_units(lesson, self._tokens, UnitWeights(*self._weights), steps, rates)


def _token_numbers(numbers: NDArray[np.intp], starts: NDArray[np.int64]) -> NDArray[np.intp] | slice:
    """The tokens of some sequences; a slice if these are neighbours."""
    if len(numbers) == 0:
        return slice(0, 0)
    if (numbers[1:] == numbers[:-1] + 1).all():
        return slice(int(starts[numbers[0]]), int(starts[numbers[-1] + 1]))
    lengths = starts[numbers + 1] - starts[numbers]
    ends = np.cumsum(lengths)
    tokens: NDArray[np.intp] = np.repeat(starts[numbers] - (ends - lengths), lengths) + np.arange(int(ends[-1]))
    return tokens
