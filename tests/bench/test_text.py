"""Text with one strength and with several."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from tikhon.bench import BENCHES
from tikhon.bench.peers import LIBLINEAR, LOGISTIC_CV, installed
from tikhon.bench.text import BANDS, BOTH, GROUPINGS, NGRAMS, ONE, column_groups, summarise
from tikhon.report.progress import Silent


def row(name: str, contestant: str, seconds: float, log_loss: float, threads: int = 1) -> dict[str, Any]:
    return {
        "dataset": name, "contestant": contestant, "threads": threads, "cpu_seconds": seconds,
        "wall_seconds": 2.0 * seconds, "accuracy": 80.0, "log_loss": log_loss, "strengths": {"all": 1.0},
        "status": "converged", "warnings": [], "n_train": 10, "n_test": 5, "n_features": 3, "n_nonzeros": 7,
        "n_classes": 2,
    }  # fmt: skip


def rows(name: str, *, seconds: float = 1.0, bands: float = 0.4) -> list[dict[str, Any]]:
    return [
        row(name, ONE, seconds, 0.5),
        row(name, BANDS, 2.0, bands),
        row(name, NGRAMS, 2.0, 0.45),
        row(name, BOTH, 2.0, 0.6),
        row(name, LOGISTIC_CV, 8.0, 0.5),
        row(name, ONE, 1.0, 0.5, threads=2),
        row(name, LOGISTIC_CV, 4.0, 0.5, threads=2),
    ]


def test_summary() -> None:
    summary = summarise(rows("imdb"))
    assert summary["speedup_imdb"] == pytest.approx(8.0)
    assert summary["logloss_ratio_imdb"] == pytest.approx(1.0)
    assert summary["gain_imdb_bands"] == pytest.approx(0.2)
    assert summary["gain_imdb_ngrams"] == pytest.approx(0.1)
    assert summary["gain_imdb_both"] == pytest.approx(-0.2)
    assert summary["two_threads_speedup_imdb"] == pytest.approx(4.0)
    assert summary["lower_with_groups"] == ["imdb bands", "imdb ngrams"]


def test_what_is_asked() -> None:
    assert summarise(rows("imdb") + rows("newsgroups"))["met"] is True
    assert summarise(rows("imdb") + rows("newsgroups", seconds=2.0))["met"] is False  # 4 times as fast
    assert summarise(rows("imdb", bands=0.5))["met"] is False  # one grouping only
    assert summarise([])["met"] is False
    without_rival = [entry for entry in rows("imdb") if entry["contestant"] != LOGISTIC_CV]
    assert summarise(without_rival)["met"] is False


def test_report() -> None:
    bench = BENCHES["text"]
    evaluation = bench.evaluate(bench.plan(False), rows("imdb"))
    assert "| auto, bands | 2 | n/a | 0.4000 | 80.00 | 1 |" in evaluation.markdown
    assert f"| {LOGISTIC_CV} | 8 | 8 | 0.5000 | 80.00 | 1 |" in evaluation.markdown
    assert "Met." in evaluation.markdown
    assert [axes.get_title() for axes in bench.draw(evaluation).axes] == ["imdb"]


def test_columns_are_grouped_by_documents_and_words() -> None:
    X = sparse.lil_matrix((50, 4))
    for column, documents in enumerate((10, 19, 20, 45)):
        X[:documents, column] = 1.0
    groups = column_groups(X, ["cat", "the cat", "dog", "the dog"])
    assert groups[ONE] is None
    assert np.array_equal(groups[NGRAMS], ["words", "pairs", "words", "pairs"])
    tens, twenties, forties = (f"from {number} documents" for number in (10, 20, 40))
    assert np.array_equal(groups[BANDS], [tens, tens, twenties, forties])
    assert np.array_equal(groups[BOTH], [f"words {tens}", f"pairs {tens}", f"words {twenties}", f"pairs {forties}"])


@pytest.mark.slow
def test_quick(data_dir: Path, tmp_path: Path) -> None:
    if not (data_dir / "text").is_dir():
        pytest.skip("the data folder has no folder text")
    result = BENCHES["text"].run(data_dir, tmp_path, quick=True, jobs=1, progress=Silent())
    summary = json.loads((tmp_path / "text.json").read_text())["summary"]
    assert summary["n_failed"] == 0
    found = summary["datasets"]["newsgroups"]
    assert set(found["one_thread"]) == {*GROUPINGS, LOGISTIC_CV, *([LIBLINEAR] if installed(LIBLINEAR) else [])}
    assert set(found["two_threads"]) == {ONE, LOGISTIC_CV}
    assert len(found["one_thread"][NGRAMS]["strengths"]) == 2
    for figures in found["one_thread"].values():
        assert figures["log_loss"] < np.log(3.0)  # three groups of news, and better than knowing nothing
    assert result["files"]
