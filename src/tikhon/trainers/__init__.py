"""Ways to train a chain other than fits to convergence at learned strengths: what they learn is when to stop.

- ``sgd``: stochastic gradients of the loss; ``perceptron``: perceptrons, without and with a margin; ``lbfgs``: full gradients.
- ``epochs``: passes over the sequences, shared by the former two; ``best``: early stopping.
"""

from tikhon.errors import InputError
from tikhon.trainers.base import Trainer
from tikhon.trainers.lbfgs import LBFGS
from tikhon.trainers.perceptron import Margin, Perceptron
from tikhon.trainers.sgd import SGD

FITS = "lbfgs"  # the trainer that is a solver: fits at strengths that a tuner learns
TRAINERS: dict[str, type[Trainer]] = {FITS: LBFGS, "sgd": SGD, "perceptron": Perceptron, "margin": Margin}

__all__ = ["FITS", "LBFGS", "SGD", "TRAINERS", "Margin", "Perceptron", "Trainer", "make_trainer"]


def make_trainer(trainer: str | Trainer) -> Trainer | None:
    """A trainer from its name, or a trainer itself; None for "lbfgs", which is left to solvers and tuners."""
    if isinstance(trainer, str):
        if trainer == FITS:
            return None
        if trainer in TRAINERS:
            return TRAINERS[trainer]()
    elif isinstance(trainer, Trainer):
        return trainer
    names = ", ".join(map(repr, TRAINERS))
    raise InputError(f"trainer={trainer!r}: write one of {names}, or an object such as SGD(early_stopping=True)")
