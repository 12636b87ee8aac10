"""Perceptrons for chains: the weights move where the best labels are not those given."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tikhon.errors import InputError
from tikhon.models.chain.label_chain import LabelChain
from tikhon.models.chain.learner import Sizes
from tikhon.objective import Vector
from tikhon.results import TuneResult
from tikhon.trainers.base import check_positive
from tikhon.trainers.epochs import EpochTrainer, train
from tikhon.tuners.base import Problem


@dataclass(frozen=True, kw_only=True)
class Perceptron(EpochTrainer):
    """The averaged perceptron (Collins 2002), for hidden units as well (van der Maaten, Welling, Saul 2011, section 3.2).

    Where the best labels of a sequence, together with the best states of its hidden units, are not the given ones with the best
    states for these, the weights move by the difference of what the two count. No strengths are used. Predictions, too, are the
    best labels together with the best states.

    Parameters
    ----------
    step : float, default=20.0
        The biases of labels and the weights of transitions move by ``step / t``, where t is the mean number of tokens of a
        sequence. For the weights of features this is multiplied by 10 and divided by the mean squared norm of a token's
        features; with H hidden units, 50 or more, all weights of units move by 1/H of that, their biases by three times as
        much.
    epochs : int, default=100
        The number of epochs, or the largest number of them with early stopping.
    batch : int, default=1
        Sequences per step.
    burn_in : int, default=10
        Epochs before the average of the weights begins, which is the model.
    early_stopping, look_ahead, refit, random_state, checkpoint
        As for ``SGD``.
    """

    name: ClassVar[str] = "perceptron"
    likelihood: ClassVar[bool] = False
    in_best_states: ClassVar[bool] = True
    step: float = 20.0
    epochs: int = 100
    burn_in: int | None = 10

    def tune(self, problem: Problem) -> TuneResult:
        check_positive("step", self.step)
        if problem.groups.fixed[~problem.groups.learned].any():
            raise InputError(f"trainer={self.name!r} has no penalty: leave strengths out, or write strengths=0")
        return train(self, problem)

    def rates(self, chain: LabelChain, sizes: Sizes, epoch: int) -> Vector:
        rates: Vector = chain.layout.emission.perceptron_rates(sizes.squared_norm)
        return self.step / sizes.mean_length * rates

    @property
    def averaged_from(self) -> int:
        return 10 if self.burn_in is None else self.burn_in


@dataclass(frozen=True, kw_only=True)
class Margin(Perceptron):
    """The perceptron with a large margin: each wrong label adds ``rho`` to the score of labels (section 3.3 there).

    Parameters
    ----------
    rho : float, default=3.0
        The margin for each wrong label, as a multiple of the step of label biases: predictions depend on their ratio only. (In
        the paper, 0.05 for steps of 0.008.)
    step, epochs, batch, burn_in, early_stopping, look_ahead, refit, random_state, checkpoint
        As for ``Perceptron``.
    """

    name: ClassVar[str] = "margin"
    rho: float = 3.0

    def tune(self, problem: Problem) -> TuneResult:
        if not 0.0 <= self.rho < np.inf:
            raise InputError(f"rho={self.rho!r}: write a finite number, 0 or larger")
        return super().tune(problem)

    def margin(self, sizes: Sizes) -> float:
        return self.rho * self.step / sizes.mean_length
