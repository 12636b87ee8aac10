"""The hidden Markov model of Do, Foo, Ng 2008, and what is said of its results."""

import numpy as np
import pytest

from tikhon.experiments.hmm_data import FIRST, LENGTH, N_OBSERVED, drawn, tied
from tikhon.experiments.hmm_simulation import EXPERIMENT, METHODS, PART, evaluate, plan


def test_the_data_have_the_probabilities_of_the_paper():
    data = drawn(2, 2, 4000, n_relevant=10, seed=0).test
    states = data.labels.reshape(-1, LENGTH)
    observed = np.zeros((data.n_tokens, FIRST + 1))
    np.add.at(observed, (np.repeat(np.arange(data.n_tokens), np.diff(data.pointers)), data.features), 1.0)
    values = observed[:, 1:FIRST:2]
    np.testing.assert_array_equal(observed[:, 0:FIRST:2], 1 - values)
    agrees = (values == data.labels[:, None]).mean(axis=0)
    error = 5.0 * np.sqrt(0.25 / data.n_tokens)
    assert states[:, 0].mean() == pytest.approx(0.5, abs=5.0 * np.sqrt(0.25 / len(states)))
    assert (states[:, 1:] == states[:, :-1]).mean() == pytest.approx(0.6, abs=error)
    np.testing.assert_allclose(agrees[:10], 0.6, atol=error)
    np.testing.assert_allclose(agrees[10:], 0.5, atol=error)
    np.testing.assert_array_equal(observed[:, FIRST], np.tile([1] + [0] * (LENGTH - 1), len(states)))


def test_runs_differ_and_repeat():
    labels = [drawn(3, 3, 5, 5, seed).test.labels for seed in (0, 1, 0)]
    assert (labels[0] != labels[1]).any()
    np.testing.assert_array_equal(labels[0], labels[2])


def test_weights_are_tied_as_the_paper_ties_them():
    layout = drawn(5, 2, 2, n_relevant=7, seed=0).layout
    assert layout.n_weights == 4 * N_OBSERVED + 2 + 4
    assert tied(layout, "single", 7).sizes.tolist() == [layout.n_weights]
    assert tied(layout, "separate", 7).count == layout.n_weights
    grouped = tied(layout, "grouped", 7)
    assert dict(zip(grouped.names, grouped.sizes.tolist(), strict=True)) == {
        "transitions": 6, "relevant": 4 * 7, "noise": 4 * (N_OBSERVED - 7),
    }  # fmt: skip


def test_gains_are_those_over_the_next_best():
    errors = {"grid": 42.0, "single": 41.0, "separate": 40.0, "grouped": 35.0, "mm-single": 41.0, "mm-separate": 43.0,
              "mm-grouped": 37.0}  # fmt: skip
    made = plan(True)
    rows = []
    for n_train, n_relevant in made.config["settings"]:
        for run in range(4):
            shift = 0.1 * (-1) ** run
            row = {method: value + shift for method, value in errors.items()}
            row["grouped"] += 7.0 if n_train == 5 else 0.0  # the worst of the four there
            parts = {f"{method}{PART}": value for method, value in row.items()} | {f"separate{PART}": 36.0 + shift}
            rows.append({"n_train": n_train, "n_relevant": n_relevant, "run": run, **row, **parts})
    found = evaluate(made, rows)
    assert found.summary["grouped_is_not_best"] == ["M=5, R=5"]
    assert found.summary["absolute_reduction"] == pytest.approx(5.0)
    assert found.summary["relative_reduction"] == pytest.approx(12.5)
    assert found.summary["relative_reduction_over_one"] == pytest.approx(100 * 6 / 41)
    assert found.summary["mm_share"] == pytest.approx(100 * 4 / 6)
    assert found.summary["training_part_alone"]["relative_reduction"] == pytest.approx(100 / 36)
    assert found.summary["training_part_alone"]["relative_reduction_over_one"] == pytest.approx(100 * 6 / 41)
    assert "(not at M=5, R=5)" in found.markdown
    entry = found.aggregates[0]
    assert entry["single_error"] == pytest.approx(np.std([0.1, -0.1, 0.1, -0.1], ddof=1) / 2)
    assert len(EXPERIMENT.draw(found).axes) == 2
    assert set(METHODS) <= set(entry)
