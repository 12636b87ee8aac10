"""Time and memory by size."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from tikhon.bench import BENCHES
from tikhon.bench.memory import CLEAR, forget_peak, peak, resident
from tikhon.bench.scale import SWEEPS, Size, exponent, made_data, measure, steps
from tikhon.report.progress import Silent


def rows(power: float) -> list[dict[str, Any]]:
    """Points whose times grow by ``power``, but for the smallest, where fixed costs rule."""
    made = []
    for name, (varied, sizes) in SWEEPS.items():
        for size in sizes:
            much = float(getattr(size, varied))
            seconds = max(1e-6 * much**power, 0.01 if much < 3e4 and varied == "rows" else 0.0)
            made.append(
                {
                    "sweep": name, "rows": size.rows, "columns": size.columns, "nonzeros": size.nonzeros,
                    "cpu_seconds": seconds, "memory_mb": 0.001 * much**0.5, "data_mb": 1.0, "n_steps": 3,
                    "status": "converged",
                }
            )  # fmt: skip
    return made


@pytest.mark.parametrize(("power", "met"), [(0.9, True), (1.4, False)])
def test_exponents_are_those_of_the_larger_sizes(power: float, met: bool) -> None:
    bench = BENCHES["scale"]
    evaluation = bench.evaluate(bench.plan(False), rows(power))
    for name in SWEEPS:
        assert evaluation.summary[f"exponent_time_{name}"] == pytest.approx(power)
        assert evaluation.summary[f"exponent_memory_{name}"] == pytest.approx(0.5)
    assert evaluation.summary["met"] is met
    assert ("Not met" in evaluation.markdown) is not met
    assert all(axes.get_xscale() == axes.get_yscale() == "log" for axes in bench.draw(evaluation).axes)


def test_an_exponent_needs_two_points() -> None:
    assert exponent([10.0], [1.0]) is None
    assert exponent([10.0, 20.0], [1.0, 0.0]) is None
    assert exponent([10.0, 1000.0], [1.0, 1.0]) is None  # the first is too small to count
    assert exponent([10.0, 20.0], [1.0, 4.0]) == pytest.approx(2.0)


def test_steps() -> None:
    assert steps(1e3, 1e5) == (1_000, 3_000, 10_000, 30_000, 100_000)
    assert max(size.rows for size in SWEEPS["sparse_n"][1]) == 1_000_000


def test_made_scores_spread_alike_whatever_the_size() -> None:
    for size in (Size(2_000, 10), Size(2_000, 400), Size(2_000, 3_000, 20)):
        X, y = made_data(size)
        assert X.shape == (size.rows, size.columns)
        assert sparse.issparse(X) == (size.per_row > 0)
        assert 0.4 < np.mean(y) < 0.6
        assert (X.nnz if size.per_row else X.size) == pytest.approx(size.nonzeros, rel=0.01)


@pytest.mark.skipif(not CLEAR.exists(), reason="only Linux forgets a peak")
def test_peak_memory_is_that_since_the_data_were_made() -> None:
    waste = np.ones(2**24)  # 128 MB, gone before the peak is forgotten
    del waste
    before = resident()
    forget_peak()
    held = np.ones(2**23)
    del held
    assert peak() - before == pytest.approx(64.0, abs=4.0)


@pytest.mark.slow
def test_a_point_in_a_process_of_its_own() -> None:
    params = {"rows": 2_000, "columns": 300, "per_row": 10, "repeats": 1, "alone": True}
    row = measure(params, None)
    X, _ = made_data(Size(2_000, 300, 10))
    assert row["nonzeros"] == X.nnz
    assert row["data_mb"] == pytest.approx((12 * X.nnz + 4 * 2_001) / 2**20, rel=0.02)
    assert row["cpu_seconds"] > 0.0
    assert row["status"] == "converged"


def test_quick(tmp_path: Path) -> None:
    result = BENCHES["scale"].run(None, tmp_path, quick=True, jobs=1, progress=Silent())
    summary = json.loads((tmp_path / "scale.json").read_text())["summary"]
    assert summary["n_failed"] == 0
    for row in result["rows"]:
        assert row["cpu_seconds"] > 0.0
        assert row["memory_mb"] >= 0.0
        expected = 8 * row["rows"] * row["columns"] / 2**20
        if not row["per_row"]:
            assert row["data_mb"] == pytest.approx(expected)
