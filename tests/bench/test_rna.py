"""The bench beside ViennaRNA."""

import json
import sys
from pathlib import Path

import pytest

from tikhon.bench import BENCHES
from tikhon.bench.rna import TARGETS, in_turns, plan, random_sequence
from tikhon.errors import MissingExtra
from tikhon.report.progress import Silent

BENCH = BENCHES["rna"]


def measured(slower: float = 1.0) -> list[dict[str, object]]:
    """Rows of a full run: ViennaRNA takes the cube of the letters, we a tenth of that."""
    times = {
        "fold": lambda row: {"vienna": row["letters"] ** 3 / 1e9, "tikhon": slower * row["letters"] ** 3 / 1e10},
        "train": lambda _: {
            "vienna": 4.0, "gradient-1": 0.8, "gradient-2": slower * 0.4, "product-1": 1.8, "product-2": slower * 0.8,
            "examples": 71, "letters": 10_000,
        },
        "memory": lambda _: {"tikhon": 60.0, "memory_gb": 2.5},
    }  # fmt: skip
    return [{**spec.params, **times[spec.params["what"]](spec.params)} for spec in plan(False).rows]


def test_figures_are_ratios_within_a_row():
    pytest.importorskip("RNA")
    found = BENCH.evaluate(plan(False), measured())
    summary = found.summary
    for letters in (100, 400, 1000, 2000):
        assert summary[f"ratio_vienna_{letters}"] == pytest.approx(0.1)
    assert summary["fold_a_gradient"] == pytest.approx(0.1)
    assert (summary["hessian_product"], summary["hessian_product_1"]) == pytest.approx((2.0, 2.25))
    assert (summary["memory_gb_5000"], summary["seconds_5000"]) == (2.5, 60.0)
    assert summary["growth"]["vienna"] == pytest.approx(3.0)
    assert summary["met"] == dict.fromkeys(TARGETS, True)
    assert "not met" not in found.markdown
    assert len(BENCH.draw(found).axes) == 1


def test_what_is_too_slow_is_said():
    pytest.importorskip("RNA")
    found = BENCH.evaluate(plan(False), measured(slower=2.2))
    assert [name for name, met in found.summary["met"].items() if not met] == ["ratio_vienna_1000", "fold_a_gradient"]
    assert found.markdown.count("**not met**") == 2


def test_a_run_that_failed_has_no_figure():
    pytest.importorskip("RNA")
    rows = [row for row in measured() if row["what"] != "memory"]
    found = BENCH.evaluate(plan(False), rows)
    assert not found.summary["met"]["memory_gb_5000"]
    assert "| memory_gb_5000 | n/a |" in found.markdown


def test_turns_are_taken_one_by_one():
    order: list[str] = []
    seconds = in_turns({name: lambda name=name: order.append(name) for name in "ab"}, 3)
    assert order == list("ababab")
    assert seconds.keys() == {"a", "b"}


def test_sequences_are_the_same_in_every_run():
    assert random_sequence(12) == random_sequence(12)
    assert set(random_sequence(400)) == set("ACGU")


def test_without_viennarna(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "RNA", None)
    with pytest.raises(MissingExtra, match="pip install ViennaRNA"):
        BENCH.warm_up()


@pytest.mark.slow
def test_quick_on_the_real_molecules(data_dir: Path, tmp_path: Path) -> None:
    pytest.importorskip("RNA")
    result = BENCH.run(data_dir, tmp_path, quick=True, jobs=1, progress=Silent())
    summary = json.loads((tmp_path / "rna.json").read_text())["summary"]
    assert summary == result["summary"]
    assert summary["n_failed"] == 0
    assert 0.0 < summary["ratio_vienna_200"] < 2.0
    assert 0.0 < summary["memory_gb_300"] < 2.0
