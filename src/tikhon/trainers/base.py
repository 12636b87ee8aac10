"""The base of trainers, and what all of them do with their best weights."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from tikhon.errors import InputError, MissingCapability
from tikhon.models.chain.label_chain import LabelChain
from tikhon.models.chain.layout import ChainLayout
from tikhon.objective import Objective, Pair, Vector
from tikhon.results import TuneResult, TuneStatus
from tikhon.tuners.base import Problem, Splits, Tuner
from tikhon.tuners.journal import Journal

ERROR, LOSS = "held-out error rate", "training loss per token"


@dataclass(frozen=True, kw_only=True)
class Trainer(Tuner):
    """Trains at given strengths, in rounds; with ``early_stopping`` it learns how many of them are best.

    To estimators it is a tuner: its hyperparameter is the number of rounds.
    """

    needs_likelihood: ClassVar[bool] = False
    in_best_states: ClassVar[bool] = False  # hidden units are in their best states, not summed out
    early_stopping: bool = False
    look_ahead: int = 10
    checkpoint: str | None = None

    @property
    def uses_pairs(self) -> bool:  # type: ignore[override]  # of a tuner it is a class's own
        return self.early_stopping

    @property
    def n_rounds(self) -> int:
        raise NotImplementedError

    def splits_for(self, objective: Objective, n_rows: int | None = None) -> Splits:
        return "holdout" if self.early_stopping else "none"

    def tune(self, problem: Problem) -> TuneResult:
        raise NotImplementedError

    def check(self) -> None:
        check_count("look_ahead", self.look_ahead)
        if not isinstance(self.early_stopping, bool | np.bool_):
            raise InputError(f"early_stopping={self.early_stopping!r}: write True or False")


def check_count(name: str, value: Any, least: int = 1) -> None:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise InputError(f"{name}={value!r}: write a whole number, {least} or larger")


def check_positive(name: str, value: float, most: float = np.inf) -> None:
    if not 0.0 < value <= most or not np.isfinite(value):
        limit = "" if most == np.inf else f", at most {most:g}"
        raise InputError(f"{name}={value!r}: write a finite number larger than 0{limit}")


def hold_out(trainer: Trainer, problem: Problem) -> Pair | None:
    """The parts to train on and to count errors on, with early stopping."""
    if not trainer.early_stopping:
        return None
    if len(problem.pairs) != 1:
        raise InputError(
            f"early stopping needs one hold-out, not {len(problem.pairs)}: set cv=None, or a list of one split"
        )
    return problem.pairs[0]


def chain_of(objective: Objective, name: str) -> LabelChain:
    if not isinstance(objective, LabelChain):
        raise MissingCapability(f"the trainer {name!r} trains chains over labels, not {type(objective).__name__}")
    return objective


def layout_of(trainer: Trainer, chain: LabelChain) -> ChainLayout[Any]:
    """The layout that scores labels as the trained model will."""
    layout: ChainLayout[Any] = chain.layout
    return layout.with_best_states() if trainer.in_best_states else layout


def result_of(
    trainer: Trainer, problem: Problem, journal: Journal, weights: Vector, *, best: int, criterion: float,
    status: TuneStatus, reason: str, notes: tuple[str, ...] = (), gap: float = np.nan, residual: float = np.nan,
) -> TuneResult:  # fmt: skip
    """``best`` is the round after which the weights are those."""
    groups = problem.groups
    return TuneResult(
        tuner=trainer.name,
        strengths=groups.named(groups.fixed),
        weights=weights,
        criterion_name=ERROR if trainer.early_stopping else LOSS,
        criterion=criterion,
        train_loss=float(problem.objective.loss_gradient(weights)[0]),
        status=status,
        reason=reason,
        worst_residual=residual,
        relative_gap=gap,
        gap_is_bound=False,
        trace=tuple(journal.trace),
        n_fits=1,
        seconds=journal.seconds,
        notes=problem.notes + notes,
        extras={
            "training": {
                "best_round": best,
                "n_rounds": len(journal.trace),
                "early_stopping": bool(trainer.early_stopping),
            }
        },
    )
