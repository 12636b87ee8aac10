"""The hidden units of some tokens: scores of labels and their derivatives, of units summed out or in their best states."""

from typing import Protocol

import numpy as np
from scipy.special import expit

from tikhon.kernels.chain.hidden_units import (
    LOG_OF_RANGE,
    WIDEST,
    derive,
    derive_best_states,
    derive_rates,
    derive_squares,
    exponentials,
    score_best_states,
    score_labels,
    score_rates,
    split_exponentials,
)
from tikhon.objective import Matrix


class Units(Protocol):
    """Units with inputs u (tokens x H) and weights v of labels (P x H), which score the labels of tokens."""

    def score(self) -> Matrix:
        """The scores s (tokens x P), up to a term that is common to the labels of a token."""
        ...

    def derive(self, by_score: Matrix, by_label: Matrix) -> Matrix:
        """The derivatives of sum_tk d_tk s_tk, d = ``by_score``: returns those by input, adds those by v to ``by_label``."""
        ...


class SmoothUnits(Units, Protocol):
    """Units that are summed out: s_tk = sum_h softplus(u_th + v_kh) - max(u_th, 0)."""

    def score_rates(self, input_rates: Matrix, label_rates: Matrix) -> Matrix:
        """The rates of s along a direction."""
        ...

    def derive_rates(
        self, input_rates: Matrix, label_rates: Matrix, by_score: Matrix, by_score_rates: Matrix, by_label: Matrix
    ) -> Matrix:  # fmt: skip
        """The rates of ``derive`` along a direction in which d, too, changes."""
        ...

    def derive_squares(self, by_score: Matrix, by_label: Matrix) -> Matrix:
        """As ``derive``, with the squares of the derivatives of s."""
        ...


def units_at(inputs: Matrix, label_weights: Matrix) -> SmoothUnits:
    largest = float(np.abs(label_weights).max(initial=0.0))
    return NearUnits(inputs, label_weights, largest) if largest <= WIDEST else FarUnits(inputs, label_weights)


class NearUnits:
    """By exponentials for each (token, unit) and (label, unit) (``kernels/chain/hidden_units.py``)."""

    def __init__(self, inputs: Matrix, label_weights: Matrix, largest: float) -> None:
        self._shape = (len(inputs), len(label_weights))
        self._decays, self._growths = np.empty_like(inputs), np.empty_like(inputs)
        split_exponentials(inputs, self._decays, self._growths)
        self._factors = exponentials(label_weights)
        self._span = int(LOG_OF_RANGE / (largest + np.log(2.0)))

    def score(self) -> Matrix:
        scores = np.zeros(self._shape)
        score_labels(self._decays, self._growths, self._factors, self._span, scores)
        return scores

    def derive(self, by_score: Matrix, by_label: Matrix) -> Matrix:
        by_input = np.empty_like(self._decays)
        derive(self._decays, self._growths, self._factors, by_score, by_input, by_label)
        return by_input

    def score_rates(self, input_rates: Matrix, label_rates: Matrix) -> Matrix:
        rates = np.zeros(self._shape)
        score_rates(self._decays, self._growths, self._factors, input_rates, label_rates, rates)
        return rates

    def derive_rates(
        self, input_rates: Matrix, label_rates: Matrix, by_score: Matrix, by_score_rates: Matrix, by_label: Matrix
    ) -> Matrix:  # fmt: skip
        by_input = np.empty_like(self._decays)
        derive_rates(
            self._decays, self._growths, self._factors, input_rates, label_rates, by_score, by_score_rates, by_input,
            by_label,
        )  # fmt: skip
        return by_input

    def derive_squares(self, by_score: Matrix, by_label: Matrix) -> Matrix:
        by_input = np.empty_like(self._decays)
        derive_squares(self._decays, self._growths, self._factors, by_score, by_input, by_label)
        return by_input


class FarUnits:
    """Term by term, for weights of labels so large that their exponentials leave the range of floating point."""

    def __init__(self, inputs: Matrix, label_weights: Matrix) -> None:
        self._inputs, self._label_weights = inputs, label_weights
        self._sigmas = expit(inputs[:, None] + label_weights)

    def score(self) -> Matrix:
        # max(u + v, 0) - max(u, 0) without a difference of large numbers
        u, v = self._inputs[:, None], self._label_weights
        rising = np.where(u > 0.0, np.maximum(v, -u), np.maximum(u + v, 0.0))
        scores: Matrix = (rising + np.log1p(np.exp(-np.abs(u + v)))).sum(axis=2)
        return scores

    def derive(self, by_score: Matrix, by_label: Matrix) -> Matrix:
        return _summed(by_score[:, :, None] * self._sigmas, by_label)

    def score_rates(self, input_rates: Matrix, label_rates: Matrix) -> Matrix:
        rates: Matrix = (self._sigmas * (input_rates[:, None] + label_rates)).sum(axis=2)
        return rates

    def derive_rates(
        self, input_rates: Matrix, label_rates: Matrix, by_score: Matrix, by_score_rates: Matrix, by_label: Matrix
    ) -> Matrix:  # fmt: skip
        bent = by_score[:, :, None] * (1.0 - self._sigmas) * (input_rates[:, None] + label_rates)
        return _summed(self._sigmas * (by_score_rates[:, :, None] + bent), by_label)

    def derive_squares(self, by_score: Matrix, by_label: Matrix) -> Matrix:
        return _summed(by_score[:, :, None] * self._sigmas**2, by_label)


class BestStates:
    """Units in the states that score best: s_tk = sum_h max(u_th + v_kh, 0)."""

    def __init__(self, inputs: Matrix, label_weights: Matrix) -> None:
        self._inputs, self._label_weights = inputs, label_weights

    def score(self) -> Matrix:
        scores = np.zeros((len(self._inputs), len(self._label_weights)))
        score_best_states(self._inputs, self._label_weights, scores)
        return scores

    def derive(self, by_score: Matrix, by_label: Matrix) -> Matrix:
        by_input = np.empty_like(self._inputs)
        derive_best_states(self._inputs, self._label_weights, by_score, by_input, by_label)
        return by_input


def _summed(terms: Matrix, by_label: Matrix) -> Matrix:
    """Sums over labels; adds those over tokens to ``by_label``."""
    by_label += terms.sum(axis=0)
    by_input: Matrix = terms.sum(axis=1)
    return by_input
