"""The demo writes its page and reports what it measured, the losses of groups as much as their gains."""

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tikhon.errors import MissingExtra
from tikhon.report.demo import GROUPED, METHODS, PEER, SINGLE, DemoResult, _headline, run
from tikhon.report.demo_data import Case, breast_cancer, cases, diabetes, digits, wine


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> tuple[DemoResult, list[str]]:
    heard: list[str] = []
    return run(tmp_path_factory.mktemp("demo") / "new", progress=heard.append, quick=True), heard


@pytest.mark.slow
def test_there_is_a_row_for_each_method_and_data_set(quick: tuple[DemoResult, list[str]]) -> None:
    result, heard = quick
    assert [(row["data"], row["method"]) for row in result.rows] == [
        (case.name, method) for case in cases(quick=True) for method in METHODS
    ]
    assert len(heard) == len(result.rows) + 1
    assert result.seconds > 0
    for row in result.rows:
        assert isinstance(row["test loss"], float)
        assert np.isfinite(row["test loss"])


def test_one_strength_by_grid_agrees_with_scikit_learn(quick: tuple[DemoResult, list[str]]) -> None:
    # Other folds and a finer grid, so near and not equal: a tenth of the loss is what the folds make.
    losses = {(row["data"], row["method"]): row["test loss"] for row in quick[0].rows}
    for case in cases(quick=True):
        np.testing.assert_allclose(losses[case.name, SINGLE], losses[case.name, PEER], rtol=0.1)


def test_the_page_shows_every_loss_and_all_plots(quick: tuple[DemoResult, list[str]]) -> None:
    text = quick[0].page.read_text(encoding="utf-8")
    for row in quick[0].rows:
        assert f"{row['test loss']:.4g}" in text
    assert text.count("data:image/png") == 3 * len(cases(quick=True))
    assert "All data sets that were tried are shown" in text


def test_the_headline_counts_gains_and_losses() -> None:
    losses = {"a": (2.0, 1.0, 3.0), "b": (2.0, 1.0, 2.0)}
    rows = [
        {"data": data, "method": method, "test loss": loss}
        for data, values in losses.items()
        for method, loss in zip((SINGLE, *GROUPED), values, strict=True)
    ]
    text = _headline(rows)
    assert "with mm on 2 of 2 data sets (a, b)" in text
    assert "with auto on 0 of 2 data sets;" in text


def test_the_demo_leaves_no_data_set_out() -> None:
    assert [case.name for case in cases()] == [make().name for make in (breast_cancer, diabetes, digits, wine)]


@pytest.mark.parametrize("make", [breast_cancer, diabetes, digits, wine])
def test_groups_hold_every_column_once_and_say_what_was_added(make: Callable[[], Case]) -> None:
    case, again = make(), make()
    columns = [column for members in case.groups.values() for column in members]
    assert sorted(columns) == list(range(case.X.shape[1]))
    np.testing.assert_array_equal(case.X, again.X)
    added = any("(added)" in name for name in case.groups)
    assert added == ("added" in case.about)


def test_without_the_extra_it_stops_before_the_work(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    heard: list[str] = []
    with pytest.raises(MissingExtra, match=r"tikhon\[plot\]"):
        run(tmp_path, progress=heard.append)
    assert heard == []
