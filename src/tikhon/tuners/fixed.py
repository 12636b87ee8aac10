"""No tuning: the strengths are given, or do not matter."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tikhon.errors import InputError
from tikhon.results import TuneResult
from tikhon.tuners.base import Problem, Tuner
from tikhon.tuners.journal import Journal
from tikhon.tuners.refit import refit


@dataclass(frozen=True, kw_only=True)
class Fixed(Tuner):
    """Fits once. Every group needs a fixed strength."""

    name: ClassVar[str] = "none"
    uses_pairs: ClassVar[bool] = False
    needs_likelihood: ClassVar[bool] = False
    checkpoint: str | None = None

    def tune(self, problem: Problem) -> TuneResult:
        groups = problem.groups
        if groups.learned.any():
            missing = groups.names[int(np.flatnonzero(groups.learned)[0])]
            raise InputError(
                f"tuner=None learns no strengths, but group {missing!r} has no strength: set it in `strengths`"
            )
        return refit(
            self.name, problem, Journal.of(self, problem), groups.fixed, problem.start, criterion_name="none", criterion=None,
            status="converged", reason="fixed strengths",
        )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Unneeded(Tuner):
    """Fits once, with learned strengths of 1: any strengths give the same weights, for the stated reason."""

    name: ClassVar[str] = "none"
    uses_pairs: ClassVar[bool] = False
    needs_likelihood: ClassVar[bool] = False
    checkpoint: str | None = None
    reason: str

    def tune(self, problem: Problem) -> TuneResult:
        groups = problem.groups
        return refit(
            self.name, problem, Journal.of(self, problem), np.where(groups.learned, 1.0, groups.fixed), problem.start,
            criterion_name="none", criterion=None, status="converged", reason=self.reason,
        )  # fmt: skip
