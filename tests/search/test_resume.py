"""Searches that end early and go on: the same trials and the same best as without the interruption, each trial once."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pytest
from scipy import stats
from sklearn.datasets import load_iris
from sklearn.metrics import f1_score, make_scorer
from sklearn.svm import SVC

from tikhon import MultiStageSearchCV
from tikhon.errors import InputError, TuningWarning

X, y = load_iris(return_X_y=True)
SPACE = {"C": stats.loguniform(1e-2, 1e3), "gamma": stats.loguniform(1e-4, 1e1), "kernel": ["rbf", "poly"]}
SETTINGS: dict[str, Any] = {"n_trials": [8, 6], "cv": 3, "batch_size": 2}

SCRIPT = """
import json, sys
from tests.search.test_resume import searched
search = searched(sys.argv[1], int(sys.argv[2]), print_trials=True)
print(json.dumps({"best": search.best_params_, "score": search.best_score_, "params": search.cv_results_["params"]}))
"""


def searched(storage: Any, n_jobs: int = 1, *, print_trials: bool = False, **more: Any) -> Any:
    import logging

    if print_trials:
        logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(message)s")
    return MultiStageSearchCV(SVC(), SPACE, storage=storage, n_jobs=n_jobs, verbose=1, **{**SETTINGS, **more}).fit(X, y)


def in_process(storage: Path, n_jobs: int) -> "subprocess.Popen[str]":
    root = Path(__file__).parents[2]
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(storage), str(n_jobs)], cwd=root, text=True, stdout=subprocess.PIPE
    )


@pytest.mark.slow
def test_ten_kills_change_nothing(tmp_path: Path) -> None:
    undisturbed = searched(None)
    rng = np.random.default_rng(0)
    storage = tmp_path / "study.journal"
    for _ in range(10):
        process = in_process(storage, 1)
        assert process.stdout is not None
        process.stdout.readline()  # the first new trial
        time.sleep(rng.uniform(0.0, 0.02))
        process.send_signal(signal.SIGKILL)
        process.stdout.close()
        process.wait()
    left = in_process(storage, 2)
    last = json.loads(left.communicate()[0].splitlines()[-1])
    assert last["params"] == undisturbed.cv_results_["params"]
    assert last["best"] == undisturbed.best_params_
    assert last["score"] == undisturbed.best_score_
    for number, count in ((1, 8), (2, 6)):
        study = optuna.load_study(
            study_name=f"search/{number}",
            storage=optuna.storages.JournalStorage(optuna.storages.journal.JournalFileBackend(str(storage))),
        )
        numbers = sorted(trial.user_attrs["tikhon:number"] for trial in study.trials)
        assert numbers == list(range(count))


def test_a_finished_search_is_read_and_extended(tmp_path: Path) -> None:
    storage = tmp_path / "study.journal"
    first = searched(storage)
    size = os.path.getsize(storage)
    again = searched(storage)
    assert again.cv_results_["params"] == first.cv_results_["params"]
    assert again.cv_results_["elapsed"].tolist() == first.cv_results_["elapsed"].tolist()  # nothing ran
    assert os.path.getsize(storage) == size
    more = searched(storage, n_trials=[8, 9])
    whole = searched(None, n_trials=[8, 9])
    assert more.cv_results_["params"] == whole.cv_results_["params"]


@pytest.mark.parametrize("kind", ["journal", "sqlite"])
def test_any_storage_holds_the_same_trials(kind: str, tmp_path: Path) -> None:
    storage = f"sqlite:///{tmp_path / 'study.db'}" if kind == "sqlite" else str(tmp_path / "study.journal")
    assert searched(storage).cv_results_["params"] == searched(None).cv_results_["params"]
    again = searched(storage)
    assert again.cv_results_["mean_test_score"].tolist() == searched(None).cv_results_["mean_test_score"].tolist()


@pytest.mark.parametrize("kind", ["journal", "sqlite"])
def test_failures_are_kept(kind: str, tmp_path: Path) -> None:
    storage = f"sqlite:///{tmp_path / 'study.db'}" if kind == "sqlite" else str(tmp_path / "study.journal")
    settings: dict[str, Any] = {"storage": storage, "stages": [1.0], "cv": 2}
    for _ in range(2):
        with pytest.warns(TuningWarning, match="1 of 2 trials failed"):
            search = MultiStageSearchCV(SVC(), {"C": [-1.0, 1.0]}, **settings).fit(X, y)
        assert search.best_params_ == {"C": 1.0}
        assert sorted(search.cv_results_["status"]) == ["failed", "ok"]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"n_trials": [7, 6]}, "trials before the last stage"),
        ({"n_best": 2}, "n_best"),
        ({"random_state": 1}, "random_state"),
        ({"cv": 4}, "splits"),
        ({"sampler": "tpe"}, "sampler"),
        ({"scoring": "f1_macro"}, "scoring"),
        ({"stages": (0.5, 1.0)}, "stages"),
        ({"return_train_score": True}, "return_train_score"),
    ],
)
def test_another_search_in_the_same_study_is_refused(change: dict[str, Any], told: str, tmp_path: Path) -> None:
    storage = tmp_path / "study.journal"
    searched(storage, n_trials=[8, 1], n_best=1, sampler="random")
    with pytest.raises(InputError, match=told):
        searched(storage, **{"n_trials": [8, 1], "n_best": 1, "sampler": "random", **change})


def test_other_data_are_refused(tmp_path: Path) -> None:
    storage = tmp_path / "study.journal"
    settings: dict[str, Any] = {"storage": storage, "n_trials": 1, "cv": 2}
    MultiStageSearchCV(SVC(), SPACE, **settings).fit(X, y)
    with pytest.raises(InputError, match="rows"):
        MultiStageSearchCV(SVC(), SPACE, **settings).fit(X[:-1], y[:-1])
    with pytest.raises(InputError, match="X"):
        MultiStageSearchCV(SVC(), SPACE, **settings).fit(X + 1e-9, y)
    with pytest.raises(InputError, match=r"estimator of 'tol': '0.0001' instead of '0.001'"):
        MultiStageSearchCV(SVC(tol=1e-4), SPACE, **settings).fit(X, y)
    with pytest.raises(InputError, match="space"):
        MultiStageSearchCV(SVC(), {"C": [1.0, 2.0]}, **settings).fit(X, y)
    MultiStageSearchCV(SVC(), {"C": [1.0, 2.0]}, study_name="other", **settings).fit(X, y)


def good(estimator: Any, X: Any, y: Any) -> float:
    return float(estimator.score(X, y))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"scoring": good}, {"scoring": lambda estimator, X, y: -estimator.score(X, y)}),
        ({"scoring": good}, {}),
        (
            {"scoring": make_scorer(f1_score, average="macro")},
            {"scoring": make_scorer(f1_score, average="micro")},
        ),
        (
            {"scoring": ["accuracy", "f1_macro"], "refit": "accuracy"},
            {"scoring": ["accuracy", "f1_macro"], "refit": "f1_macro"},
        ),
    ],
)
def test_other_scores_are_refused(before: dict[str, Any], after: dict[str, Any], tmp_path: Path) -> None:
    settings: dict[str, Any] = {"storage": tmp_path / "study.journal", "n_trials": 1, "cv": 2}
    MultiStageSearchCV(SVC(), SPACE, **settings, **before).fit(X, y)
    MultiStageSearchCV(SVC(), SPACE, **settings, **before).fit(X, y)
    with pytest.raises(InputError, match="scor"):
        MultiStageSearchCV(SVC(), SPACE, **settings, **after).fit(X, y)


def test_a_changed_function_among_choices_is_refused(tmp_path: Path) -> None:
    def fit(kernel: Any) -> Any:
        return MultiStageSearchCV(
            SVC(), {"kernel": ["linear", kernel]}, storage=tmp_path / "study.journal", n_trials=2, cv=2
        ).fit(X, y)

    fit(lambda A, B: A @ B.T)
    with pytest.raises(InputError, match="space"):
        fit(lambda A, B: (A @ B.T) ** 2)
