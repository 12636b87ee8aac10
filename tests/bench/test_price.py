"""The price of tuning in fits."""

import json
import lzma
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.metrics import log_loss

from tikhon import LogisticRegression
from tikhon.bench import BENCHES, price
from tikhon.bench.limits import OutOfTimeError
from tikhon.bench.price import bands, dense_data, divided, measure, news_data, plain_fit, plan
from tikhon.report.progress import Silent


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder like that of the real data: short posts in four newsgroups, whose classes share most words."""
    rng = np.random.default_rng(0)
    path = tmp_path_factory.mktemp("data") / "text"
    path.mkdir()
    for part, count in (("train", 3000), ("test", 1000)):
        lines = []
        for number in range(count):
            label = ("comp.graphics", "rec.autos", "sci.med", "talk.politics.misc")[4 * number // count]
            own = "tech" if label.startswith(("comp.", "sci.")) else "talk"
            words = [f"w{word}" for word in rng.zipf(1.5, size=20) if word < 60]
            words += [f"{own}{word}" for word in rng.integers(0, 30, size=rng.integers(0, 3))]
            lines.append(json.dumps({"label": label, "text": " ".join(words)}))
        (path / f"newsgroups20_{part}.jsonl.xz").write_bytes(lzma.compress("\n".join(lines).encode() + b"\n"))
    return path.parent


def row(name: str, k: int, seconds: float, unit: float | None, **more: Any) -> dict[str, Any]:
    made = {
        "data": name, "k": k, "n_rows": 20_000, "n_features": 1_000, "cpu_seconds": seconds, "status": "converged",
        "log_loss": 0.25,
    }  # fmt: skip
    if unit is not None:
        made |= {"unit_seconds": unit, "unit_iterations": 1_234, "unit_status": "converged"}
    return made | more


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_matrix])
def test_the_unit_is_the_same_objective(kind: Any) -> None:
    data = dense_data(200, 6)
    X = kind(data.X)
    before = X.copy()
    strengths = np.array([0.3, 20.0, 1.0, 300.0, 5.0, 0.01])
    ours = LogisticRegression(
        groups="separate", tuner=None, strengths={f"x{j}": strength for j, strength in enumerate(strengths)}
    ).fit(X, data.y)
    fit = plain_fit(tol=1e-10).fit(divided(X, strengths), data.y)
    np.testing.assert_allclose(fit.coef_ / np.sqrt(strengths), ours.coef_, rtol=1e-4, atol=1e-7)
    np.testing.assert_allclose(fit.intercept_, ours.intercept_, rtol=1e-4, atol=1e-7)
    assert abs(X - before).max() == 0.0


def test_bands_are_neighbours_of_near_equal_number() -> None:
    order = np.array([4, 2, 0, 1, 3])
    assert bands(order, 2).tolist() == [0, 1, 0, 1, 0]
    assert bands(order, 5)[order].tolist() == [0, 1, 2, 3, 4]
    assert np.bincount(bands(np.arange(1000), 10)).tolist() == [100] * 10


def test_made_data_have_the_log_loss_that_is_said() -> None:
    data = dense_data(20_000, 20)
    fit = plain_fit().fit(data.X, data.y)
    assert log_loss(data.y_test, fit.predict_proba(data.X_test)) == pytest.approx(0.47, abs=0.03)
    weights = np.abs(fit.coef_[0])
    assert weights[:5].sum() > 5 * weights[-5:].sum()


def test_news_are_two_classes_and_words_by_frequency(folder: Path) -> None:
    data = news_data(folder, 1)
    assert (data.X.shape[0], data.X_test.shape[0]) == (3000, 1000)
    assert data.y.mean() == pytest.approx(0.5)
    documents = np.count_nonzero(data.X.toarray(), axis=0)
    assert (np.diff(documents[data.order]) <= 0).all()
    assert plain_fit().fit(data.X, data.y).score(data.X_test, data.y_test) > 0.7


def test_both_units_and_what_was_stopped() -> None:
    found = [
        row("dense", 1, 1.0, 0.5),
        row("dense", 10, 4.0, 1.0),
        row("dense", 100, 9.0, 2.0, unit_status="max_iter"),
        row("news", 1, 1.0, 0.5),
        row("news", 10, 900.0, None, status="stopped", log_loss=None),
    ]
    evaluation = BENCHES["price"].evaluate(plan(False), found)
    summary = evaluation.summary
    assert (summary["dense_k1"], summary["dense_k10"], summary["dense_k100"]) == (2.0, 4.0, 4.5)
    assert summary["dense_k100_one_strength_fits"] == 18.0
    assert summary["news_k10"] is None
    assert summary["news_k10_one_strength_fits"] is None
    assert summary["met"] is False
    assert (
        "| dense, 20,000 × 1,000 | 10 | 4 | 1 | 1,234 | 4 | at most 6 | 8 | 0.2500 | converged |" in evaluation.markdown
    )
    assert "| 2 (not converged) |" in evaluation.markdown
    assert "| 10 | over 900 | n/a | n/a | n/a | at most 6 | n/a | n/a | stopped |" in evaluation.markdown
    assert len(BENCHES["price"].draw(evaluation).axes) == 2
    assert BENCHES["price"].evaluate(plan(False), found[:4]).summary["met"] is True
    dear = row("news", 100, 11.0, 1.0)
    assert BENCHES["price"].evaluate(plan(False), [*found[:4], dear]).summary["met"] is False


def test_a_tuning_that_takes_too_long_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: Any) -> Any:
        raise OutOfTimeError

    params = {"data": "dense", "k": 2, "rows": 100, "features": 4, "repeats": 1, "limit": 7.0}
    assert measure(params, None)["status"] == "converged"
    monkeypatch.setattr(price, "timed", never)
    found = measure(params, None)
    assert (found["status"], found["cpu_seconds"], found["n_rows"]) == ("stopped", 7.0, 100)


def test_quick_on_made_texts(folder: Path, tmp_path: Path) -> None:
    result = BENCHES["price"].run(folder, tmp_path, quick=True, jobs=1, progress=Silent())
    summary = json.loads((tmp_path / "price.json").read_text())["summary"]
    assert summary == result["summary"]
    assert summary["n_failed"] == 0
    for name in ("dense", "news"):
        assert summary[f"{name}_k1"] == summary[f"{name}_k1_one_strength_fits"] > 0.0
        assert summary[f"{name}_k10"] > 0.0
        assert summary[f"{name}_k10_log_loss"] < np.log(2.0)  # better than a coin


@pytest.mark.slow
def test_quick_on_the_real_newsgroups(data_dir: Path, tmp_path: Path) -> None:
    if not (data_dir / "text" / "newsgroups20_train.jsonl.xz").is_file():
        pytest.skip("the data folder has no 20 newsgroups")
    result = BENCHES["price"].run(data_dir, tmp_path, quick=True, jobs=1, progress=Silent())
    (one,) = (found for found in result["rows"] if found["key"] == "news/1")
    assert (one["n_rows"], one["n_test"]) == (566, 377)
    assert one["log_loss"] < 0.4
