"""The experiments on hidden-unit CRFs: splits, features, choices and tables."""

from pathlib import Path

import numpy as np
import pytest

from tikhon.errors import InputError
from tikhon.experiments.hucrf import OCR, POS, TRAINERS, rows_for, settings_of
from tikhon.experiments.hucrf_report import _summary, evaluate
from tikhon.harness.hucrf_tasks import TASKS, calibration, loaded, random_folds, tag_features
from tikhon.report.progress import Silent


def row(model, trainer, fold, error, held_out, *, order=1, task="faq", **more):
    return {
        "task": task, "folds": "random", "fold": fold, "order": order, "model": model, "trainer": trainer, "test_error": error,
        "held_out_error": held_out, "rounds": 3, "cpu_seconds": 1.0, "wrong": None, "lengths": None, **more,
    }  # fmt: skip


def test_parts_do_not_overlap():
    folds = random_folds(103)
    assert np.bincount(folds).tolist() == [11, 11, 11, *[10] * 7]
    rows = np.flatnonzero(folds != 4)
    train, held_out = calibration(rows, 0.2)
    assert len(held_out) == 19
    np.testing.assert_array_equal(np.sort(np.concatenate([train, held_out])), rows)


def test_features_of_words():
    found = tag_features(["Re-entering", "9th"])
    own = {"+0:word=Re-entering", "+0:hyphen", "+0:capital", "+0:ing", "+0:prefix=Re-e", "+0:suffix=ring"}
    assert set(found[0]) == own | {"+1:word=9th", "+1:number"}
    assert set(found[1]) == {name.replace("+0", "-1") for name in own} | {"+0:word=9th", "+0:number"}


def test_all_trainers_have_the_same_number_of_settings():
    assert {len(settings_of(trainer, None)) for trainer in TRAINERS} == {3}
    assert {len(settings_of(trainer, 2)) for trainer in TRAINERS} == {2}


def test_every_fold_has_every_model_and_trainer():
    rows = rows_for("faq", False)
    assert len({spec.key for spec in rows}) == len(rows) == 10 * 2 * (2 * 4 + 1)
    assert {spec.params["folds"] for spec in rows_for("ocr", False)} == {"random", "shipped"}


def test_the_best_trainer_is_that_of_the_calibration_parts():
    rows = [
        *(row("linear", "sgd", fold, 9.0 + fold, 5.0) for fold in range(3)),
        *(row("linear", "margin", fold, 1.0, 6.0) for fold in range(3)),  # better in the test, worse in the calibration
        *(row("hidden", "sgd", fold, 5.0 + 0.5 * fold, 4.0) for fold in range(3)),
    ]
    found = _summary(rows)
    assert found["linear-1"]["trainer"] == "sgd"
    assert found["linear-1"]["error"] == 10.0
    assert found["linear-1"]["standard_error"] == pytest.approx(1.0 / np.sqrt(3.0))
    difference = found["hidden-minus-linear-1"]
    assert difference["difference"] == pytest.approx(-4.5)
    assert difference["standard_error"] == pytest.approx(0.5 / np.sqrt(3.0))
    converged = [*rows, *(row("linear", "converged", fold, 8.0, 5.0) for fold in range(3))]
    assert _summary(converged)["hidden-minus-converged-1"]["difference"] == pytest.approx(-2.5)


def test_sentences_are_resampled_where_they_are_stored():
    wrong, fewer = [3, 0, 1, 2] * 25, [1, 0, 1, 1] * 25
    stored = {"lengths": [10] * 100}
    rows = [
        row("linear", "sgd", 0, 15.0, 15.0, wrong=wrong, **{**stored}),
        row("hidden", "sgd", 0, 7.5, 7.0, wrong=fewer, **{**stored}),
    ]
    low, high = _summary(rows)["hidden-minus-linear-1"]["interval"]
    assert -9.5 < low < -7.5 < high < -5.5


def test_pages_tell_the_papers_figures_beside_ours():
    made = OCR.plan(False)
    rows = [
        row(model, trainer, fold, 5.0, 5.0, task="ocr", order=order, units=[[0.1] * 128] * 10)
        for model in ("linear", "hidden")
        for trainer in TRAINERS
        for order in (1, 2)
        for fold in range(2)
    ]
    found = evaluate("title", made, rows)
    assert "4.05" in found.markdown
    assert "1.99" in found.markdown
    figure = OCR.draw(found)
    assert len(figure.get_axes() if hasattr(figure, "get_axes") else figure.axes) >= 2


def test_a_run_of_some_folds_is_continued_by_one_of_more(tmp_path, monkeypatch):
    measured = []

    def measure(params, folder):
        measured.append(params["fold"])
        return row(params["model"], params["trainer"], params["fold"], 1.0, 1.0, order=params["order"])

    import dataclasses

    short = dataclasses.replace(OCR, measure=measure, warm_up=lambda: None)
    plan = dataclasses.replace(OCR.plan(False), paths=())
    short = dataclasses.replace(short, plan=lambda quick: plan)
    short.run(None, tmp_path, quick=False, jobs=1, progress=Silent(), folds=1)
    assert set(measured) == {0}
    before = len(measured)
    short.run(None, tmp_path, quick=False, jobs=1, progress=Silent(), folds=2)
    assert set(measured[before:]) == {1}
    with pytest.raises(InputError, match="folds is 0"):
        short.run(None, tmp_path, quick=False, jobs=1, progress=Silent(), folds=0)


def test_sets_are_as_their_manifests_say(data_dir: Path) -> None:
    for name, sizes in {"ocr": (6877, 52152, 128), "faq": (48, 62497, 600), "proteins": (513, 84119, 260)}.items():
        X, y = loaded(name, data_dir)
        assert (len(X), sum(map(len, X)), X[0].shape[1]) == sizes
        assert [len(x) for x in X] == [len(labels) for labels in y]
        assert np.abs(X[0]).max() <= 1.0
    X, y = TASKS["ptb"].load(data_dir)
    assert (len(X), sum(map(len, y)), len({tag for tags in y for tag in tags})) == (3914, 94084, 45)


def test_missing_files_are_named(tmp_path):
    with pytest.raises(InputError, match=r"ud_english_ewt_train\.tsv\.gz is missing"):
        POS.run(tmp_path, tmp_path, quick=True, jobs=1, progress=Silent())
