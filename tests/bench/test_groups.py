"""Groups against one strength on small sets: the data, the groups, the figures."""

import json
from pathlib import Path

import numpy as np
import pytest

from tikhon.bench import BENCHES, groups
from tikhon.bench.groups import N_COLUMNS, NOISE, PRODUCTS, WIDE, dealt, halves, measure, plan, summarise, whole_set
from tikhon.report.progress import Silent


def test_columns_are_dealt_evenly(rng):
    found = dealt(11, 3, rng)
    assert sorted(np.bincount(found)) == [3, 4, 4]
    assert (found != np.arange(11) % 3).any()


@pytest.mark.parametrize("kind", groups.KINDS)
def test_columns_are_standardised_on_the_training_half_alone(kind):
    name = "iris" if kind in (PRODUCTS, "random_2") else "breast cancer"
    data = halves(name, kind, 0, None)
    p = N_COLUMNS[name]
    np.testing.assert_allclose(data.X[:, :p].mean(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(data.X[:, :p].std(axis=0), 1.0, atol=1e-12)
    assert np.abs(data.X_test[:, :p].mean(axis=0)).max() > 1e-3
    assert data.X.shape[1] == data.X_test.shape[1] == len(data.groups)
    assert abs(len(data.y) - len(data.y_test)) <= 1


def test_products_are_of_all_pairs():
    data = halves("iris", PRODUCTS, 0, None)
    assert data.X.shape[1] == 4 + 10
    product = data.X[:, 0] * data.X[:, 1]
    np.testing.assert_allclose(data.X[:, 5], (product - product.mean()) / product.std())
    assert data.groups.tolist() == [0] * 4 + [1] * 10


def test_noise_is_of_the_asked_size():
    assert halves("iris", NOISE, 0, None).X.shape[1] == 4 + 20
    assert halves("digits", NOISE, 0, None).X.shape[1] == 64 + 128


@pytest.mark.parametrize("kind", ["random_5", NOISE])
def test_wide_data_have_far_more_columns_than_rows(kind):
    data = halves(WIDE, kind, 3, None)
    assert 30 <= len(data.y) <= 60
    assert data.X.shape[1] == (6000 if kind == NOISE else 2000)
    assert len(np.unique(data.y)) == 2


@pytest.mark.parametrize("name", [*groups.CHOSEN_ON, *groups.SHOWN_ON])
def test_the_numbers_of_columns_are_those_of_the_sets(name, request):
    folder = None if name in groups.SCIKIT_LEARN else request.getfixturevalue("data_dir")
    assert whole_set(name, folder)[0].shape[1] == N_COLUMNS[name]


def test_a_row_compares_with_one_strength():
    row = measure({"dataset": "iris", "kind": "random_2", "seed": 0, "tuner": "auto", "repeats": 1}, None)
    assert row["status"] == "converged"
    assert row["criterion"] <= row["criterion_one"] * (1.0 + 1e-9)
    assert row["log_loss"] / row["log_loss_one"] < 1.2


def made(name: str, kind: str, seed: int, ratio: float, tuner: str = "auto") -> dict[str, object]:
    return {
        "dataset": name, "kind": kind, "seed": seed, "tuner": tuner, "log_loss_one": 0.5, "log_loss": 0.5 * ratio,
        "cpu_seconds": 0.2, "cpu_seconds_one": 0.1,
    }  # fmt: skip


def test_means_are_geometric_over_seeds_then_sets():
    rows = [made("heart", "random_2", 0, 1.1), made("heart", "random_2", 1, 1 / 1.1), made("iris", "random_2", 0, 1.21)]
    rows += [made("wide", "noise", seed, 0.9) for seed in range(3)] + [made("heart", "random_2", 0, 3.0, "mm")]
    summary = summarise(rows)
    assert summary["random_2"] == pytest.approx(1.1)
    assert summary["random_2_chosen"] == pytest.approx(1.21)
    assert summary["random_2_shown"] == pytest.approx(1.0)
    assert summary["worst_random"] == pytest.approx(1.21)
    assert summary["wide_noise"] == pytest.approx(0.9)
    assert summary["noise"] is None
    assert summary["cpu_over_one_strength"] == pytest.approx(2.0)
    assert not summary["met"]


def test_every_set_has_the_groups_that_fit_it():
    keys = {spec.key for spec in plan(False).rows}
    assert "iris/random_2/auto/4" in keys
    assert not any(key.startswith("iris/random_5") or key.startswith("digits/products") for key in keys)
    assert sum(key.startswith("wide/") for key in keys) == 60


@pytest.mark.slow
def test_quick_run_writes_a_page(data_dir: Path, tmp_path: Path) -> None:
    document = BENCHES["groups"].run(data_dir, tmp_path, quick=True, jobs=1, progress=Silent())
    assert document["summary"]["n_failed"] == 0
    stored = json.loads((tmp_path / "groups.json").read_text())
    assert set(groups.ASKED) <= set(stored["summary"])
    page = (tmp_path / "groups.md").read_text()
    assert "## Both halves" in page
    assert (tmp_path / "groups.png").stat().st_size > 1000
