"""Searches of a space of settings: tikhon's, and those of other libraries within the same time.

All of them train on a part of the training rows or on all, and are scored on the same validation rows. Times are those of the
search alone, proposals included.
"""

import logging
import math
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import optuna
from numpy.typing import NDArray
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.samplers import BaseSampler, RandomSampler, TPESampler
from optuna.trial import TrialState

from tikhon import MultiStageSearchCV
from tikhon.errors import MissingExtra
from tikhon.harness.search_tasks import Effort, Parts, Range, SearchTask, Space
from tikhon.search.evaluation import Work, score_split
from tikhon.search.stages import Indices, Stage, make_stages
from tikhon.search.storage import quiet

ROUNDS = (1.0 / 9.0, 1.0 / 3.0, 1.0)  # shares of the training rows of methods with several fidelities
MOST_TRIALS = 500  # of SMAC, whose initial design depends on it; time ends the search earlier
SMAC_MISSING = "the comparison with SMAC needs smac: pip install 'tikhon[peers]'"


@dataclass(frozen=True, eq=False)
class Tried:
    """A trial: its settings, its validation score, and when it was finished."""

    params: dict[str, Any]
    score: float
    fraction: float  # of the training rows
    elapsed: float  # seconds since the search began
    seconds: float  # of fit and score


@dataclass(frozen=True, eq=False)
class Problem:
    """What is searched, for one seed."""

    task: SearchTask
    parts: Parts
    seed: int

    def rows(self, fraction: float) -> Indices:
        """The training rows of a share, nested, as a multi-stage search draws them."""
        return self._stage(fraction).splits[0][0]

    def _stage(self, fraction: float) -> Stage:
        y = self.parts.y
        codes = None if self.parts.questions is not None else np.unique(y, return_inverse=True)[1]
        fractions = (fraction, 1.0) if fraction < 1.0 else (1.0,)
        splits = [(self.parts.train, self.parts.validation)]
        stages, _ = make_stages(
            fractions, splits, n_rows=len(y), codes=codes, groups=self.parts.questions, seed=self.seed
        )
        return stages[0]

    def score(self, params: Mapping[str, Any], train: Indices) -> tuple[float, float]:
        """The validation score of a fit, and its seconds; minus infinity if it failed."""
        work = Work(self.task.make(), self.parts.X, self.parts.y, _own_score)
        found = score_split(work, params, (train, self.parts.validation))
        value = found.test["score"] if found.status == "ok" else -math.inf
        return value, found.fit_seconds + found.score_seconds


def distributions(space: Space) -> dict[str, BaseDistribution]:
    return {name: _distribution(one) for name, one in space.items()}


def _distribution(one: Range | tuple[str, ...]) -> BaseDistribution:
    if isinstance(one, tuple):
        return CategoricalDistribution(one)
    if one.whole:
        return IntDistribution(int(one.low), int(one.high), log=one.log)
    return FloatDistribution(one.low, one.high, log=one.log)


def _own_score(model: Any, X: Any, y: Any) -> float:
    return float(model.score(X, y))


def bayesian(
    problem: Problem, effort: Effort, *, stages: Sequence[float], train: Indices | None = None, **options: Any
) -> list[Tried]:
    """tikhon's search, on all training rows or on some."""
    parts = problem.parts
    n_trials = [effort.early, effort.late] if len(stages) == 2 else [effort.early + effort.late]
    search = MultiStageSearchCV(
        problem.task.make(), distributions(problem.task.space), stages=stages, n_trials=n_trials, n_initial=effort.n_initial,
        n_best=effort.n_best, cv=[(parts.train if train is None else train, parts.validation)], refit=False, n_jobs=1,
        random_state=problem.seed, **options,
    )  # fmt: skip
    search.fit(parts.X, parts.y, **({} if parts.questions is None else {"groups": parts.questions}))
    found = search.cv_results_
    share = 1.0 if train is None else effort.fraction
    return [
        Tried(
            dict(params), float(found["mean_test_score"][i]), share * float(found["fraction"][i]), float(found["elapsed"][i]),
            float(found["mean_fit_time"][i] + found["mean_score_time"][i]),
        )
        for i, params in enumerate(found["params"])
    ]  # fmt: skip


