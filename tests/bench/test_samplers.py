"""The test functions of samplers have the minima that their regrets are measured from, and the command runs."""

from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import minimize

from tikhon.bench import BENCHES
from tikhon.bench.samplers import CHEAP, FUNCTIONS, HARTMANN_A, HARTMANN_P, hartmann
from tikhon.report.progress import Silent


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_minimum_is_where_a_local_search_ends(name: str) -> None:
    function, bounds, least = FUNCTIONS[name]
    start = {
        "Branin": [3.0, 2.0],  # near one of its three minima
        "Hartmann-6": [0.2, 0.15, 0.48, 0.28, 0.31, 0.66],
        "Levy-20": [1.05] * 20,
    }[name]
    found = minimize(function, start, bounds=bounds, method="L-BFGS-B", options={"ftol": 1e-15, "gtol": 1e-9})
    assert found.fun == pytest.approx(least, abs=1e-7)


def test_the_cheap_form_is_another_function_with_a_moved_minimum() -> None:
    best = np.array([0.20169, 0.150011, 0.476874, 0.275332, 0.311652, 0.6573])
    first_peak = np.exp(-(HARTMANN_A[0] * (best - HARTMANN_P[0]) ** 2).sum())
    assert hartmann(best - 0.05, CHEAP) == pytest.approx(0.5 - 3.32237 + 0.1 * (1.0 - CHEAP) * first_peak, abs=1e-4)
    assert hartmann(best, CHEAP) > hartmann(best - 0.05, CHEAP) + 0.05
    assert hartmann(best) == pytest.approx(-3.32237, abs=1e-4)


@pytest.mark.slow
def test_quick(tmp_path: Path) -> None:
    written = BENCHES["samplers"].run(None, tmp_path, quick=True, jobs=1, progress=Silent())
    assert {"two_fidelities", "most_seconds_per_proposal"} <= set(written["summary"])
    page = (tmp_path / "samplers.md").read_text(encoding="utf-8")
    assert "Branin, tikhon" in page
    assert (tmp_path / "samplers.png").stat().st_size > 10_000
