"""Nested subsets of the rows, and the splits of each stage."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.model_selection import GroupKFold, KFold, StratifiedKFold, TimeSeriesSplit

from tikhon.errors import InputError
from tikhon.search.stages import LEAST_OF_CLASS, checked_fractions, joining_ranks, make_stages


def splits_of(splitter: Any, n: int, y: Any = None, groups: Any = None) -> list[Any]:
    return list(splitter.split(np.zeros((n, 1)), y, groups))


@given(st.integers(60, 400), st.integers(1, 5), st.integers(0, 100), st.floats(0.05, 0.9))
@settings(max_examples=50, deadline=None)
def test_stages_are_nested_and_keep_folds(n: int, n_classes: int, seed: int, fraction: float) -> None:
    codes = np.random.default_rng(seed).integers(0, n_classes, n)
    splits = splits_of(KFold(3, shuffle=True, random_state=seed), n)
    stages, _ = make_stages((fraction, 1.0), splits, n_rows=n, codes=codes, groups=None, seed=seed)
    for (own, own_test), (train, test) in zip(stages[0].splits, splits, strict=True):
        assert set(own) <= set(train)
        assert (own_test == test).all()
        assert not set(own) & set(test)
        for code in range(n_classes):  # classes keep their proportion
            there, here = np.sum(codes[train] == code), np.sum(codes[own] == code)
            assert here >= min(LEAST_OF_CLASS, there)
    assert all((own == train).all() for (own, _), (train, _) in zip(stages[-1].splits, splits, strict=True))


def test_a_later_stage_has_all_rows_of_the_one_before() -> None:
    codes = np.arange(300) % 3
    splits = splits_of(StratifiedKFold(5), 300, codes)
    stages, notes = make_stages((0.3, 0.6, 1.0), splits, n_rows=300, codes=codes, groups=None, seed=0)
    assert notes == []
    for before, after in pairwise(stages):
        for (rows, _), (more, _) in zip(before.splits, after.splits, strict=True):
            assert set(rows) < set(more)
    assert [stage.share for stage in stages] == pytest.approx([0.3, 0.6, 1.0], abs=0.02)


def test_classes_join_in_proportion() -> None:
    codes = np.array([0] * 900 + [1] * 100)
    ranks = joining_ranks(1000, codes, None, 0)
    taken = ranks <= 0.3
    assert np.sum(taken & (codes == 0)) == 270
    assert np.sum(taken & (codes == 1)) == 30


def test_groups_stay_whole() -> None:
    groups = np.repeat(np.arange(40), 10)
    splits = splits_of(GroupKFold(4), 400, groups=groups)
    stages, _ = make_stages((0.3, 1.0), splits, n_rows=400, codes=None, groups=groups, seed=1)
    for own, _ in stages[0].splits:
        for group in np.unique(groups[own]):
            assert np.sum(groups[own] == group) == 10


def test_groups_stay_whole_for_the_sake_of_rare_classes_too() -> None:
    groups = np.repeat(np.arange(30), 10)
    codes = (groups >= 28).astype(int)
    splits = [(np.flatnonzero(groups % 2 != k), np.flatnonzero(groups % 2 == k)) for k in (0, 1)]
    stages, _ = make_stages((0.2, 1.0), splits, n_rows=300, codes=codes, groups=groups, seed=0)
    for rows, _ in stages[0].splits:
        assert set(np.unique(groups[rows], return_counts=True)[1]) == {10}
        assert set(codes[rows]) == {0, 1}


def test_ordered_splits_keep_the_latest_rows() -> None:
    splits = splits_of(TimeSeriesSplit(4), 500)
    stages, _ = make_stages((0.25, 1.0), splits, n_rows=500, codes=None, groups=None, seed=0)
    for (own, test), (train, _) in zip(stages[0].splits, splits, strict=True):
        assert own.tolist() == list(range(own[0], test[0]))  # without a gap up to the test rows
        assert len(own) == round(0.25 * len(train))


def test_a_fixed_validation_set_is_no_series() -> None:
    groups = np.repeat(np.arange(50), 10)
    split = (np.arange(400), np.arange(400, 500))
    for kept_whole in (None, groups):
        stages, _ = make_stages((0.3, 1.0), [split], n_rows=500, codes=None, groups=kept_whole, seed=0)
        rows = stages[0].splits[0][0]
        assert rows.min() < 100  # not the latest 30 %
        if kept_whole is not None:
            assert all(np.sum(groups[rows] == group) == 10 for group in np.unique(groups[rows]))


def test_small_stages_are_enlarged_or_left_out() -> None:
    splits = splits_of(KFold(3), 100)
    stages, notes = make_stages((0.1, 1.0), splits, n_rows=100, codes=None, groups=None, seed=0)
    assert stages[0].fraction == 0.5
    assert "uses 0.5" in notes[0]
    stages, notes = make_stages((0.1, 1.0), splits_of(KFold(3), 30), n_rows=30, codes=None, groups=None, seed=0)
    assert [stage.fraction for stage in stages] == [1.0]
    assert "left out" in notes[0]
    assert stages[0].place == 1


@pytest.mark.parametrize(
    ("stages", "told"),
    [
        ((), "above 0"),
        ((0.0, 1.0), "above 0"),
        ((0.5, 1.5), "at most 1"),
        ((0.5, 0.3, 1.0), "more rows"),
        ((0.3, 0.5), "end with 1.0"),
        (0.3, "growing fractions"),
        (("a", 1.0), "growing fractions"),
    ],
)
def test_stages_that_do_not_grow_to_all_rows_are_refused(stages: Any, told: str) -> None:
    with pytest.raises(InputError, match=told):
        checked_fractions(stages)
