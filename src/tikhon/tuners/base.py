"""What every tuner is, and the problem that it is given."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal, Protocol, TypeAlias, runtime_checkable

from tikhon.groups import Groups
from tikhon.objective import Objective, Pair, Vector
from tikhon.results import Step, TuneResult
from tikhon.solvers import Solver

Splits: TypeAlias = Literal["none", "folds", "holdout"]
Rescale: TypeAlias = Literal["none", "n"]
Start: TypeAlias = float | Mapping[str, float]  # strengths to begin with: one for all groups, or by name
OnStep: TypeAlias = Callable[[Step], None]


@dataclass(frozen=True, eq=False, kw_only=True)
class Problem:
    """All that a tuner is given: the data as an objective, who shares a strength, how to split, how to solve."""

    objective: Objective  # all data
    groups: Groups
    solver: Solver
    pairs: Sequence[Pair] = ()  # train and hold-out views of the objective; empty for tuners that need none
    total_weight: float = 1.0  # summed row weights of all data, to carry strengths over with rescale="n"
    rescale: Rescale = "none"
    n_jobs: int = 1  # threads over pairs
    on_step: OnStep | None = None
    notes: tuple[str, ...] = field(default=())  # what the caller already knows, kept in the result
    start: Vector | None = None  # weights to begin with, where a caller has some
    start_strengths: Vector | None = None  # and strengths, one per group; a tuner's own ``start`` comes first


@runtime_checkable
class Tuner(Protocol):
    """Learns the strengths of the groups that are not fixed, and fits the weights with them."""

    name: ClassVar[str]
    uses_pairs: ClassVar[bool]  # False: hold-out data are not made for it
    needs_likelihood: ClassVar[bool]  # True: the loss must be a negative log-likelihood, noise included

    @property
    def checkpoint(self) -> str | None:
        """A file written after every step, from which a killed run goes on."""
        ...

    def splits_for(self, objective: Objective, n_rows: int | None = None) -> Splits:
        """What splits of the data a tuner that uses pairs wants where the user asks for none in particular.

        ``n_rows`` counts the rows of positive weight; None: all of them.
        """
        return "folds"

    def tune(self, problem: Problem) -> TuneResult: ...
