"""The race against LogisticRegressionCV."""

import itertools
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tikhon.bench import BENCHES
from tikhon.bench.glm import NAMES, PEER, TUNERS, OutOfTimeError, contestants, cpu_limit, peer, summarise
from tikhon.report.progress import Silent


def row(name: str, contestant: str, seconds: float, **more: Any) -> dict[str, Any]:
    made = {
        "dataset": name, "contestant": contestant, "cpu_seconds": seconds, "wall_seconds": seconds, "accuracy": 90.0,
        "log_loss": 0.3, "strength": 1.0, "status": "converged", "warnings": [], "n_train": 10, "n_test": 5,
        "n_features": 3, "n_classes": 2,
    }  # fmt: skip
    return made | more


def rows() -> list[dict[str, Any]]:
    first = [row("heart", tuner, 1.0) for tuner in TUNERS] + [
        row("heart", "lbfgs", 8.0),
        row("heart", "newton-cholesky", 4.0),
    ]
    second = [row("iris", tuner, 2.0) for tuner in TUNERS] + [row("iris", "lbfgs", 18.0, status="max_iter")]
    return first + second


def test_summary_takes_the_faster_rival() -> None:
    summary = summarise(rows())
    assert summary["datasets"]["heart"][PEER]["solver"] == "newton-cholesky"
    assert summary["datasets"]["heart"]["mm"]["seconds"] == 1.0
    assert {"seconds", "accuracy", "log_loss"} <= summary["datasets"]["iris"]["gradient"].keys()
    for tuner in TUNERS:
        assert summary[f"speedup_{tuner}"] == pytest.approx(6.0)  # of 4 and 9
        assert summary[f"least_speedup_{tuner}"] == pytest.approx(4.0)
    assert summary["slower_grid"] == []
    slow = [*rows(), row("wine", "grid", 3.0), row("wine", "lbfgs", 1.0)]
    assert summarise(slow)["slower_grid"] == ["wine"]


def test_report_names_what_did_not_converge() -> None:
    bench = BENCHES["glm"]
    evaluation = bench.evaluate(bench.plan(False), rows())
    assert f"{PEER} warned that it did not converge on: iris." in evaluation.markdown
    assert "| heart | 10 | 3 | 2 | 4 | newton-cholesky | 1 | 1 | 1 | 1 |" in evaluation.markdown
    assert bench.draw(evaluation).axes[0].get_xscale() == "log"


def test_every_set_of_both_tables_and_cholesky_where_small() -> None:
    assert len(NAMES) == 24
    assert contestants("heart")[-1] == "newton-cholesky"
    assert contestants("usps") == [*TUNERS, "lbfgs", "newton-cholesky"]  # 2,570 weights
    assert contestants("mnist1") == [*TUNERS, "lbfgs"]


def test_the_rival_is_quiet_and_has_our_grid() -> None:
    X = np.random.default_rng(0).normal(size=(60, 3))
    y = (X[:, 0] > 0).astype(int)
    folds = [(np.arange(30), np.arange(30, 60)), (np.arange(30, 60), np.arange(30))]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = peer("newton-cholesky", folds).fit(X, y)
    np.testing.assert_allclose(np.ravel(model.Cs_), 2.0 ** np.arange(-10, 11))


def test_quick(data_dir: Path, tmp_path: Path) -> None:
    result = BENCHES["glm"].run(data_dir, tmp_path, quick=True, jobs=1, progress=Silent())
    summary = json.loads((tmp_path / "glm.json").read_text())["summary"]
    assert summary["n_failed"] == 0
    assert summary == result["summary"]
    for name, entry in summary["datasets"].items():
        # The same folds and strengths, so the same choice, but for the rival's looser tolerance. With lbfgs: the
        # newton-cholesky of scikit-learn 1.6 chooses another strength than that of 1.9 on the same data.
        (lbfgs,) = (row for row in result["rows"] if row["key"] == f"{name}/lbfgs")
        assert entry["grid"]["log_loss"] == pytest.approx(lbfgs["log_loss"], rel=0.02)
        assert PEER in entry
    assert summary["speedup_mm"] > 1.0
    assert all("FutureWarning" not in text for row in result["rows"] for text in row["warnings"])


def test_a_contestant_that_takes_too_long_is_stopped():
    with pytest.raises(OutOfTimeError), cpu_limit(0.05):
        sum(1 for _ in itertools.count())
    with cpu_limit(None):
        assert sum(range(10)) == 45


def test_a_stopped_rival_does_not_count():
    stopped = {**row("heart", "newton-cholesky", 0.5), "status": "stopped"}
    summary = summarise([row("heart", "mm", 1.0), row("heart", "lbfgs", 8.0), stopped])
    assert summary["datasets"]["heart"][PEER]["solver"] == "lbfgs"
