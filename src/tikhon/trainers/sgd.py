"""Stochastic gradients of the loss."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tikhon.models.chain.label_chain import LabelChain
from tikhon.models.chain.learner import Sizes
from tikhon.objective import Vector
from tikhon.results import TuneResult
from tikhon.trainers.base import check_count, check_positive
from tikhon.trainers.epochs import EpochTrainer, train
from tikhon.tuners.base import Problem


@dataclass(frozen=True, kw_only=True)
class SGD(EpochTrainer):
    """Stochastic gradient descent of the penalised loss, with averaged weights.

    In epoch e the weights move by ``step * decay**e / (n * sqrt(t))`` times the gradient of a batch's loss, where n is the mean
    squared norm of a token's features and t the mean number of tokens of a sequence: so the same step suits data of any size
    and units. An epoch visits all sequences in random order.

    Parameters
    ----------
    step : float, default=10.0
        The step size of the first epoch. If the loss grows beyond all bounds, the epoch is repeated with half of it.
    decay : float, default=0.95
        The factor on the step size after each epoch.
    epochs : int, default=50
        The number of epochs, or the largest number of them with early stopping.
    batch : int, default=1
        Sequences per step.
    burn_in : int or None, default=None
        Epochs before the average of the weights begins, which is the model. None: two thirds of ``epochs``; a third with
        early stopping.
    early_stopping : bool, default=False
        Hold out a part of the sequences, as ``cv`` and ``validation_fraction`` of the estimator say, and return the weights
        after the epoch with the fewest wrong labels in it.
    look_ahead : int, default=10
        Epochs without improvement after which to stop early.
    refit : bool, default=False
        After early stopping, train again on all sequences for the number of epochs found.
    random_state : int, default=0
        Seed of the order of sequences.
    checkpoint : str or None, default=None
        A file written after every epoch, from which an interrupted training resumes, to the same bits.

    Examples
    --------
    >>> from tikhon import ChainCRF
    >>> from tikhon.trainers import SGD
    >>> X = [[["the"], ["old", "man"]], [["a"], ["new", "ship"]]] * 10
    >>> y = [["DET", "N"], ["DET", "N"]] * 10
    >>> ChainCRF(trainer=SGD(epochs=5)).fit(X, y).predict([[["a"], ["man"]]])
    [['DET', 'N']]
    """

    name: ClassVar[str] = "sgd"
    likelihood: ClassVar[bool] = True
    step: float = 10.0
    decay: float = 0.95
    epochs: int = 50

    def tune(self, problem: Problem) -> TuneResult:
        check_positive("step", self.step)
        check_positive("decay", self.decay, 1.0)
        check_count("batch", self.batch)
        return train(self, problem)

    def rates(self, chain: LabelChain, sizes: Sizes, epoch: int) -> Vector:
        rate = self.step * self.decay**epoch / (max(sizes.squared_norm, 1e-300) * np.sqrt(sizes.mean_length))
        return np.full(len(chain.layout.emission.part_sizes) + 1, rate)

    @property
    def averaged_from(self) -> int:
        if self.burn_in is not None:
            return self.burn_in
        return self.epochs // 3 if self.early_stopping else 2 * self.epochs // 3
