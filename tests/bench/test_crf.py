"""The bench beside CRFsuite."""

import json
from pathlib import Path

import numpy as np
import pytest

from tikhon.bench import BENCHES
from tikhon.bench.crf import plan
from tikhon.bench.target import ToTarget
from tikhon.models import Logistic
from tikhon.report.progress import Silent
from tikhon.solvers import LBFGS


def figures(train: float, memory: float, objective: float, f1: float) -> dict[str, float]:
    return {
        "encode": 1.0, "train": train, "tag": 2.0, "memory_mb": memory, "objective": objective, "iterations": 50,
        "accuracy": 95.0, "f1": f1,
    }  # fmt: skip


def test_ratios_are_those_of_all_sentences():
    rows = [
        {"one_in": share, "crfsuite": figures(24.0 / share, 200.0, 1000.0, 93.0),
         "tikhon-1": figures(8.0 / share, 90.0, 999.0, 93.1), "tikhon-2": figures(4.0 / share, 100.0, 998.0, 93.2)}
        for share in (2, 1)
    ]  # fmt: skip
    found = BENCHES["crf"].evaluate(plan(False), rows)
    summary = found.summary
    assert (summary["speedup_train_1"], summary["speedup_train_2"]) == (3.0, 6.0)
    assert (summary["memory_ratio"], summary["memory_ratio_2"]) == (0.45, 0.5)
    assert summary["objective_ratio"] == pytest.approx(0.999)
    assert summary["f1_difference"] == pytest.approx(0.1)
    assert summary["growth"]["crfsuite"] == pytest.approx(1.0)
    assert "3.0 times as fast on one thread" in found.markdown
    assert len(BENCHES["crf"].draw(found).axes) == 1


def test_the_solver_stops_at_the_target(rng):
    X = rng.normal(size=(80, 5))
    objective = Logistic(X, (X[:, 0] + rng.normal(size=80) > 0).astype(float), fit_intercept=False)
    strength = np.ones(5)
    least = LBFGS().minimise(objective, strength).value
    solver = ToTarget(1.01 * least)
    fit = solver.minimise(objective, strength)
    loss = objective.loss_gradient(fit.weights)[0] + 0.5 * float(fit.weights @ fit.weights)
    assert loss == pytest.approx(fit.value)
    assert least < loss <= 1.01 * least
    assert solver.reached == fit.value
    assert 1 < solver.n_passes < 20


def test_quick_on_the_real_chunks(data_dir: Path, tmp_path: Path) -> None:
    pytest.importorskip("pycrfsuite")
    result = BENCHES["crf"].run(data_dir, tmp_path, quick=True, jobs=1, progress=Silent())
    summary = json.loads((tmp_path / "crf.json").read_text())["summary"]
    assert summary == result["summary"]
    assert summary["n_failed"] == 0
    assert summary["objective_ratio"] <= 1.0
    assert abs(summary["f1_difference"]) < 5.0
