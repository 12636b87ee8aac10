"""The tuner interface, and the problem that a tuner is given."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal, Protocol, TypeAlias, runtime_checkable

from tikhon.groups import Groups
from tikhon.objective import Objective, Pair, Vector
from tikhon.results import Step, TuneResult
from tikhon.solvers import Solver

Splits: TypeAlias = Literal["none", "folds", "holdout"]
Rescale: TypeAlias = Literal["none", "n"]
Start: TypeAlias = float | Mapping[str, float]  # initial strengths: one for all groups, or by name
OnStep: TypeAlias = Callable[[Step], None]


@dataclass(frozen=True, eq=False, kw_only=True)
class Problem:
    """The input of a tuner: the data as an objective, the groups, the splits and the solver."""

    objective: Objective  # all data
    groups: Groups
    solver: Solver
    pairs: Sequence[Pair] = ()  # training and hold-out views of the objective; empty for tuners that need none
    total_weight: float = 1.0  # summed row weights of all data, to rescale strengths with rescale="n"
    rescale: Rescale = "none"
    n_jobs: int = 1  # threads over pairs
    on_step: OnStep | None = None
    notes: tuple[str, ...] = field(default=())  # from the caller, kept in the result
    start: Vector | None = None  # initial weights, if the caller has any
    start_strengths: Vector | None = None  # initial strengths, one per group; a tuner's own ``start`` takes precedence


@runtime_checkable
class Tuner(Protocol):
    """Learns the strengths of the groups that are not fixed, and fits the weights at these strengths."""

    name: ClassVar[str]
    uses_pairs: ClassVar[bool]  # False: no hold-out data are made for it
    needs_likelihood: ClassVar[bool]  # True: the loss must be a negative log-likelihood, including the noise

    @property
    def checkpoint(self) -> str | None:
        """A file written after every step, from which an interrupted run resumes."""
        ...

    def splits_for(self, objective: Objective, n_rows: int | None = None) -> Splits:
        """The splits that a tuner using pairs prefers if the user specifies none.

        ``n_rows`` counts the rows of positive weight; None: all of them.
        """
        return "folds"

    def tune(self, problem: Problem) -> TuneResult: ...
