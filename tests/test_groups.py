"""Groups: every form of the spec, the adjoint pair, fixed strengths, and each way to get it wrong."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tikhon.errors import InputError
from tikhon.groups import Groups, groups_of_columns, weight_groups

COLUMNS = ["num__age", "num__pay", "txt__the", "txt__a", "plain"]


def labels(spec, columns=COLUMNS):
    index, names = groups_of_columns(spec, columns)
    return [None if i < 0 else names[i] for i in index]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (None, ["all"] * 5),
        ("separate", COLUMNS),
        ("prefix", ["num", "num", "txt", "txt", "rest"]),
        (["b", "a", "b", "a", "a"], ["b", "a", "b", "a", "a"]),
        (np.array([0, 1, 1, -1, 0]), ["0", "1", "1", None, "0"]),
        (np.array([0.0, 1.0, np.nan, -1.0, 0.0]), ["0", "1", None, None, "0"]),
        (["a", None, "a", "b", "b"], ["a", None, "a", "b", "b"]),
        ({"words": ["txt__the", "txt__a"]}, ["rest", "rest", "words", "words", "rest"]),
        ({"x": [0, 1], "y": "plain"}, ["x", "x", "rest", "rest", "y"]),
        (lambda name: None if name == "plain" else name[0], ["n", "n", "t", "t", None]),
    ],
)
def test_every_form_of_the_spec(spec, expected):
    assert labels(spec) == expected


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("prefixes", "'prefixes' is not known"),
        (["a", "b"], r"shape \(2,\) but there are 5 columns"),
        ({"a": ["nope"]}, "unknown column 'nope'"),
        ({"a": [7]}, "column 7: write a name, or a position from 0 to 4"),
        ({"a": [True]}, "column True"),
        ({"a": ["plain"], "b": ["plain"]}, "both 'a' and 'b'"),
        ({"a": ["plain", "plain"]}, "'a' twice"),
        ({"a": []}, "'a' has no columns"),
        ([0, 1, -2, 0, 0], "number -2"),
    ],
)
def test_what_is_wrong_is_named(spec, words):
    with pytest.raises(InputError, match=words):
        groups_of_columns(spec, COLUMNS)


def test_separate_groups_need_distinct_names():
    with pytest.raises(InputError, match="'a' occurs twice"):
        groups_of_columns("separate", ["a", "b", "a"])


def test_a_group_holds_all_outputs_or_one():
    shared = weight_groups(["a", "b"], ["x", "y"], n_outputs=3, fit_intercept=True)
    assert shared.index.tolist() == [0, 1, 0, 1, 0, 1, -1, -1, -1]
    assert shared.sizes.tolist() == [3, 3]
    split = weight_groups(["a", -1], ["x", "y"], n_outputs=2, fit_intercept=False, outputs=["no", "yes"])
    assert split.names == ("a[no]", "a[yes]")
    assert split.index.tolist() == [0, -1, 1, -1]


@given(st.integers(1, 5), st.lists(st.integers(-1, 4), min_size=1, max_size=20), st.data())
def test_expand_and_collect_are_adjoint(count, index, data):
    """<expand(a), b> = <a, collect(b)> where -1 is left out."""
    index = np.array([i % count if i >= 0 else -1 for i in index], np.intp)
    groups = Groups(index, tuple(map(str, range(count))), np.full(count, np.nan))
    numbers = st.floats(-100, 100)
    per_group = data.draw(arrays(float, count, elements=numbers))
    per_weight = data.draw(arrays(float, len(index), elements=numbers))
    left, right = groups.expand(per_group) @ per_weight, per_group @ groups.collect(per_weight)
    assert left == pytest.approx(right, abs=1e-7)
    assert groups.expand(per_group)[index < 0].tolist() == [0.0] * int((index < 0).sum())


def test_fixed_strengths_leave_the_others_to_be_learned():
    groups = weight_groups(["a", "b", "a"], ["x", "y", "z"], n_outputs=1, fit_intercept=True)
    some = groups.with_fixed({"b": 2.0})
    assert some.learned.tolist() == [True, False]
    assert some.strengths(np.log([3.0])).tolist() == pytest.approx([3.0, 2.0])
    assert some.with_common(5.0).tolist() == [5.0, 2.0]
    assert groups.with_fixed(4).fixed.tolist() == [4.0, 4.0]
    assert groups.with_fixed(None) is groups
    assert groups.named(np.array([1.0, 2.0])) == {"a": 1.0, "b": 2.0}


@pytest.mark.parametrize(
    ("strengths", "words"),
    [
        ({"z": 1.0}, "unknown group 'z'"),
        ({"a": -1.0}, "'a' is -1.0"),
        ({"a": float("nan")}, "'a' is nan"),
        ({"a": float("inf")}, "'a' is inf"),
        ({"a": "much"}, "'a' is 'much'"),
        (-3.0, "is -3.0"),
    ],
)
def test_strengths_that_make_no_sense_are_refused(strengths, words):
    groups = weight_groups(["a", "b"], ["x", "y"], n_outputs=1, fit_intercept=False)
    with pytest.raises(InputError, match=words):
        groups.with_fixed(strengths)


def test_columns_may_be_a_slice_or_a_mask():
    assert labels({"a": slice(1, 3)}) == ["rest", "a", "a", "rest", "rest"]
    assert labels({"a": np.array([True, False, False, False, True])}) == ["a", "rest", "rest", "rest", "a"]


def test_numbered_groups_may_be_fixed_by_number():
    groups = weight_groups([0, 1], ["x", "y"], n_outputs=1, fit_intercept=False)
    assert groups.with_fixed({1: 2.0}).fixed[1] == 2.0
