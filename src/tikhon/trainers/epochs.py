"""Training in epochs, a few sequences at a time: averages, early stopping, steps halved where they diverge, checkpoints."""

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tikhon.data.description import Array
from tikhon.data.values import Flag, Number, Record, Whole
from tikhon.models.chain.label_chain import LabelChain
from tikhon.models.chain.learner import ChainLearner, Sizes, share_wrong, sizes_of
from tikhon.objective import Vector
from tikhon.results import Step, TuneResult, TuneStatus, counted
from tikhon.solvers.penalised import baseline
from tikhon.trainers.base import Trainer, chain_of, check_count, hold_out, layout_of, result_of
from tikhon.trainers.best import Best
from tikhon.tuners.base import Problem
from tikhon.tuners.checkpoints import MOST_WEIGHT, State
from tikhon.tuners.journal import Journal

PARTS = 20  # of an epoch: after each, the weights enter the average
DIVERGED = 3.0  # times the loss of guessing: a mean loss of an epoch beyond it
MOST_HALVINGS = 40
AGAIN = "again, on all sequences"


@dataclass(frozen=True, kw_only=True)
class EpochTrainer(Trainer):
    """What trainers that visit sequences one by one have in common."""

    likelihood: ClassVar[bool]
    step: float = 1.0
    epochs: int = 50
    batch: int = 1
    burn_in: int | None = None
    refit: bool = False
    random_state: int = 0

    @property
    def n_rounds(self) -> int:
        return self.epochs

    def margin(self, sizes: Sizes) -> float:
        """What wrong labels add to the scores that a perceptron compares."""
        return 0.0

    @property
    def averaged_from(self) -> int:
        """The number of epochs before the average begins."""
        raise NotImplementedError

    def rates(self, chain: LabelChain, sizes: Sizes, epoch: int) -> Vector:
        """Step sizes of the parts of the emission's weights, and of the steps between labels."""
        raise NotImplementedError


def train(trainer: EpochTrainer, problem: Problem) -> TuneResult:
    trainer.check()
    check_count("epochs", trainer.epochs)
    check_count("batch", trainer.batch)
    check_count("random_state", trainer.random_state, 0)
    if trainer.burn_in is not None:
        check_count("burn_in", trainer.burn_in, 0)
    return _Training(trainer, problem).run()


@dataclass(frozen=True, eq=False)
class _Reached:
    """The state after an epoch."""

    weights: Vector
    average: Vector  # of the weights, since the end of the burn-in
    n_averaged: int = 0
    epoch: int = 0
    halvings: int = 0
    is_refit: bool = False
    loss: float = np.nan  # per token, at the weights on the way

    @property
    def model(self) -> Vector:
        return self.average if self.n_averaged else self.weights


class _Training:
    def __init__(self, trainer: EpochTrainer, problem: Problem) -> None:
        self._trainer, self._problem = trainer, problem
        self._all = chain_of(problem.objective, trainer.name)
        pair = hold_out(trainer, problem)
        self._part = self._all if pair is None else chain_of(pair.train, trainer.name)
        self._holdout = None if pair is None else chain_of(pair.holdout, trainer.name)
        self._journal = Journal.of(trainer, problem)

    def run(self) -> TuneResult:
        trainer = self._trainer
        now = self._start()
        self._best = Best(now.weights)
        kept = self._journal.resume(_checkpoint())
        if kept is not None:
            now = self._restored(*kept)
        interrupted = False
        try:
            if not now.is_refit:
                now = self._train(now, self._part, trainer.epochs)
                if trainer.refit and self._holdout is not None and now.halvings < MOST_HALVINGS:
                    now = replace(self._start(), is_refit=True)
            if now.is_refit:
                now = self._train(now, self._all, self._best.round)
        except KeyboardInterrupt:
            interrupted = True
        return self._result(now, interrupted)

    def _start(self) -> _Reached:
        start = self._problem.start
        weights = baseline(self._all) if start is None else np.array(start, dtype=float)
        return _Reached(weights, np.zeros_like(weights))

    def _train(self, now: _Reached, chain: LabelChain, most: int) -> _Reached:
        strength = self._problem.groups.expand(self._problem.groups.fixed)
        epochs = _Epochs(self._trainer, chain, strength, most)
        while now.epoch < most and not self._is_done(now):
            before, now = now, epochs.after(now)
            if now.halvings >= MOST_HALVINGS:
                break
            self._record(now, halved=now.halvings > before.halvings)
        return now

    def _is_done(self, now: _Reached) -> bool:
        if self._holdout is None or now.is_refit:
            return False
        return self._best.is_old(now.epoch, self._trainer.look_ahead, self._trainer.averaged_from)

    def _record(self, now: _Reached, *, halved: bool) -> None:
        value, notes = now.loss, []
        if self._holdout is not None and not now.is_refit:
            notes = [f"training loss {now.loss:.4g}"]
            layout = layout_of(self._trainer, self._holdout)
            value = share_wrong(self._holdout, layout, now.model, by_token=self._holdout.by_token)
            self._best.offer(now.model, value, now.epoch)
        notes += [f"diverged: step halved to {self._trainer.step * 0.5**now.halvings:.3g}"] if halved else []
        notes += [AGAIN] if now.is_refit else []
        step = Step(
            number=len(self._journal.trace) + 1, strengths=self._problem.groups.fixed, criterion=value, n_iter=1, n_passes=1,
            seconds=self._journal.seconds, note="; ".join(notes),
        )  # fmt: skip
        arrays = {"weights": now.weights, "average": now.average, "best": self._best.weights}
        numbers = {
            "epoch": now.epoch, "n_averaged": now.n_averaged, "halvings": now.halvings, "is_refit": now.is_refit,
            "best_round": self._best.round, "best_value": self._best.value if self._best.round else 1.0,
        }  # fmt: skip
        self._journal.record(step, arrays, numbers)

    def _restored(self, arrays: dict[str, Vector], numbers: dict[str, Any]) -> _Reached:
        if numbers["best_round"]:
            self._best = Best(arrays["best"], numbers["best_value"], numbers["best_round"])
        found = {name: numbers[name] for name in ("epoch", "n_averaged", "halvings", "is_refit")}
        return _Reached(arrays["weights"], arrays["average"], **found)

    def _result(self, now: _Reached, interrupted: bool) -> TuneResult:
        trainer, best, n_epochs = self._trainer, self._best, len(self._journal.trace)
        stopped = self._holdout is not None and best.round > 0
        uses_best = stopped and (not now.is_refit or interrupted)
        status: TuneStatus = "interrupted" if interrupted else "converged"
        reason = f"{counted(now.epoch, 'epoch')}, as many as asked for"
        if stopped:
            reason = f"the held-out error rate was lowest after epoch {best.round}, {best.value:.4g}"
            if not interrupted and best.round >= trainer.epochs and trainer.epochs > 1:
                status, reason = "max_steps", f"{reason}; it may fall further with more epochs"
        if now.halvings >= MOST_HALVINGS:
            status, reason = (
                "stalled",
                f"the loss diverged with any step down to {trainer.step * 0.5**now.halvings:.1g}",
            )
        if interrupted:
            reason = f"interrupted in epoch {n_epochs + 1}"
        criterion = best.value if stopped else self._journal.trace[-1].criterion if n_epochs else np.nan
        return result_of(
            trainer, self._problem, self._journal, best.weights if uses_best else now.model,
            best=best.round if stopped else now.epoch, criterion=criterion, status=status, reason=reason,
        )  # fmt: skip


