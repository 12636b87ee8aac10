"""L-BFGS at given strengths that is stopped early: fits of hidden units overfit long before they converge."""

from dataclasses import dataclass
from typing import Any, ClassVar

from tikhon.data.description import Array
from tikhon.data.values import Number, Record, Whole
from tikhon.models.chain.learner import share_wrong
from tikhon.results import Step, TuneResult, TuneStatus, counted
from tikhon.solvers.descent import Descent, DescentState
from tikhon.solvers.lbfgs import MEMORY, first_guess
from tikhon.solvers.penalised import EPSILON, penalised
from tikhon.trainers.base import Trainer, chain_of, check_count, hold_out, layout_of, result_of
from tikhon.trainers.best import Best
from tikhon.tuners.base import Problem
from tikhon.tuners.checkpoints import MOST_WEIGHT, State, descent_arrays
from tikhon.tuners.journal import Journal


@dataclass(frozen=True, kw_only=True)
class LBFGS(Trainer):
    """L-BFGS for a number of iterations, or until the error of held-out sequences no longer falls.

    The trainer of the name "lbfgs" is the solver that tuners use, which fits to convergence.

    Parameters
    ----------
    iterations : int, default=500
        The number of iterations, or the largest number of them with early stopping.
    early_stopping : bool, default=True
        Hold out a part of the sequences, as ``cv`` and ``validation_fraction`` of the estimator say, and return the weights
        after the iteration with the fewest wrong labels in it.
    look_ahead : int, default=25
        Iterations without improvement after which to stop early.
    checkpoint : str or None, default=None
        A file written after every iteration, from which an interrupted training resumes, to the same bits.

    Examples
    --------
    >>> from tikhon import HiddenUnitCRF
    >>> from tikhon.trainers import LBFGS
    >>> X = [[["the"], ["old", "man"]], [["a"], ["new", "ship"]]] * 10
    >>> y = [["DET", "N"], ["DET", "N"]] * 10
    >>> HiddenUnitCRF(n_hidden=5, trainer=LBFGS(iterations=20)).fit(X, y).predict([[["a"], ["man"]]])
    [['DET', 'N']]
    """

    name: ClassVar[str] = "lbfgs"
    iterations: int = 500
    early_stopping: bool = True
    look_ahead: int = 25

    @property
    def n_rounds(self) -> int:
        return self.iterations

    def tune(self, problem: Problem) -> TuneResult:
        self.check()
        check_count("iterations", self.iterations)
        return _Training(self, problem).run()


class _Training:
    def __init__(self, trainer: LBFGS, problem: Problem) -> None:
        self._trainer, self._problem = trainer, problem
        pair = hold_out(trainer, problem)
        chain = chain_of(problem.objective, trainer.name) if pair is None else chain_of(pair.train, trainer.name)
        self._holdout = None if pair is None else chain_of(pair.holdout, trainer.name)
        self._penalised = penalised(chain, problem.groups.expand(problem.groups.fixed))
        self._journal = Journal.of(trainer, problem)

    def run(self) -> TuneResult:
        trainer, inner = self._trainer, self._penalised
        first = inner.starting(self._problem.start)
        descent = Descent(memory=MEMORY, metric=first_guess(inner, first).metric, noise=16.0 * EPSILON)
        state, best = descent.start(first), Best(first)
        kept = self._journal.resume(_checkpoint())
        if kept is not None:
            arrays, numbers = kept
            best = Best(arrays.pop("best"), numbers["best_value"], numbers["best_round"])
            state = DescentState.from_arrays(arrays)
        interrupted = False
        try:
            while len(self._journal.trace) < trainer.iterations and not state.stalled:
                if self._holdout is not None and best.is_old(len(self._journal.trace), trainer.look_ahead):
                    break
                state = self._next(descent, state)
                self._record(state, best)
        except KeyboardInterrupt:
            interrupted = True
        return self._result(state, best, interrupted)

    def _next(self, descent: Descent, state: DescentState) -> DescentState:
        """After the next accepted step, or where there is none."""
        while True:
            x = descent.ask(state)
            _, value, gradient = self._penalised.value_gradient(x)
            state = descent.tell(state, value, gradient, x)
            if state.accepted or state.stalled:
                return state

    def _record(self, state: DescentState, best: Best) -> None:
        number = len(self._journal.trace) + 1
        value = float(state.value)
        if self._holdout is not None:
            layout = layout_of(self._trainer, self._holdout)
            value = share_wrong(self._holdout, layout, state.x, by_token=self._holdout.by_token)
            best.offer(state.x, value, number)
        step = Step(
            number=number, strengths=self._problem.groups.fixed, criterion=value, n_iter=1, n_passes=1,
            residual=self._penalised.measure.residual(state.gradient), seconds=self._journal.seconds,
        )  # fmt: skip
        numbers = {"best_round": best.round, "best_value": best.value if best.round else 1.0}
        self._journal.record(step, lambda: state.arrays() | {"best": best.weights}, numbers)

    def _result(self, state: DescentState, best: Best, interrupted: bool) -> TuneResult:
        n_rounds, stopped = len(self._journal.trace), self._holdout is not None and best.round > 0
        status: TuneStatus = "interrupted" if interrupted else "converged"
        reason = f"{counted(n_rounds, 'iteration')}, as many as asked for"
        if state.stalled:
            reason = f"the objective no longer decreases after {counted(n_rounds, 'iteration')}"
        if stopped:
            reason = f"the held-out error rate was lowest after iteration {best.round}, {best.value:.4g}"
            if not interrupted and best.round >= self._trainer.iterations > 1:
                status, reason = "max_steps", f"{reason}; it may fall further with more iterations"
        if interrupted:
            reason = f"interrupted in iteration {n_rounds + 1}"
        return result_of(
            self._trainer, self._problem, self._journal, best.weights if stopped else state.x,
            best=best.round if stopped else n_rounds, criterion=best.value if stopped else float(state.value), status=status,
            reason=reason,
        )  # fmt: skip


def _checkpoint() -> State:
    numbers = Record({"best_round": Whole(0), "best_value": Number(0.0, 1.0)})
    best = Array("float64", ("n_weights",), -MOST_WEIGHT, MOST_WEIGHT)

    def arrays(_: Any) -> dict[str, Array]:
        return descent_arrays("n_weights", MOST_WEIGHT) | {"best": best}

    return State(numbers, arrays)
