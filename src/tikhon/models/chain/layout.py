"""The weights of a chain and their positions: those of its emission, then those of its transitions."""

from dataclasses import dataclass, replace
from typing import Any, Generic, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from tikhon.kernels.chain.feature_table import Tokens
from tikhon.models.chain.emission import Emission
from tikhon.models.chain.feature_table import FeatureTable, feature_table_of
from tikhon.models.chain.sequences import Sequences
from tikhon.models.chain.transitions import Transitions, transitions_of
from tikhon.objective import Vector

EmissionT = TypeVar("EmissionT", bound=Emission[Any, Any], covariant=True)


@dataclass(frozen=True, eq=False)
class ChainLayout(Generic[EmissionT]):
    """The weights of a chain over labels with any emission."""

    emission: EmissionT
    steps: Transitions

    @property
    def n_labels(self) -> int:
        return self.steps.n_labels

    @property
    def order(self) -> int:
        return self.steps.order

    @property
    def n_weights(self) -> int:
        return self.emission.n_weights + self.steps.n_weights

    def with_best_states(self) -> Self:
        return replace(self, emission=self.emission.with_best_states())

    def by_weight(self, rates: Vector) -> Vector:
        """Values of the parts of the emission, and of the steps, for each weight."""
        return np.repeat(rates, [*self.emission.part_sizes, self.steps.n_weights])

    def split(self, weights: Vector) -> tuple[Vector, Vector]:
        """Views of the weights of the emission and of the transitions."""
        return weights[: self.emission.n_weights], weights[self.emission.n_weights :]

    @property
    def transitions(self) -> tuple[NDArray[np.int64], ...]:
        """For each order, the labels of each weight, oldest first."""
        return self.steps.rows

    def transition_weights(self, weights: Vector, n_back: int) -> NDArray[np.float64]:
        """The weights of steps over ``n_back`` + 1 labels, one axis per label; 0 where there is none."""
        return self.steps.weights_by_label(self.split(weights)[1], n_back)

    def transition_parts(self, weights: Vector) -> list[Vector]:
        """Views of the weights of label pairs and triples."""
        return self.steps.parts(self.split(weights)[1])


class Layout(ChainLayout[FeatureTable]):
    """The weights of a chain CRF: pairs of features and labels, then transitions."""

    @property
    def n_features(self) -> int:
        return self.emission.n_features

    @property
    def n_pairs(self) -> int:
        return self.emission.n_weights

    @property
    def pair_features(self) -> NDArray[np.int32]:
        return self.emission.pair_features

    @property
    def pair_labels(self) -> NDArray[np.int32]:
        return self.emission.pair_labels

    @property
    def n_dense_pairs(self) -> int:
        return self.emission.n_dense_pairs

    def squares(self, tokens: Tokens, row_weights: Vector) -> Vector:
        """For each feature, the weighted sum of the squares of its values."""
        return self.emission.squares(tokens, row_weights)


def layout_of(data: Sequences, order: int, *, all_pairs: bool = False) -> Layout:
    """Weights for the pairs and transitions that occur in the data, or for all possible ones."""
    return Layout(feature_table_of(data, all_pairs=all_pairs), transitions_of(data, order, all_pairs=all_pairs))