class _Epochs:
    """Epochs over the sequences of a chain, at most so many."""

    def __init__(self, trainer: EpochTrainer, chain: LabelChain, strength: Vector, most: int) -> None:
        self._trainer, self._chain, self._strength = trainer, chain, strength
        self._sizes, self._rows = sizes_of(chain), np.flatnonzero(chain.row_weights)
        self._learner = ChainLearner(chain, np.zeros(chain.n_weights))
        self._averaged_from = min(trainer.averaged_from, most - 1)
        guessing = self._sizes.n_tokens * np.log(max(chain.layout.n_labels, 2))
        self._limit = DIVERGED * guessing * float(chain.row_weights.max(initial=1.0))

    def after(self, now: _Reached) -> _Reached:
        """After one more epoch; the step is halved, for good, until it does not diverge."""
        while True:
            found = self._visited(now)
            if found is not None:
                return found
            now = replace(now, halvings=now.halvings + 1)
            if now.halvings >= MOST_HALVINGS:
                return now

    def _visited(self, now: _Reached) -> _Reached | None:
        trainer = self._trainer
        order = np.random.default_rng((trainer.random_state, int(now.is_refit), now.epoch)).permutation(self._rows)
        rates = 0.5**now.halvings * trainer.rates(self._chain, self._sizes, now.epoch)
        margin = 0.5**now.halvings * trainer.margin(self._sizes)
        averages, decays = now.epoch >= self._averaged_from, bool(self._strength.any())
        learner, average, count, total = self._learner, now.average.copy(), now.n_averaged, 0.0
        learner.set(now.weights)
        for part in _parts(order, trainer.batch, PARTS if averages or decays else 1):
            total += learner.learn(
                part, rates, batch=trainer.batch, likelihood=trainer.likelihood, margin=margin
            )  # fmt: skip
            if not np.isfinite(total) or (trainer.likelihood and total > self._limit):
                return None
            if decays:
                shares = self._chain.layout.by_weight(rates) * (len(part) / len(order))
                learner.set(learner.weights() / (1.0 + shares * self._strength))
            if averages:
                count += 1
                average += (learner.weights() - average) / count
        weights = learner.weights()
        if not np.isfinite(weights).all():
            return None
        return replace(
            now, weights=weights, average=average, n_averaged=count, epoch=now.epoch + 1,
            loss=total / max(self._sizes.n_tokens, 1),
        )  # fmt: skip


def _parts(order: NDArray[np.intp], batch: int, count: int) -> list[NDArray[np.intp]]:
    """About equal parts of whole batches."""
    n_batches = -(-len(order) // batch)
    cuts = np.linspace(0, n_batches, max(1, min(count, n_batches)) + 1).astype(int) * batch
    return [order[first:last] for first, last in pairwise(cuts.tolist())]


def _checkpoint() -> State:
    numbers = Record(
        {
            "epoch": Whole(0), "n_averaged": Whole(0), "halvings": Whole(0, MOST_HALVINGS), "is_refit": Flag(),
            "best_round": Whole(0), "best_value": Number(0.0, 1.0),
        }
    )  # fmt: skip
    weights = Array("float64", ("n_weights",), -MOST_WEIGHT, MOST_WEIGHT)
    return State(numbers, lambda _: dict.fromkeys(("weights", "average", "best"), weights))
