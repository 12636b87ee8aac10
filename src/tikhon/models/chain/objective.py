"""Conditional random fields of order 1 and 2: chains over labels with a table of features by labels."""

from functools import cached_property

import numpy as np

from tikhon.kernels.chain.feature_table import Tokens
from tikhon.models.chain.label_chain import LabelChain
from tikhon.models.chain.layout import Layout
from tikhon.models.chain.sequences import step_codes
from tikhon.objective import Hints, Vector

MANY_WEIGHTS, MANY_GAP, FEW_GAP = 10_000, 1e-8, 1e-5  # relative gaps down to which fits use gradients alone


class Chain(LabelChain):
    """sum_i a_i [log Z(x_i) - score(x_i, y_i)] over sequences, with row weights a.

    The score of labels y is sum_t sum_f x_tf w[f, y_t] + sum_{t>0} w[y_{t-1}, y_t], and for order 2 also
    + sum_{t>1} w[y_{t-2}, y_{t-1}, y_t]; Z sums its exponential over all labellings (Do, Foo, Ng 2008, equation 1). Labels
    may be unknown (``LabelChain``).

    The gradient is the expected less the observed count of each feature; a Hessian product is the derivative of the expected
    counts along a direction.
    """

    layout: Layout
    _tokens: Tokens

    @cached_property
    def hints(self) -> Hints:
        return Hints(
            baseline=self.baseline_weights,
            baseline_diagonal=self.baseline_diagonal,
            natural_strengths=self.natural_strengths,
            hessian_diagonal=self.hessian_diagonal,
            # If features are many and rare, gradients alone take a quarter of the passes, counting a product as two. With few
            # weights and widely differing strengths, conjugate gradients converge but L-BFGS hardly does.
            lbfgs_gap=MANY_GAP if self.n_weights >= MANY_WEIGHTS else FEW_GAP,
            row_losses=self.row_losses,
        )

    def baseline_weights(self) -> Vector:
        return np.zeros(self.n_weights)

    def baseline_diagonal(self) -> Vector:
        """At probabilities of labels and steps equal to their shares of the data, whatever the token.

        A weight's curvature is then q (1 - q) times the sum of its feature's squares, where q is the share.
        """
        tokens, layout = self._tokens, self.layout
        token_weights = np.repeat(self.row_weights, np.diff(tokens.starts))
        by_feature = layout.squares(tokens, self.row_weights)
        counts = self._counts(token_weights, 1)
        spread = _spread(counts) / max(float(counts.sum()), 1e-300)
        curvature = [by_feature[layout.pair_features] * spread[layout.pair_labels]]
        for rows in layout.transitions:
            n = rows.shape[1]
            spread = _spread(self._counts(token_weights, n))
            curvature.append(spread[np.ravel_multi_index(tuple(rows.T), (layout.n_labels,) * n)])
        return np.concatenate(curvature)

    def natural_strengths(self) -> Vector:
        """The mean square of each feature's values, 1 for steps: a weight changes the log-odds of a label by about 1.

        Curvature is no guide here: most features are rare, and weights determined by few tokens are no larger.
        """
        tokens, layout, counted = self._tokens, self.layout, (self.row_weights > 0.0).astype(np.float64)
        counts = layout.squares(tokens._replace(values=np.empty(0)), counted)
        squares = layout.squares(tokens, counted)
        means = np.divide(squares, counts, out=np.ones_like(counts), where=squares > 0.0)
        return np.concatenate([means[layout.pair_features], np.ones(layout.n_weights - layout.n_pairs)])

    def _counts(self, token_weights: Vector, n: int) -> Vector:
        """The weighted counts of n consecutive labels, by their code."""
        last, codes = step_codes(self._tokens.starts, self._tokens.labels, self.layout.n_labels, n)
        counts: Vector = np.bincount(codes, token_weights[last], self.layout.n_labels**n).astype(np.float64)
        return counts


def _spread(counts: Vector) -> Vector:
    """n q (1 - q) for the shares q of counts that sum to n."""
    return counts * (1.0 - counts / max(float(counts.sum()), 1e-300))
