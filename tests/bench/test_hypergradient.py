"""The cost of one hypergradient by the number of groups."""

import json
from pathlib import Path

import numpy as np
import pytest

from tikhon.bench import BENCHES
from tikhon.bench.hypergradient import GROUPS, N_FEATURES, made_problem
from tikhon.report.progress import Silent
from tikhon.tuners.hypergradient import hypergradient


def test_groups_share_one_problem_and_one_answer() -> None:
    few, many = made_problem(200, 10), made_problem(200, 100)
    assert (few.groups.count, many.groups.count) == (10, 100)
    assert few.groups.sizes.tolist() == [N_FEATURES // 10] * 10
    coarse = hypergradient(few, np.zeros(10), accuracy=1e-9)
    fine = hypergradient(many, np.zeros(100), accuracy=1e-9)
    assert coarse.value == pytest.approx(fine.value, rel=1e-9)
    # Column c is in groups c mod 100 and c mod 10: ten fine groups make a coarse one, and so do their derivatives.
    np.testing.assert_allclose(fine.gradient.reshape(10, 10).sum(axis=0), coarse.gradient, rtol=1e-6, atol=1e-10)


def test_evaluation_takes_medians() -> None:
    bench = BENCHES["hypergradient"]
    rows = [
        {
            "seconds": {str(g): base * (1.5 if g == 10_000 else 1.0) for g in GROUPS},
            "n_products": dict.fromkeys(map(str, GROUPS), 7),
        }
        for base in (1.0, 2.0, 30.0)
    ]
    evaluation = bench.evaluate(bench.plan(False), rows)
    assert evaluation.summary["ratios"] == {"10": 1.0, "100": 1.0, "1000": 1.0, "10000": 1.5}
    assert evaluation.summary["met"] is False
    assert "**Not met**" in evaluation.markdown
    assert bench.draw(evaluation).axes


def test_quick_needs_no_data(tmp_path: Path) -> None:
    BENCHES["hypergradient"].run(None, tmp_path, quick=True, jobs=1, progress=Silent())
    document = json.loads((tmp_path / "hypergradient.json").read_text())
    assert document["summary"]["n_failed"] == 0
    products = {entry["n_products"] for entry in document["aggregates"]}
    assert len(products) == 1  # the same work whatever the number of groups
    assert document["summary"]["features"] >= 10_000
