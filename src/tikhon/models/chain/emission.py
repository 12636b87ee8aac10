"""The interface of an emission: how tokens score their labels.

A new emission is one class like ``FeatureTable`` or ``HiddenLayer``, and its kernel. The chain needs the scores of
tokens and returns the derivatives with respect to them; it owns the transitions. For speed the emission's kernel runs the
passes over many sequences, with the functions of ``kernels/chain/sequence.py`` inlined between its scores and its gradient.
"""

from typing import Any, Generic, NamedTuple, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from tikhon.kernels.chain.learning import Lesson, StepWeights
from tikhon.models.chain.sequences import Sequences
from tikhon.models.chain.transitions import Table
from tikhon.objective import Matrix, Vector

FEATURES_RATE = 10.0  # of perceptrons, for a feature of its share of the squared norm, relative to that of transitions

Tokens = TypeVar("Tokens")  # sequences in the form that the kernel reads
Weights = TypeVar("Weights")  # the emission's weights in that form, and sums by weight


class Run(NamedTuple):
    """Some sequences (first ... last - 1), the weights of all rows and the table of steps between labels."""

    first: int
    last: int
    row_weights: Vector
    table: Table


class Sums(NamedTuple, Generic[Weights]):
    """The accumulators of a pass."""

    emission: Weights
    edges: NDArray[np.float64]  # in the form of the table


class Learner(Protocol):
    """An emission's weights while they move, a few sequences at a time."""

    def set(self, weights: Vector) -> None: ...

    def collect(self, out: Vector) -> None:
        """Sets ``out`` to the flat weights."""
        ...

    def learn(self, lesson: Lesson, steps: StepWeights, rates: Vector) -> float:
        """Visits the sequences of the lesson, and moves the weights and those of steps; returns the summed loss."""
        ...


class Emission(Protocol[Tokens, Weights]):
    """How tokens score their labels. Its weights come before those of the transitions."""

    @property
    def is_linear(self) -> bool:
        """Whether scores are linear in the weights, and so the loss convex."""
        ...

    @property
    def n_weights(self) -> int: ...

    @property
    def n_labels(self) -> int: ...

    def tokens(self, data: Sequences) -> Tokens:
        """The sequences as the kernel reads them."""
        ...

    def unpacked(self, weights: Vector) -> Weights:
        """The emission's flat weights as the kernel reads them."""
        ...

    def zeros(self) -> Weights:
        """Zeros of the same form, to add to."""
        ...

    def collect(self, sums: Weights, out: Vector) -> None:
        """Sets ``out`` to the sums, in the order of the flat weights."""
        ...

    # Passes over some sequences.

    def add_gradient(self, run: Run, tokens: Tokens, weights: Weights, into: Sums[Weights]) -> float:
        """The summed loss; its gradient is added to ``into``."""
        ...

    def add_product(
        self, run: Run, tokens: Tokens, weights: Weights, rates: Weights, edge_rates: NDArray[np.float64], into: Sums[Weights]
    ) -> None:  # fmt: skip
        """Adds the Hessian times a direction, given by the rates of the weights."""
        ...

    def add_diagonal(self, run: Run, tokens: Tokens, weights: Weights, into: Sums[Weights]) -> None:
        """Adds an approximate diagonal of the Hessian."""
        ...

    def scores(self, first: int, last: int, tokens: Tokens, weights: Weights) -> Matrix:
        """The scores of the labels (padded) of all tokens of some sequences: all that a decoder needs."""
        ...

    # A few sequences, from flat weights: the cost depends on these sequences alone. Repetitions are allowed.

    def scores_of(self, rows: NDArray[np.intp], tokens: Tokens, weights: Vector) -> tuple[Matrix, Any]:
        """The scores of the tokens of these sequences, one after the other, and what ``back_propagate`` needs of them."""
        ...

    def back_propagate(
        self, rows: NDArray[np.intp], tokens: Tokens, forward: Any, by_score: Matrix, out: Vector
    ) -> None:  # fmt: skip
        """Adds the gradient by weight to ``out``, given that by score; ``out`` may be the weights that gave the scores."""
        ...

    def support(self, rows: NDArray[np.intp], tokens: Tokens) -> NDArray[np.intp]:
        """The weights that the scores of these sequences depend on, in ascending order."""
        ...

    # Learning from a few sequences at a time.

    def sum_of_squares(self, tokens: Tokens, row_weights: Vector) -> float:
        """The weighted sum of the squares of all features' values."""
        ...

    @property
    def part_sizes(self) -> tuple[int, ...]:
        """The numbers of weights of the parts that have a step size each, in the order of the weights."""
        ...

    def learner(self, tokens: Tokens) -> Learner:
        """Its rates are those of the parts, then that of the steps between labels."""
        ...

    def perceptron_rates(self, squared_norm: float) -> Vector:
        """Such rates for perceptrons, given the mean squared norm of a token's features."""
        ...

    def with_best_states(self) -> Self:
        """The emission that scores labels together with the best states of hidden units, if it has any."""
        ...
