"""Table 1 and the sensitivity to alpha and beta, on rows made up here."""

from typing import Any

import pytest

from tikhon.experiments import EXPERIMENTS
from tikhon.experiments.mm_table1 import aggregate, compare, excess, outside_in_both


def row(name: str, seed: int, intercept: bool, method: str, mse: float | None) -> dict[str, Any]:
    found = {"strength": 0.5, "precision": 5.0, "n_steps": 6} if method != "lr" else {}
    return {
        "dataset": name, "seed": seed, "intercept": intercept, "method": method, "mse": mse, "n_train": 70, "n_test": 30,
        "n_features": 6, "cpu_seconds": 0.1, "warnings": [], **found,
    }  # fmt: skip


def cells(name: str, errors: dict[str, list[float | None]]) -> list[dict[str, Any]]:
    return [
        row(name, seed, intercept, method, error)
        for intercept in (True, False)
        for method, values in errors.items()
        for seed, error in enumerate(values)
    ]


def test_two_deviations_and_two_per_cent() -> None:
    rows = cells("housing", {"lr": [22.0, 26.0], "grid": [24.0, 25.0], "mm": [24.0, 25.2], "mm-scaled": [24.0, 24.0]})
    entries = aggregate(rows)
    verdicts = {(c["method"], c["intercept"]): c["inside"] for c in compare(entries)}
    assert verdicts["lr", True] is True  # 24 +- 2.83 against 24.111
    assert verdicts["mm-scaled", True] is None  # the paper has no such column
    (with_it, without) = excess(entries)
    assert with_it["ratio"] == pytest.approx(24.6 / 24.0)
    assert with_it["inside"] is False
    assert with_it["scaled_ratio"] == 1.0
    assert (without["intercept"], without["largest_precision"]) == (False, 3.0)


def test_a_deficient_split_gives_no_figure() -> None:
    rows = cells("pyrim", {"lr": [0.1, None], "grid": [0.004, 0.003], "mm": [0.004, 0.003]})
    entries = aggregate(rows)
    assert [e["mse"] for e in entries if e["method"] == "lr"] == [None, None]
    assert excess(entries)[0]["ratio"] == 1.0
    assert {c["inside"] for c in compare(entries) if c["method"] == "lr"} == {None}


def test_outside_means_in_both_settings() -> None:
    rows = cells("mg", {"lr": [0.0213, 0.0214], "grid": [0.5, 0.51], "mm": [0.0213, 0.0214]})
    rows[0]["mse"] = rows[1]["mse"] = 0.9  # least squares with an intercept only
    rows[1]["mse"] = 0.91
    assert outside_in_both(compare(aggregate(rows))) == ["mg grid"]


def test_table1_report() -> None:
    experiment = EXPERIMENTS["mm-table1"]
    rows = cells(
        "triazines", {"lr": [None, None], "grid": [0.02, 0.021], "mm": [0.03, 0.031], "mm-scaled": [0.02, 0.02]}
    )
    for made in rows:
        if made["method"] == "grid":
            made["precision"] = 900.0
    evaluation = experiment.evaluate(experiment.plan(False), rows)
    assert "| triazines | n/a | n/a | 0.0272 | 0.0205 ± 0.00071 ⚠ | 0.0247 |" in evaluation.markdown
    assert "On triazines grid's C is above that cap" in evaluation.markdown
    assert "MM steps" in evaluation.markdown
    assert experiment.draw(evaluation).axes


def heat_rows(name: str, drop_at: int) -> list[dict[str, Any]]:
    return [
        {
            "dataset": name, "alpha_exponent": alpha, "beta_exponent": beta, "n_train": 100, "warnings": [],
            "accuracy": 90.0 if alpha < drop_at else 60.0, "strength": 2.0 ** (alpha - beta),
        }
        for alpha in (-7, 5, 7, 11)
        for beta in (-7, 1, 11)
    ]  # fmt: skip


def test_sensitivity_says_where_the_claim_holds() -> None:
    experiment = EXPERIMENTS["mm-sensitivity"]
    rows = heat_rows("iris", drop_at=7) + heat_rows("wine", drop_at=5) + heat_rows("glass", drop_at=99)
    evaluation = experiment.evaluate(experiment.plan(False), rows)
    summary = evaluation.summary
    assert summary["holds"] == ["iris", "glass"]
    assert summary["fails"] == ["wine"]
    assert "iris" in summary["drops_above"]
    assert "glass" not in summary["drops_above"]
    iris, wine, _ = evaluation.aggregates
    assert (iris["spread_calm"], iris["drop_above"]) == (0.0, 30.0)
    assert wine["worst_calm"] == [5, -7]
    assert iris["rise_with_alpha"] == pytest.approx(1.0)
    assert iris["rise_with_beta"] == pytest.approx(-1.0)
    assert iris["strength_range"] == pytest.approx(36.0)
    assert "not on wine" in evaluation.markdown
    assert "connect-4: only 2,000 training rows" in evaluation.markdown
    figure = experiment.draw(evaluation)
    titles = [axes.get_title() for axes in figure.axes]
    assert "wine: log2 strength" in titles
    assert "iris: accuracy (%)" in titles


def test_sensitivity_covers_the_papers_values() -> None:
    made = EXPERIMENTS["mm-sensitivity"].plan(False)
    assert made.config["exponents"] == [-7, -5, -3, -1, 1, 3, 5, 7, 9, 11]
    assert len(made.rows) == 13 * 100
