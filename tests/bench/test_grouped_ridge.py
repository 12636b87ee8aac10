"""Grouped ridge regression beside himalaya and RidgeCV."""

import json
import math
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tikhon import Ridge
from tikhon.bench import BENCHES, grouped_ridge, himalaya
from tikhon.bench.grouped_ridge import AUTO, BEST_R2, RIDGE_CV, TUNERS, made_data, measure, plan, summarise
from tikhon.bench.himalaya import ALPHAS, HIMALAYA, HIMALAYA_KERNEL, divisions, fit_himalaya
from tikhon.report.progress import Silent

needs_himalaya = pytest.mark.skipif(himalaya.himalaya_version() is None, reason="himalaya is not installed")


def row(groups: int, contestant: str, seconds: float, mse: float, **more: Any) -> dict[str, Any]:
    made = {
        "rows": 600, "groups": groups, "group_size": 40, "data_set": 0, "contestant": contestant, "threads": 1,
        "cpu_seconds": seconds, "wall_seconds": seconds, "mse": mse, "r2": 0.5,
    }  # fmt: skip
    if contestant in TUNERS:
        made |= {"unit_seconds": 0.01, "status": "converged"}
    if contestant in (HIMALAYA, HIMALAYA_KERNEL):
        made |= {"draws": 1000, "draws_done": 1000, "version": "9.9"}
    return made | more


def rows() -> list[dict[str, Any]]:
    return [
        row(5, AUTO, 0.1, 1.1),
        row(5, AUTO, 0.3, 1.3, data_set=1),
        row(5, RIDGE_CV, 0.05, 1.4),
        row(5, HIMALAYA, 30.0, 1.2),
        row(5, HIMALAYA, 50.0, 1.3, data_set=1),
        row(20, AUTO, 0.2, 1.5),
        row(20, HIMALAYA, 30.0, 1.6, draws_done=400),
        row(20, HIMALAYA_KERNEL, 24.0, 1.6),
        row(20, AUTO, 0.4, 1.5, threads=2, wall_seconds=0.25),
        row(20, HIMALAYA, 9.0, 1.7, threads=2, wall_seconds=5.0, draws_done=100),
    ]


def test_the_data_are_as_the_page_says() -> None:
    data = made_data(2000, 5, 8, 3)
    assert data.X.shape == (2000, 40)
    assert np.bincount(data.groups).tolist() == [8] * 5
    X, y = np.vstack([data.X, data.X_test]), np.concatenate([data.y, data.y_test])
    coefficients = np.linalg.lstsq(X, y, rcond=None)[0]
    residuals = data.y_test - data.X_test @ coefficients
    assert np.var(residuals) == pytest.approx(1.0, rel=0.1)
    assert 1.0 - np.var(residuals) / np.var(data.y_test) == pytest.approx(BEST_R2, abs=0.05)
    norms = np.sort([np.linalg.norm(coefficients[data.groups == group]) for group in range(5)])
    assert norms[-1] > 10 * norms[1]  # the smallest are within the noise of this fit
    assert not np.array_equal(data.y, made_data(2000, 5, 8, 4).y)


def test_ratios_are_of_means_and_over_the_draws_made() -> None:
    summary = summarise(rows())
    first, second = summary["sizes"]["5 groups"], summary["sizes"]["20 groups"]
    assert first["speedup_himalaya"] == pytest.approx(40.0 / 0.2)
    assert first["mse_ratio"] == pytest.approx(1.2 / 1.25)
    assert first["ridge_fits"] == pytest.approx(20.0)
    assert (first["data_sets"], first["all_draws"], second["all_draws"]) == (2, True, False)
    assert second["speedup_himalaya"] == pytest.approx(150.0)
    assert second["speedup_himalaya_kernel"] == pytest.approx(120.0)
    assert second["speedup_himalaya_2_threads"] == pytest.approx(0.05 * 400 / 0.25)
    crowded = [*rows()[:-1], rows()[-1] | {"wall_seconds": 500.0}]
    assert summarise(crowded)["sizes"]["20 groups"]["speedup_himalaya_2_threads"] == pytest.approx(0.075 * 400 / 0.25)
    assert second["contestants"][HIMALAYA]["seconds_per_draw"] == pytest.approx(0.075)
    assert summary["least_speedup_himalaya"] == pytest.approx(150.0)
    assert summary["worst_mse_ratio"] == pytest.approx(0.96)
    assert summary["ridge_fits_20_groups"] == pytest.approx(20.0)
    assert set(summary["met"].values()) == {True}
    slow = summarise([row(20, AUTO, 0.5, 1.7), *rows()[6:8]])
    assert slow["met"] == {"least_speedup_himalaya": False, "worst_mse_ratio": False, "ridge_fits_20_groups": False}


