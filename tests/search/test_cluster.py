"""Trials on a Dask cluster on this machine, which stops by itself."""

import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest
from scipy import stats
from sklearn.datasets import load_iris
from sklearn.svm import SVC

from tikhon import MultiStageSearchCV
from tikhon.errors import InputError

distributed = pytest.importorskip("distributed", reason="the extra dask is not installed")

X, y = load_iris(return_X_y=True)
SPACE = {"C": stats.loguniform(1e-2, 1e3), "gamma": stats.loguniform(1e-4, 1e1)}
SETTINGS: dict[str, Any] = {"n_trials": [6, 4], "cv": 3, "sampler": "random", "batch_size": 2}


class DiesOnce(SVC):  # type: ignore[misc]
    """Ends the process of its worker at the first fit of all."""

    def __init__(self, mark: str = "", C: float = 1.0, gamma: Any = "scale") -> None:
        super().__init__(C=C, gamma=gamma)
        self.mark = mark

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        try:
            os.close(os.open(self.mark, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return super().fit(X, y, sample_weight)
        os.kill(os.getpid(), signal.SIGKILL)
        return self


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.mark.slow
def test_a_cluster_finds_the_same(client: Any) -> None:
    here = MultiStageSearchCV(SVC(), SPACE, **SETTINGS).fit(X, y)
    there = MultiStageSearchCV(SVC(), SPACE, client=client, **SETTINGS).fit(X, y)
    assert there.cv_results_["params"] == here.cv_results_["params"]
    assert there.cv_results_["mean_test_score"].tolist() == here.cv_results_["mean_test_score"].tolist()


@pytest.mark.slow
def test_a_lost_worker_costs_time_only(client: Any, tmp_path: Any) -> None:
    here = MultiStageSearchCV(SVC(), SPACE, **SETTINGS).fit(X, y)
    (tmp_path / "later").touch()
    dying = DiesOnce(str(tmp_path / "mark"))
    there = MultiStageSearchCV(dying, SPACE, client=client, refit=False, **SETTINGS).fit(X, y)
    assert (tmp_path / "mark").exists()
    assert there.cv_results_["mean_test_score"].tolist() == here.cv_results_["mean_test_score"].tolist()


@pytest.mark.slow
def test_the_time_of_a_search_on_a_cluster_is_limited(client: Any) -> None:
    with pytest.warns(UserWarning, match="ran out of time"):
        search = MultiStageSearchCV(SVC(), SPACE, client=client, timeout=8.0, **{**SETTINGS, "n_trials": 10_000}).fit(
            X, y
        )
    assert search.ended_ == "timeout"


class Submits:
    """As much of a client as is looked at before the search."""

    def submit(self) -> None: ...


def test_a_cluster_cannot_end_a_trial() -> None:
    with pytest.raises(InputError, match="trial_timeout with a Dask client"):
        MultiStageSearchCV(SVC(), SPACE, client=Submits(), trial_timeout=3.0, **SETTINGS).fit(X, y)
