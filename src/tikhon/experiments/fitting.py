"""What the experiments share: the data at hand, the folds, the methods, the clock and the scores."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import log_loss
from sklearn.model_selection import KFold, StratifiedKFold

from tikhon import MM, Direct, Gradient, Grid, LogisticRegression, Ridge
from tikhon.data.libsvm import Dataset, load, split
from tikhon.errors import InputError
from tikhon.experiments.clock import Clock
from tikhon.experiments.paper import file_name
from tikhon.tuners.base import Tuner

GRID = tuple(2.0**k for k in range(-10, 11))
N_FOLDS = 5
TRAIN_ROWS = {"mnist1": 10_000, "mnist1-01": 10_000}  # drawn with seed 0; the supplied test rows stay whole
SHORT = 0.3  # seconds below which a fit is repeated, and the median taken
REPEATS = 5

Answer = TypeVar("Answer")
Folds = list[tuple[NDArray[np.intp], NDArray[np.intp]]]


@lru_cache(maxsize=1)
def data_set(name: str, folder: Path) -> Dataset:
    """The data set that the paper calls ``name``; the last one is kept, because its rows come one after the other."""
    dataset = load(file_name(name), folder, train_rows=TRAIN_ROWS.get(name))
    if name == "mnist1":  # read as [0, 1]; the variant mnist1-01 keeps that
        X_test: Any = dataset.X_test
        return replace(dataset, X_train=2.0 * dataset.X_train - 1.0, X_test=2.0 * X_test - 1.0)
    return dataset


@lru_cache(maxsize=1)
def split_set(name: str, folder: Path, seed: int) -> Dataset:
    """The data set with test rows, drawn with ``seed`` where none are supplied."""
    return split(data_set(name, folder), seed)


def folds_of(dataset: Dataset, seed: int) -> Folds:
    """The five folds that every method with folds is given, shuffled with ``seed``, classes in proportion."""
    y = dataset.y_train
    kind: Any = KFold if dataset.task == "regression" else StratifiedKFold
    return list(kind(N_FOLDS, shuffle=True, random_state=seed).split(np.zeros(len(y)), y))


def tuner_of(method: str) -> Tuner:
    """The paper's methods; "plain-grid" is 21 values, nothing widened, nothing refined, each fit from the one before."""
    if method in ("grid", "plain-grid"):
        return Grid(values=GRID, widen=False, refine=0, extrapolate=method == "grid")
    if method == "gradient":
        return Gradient()
    if method == "direct":
        return Direct()
    if method == "mm":
        return MM()
    raise InputError(f"the method {method!r} is not known: write grid, gradient, direct or mm")


@dataclass(frozen=True, eq=False)
class Timed(Generic[Answer]):
    """An answer, the median time that it took, and what was warned of on the way."""

    answer: Answer
    cpu_seconds: float
    wall_seconds: float
    repeats: int
    warnings: list[str]

    def figures(self) -> dict[str, Any]:
        return {
            "cpu_seconds": self.cpu_seconds,
            "wall_seconds": self.wall_seconds,
            "repeats": self.repeats,
            "warnings": self.warnings,
        }


def timed(work: Callable[[], Answer], repeats: int) -> Timed[Answer]:
    """Do the work and take its time; short work is done ``repeats`` times and the median time taken."""
    cpu: list[float] = []
    wall: list[float] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        while not cpu or (len(cpu) < repeats and max(wall) < SHORT):
            clock = Clock()
            answer = work()
            wall_seconds, cpu_seconds = clock.read()
            cpu.append(cpu_seconds)
            wall.append(wall_seconds)
    messages = sorted({f"{entry.category.__name__}: {entry.message}" for entry in caught})
    return Timed(answer, float(np.median(cpu)), float(np.median(wall)), len(cpu), messages)


def scores_on_test(model: Any, dataset: Dataset) -> dict[str, float]:
    """Accuracy (per cent) and mean log loss on the test rows."""
    probabilities = model.predict_proba(dataset.X_test)
    guesses = model.classes_[np.argmax(probabilities, axis=1)]
    return {
        "accuracy": 100.0 * float(np.mean(guesses == dataset.y_test)),
        "log_loss": float(log_loss(dataset.y_test, probabilities, labels=model.classes_)),
    }


def shape_of(dataset: Dataset) -> dict[str, int]:
    assert dataset.y_test is not None
    return {
        "n_train": len(dataset.y_train),
        "n_test": len(dataset.y_test),
        "n_features": dataset.X_train.shape[1],
        "n_classes": dataset.n_classes,
    }


def how_tuned(model: Any) -> dict[str, Any]:
    """What a fitted estimator of ours tells of its tuning, for one group of weights."""
    tuning = model.tuning_
    return {
        "strength": next(iter(model.strengths_.values())),
        "status": tuning.status,
        "reason": tuning.reason,
        "n_steps": len(tuning.trace),
        "n_fits": tuning.n_fits,
        "worst_residual": tuning.worst_residual,
    }


def warm_up() -> None:
    """Fit everything once on next to nothing: imports and first calls must not be in anybody's time."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for method in ("grid", "gradient", "direct", "mm"):
            for y in (X[:, 0] > 0, np.digitize(X[:, 0] + 0.1 * rng.normal(size=60), [-0.5, 0.5])):
                LogisticRegression(tuner=tuner_of(method), n_jobs=1).fit(X, y.astype(int)).predict_proba(X)
        for method in ("grid", "mm"):
            Ridge(tuner=tuner_of(method), n_jobs=1).fit(X, X[:, 0] + rng.normal(size=60)).predict(X)