def test_the_page_tells_bounds_from_figures() -> None:
    evaluation = BENCHES["grouped-ridge"].evaluate(plan(False), rows())
    assert "| 20 groups | 600 | 800 | 1 | at least 150 | 120 | at least 80 | 0.9375 | 20 |" in evaluation.markdown
    assert "| 5 groups | 600 | 200 | 2 | 200 |  | n/a | 0.9600 | 20 |" in evaluation.markdown
    assert "himalaya 9.9" in evaluation.markdown
    assert len(BENCHES["grouped-ridge"].draw(evaluation).axes) == 2


def test_without_himalaya_its_rows_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grouped_ridge, "himalaya_version", lambda: None)
    planned = plan(False)
    assert {spec.params["contestant"] for spec in planned.rows} == {*TUNERS, RIDGE_CV}
    ours = [found for found in rows() if found["contestant"] not in (HIMALAYA, HIMALAYA_KERNEL)]
    evaluation = BENCHES["grouped-ridge"].evaluate(planned, ours)
    assert "himalaya is not installed: its rows are left out" in evaluation.markdown
    assert evaluation.summary["met"]["least_speedup_himalaya"] is None
    assert evaluation.summary["ridge_fits_20_groups"] == pytest.approx(20.0)


def test_kernels_only_where_columns_outnumber_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grouped_ridge, "himalaya_version", lambda: "9.9")
    keys = [spec.key for spec in plan(False).rows]
    assert [key for key in keys if HIMALAYA_KERNEL in key] == [f"20 groups/0/{HIMALAYA_KERNEL}"]
    assert sum(key.endswith("2 threads") for key in keys) == 6  # ours and himalaya, three sizes
    assert len(keys) == len(set(keys))


def test_draws_are_as_many_as_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in for himalaya whose draws take a second each by a clock that only it moves."""
    now = 0.0
    calls = []

    def search(form: str, X: Any, y: Any, groups: Any, tried: Any) -> Any:
        nonlocal now
        now += len(tried)
        calls.append(len(tried))
        model = Ridge(tuner=None).fit(X, y)
        model.deltas_ = np.zeros(5)
        return model

    monkeypatch.setattr(grouped_ridge, "fit_himalaya", search)
    monkeypatch.setattr(grouped_ridge, "divisions", lambda groups, draws: np.full((draws, groups), 1.0 / groups))
    monkeypatch.setattr(grouped_ridge, "himalaya_version", lambda: "9.9")
    monkeypatch.setattr(time, "process_time", lambda: now)
    params = {
        "rows": 60, "groups": 5, "group_size": 2, "data_set": 0, "contestant": HIMALAYA, "threads": 1, "repeats": 1,
        "draws": 1000, "budget": 40.0,
    }  # fmt: skip
    found = measure(params, None)
    assert calls == [1, 5, 40]
    assert (found["draws_done"], found["cpu_seconds"]) == (40, 40.0)
    assert measure(params | {"budget": 5000.0}, None)["draws_done"] == 1000
    assert measure(params | {"budget": 0.1}, None)["draws_done"] == 1


@needs_himalaya
@pytest.mark.parametrize("form", [HIMALAYA, HIMALAYA_KERNEL])
def test_himalaya_is_asked_for_our_objective(form: str) -> None:
    data = made_data(60, 3, 4, 0)
    model = fit_himalaya(form, data.X, data.y, data.groups, divisions(3, 20))
    strengths = {str(group): math.exp(-delta) for group, delta in enumerate(np.ravel(model.deltas_))}
    ours = Ridge(groups=data.groups, tuner=None, strengths=strengths).fit(data.X, data.y)
    np.testing.assert_allclose(np.ravel(model.predict(data.X_test)), ours.predict(data.X_test), rtol=1e-6, atol=1e-8)
    total = 1.0 / sum(1.0 / strength for strength in strengths.values())
    assert np.isclose(ALPHAS, total).any()


@needs_himalaya
def test_the_draws_are_himalayas_own() -> None:
    from himalaya.ridge import GroupRidgeCV

    data = made_data(60, 3, 4, 0)
    search = {"n_iter": 12, "alphas": ALPHAS, "progress_bar": False}
    own = GroupRidgeCV(groups=data.groups, fit_intercept=True, cv=5, random_state=0, solver_params=search)
    given = GroupRidgeCV(
        groups=data.groups, fit_intercept=True, cv=5, solver_params=search | {"n_iter": divisions(3, 12)}
    )
    np.testing.assert_allclose(own.fit(data.X, data.y).cv_scores_, given.fit(data.X, data.y).cv_scores_, rtol=1e-10)


def test_quick_needs_no_data(tmp_path: Path) -> None:
    result = BENCHES["grouped-ridge"].run(None, tmp_path, quick=True, jobs=1, progress=Silent())
    summary = json.loads((tmp_path / "grouped-ridge.json").read_text())["summary"]
    assert summary == result["summary"]
    assert summary["n_failed"] == 0
    entry = summary["sizes"]["5 groups"]
    assert set(entry["contestants"]) >= {*TUNERS, RIDGE_CV}
    # A strength for each group is what these data ask for.
    assert entry["contestants"][AUTO]["mse"] < entry["contestants"][RIDGE_CV]["mse"]
    assert summary["ridge_fits_20_groups"] > 1.0
