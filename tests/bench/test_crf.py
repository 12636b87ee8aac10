"""The bench against CRFsuite."""

import json
import pickle
from pathlib import Path

import numpy as np
import pytest

from tikhon import ChainCRF
from tikhon.bench import BENCHES
from tikhon.bench import crf as bench
from tikhon.bench.target import ToTarget
from tikhon.models import Logistic
from tikhon.report.progress import Silent
from tikhon.solvers import LBFGS, make_solver


def figures(train: float, memory: float, f1: float) -> dict[str, float]:
    return {
        "encode": 1.0, "train": 3 * train, "tag": 2.0, "memory_mb": memory, "objective": 1000.5, "gap": 5e-4,
        "earlier_objective": 1010.0, "earlier_gap": 1e-2, "iterations": 50, "accuracy": 95.0, "f1": f1,
        "seconds_1e-3": train, "passes_1e-3": 40, "seconds_1e-4": 2 * train, "passes_1e-4": 60,
    }  # fmt: skip


def made_row(data: str, share: int) -> dict[str, object]:
    curve = [(0.5, 2.0), (1.0, 1e-2), (2.0, 1e-4)]
    return {
        "data": data, "one_in": share, "optimum": {"value": 1000.0, "lowest_seen": 1000.0},
        "crfsuite": figures(24.0 / share, 200.0, 93.0), "tikhon-1": figures(8.0 / share, 90.0, 93.1),
        "tikhon-2": figures(4.0 / share, 100.0, 93.2),
        "curves": dict.fromkeys(("crfsuite", "tikhon-1", "tikhon-2"), curve),
    }  # fmt: skip


def test_ratios_are_those_of_all_sentences():
    rows = [made_row("conll2000", 2), made_row("conll2000", 1), made_row("conll2002-es", 1)]
    rows[2]["crfsuite"]["seconds_1e-4"] = None  # not reached
    found = BENCHES["crf"].evaluate(bench.plan(False), rows)
    summary = found.summary
    assert (summary["speedup_train_1"], summary["speedup_train_2"]) == (3.0, 6.0)
    assert (summary["speedup_train_1_1e-4"], summary["speedup_train_2_1e-4"]) == (3.0, 6.0)
    assert (summary["memory_ratio"], summary["memory_ratio_2"]) == (0.45, 0.5)
    assert summary["f1_difference_default"] == pytest.approx(0.1)
    assert summary["growth"]["crfsuite"] == pytest.approx(1.0)
    spanish = summary["conll2002-es"]
    assert (spanish["speedup_train_2"], spanish["speedup_train_2_1e-4"]) == (6.0, None)
    assert spanish["growth"]["crfsuite"] is None
    assert summary["conll2000"]["speedup_train_1"] == 3.0
    assert "3.0 times as fast as CRFsuite's on one thread" in found.markdown
    assert len(BENCHES["crf"].draw(found).axes) == 2


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
    assert solver.reached == fit.value == solver.trace[-1][1]
    assert 1 < solver.n_passes < 20
    certain = ToTarget(gap=1e-7)
    value = certain.minimise(objective, strength).value
    assert certain.reached_gap <= 1e-7
    assert least - 1e-12 <= value <= (1.0 + 1e-7) * least


def small_chains() -> tuple[list[list[list[str]]], list[list[str]]]:
    rng = np.random.default_rng(0)
    X = [[[f"w={word}", f"s={word % 7}"] for word in rng.integers(0, 60, size=8)] for _ in range(60)]
    y = [[f"B-{int(token[0][2:]) % 3}" if rng.random() < 0.8 else "O" for token in sentence] for sentence in X]
    return X, y


@pytest.mark.slow
def test_fits_to_a_target_do_what_default_fits_do():
    """The same values pass by pass, so that a time to a gap is that of the default solver."""
    X, y = small_chains()
    seen = [
        ToTarget(solver=make_solver("auto", tol=1e-3, max_iter=1000)),
        ToTarget(gap=1e-9),
    ]
    for solver in seen:
        ChainCRF.from_c2(0.5, solver=solver, n_jobs=1).fit(X, y)
    default, longer = ([value for _, value in solver.trace] for solver in seen)
    assert 5 < len(default) < len(longer)
    assert default == longer[: len(default)]
    plain = ChainCRF.from_c2(0.5, tol=1e-3, n_jobs=1).fit(X, y)
    weights = plain.tuning_.weights
    assert plain.tuning_.train_loss + 0.5 * float(weights @ weights) == pytest.approx(seen[0].reached, rel=1e-12)


def test_gaps_are_reached_at_the_first_value_below():
    curve = [(1.0, 20.0), (2.0, 11.0), (3.0, 12.0), (4.0, 10.0)]
    assert bench.first_below(curve, 11.0) == (2, 2.0)
    assert bench.first_below(curve, 10.5) == (4, 4.0)
    assert bench.first_below(curve, 9.0) is None


def test_contestants_can_be_sent_to_other_processes():
    for work in (bench._optimum, bench._crfsuite, bench._default_fit, bench._fit_to_target):
        assert pickle.loads(pickle.dumps(work)) is work


@pytest.mark.slow
def test_quick_on_the_real_sentences(data_dir: Path, tmp_path: Path) -> None:
    pytest.importorskip("pycrfsuite")
    result = BENCHES["crf"].run(data_dir, tmp_path, quick=True, jobs=1, progress=Silent())
    document = json.loads((tmp_path / "crf.json").read_text())
    summary = document["summary"]
    assert summary == result["summary"]
    assert summary["n_failed"] == 0
    for row in document["rows"]:
        optimum = row["optimum"]
        assert optimum["certified_gap"] <= 1e-7
        assert abs(optimum["value"] / optimum["lowest_seen"] - 1.0) <= 1e-7
        for name in ("crfsuite", "tikhon-1", "tikhon-2"):
            assert 0.0 < row[name]["seconds_1e-3"] < row[name]["seconds_1e-4"]
            assert row[name]["gap"] >= 0.0
        assert row["tikhon-1"]["passes_1e-4"] == row["tikhon-2"]["passes_1e-4"]
    for name in ("conll2000", "conll2002-es"):
        assert abs(summary[name]["f1_difference_default"]) < 10.0