def on_subset(problem: Problem, effort: Effort) -> list[Tried]:
    """On the rows that the first stage of a multi-stage search has."""
    return bayesian(problem, effort, stages=(1.0,), train=problem.rows(effort.fraction))


def on_all(problem: Problem, effort: Effort) -> list[Tried]:
    return bayesian(problem, effort, stages=(1.0,))


def in_stages(problem: Problem, effort: Effort) -> list[Tried]:
    """As in the paper."""
    return bayesian(problem, effort, stages=(effort.fraction, 1.0), share_trials=False, select="all")


def in_stages_shared(problem: Problem, effort: Effort) -> list[Tried]:
    """With the fraction as an input of the surrogate: the default."""
    return bayesian(problem, effort, stages=(effort.fraction, 1.0))


def within(trials: Sequence[Tried], budget: float) -> list[Tried]:
    """The trials that were finished in time, and the first in any case."""
    return [trial for i, trial in enumerate(trials) if i == 0 or trial.elapsed <= budget]


def _asked(problem: Problem, budget: float, sampler: BaseSampler) -> list[Tried]:
    """A sampler of Optuna, on all training rows."""
    trials: list[Tried] = []
    start = time.perf_counter()
    with quiet():
        study = optuna.create_study(direction="maximize", sampler=sampler)
        while time.perf_counter() - start < budget:
            trial = study.ask(distributions(problem.task.space))
            score, seconds = problem.score(trial.params, problem.parts.train)
            if math.isfinite(score):
                study.tell(trial, score)
                trials.append(Tried(dict(trial.params), score, 1.0, time.perf_counter() - start, seconds))
            else:
                study.tell(trial, state=TrialState.FAIL)
    return within(trials, budget)


def tpe(problem: Problem, history: Sequence[Tried]) -> list[Tried]:
    return _asked(problem, history[-1].elapsed, TPESampler(seed=problem.seed))


def at_random(problem: Problem, history: Sequence[Tried]) -> list[Tried]:
    return _asked(problem, history[-1].elapsed, RandomSampler(seed=problem.seed))


@dataclass(frozen=True, eq=False)
class Drawn:
    """A part of a space as scikit-learn draws from it."""

    part: Range | tuple[str, ...]

    def rvs(self, size: int | None = None, random_state: Any = None) -> Any:
        one = self.part
        if isinstance(one, tuple):
            return one[random_state.randint(len(one))]
        margin = 0.5 if one.whole else 0.0
        ends = np.array([one.low - margin, one.high + margin])
        value = math.exp(random_state.uniform(*np.log(ends))) if one.log else float(random_state.uniform(*ends))
        return int(min(max(round(value), one.low), one.high)) if one.whole else value


def n_candidates(history: Sequence[Tried]) -> int:
    """Settings that halving can begin with, if a fit takes as long as those of a search did on average for their rows.

    At least nine: with fewer its last round would not have all rows.
    """
    on_all_rows = float(np.mean([trial.seconds / trial.fraction for trial in history]))
    share_of_each = len(ROUNDS) * ROUNDS[0]  # of a fit on all rows: each round costs as much as the first
    return max(round(1.0 / ROUNDS[0]), math.floor(history[-1].elapsed / (on_all_rows * share_of_each)))


