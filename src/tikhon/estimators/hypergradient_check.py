"""A tuner that only checks the hypergradient of the problem that an estimator builds from its data."""

from dataclasses import dataclass, field, replace
from typing import ClassVar

from tikhon.results import TuneResult
from tikhon.testing import HypergradientCheck, check_hypergradient
from tikhon.tuners import Fixed, Problem, Tuner


@dataclass(frozen=True, kw_only=True)
class HypergradientChecker(Tuner):
    """Collects the reports of its checks, and fits once at strength 1 since the estimator needs a result."""

    name: ClassVar[str] = "hypergradient-check"
    uses_pairs: ClassVar[bool] = True
    needs_likelihood: ClassVar[bool] = False

    seed: int
    tol: float
    checkpoint: str | None = None
    reports: list[HypergradientCheck] = field(default_factory=list)

    def tune(self, problem: Problem) -> TuneResult:
        self.reports.append(check_hypergradient(problem, seed=self.seed, tol=self.tol))
        return Fixed().tune(replace(problem, groups=problem.groups.with_fixed(1.0)))
