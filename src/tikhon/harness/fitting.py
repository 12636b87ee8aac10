"""Folds, the methods of Foo, Do, Ng 2009, and the scores of a fitted classifier."""

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import log_loss
from sklearn.model_selection import KFold, StratifiedKFold

from tikhon import MM, Direct, Gradient, Grid, LogisticRegression, Ridge
from tikhon.data.libsvm import Dataset
from tikhon.errors import InputError
from tikhon.tuners.base import Tuner

GRID = tuple(2.0**k for k in range(-10, 11))
N_FOLDS = 5

Folds = list[tuple[NDArray[np.intp], NDArray[np.intp]]]


def folds_of(dataset: Dataset, seed: int) -> Folds:
    """The five folds used by every method with folds: shuffled with ``seed``, stratified by class."""
    y = dataset.y_train
    kind: Any = KFold if dataset.task == "regression" else StratifiedKFold
    return list(kind(N_FOLDS, shuffle=True, random_state=seed).split(np.zeros(len(y)), y))


def tuner_of(method: str) -> Tuner:
    """The paper's methods; "plain-grid": 21 values, neither widened nor refined, each fit warm-started from the last."""
    if method in ("grid", "plain-grid"):
        return Grid(values=GRID, widen=False, refine=0, extrapolate=method == "grid")
    if method == "gradient":
        return Gradient()
    if method == "direct":
        return Direct()
    if method == "mm":
        return MM()
    raise InputError(f"unknown method {method!r}: write grid, gradient, direct or mm")


def scores_on_test(model: Any, dataset: Dataset) -> dict[str, float]:
    """Accuracy (per cent) and mean log loss on the test rows."""
    probabilities = model.predict_proba(dataset.X_test)
    guesses = model.classes_[np.argmax(probabilities, axis=1)]
    return {
        "accuracy": 100.0 * float(np.mean(guesses == dataset.y_test)),
        "log_loss": float(log_loss(dataset.y_test, probabilities, labels=model.classes_)),
    }


def how_tuned(model: Any) -> dict[str, Any]:
    """The tuning results of a fitted estimator with one group of weights."""
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
    """Fit everything once on tiny data, so that imports and first calls are not timed."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for method in ("grid", "gradient", "direct", "mm"):
            for y in (X[:, 0] > 0, np.digitize(X[:, 0] + 0.1 * rng.normal(size=60), [-0.5, 0.5])):
                LogisticRegression(tuner=tuner_of(method), n_jobs=1).fit(X, y.astype(int)).predict_proba(X)
        for method in ("grid", "mm"):
            Ridge(tuner=tuner_of(method), n_jobs=1).fit(X, X[:, 0] + rng.normal(size=60)).predict(X)
