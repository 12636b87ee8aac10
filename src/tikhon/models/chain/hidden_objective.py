"""Hidden-unit CRFs of order 1 and 2: chains over labels with a layer of hidden units."""

from functools import cached_property

import numpy as np

from tikhon.models.chain.hidden_units import HiddenLayer, HiddenTokens
from tikhon.models.chain.label_chain import LabelChain
from tikhon.models.chain.layout import ChainLayout
from tikhon.objective import Hints, Removable, Vector


class HiddenUnitChain(LabelChain):
    """sum_i a_i [log Z(x_i) - log sum_z exp E(x_i, z, y_i)] over sequences, with row weights a, states z of hidden units, and
    Z summed over labels as well (van der Maaten, Welling, Saul 2011, section 2.2).

    The energy of labels y is sum_t s_t[y_t] + sum_{t>0} w[y_{t-1}, y_t], for order 2 also + sum_{t>1} w[y_{t-2}, y_{t-1}, y_t],
    with the scores s of ``HiddenLayer``, in which the units are summed out. The loss is not convex: fits begin at
    ``HiddenLayer.start`` and end in a local minimum.
    """

    layout: ChainLayout[HiddenLayer]
    _tokens: HiddenTokens

    @cached_property
    def hints(self) -> Hints:
        return Hints(
            baseline=self.starting_weights,
            natural_strengths=self.natural_strengths,
            hessian_diagonal=self.hessian_diagonal,
            lbfgs_gap=0.0,  # products cost three passes, and far from a minimum the Hessian is indefinite
            row_losses=self.row_losses,
            removable=Removable(self._revived, self._removed),
        )

    def starting_weights(self) -> Vector:
        weights = np.zeros(self.n_weights)
        emission = self.layout.emission
        weights[: emission.n_weights] = emission.start()
        return weights

    def _revived(self, weights: Vector) -> Vector:
        found = weights.copy()
        self.layout.emission.revive(self.layout.split(found)[0])
        return found

    def _removed(self, weights: Vector) -> Vector:
        found = weights.copy()
        self.layout.emission.remove(self.layout.split(found)[0])
        return found

    def natural_strengths(self) -> Vector:
        """The mean square of each feature's values for its weights, 1 for all others: a weight of 1 then matters about as much
        anywhere."""
        strengths = np.ones(self.n_weights)
        counted = np.repeat((self.row_weights > 0.0).astype(np.float64), np.diff(self._starts))
        own, _ = self.layout.split(strengths)
        self.layout.emission.parts(own)[0][:] = self._tokens.rows.mean_squares(counted)[:, None]
        return strengths
