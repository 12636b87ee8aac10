"""The quick forms of the experiments on the real data."""

import json
from pathlib import Path

import pytest

from tikhon.experiments import EXPERIMENTS
from tikhon.report.progress import Silent


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(EXPERIMENTS))
def test_quick(name: str, data_dir: Path, tmp_path: Path) -> None:
    experiment = EXPERIMENTS[name]
    result = experiment.run(data_dir, tmp_path, quick=True, jobs=1, progress=Silent())
    assert result["summary"]["n_failed"] == 0
    assert len(result["rows"]) == len(experiment.plan(True).rows)
    document = json.loads((tmp_path / f"{name}.json").read_text())
    assert document["rows"] == result["rows"]
    assert str(data_dir) not in json.dumps(document)
    assert (tmp_path / f"{name}.md").read_text().startswith(f"# {experiment.summary}")
    assert (tmp_path / f"{name}.png").stat().st_size > 5_000


def test_known_answers_of_small_sets(data_dir: Path, tmp_path: Path) -> None:
    """Least squares of Table 1 against numpy's, and MM's strength against its own fixed point."""
    import numpy as np

    from tikhon.experiments.mm_table1 import measure
    from tikhon.harness.libsvm_sets import split_set

    params = {"dataset": "housing", "seed": 0, "intercept": False, "repeats": 1}
    dataset = split_set("housing", data_dir, 0)
    X, y = dataset.X_train, dataset.y_train
    weights = np.linalg.lstsq(X, y, rcond=None)[0]
    expected = np.mean((dataset.y_test - dataset.X_test @ weights) ** 2)
    assert measure({**params, "method": "lr"}, data_dir)["mse"] == pytest.approx(expected, rel=1e-8)

    precision, variance = 1.0, float(np.var(y))
    for _ in range(200):
        ridge = np.linalg.solve(X.T @ X + precision * variance * np.eye(X.shape[1]), X.T @ y)
        variance = float(np.mean((y - X @ ridge) ** 2))
        precision = (X.shape[1] / 2) / (ridge @ ridge / 2 + 1.0)
    found = measure({**params, "method": "mm"}, data_dir)
    assert found["precision"] == pytest.approx(precision, rel=5e-3)  # the tuner stops at a change of 1e-3
    assert found["strength"] == pytest.approx(precision * variance, rel=5e-3)
