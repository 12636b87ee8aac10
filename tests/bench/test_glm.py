"""The race against LogisticRegressionCV."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from tikhon.bench import BENCHES, glm
from tikhon.bench.glm import TWO_THREADS, contestants
from tikhon.bench.glm_report import PEER, PEERS, TUNERS, summarise
from tikhon.bench.peers import installed
from tikhon.harness.libsvm_sets import CLASSIFICATION
from tikhon.report.progress import Silent


def row(name: str, contestant: str, seconds: float, **more: Any) -> dict[str, Any]:
    made = {
        "dataset": name, "contestant": contestant, "threads": 1, "cpu_seconds": seconds, "wall_seconds": 2 * seconds,
        "accuracy": 90.0, "log_loss": 0.3, "strength": 1.0, "status": "converged", "warnings": [], "n_train": 10,
        "n_test": 5, "n_features": 3, "n_classes": 2,
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


def test_losses_and_accuracies_beside_the_rivals() -> None:
    better = row("heart", "auto", 1.0, log_loss=0.15, accuracy=92.0)  # half of the rival's
    tiny = row("iris", "auto", 1.0, log_loss=1e-9, accuracy=89.0)
    rivals = [row("heart", "lbfgs", 4.0), row("iris", "lbfgs", 4.0, log_loss=0.002)]
    summary = summarise([better, tiny, *rivals])
    assert summary["logloss_ratio_auto"] == pytest.approx(math.sqrt(0.5))  # both tiny ones count as 0.01
    assert summary["accuracy_difference_auto"] == pytest.approx(0.5)
    assert summary["speedup_loo"] is None
    assert summary["logloss_ratio_loo"] is None


@pytest.mark.parametrize(
    ("change", "met"),
    [({}, True), ({"log_loss": 0.302}, False), ({"accuracy": 89.8}, False), ({"cpu_seconds": 1.5}, False)],
)
def test_what_is_asked_of_auto(change: dict[str, Any], met: bool) -> None:
    assert summarise([row("heart", "auto", 1.0, **change), row("heart", "lbfgs", 30.0)])["met"] is met


def test_two_threads_go_by_the_clock_and_by_themselves() -> None:
    on_two = [row("usps", "auto", 1.0, threads=2), row("usps", "lbfgs", 5.0, threads=2, wall_seconds=6.0)]
    summary = summarise(rows() + on_two)
    assert summary["two_threads"]["speedup_auto"] == pytest.approx(3.0)  # 6 and 2
    assert summary["speedup_auto"] == pytest.approx(6.0)
    assert "usps" not in summary["datasets"]


def test_report_names_what_did_not_converge() -> None:
    bench = BENCHES["glm"]
    stopped = row("heart", "bbai", 120.0, status="stopped")
    del stopped["accuracy"], stopped["log_loss"], stopped["strength"], stopped["wall_seconds"]
    evaluation = bench.evaluate(bench.plan(False), [*rows(), stopped])
    assert f"{PEER} warned that it did not converge on: iris." in evaluation.markdown
    ones = " | ".join(["1"] * len(TUNERS))
    assert f"| heart | 10 | 3 | 2 | 4 | newton-cholesky | {ones} | > 120 |" in evaluation.markdown
    assert bench.draw(evaluation).axes[0].get_xscale() == "log"
    for peer in PEERS:  # named where they are missing, with their versions where they are not
        assert peer in evaluation.markdown


def test_every_set_of_both_tables_and_cholesky_where_small() -> None:
    peers = [peer for peer in PEERS if installed(peer)]
    assert len(CLASSIFICATION) == 24
    assert contestants("heart") == [*TUNERS, "lbfgs", "newton-cholesky", *peers]
    without_factors = [tuner for tuner in TUNERS if tuner not in ("loo", "evidence")]
    assert contestants("usps") == [*without_factors, "lbfgs", "newton-cholesky", *peers]  # 2,570 weights
    assert contestants("mnist1") == [*without_factors, "lbfgs", *peers]
    assert set(TWO_THREADS) <= set(CLASSIFICATION)


# However long lbfgs takes on this machine: a fit that counts as short is repeated, and the limit is for all repeats.
@pytest.mark.parametrize(("short", "n_fits"), [(0.0, 1), (1e9, 2)])
def test_a_resumed_run_limits_the_slower_solver_too(
    monkeypatch: pytest.MonkeyPatch, data_dir: Path, short: float, n_fits: int
) -> None:
    monkeypatch.setattr(glm, "SHORT", short)
    monkeypatch.setattr(glm, "_seconds_of_lbfgs", {})  # as after a new start whose row of lbfgs was stored
    monkeypatch.setattr(glm, "PATIENCE", 1e-3)
    params = {"dataset": "heart", "contestant": "newton-cholesky", "threads": 1, "repeats": 1, "limit": 10.0}
    params |= {"splits": 1}
    found = glm.measure(params, data_dir)
    assert found["status"] == "stopped"
    assert found["cpu_seconds"] == pytest.approx(1e-3 * n_fits * glm._seconds_of_lbfgs["heart"])


@pytest.mark.slow
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
        for peer in PEERS:
            assert (peer in entry) == installed(peer)
    assert summary["speedup_mm"] > 1.0
    assert summary["two_threads"]["datasets"]["heart"].keys() >= {PEER, "auto"}
    assert all("FutureWarning" not in text for row in result["rows"] for text in row["warnings"])


def test_a_stopped_rival_does_not_count() -> None:
    stopped = {**row("heart", "newton-cholesky", 0.5), "status": "stopped"}
    summary = summarise([row("heart", "mm", 1.0), row("heart", "lbfgs", 8.0), stopped])
    assert summary["datasets"]["heart"][PEER]["solver"] == "lbfgs"
