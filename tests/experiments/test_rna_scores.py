"""Areas and shares of pairs, by hand and against CONTRAfold's weights."""

from pathlib import Path

import numpy as np
import pytest

from tikhon import RNAFolder
from tikhon.data.rna import Record, load_rna, rna_file
from tikhon.experiments.rna_scores import (
    GAMMAS,
    Counts,
    area,
    bootstrap_areas,
    counted,
    interval,
    known_partners,
    roc_area,
)


def test_the_area_of_two_points_is_that_of_a_rectangle_and_a_trapezoid() -> None:
    assert roc_area(np.array([0.8, 0.5]), np.array([0.4, 0.9])) == pytest.approx(0.5 * 0.9 + 0.3 * (0.9 + 0.4) / 2)


def test_points_of_equal_ppv_are_taken_with_falling_sensitivity() -> None:
    assert roc_area(np.array([0.5, 0.5, 1.0]), np.array([0.2, 0.6, 0.1])) == pytest.approx(0.5 * 0.6 + 0.5 * 0.15)


def test_shares_are_one_where_there_is_nothing_to_share() -> None:
    counts = Counts(np.array([0, 4]), np.array([[0, 2], [0, 2]]), np.array([[0, 0], [0, 1]]))
    assert counts.sensitivity.tolist() == [[1.0, 1.0], [0.0, 0.25]]
    assert counts.ppv.tolist() == [[1.0, 0.0], [1.0, 0.5]]
    assert counts.f1.tolist() == [[1.0, 0.0], [0.0, pytest.approx(1 / 3)]]


def test_counts_survive_json() -> None:
    counts = Counts(np.array([3]), np.array([[2, 5]]), np.array([[1, 3]]))
    again = Counts.from_json(counts.as_json())
    assert again.with_those_of(counts).right.tolist() == [[1, 3], [1, 3]]


def test_pairs_that_no_model_makes_are_not_known() -> None:
    assert known_partners(Record("x", "", "GAGAAACAC", "(((...)))")).tolist() == [9, 0, 7, 0, 0, 0, 3, 0, 1]


def test_the_bootstrap_of_equal_molecules_has_no_spread() -> None:
    counts = Counts(np.full(9, 4), np.full((9, 2), [3, 5]), np.full((9, 2), [2, 3]))
    assert interval(bootstrap_areas(counts)) == pytest.approx((area(counts), area(counts)))


# The original program's log Z is off by 1e-3 (rough logarithms), which probably is why its figures are as well.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("counts_parses", "expected", "error"), [(True, (0.6459, 0.7010, 0.7198), 2e-3), (False, (0.6406,), 1e-4)]
)
def test_contrafold_weights_score_as_measured_elsewhere(
    data_dir: Path, counts_parses: bool, expected: tuple[float, ...], error: float
) -> None:
    model = RNAFolder.from_parameters(rna_file("contrafold-2", data_dir), counts_parses=counts_parses)
    counts = counted(model, load_rna("s151rfam", data_dir))
    at = GAMMAS.index(2.0)
    found = area(counts), counts.sensitivity.mean(axis=0)[at], counts.ppv.mean(axis=0)[at]
    assert found[: len(expected)] == pytest.approx(expected, abs=error)