def halving(problem: Problem, history: Sequence[Tried]) -> list[Tried]:
    """scikit-learn's, whose samples of the rows neither keep questions whole nor leave the validation part as it is."""
    from sklearn.experimental import enable_halving_search_cv  # noqa: F401
    from sklearn.model_selection import HalvingRandomSearchCV

    parts = problem.parts
    most = parts.X.shape[0]
    search = HalvingRandomSearchCV(
        problem.task.make(), {name: Drawn(one) for name, one in problem.task.space.items()}, factor=3, refit=False,
        n_candidates=n_candidates(history), min_resources=max(1, most // 9), max_resources=most, n_jobs=1,
        cv=[(parts.train, parts.validation)], random_state=problem.seed,
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        search.fit(parts.X, parts.y)
    found = search.cv_results_
    seconds = np.asarray(found["mean_fit_time"] + found["mean_score_time"], dtype=float)
    return [
        Tried(dict(params), float(score), float(resources) / most, float(elapsed), float(own))
        for params, score, resources, elapsed, own in zip(
            found["params"], found["mean_test_score"], found["n_resources"], np.cumsum(seconds), seconds, strict=True
        )
        if math.isfinite(score)
    ]


def smac(problem: Problem, history: Sequence[Tried]) -> list[Tried]:
    """SMAC3's multi-fidelity facade, Hyperband over shares of the training rows."""
    try:
        from ConfigSpace import Categorical, ConfigurationSpace, Float, Integer
        from smac import MultiFidelityFacade, Scenario
    except ImportError:
        raise MissingExtra(SMAC_MISSING) from None
    space = ConfigurationSpace(seed=problem.seed)
    for name, one in problem.task.space.items():
        if isinstance(one, tuple):
            space.add(Categorical(name, list(one)))
        else:
            make: Any = Integer if one.whole else Float
            space.add(make(name, (one.low, one.high), log=one.log))
    budget = history[-1].elapsed
    shares = {round(share, 6): problem.rows(share) for share in ROUNDS}
    trials: list[Tried] = []
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start = time.perf_counter()

        # SMAC looks at the names of the arguments.
        def cost(config: Any, seed: int = 0, budget: float = 1.0) -> float:
            share = min(shares, key=lambda known: abs(known - budget))
            params = {name: _plain(value) for name, value in dict(config).items()}
            score, seconds = problem.score(params, shares[share])
            if not math.isfinite(score):
                return 1.0
            trials.append(Tried(params, score, share, time.perf_counter() - start, seconds))
            return 1.0 - score

        scenario = Scenario(
            space, deterministic=True, n_trials=MOST_TRIALS, walltime_limit=budget, min_budget=ROUNDS[0], max_budget=1.0,
            seed=problem.seed, n_workers=1, output_directory=Path(folder),
        )  # fmt: skip
        MultiFidelityFacade(scenario, cost, overwrite=True, logging_level=logging.ERROR).optimize()
    return within(trials, budget)


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    return str(value) if isinstance(value, str) else value


BAYESIAN: dict[str, Callable[[Problem, Effort], list[Tried]]] = {
    "subset": on_subset,
    "all": on_all,
    "stages": in_stages,
    "shared": in_stages_shared,
}
# Those of other libraries are given the trials of "shared": its time is theirs.
SEARCHES: dict[str, Callable[[Problem, Sequence[Tried]], list[Tried]]] = {
    "tpe": tpe,
    "smac": smac,
    "halving": halving,
    "random": at_random,
}
BEST_OF_ALL = ("subset", "all", "stages", "tpe", "random")  # the others: the best on the most rows so far


def incumbents(trials: Sequence[Tried], *, across: bool) -> Iterator[Tried]:
    """The trials that were the best when they were finished: of all, or of those with the most rows so far."""
    best: Tried | None = None
    for trial in trials:
        more_rows = best is not None and not across and trial.fraction > best.fraction + 1e-9
        as_many = best is not None and (across or trial.fraction > best.fraction - 1e-9)
        if best is None or more_rows or (as_many and trial.score > best.score):
            best = trial
            yield best


def refitted(task: SearchTask, parts: Parts, params: Mapping[str, Any]) -> Any:
    """The model with these settings, fitted to all training rows."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rows: NDArray[np.intp] = parts.train
        return task.make().set_params(**params).fit(parts.X[rows], parts.y[rows])
