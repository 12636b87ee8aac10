"""Multi-stage search: Wang, Feng, Zhou, Xiang, Mahadevan 2015, figures 1 and 2, tables 2 and 3, on public data.

Bayesian search on a part of the data, on all, and in two stages; and searches of other libraries in the time of the latter. The
best settings so far are fitted again to all training rows at every change, outside of the measured time, and tested.
"""

import warnings
from collections.abc import Sequence
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from tikhon.errors import TuningWarning
from tikhon.experiments.multistage_report import METHODS, PEERS, draw, evaluate
from tikhon.harness.runner import Experiment, Plan, RowSpec
from tikhon.harness.search_tasks import (
    SVM_MOST_ITERATIONS,
    TASKS,
    Effort,
    Parts,
    QuestionRanker,
    hits_in_test,
    loaded,
)
from tikhon.harness.store import Row

if TYPE_CHECKING:
    from tikhon.harness.search_methods import Tried

N_SEEDS = 10
EFFORT = Effort(early=30, late=10, n_initial=10, n_best=3, fraction=0.3)
QUICK_EFFORT = Effort(early=4, late=2, n_initial=3, n_best=1, fraction=0.3)
FEW = {"text": 400, "ranking": 20}  # reviews, or questions, of each part in the quick form
NOT_QUICK = ("smac",)  # the tests go without it
COSTS = {"clothing": 2, "imdb": 6, "mq2008": 5, "trecqa": 2}
TIMED = "shared"  # the search whose time the peers have

Settings: TypeAlias = tuple[tuple[str, Any], ...]


def measure(params: dict[str, Any], folder: Path | None) -> Row:
    """One search, and the test scores of what it found."""
    # Other experiments need no extra "search".
    from tikhon.harness.search_methods import BEST_OF_ALL, SEARCHES, Problem, incumbents

    assert folder is not None
    name, few, seed, method = (params[key] for key in ("dataset", "few", "fold", "method"))
    effort = QUICK_EFFORT if few is not None else EFFORT
    parts = loaded(name, folder, few)
    if method in PEERS:
        history = _searched(name, folder, few, seed, TIMED)
        trials = SEARCHES[method](Problem(TASKS[name], parts, seed), history)
    else:
        trials = list(_searched(name, folder, few, seed, method))
    steps = []
    for best in incumbents(trials, across=method in BEST_OF_ALL):
        score, hits = _tested(name, folder, few, tuple(sorted(best.params.items())))
        steps.append({"elapsed": best.elapsed, "validation_score": best.score, "test_score": score, **_where(best)})
    return {
        "effort": asdict(effort),
        "n_train": len(parts.train), "n_validation": len(parts.validation), "n_test": parts.X_test.shape[0],
        "n_features": parts.X.shape[1] - (parts.questions is not None),
        "questions": _question_counts(parts),
        "trials": [
            {"elapsed": one.elapsed, "seconds": one.seconds, "score": one.score, **_where(one)} for one in trials
        ],
        "steps": steps,
        "seconds": trials[-1].elapsed,
        "final": steps[-1]["test_score"],
        "hits": hits if parts.questions is not None else None,  # of the settings chosen, for the bootstrap
    }  # fmt: skip


def _where(one: "Tried") -> dict[str, Any]:
    return {"fraction": one.fraction, "params": one.params}


def _question_counts(parts: Parts) -> list[int] | None:
    """Questions to train, validate and test on."""
    if parts.questions is None:
        return None
    of_parts = parts.questions[parts.train], parts.questions[parts.validation], parts.X_test[:, 0]
    return [len(np.unique(questions)) for questions in of_parts]


@lru_cache(maxsize=2)
def _searched(name: str, folder: Path, few: int | None, seed: int, method: str) -> "Sequence[Tried]":
    """The trials of a Bayesian search. Those of the multi-stage search are kept for the peers of its seed."""
    from tikhon.harness.search_methods import BAYESIAN, Problem

    problem = Problem(TASKS[name], loaded(name, folder, few), seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TuningWarning)
        return BAYESIAN[method](problem, QUICK_EFFORT if few is not None else EFFORT)


@lru_cache(maxsize=2_000)
def _tested(name: str, folder: Path, few: int | None, settings: Settings) -> tuple[float, list[float]]:
    """The test score of settings, and that of each test row or question."""
    from tikhon.harness.search_methods import refitted

    parts = loaded(name, folder, few)
    hits = hits_in_test(TASKS[name], refitted(TASKS[name], parts, dict(settings)), parts)
    kept = np.round(hits, 6).tolist() if parts.questions is not None else []
    return float(hits.mean()), kept


def rows_for(name: str, quick: bool) -> list[RowSpec]:
    few = FEW[TASKS[name].kind] if quick else None
    peers = [peer for peer in PEERS if not quick or peer not in NOT_QUICK]
    return [
        RowSpec(
            key=f"{name}/{seed}/{method}",
            batch=f"{name}/{seed}",
            params={"dataset": name, "fold": seed, "method": method, "few": few},
            cost=COSTS[name] * (2 if method == "all" else 1),
        )
        for seed in range(1 if quick else N_SEEDS)
        for method in (*METHODS, *peers)
    ]


def experiment(kind: str, title: str) -> Experiment:
    names = [name for name, task in TASKS.items() if task.kind == kind]

    def plan(quick: bool) -> Plan:
        config = {
            "datasets": names,
            "effort": asdict(QUICK_EFFORT if quick else EFFORT),
            "space": {parameter: repr(one) for parameter, one in TASKS[names[0]].space.items()},
            "most_iterations": SVM_MOST_ITERATIONS if kind == "text" else None,
        }
        files = list(dict.fromkeys(path for name in names for path in TASKS[name].files))
        return Plan(
            config=config, rows=[row for name in names for row in rows_for(name, quick)], paths=files, quick=quick
        )

    def warmed_up() -> None:
        warm_up(kind)

    return Experiment(
        name=f"multistage-{kind}", summary=title, plan=plan, measure=measure, draw=draw, warm_up=warmed_up,
        evaluate=lambda made, rows: evaluate(kind, title, made, rows),
    )  # fmt: skip


def warm_up(kind: str) -> None:
    """Load the libraries that the methods need."""
    from tikhon.harness.search_methods import BAYESIAN, SEARCHES, Problem

    rng = np.random.default_rng(0)
    questions = np.repeat(np.arange(12), 10)
    X = np.column_stack([questions, rng.normal(size=(120, 2))])
    y = (X[:, 1] > 0).astype(int)
    grouped = {"questions": questions} if kind == "ranking" else {}
    if kind == "ranking":
        QuestionRanker(n_trees=2).fit(X, y).score(X, y)
    parts = Parts(X, y, np.arange(60), np.arange(60, 120), X, y, **grouped)
    name = next(name for name, task in TASKS.items() if task.kind == kind)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        history = BAYESIAN[TIMED](Problem(TASKS[name], parts, 0), QUICK_EFFORT)
        SEARCHES["random"](Problem(TASKS[name], parts, 0), history)


TEXT = experiment("text", "Multi-stage search: stars of reviews")
RANKING = experiment("ranking", "Multi-stage search: answers to questions")
