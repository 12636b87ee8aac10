"""One trial: the estimator with the parameters of the trial, fitted and scored on every split of its stage."""

import threading
import time
import traceback
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np
from sklearn.base import clone
from sklearn.utils.metaestimators import _safe_split
from sklearn.utils.validation import _check_method_params

from tikhon.search.stages import Split

Status: TypeAlias = Literal["ok", "failed", "timeout"]


@dataclass(frozen=True, eq=False)
class Work:
    """What all trials share. ``scorer`` takes an estimator, X and y, and returns a number or a dict of numbers.

    ``metric`` is the score that is optimised: a key of the dict, or "score".
    """

    estimator: Any
    X: Any
    y: Any
    scorer: Any
    metric: str = "score"
    fit_params: Mapping[str, Any] = field(default_factory=dict)
    score_params: Mapping[str, Any] = field(default_factory=dict)
    train_scores: bool = False


@dataclass(frozen=True, eq=False)
class Score:
    """What one split gave."""

    status: Status
    test: Mapping[str, float] = field(default_factory=dict)
    train: Mapping[str, float] = field(default_factory=dict)
    fit_seconds: float = 0.0
    score_seconds: float = 0.0
    problem: str = ""  # the traceback of a fit that failed
    warnings: tuple[str, ...] = ()


Scores: TypeAlias = list[Score]


@dataclass(frozen=True, eq=False)
class Job:
    """A trial to evaluate."""

    number: int
    params: Mapping[str, Any]
    splits: Sequence[Split]


def score_split(work: Work, params: Mapping[str, Any], split: Split) -> Score:
    """Fit on the training rows of a split and score on its other rows. A fit that fails is a status, not an exception."""
    train, test = split
    start = time.perf_counter()
    fit_seconds = 0.0
    with _recorded_warnings() as caught:
        try:
            estimator = clone(work.estimator).set_params(**clone(dict(params), safe=False))
            X_train, y_train = _safe_split(estimator, work.X, work.y, train)
            X_test, y_test = _safe_split(estimator, work.X, work.y, test, train)
            own = _check_method_params(work.X, params=dict(work.fit_params), indices=train)
            if y_train is None:
                estimator.fit(X_train, **own)
            else:
                estimator.fit(X_train, y_train, **own)
            fit_seconds = time.perf_counter() - start
            start = time.perf_counter()
            test_scores = _scores(work, estimator, X_test, y_test, test)
            score_seconds = time.perf_counter() - start
            train_scores = _scores(work, estimator, X_train, y_train, train) if work.train_scores else {}
        except Exception:
            return Score(
                "failed", fit_seconds=fit_seconds or time.perf_counter() - start, problem=traceback.format_exc()
            )
    messages = tuple(dict.fromkeys(f"{entry.category.__name__}: {entry.message}" for entry in caught))
    if not np.isfinite(test_scores[work.metric]):
        problem = "; ".join([f"the score {work.metric!r} is {test_scores[work.metric]}", *messages])
        return Score("failed", test_scores, train_scores, fit_seconds, score_seconds, problem, messages)
    return Score("ok", test_scores, train_scores, fit_seconds, score_seconds, warnings=messages)


def numbered_score(
    work: Work, number: int, place: int, params: Mapping[str, Any], split: Split
) -> tuple[int, int, Score]:
    """One split of a trial, for workers that return out of order."""
    return number, place, score_split(work, params, split)


def score_splits(work: Work, params: Mapping[str, Any], splits: Sequence[Split]) -> Scores:
    """All splits of a trial, one after the other; none after one that failed."""
    found: Scores = []
    for split in splits:
        found.append(score_split(work, params, split))
        if found[-1].status != "ok":
            break
    return found


def _scores(work: Work, estimator: Any, X: Any, y: Any, rows: Any) -> dict[str, float]:
    own = _check_method_params(work.X, params=dict(work.score_params), indices=rows)
    found = work.scorer(estimator, X, **own) if y is None else work.scorer(estimator, X, y, **own)
    given = found if isinstance(found, dict) else {"score": found}
    if work.metric not in given:
        raise ValueError(f"refit names the score {work.metric!r}; the scorer returned {', '.join(map(repr, given))}")
    return {name: _number(name, value, is_optimised=name == work.metric) for name, value in given.items()}


def _number(name: str, value: Any, *, is_optimised: bool) -> float:
    """NaN for another score that failed, which scikit-learn returns as the text of a traceback."""
    if hasattr(value, "item"):
        value = value.item()
    if not isinstance(value, (int, float)):
        if not is_optimised:
            return np.nan
        raise ValueError(f"the scorer must return a number; {name!r} is {value!r}, a {type(value).__name__}")
    return float(value)


@contextmanager
def _recorded_warnings() -> Iterator[list[warnings.WarningMessage]]:
    """Nothing is recorded in other threads: what catches warnings is shared by all threads of a process."""
    if threading.current_thread() is not threading.main_thread():
        yield []
        return
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        yield caught
