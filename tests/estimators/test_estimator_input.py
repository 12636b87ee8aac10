"""Bad input: refused at once, with a message that names the value, the place and the remedy."""

import dataclasses
import time
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from tikhon import MM, ChainCRF, InputError, LogisticRegression, Ridge, TuningWarning
from tikhon.estimators.checks import warn_of_scales
from tikhon.groups import weight_groups
from tikhon.tuners import Fixed, Tuner

BOTH = pytest.mark.parametrize("kind", [Ridge, LogisticRegression])


@pytest.fixture
def rng():
    return np.random.default_rng(3)


@pytest.fixture(name="X")
def matrix(rng):
    return rng.normal(size=(40, 3))


@pytest.fixture
def y(X, rng):
    return (X[:, 0] + 0.5 * rng.normal(size=40) > 0).astype(int)


def refused(message):
    return pytest.raises(InputError, match=message)


@BOTH
@pytest.mark.parametrize(("value", "name"), [(np.nan, "NaN"), (np.inf, "infinity"), (-np.inf, "infinity")])
def test_nan_and_infinity_in_x_say_where(kind, X, y, value, name):
    model = kind(tuner=None).fit(X, y)
    X[7, 2] = X[9, 0] = value
    for method in (model.predict, lambda data: kind().fit(data, y)):
        with refused(rf"X contains {name}.*row 7, column 2"):
            method(X)
        with refused(rf"X contains {name}.*row 7, column 2"):
            method(sp.csc_array(X))
    with refused(rf"X contains {name}.*row 7, column 'income'"):
        kind().fit(pd.DataFrame(X, columns=["age", "size", "income"]), y)
    with refused(rf"X contains {name}.*row 7, column 'income'"):
        kind().fit(pl.DataFrame(X, schema=["age", "size", "income"]), y)


def test_the_message_is_one_line(X, y):
    X[0, 0] = np.nan
    with pytest.raises(InputError) as caught:
        Ridge().fit(X, y)
    assert "\n" not in str(caught.value)


def test_nan_in_y_says_where(X, y):
    target = y.astype(float)
    target[5] = np.nan
    for kind in (Ridge, LogisticRegression):
        with refused("y contains NaN.*row 5"):
            kind().fit(X, target)
    with refused("y contains NaN.*row 5, column 1"):
        Ridge().fit(X, np.column_stack([y, target]))


@BOTH
def test_lengths_that_differ(kind, X, y):
    with refused(r"inconsistent numbers of samples: \[40, 39\]"):
        kind().fit(X, y[:-1])


@BOTH
def test_data_without_rows_columns_or_numbers(kind, X, y):
    with refused("0 sample"):
        kind().fit(X[:0], y[:0])
    with refused("0 feature"):
        kind().fit(X[:, :0], y)
    with refused("could not convert string to float"):
        kind().fit(np.full((40, 2), "blue"), y)
    with refused("Expected 2D array"):
        kind().fit(X[:, 0], y)
    with refused("requires y to be passed"):
        kind().fit(X, None)


def test_one_class_only(X, y):
    with refused("only one class, 'a'.*at least two"):
        LogisticRegression().fit(X, np.full(40, "a"))
    with refused("only one class, 1, in the rows of positive weight"):
        LogisticRegression().fit(X, y, sample_weight=y.astype(float))


def test_targets_of_the_wrong_sort(X, y, rng):
    with refused("Unknown label type"):
        LogisticRegression().fit(X, rng.normal(size=40))
    with refused("could not convert string"):
        Ridge().fit(X, np.full(40, "blue"))
    with refused("dense"):
        Ridge().fit(X, sp.csr_array(X))


@BOTH
@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.ones(39), "40 rows"),
        (np.ones((40, 1)), "one weight per row"),
        (-np.ones(40), "-1.0 in row 0"),
        (np.zeros(40), "zero in every row"),
        (np.where(np.arange(40) == 4, np.nan, 1), "sample_weight contains NaN.*row 4"),
        (np.full(40, 1e300), r"sample_weight has 1e\+300 .*mean of 1"),
        (np.full(40, 1e-300), r"sample_weight has 1e-300 .*mean of 1"),
    ],
)
def test_sample_weights(kind, X, y, weights, message):
    with refused(message):
        kind().fit(X, y, sample_weight=weights)


@BOTH
@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ({"a": ["x0", "height"]}, "unknown column 'height'"),
        ({"a": [0, 5]}, "a position from 0 to 2"),
        ({"a": ["x0"], "b": ["x0"]}, "both 'a' and 'b'"),
        ({"a": [0, 0]}, "'a' twice"),
        ({"a": []}, "group 'a' has no columns"),
        ([0, 1], r"shape \(2,\) but there are 3 columns"),
        ([0, 1, -2], "number -2"),
        ("prefixes", "'prefix'"),
        ("prefix", "needs column names"),
    ],
)
def test_groups(kind, X, y, groups, message):
    with refused(message):
        kind(groups=groups).fit(X, y)


@BOTH
@pytest.mark.parametrize(
    ("strengths", "message"),
    [
        (-1.0, "-1.0: it must be finite, 0 or larger"),
        (float("nan"), "nan"),
        (float("inf"), "inf"),
        ("strong", "'strong'"),
        ({"all": -2}, "-2"),
        ({"some": 1.0}, "unknown group 'some'; the groups are 'all'"),
    ],
)
@pytest.mark.parametrize("tuner", [None, "gradient", "mm"])
def test_strengths(kind, X, y, strengths, message, tuner):
    with refused(message):
        kind(strengths=strengths, tuner=tuner).fit(X, y)


@BOTH
def test_without_a_tuner_every_group_needs_a_strength(kind, X, y):
    with refused("needs a strength for every group: 'rest' has none"):
        kind(groups={"a": [0]}, tuner=None, strengths={"a": 1.0}).fit(X, y)
    assert kind(groups={"a": [0]}, tuner=None).fit(X, y).strengths_ == {"a": 1.0, "rest": 1.0}


@BOTH
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("tuner", "magic"), ("tuner", 3), ("solver", "magic"), ("solver", 3), ("rescale", "m"), ("tol", 0), ("tol", "small"),
        ("max_iter", 0), ("max_iter", 1.5), ("n_jobs", 0), ("n_jobs", -2), ("fit_intercept", "yes"), ("standardize", 1),
        ("random_state", "x"), ("cv", "x"),
    ],
)  # fmt: skip
def test_parameters(kind, X, y, name, value):
    with refused(f"{name}="):
        kind(**{name: value}).fit(X, y)


@pytest.mark.parametrize(
    "class_weight", ["heavy", {0: 1.0, 1: -1.0}, {0: 1.0, 1: 0.0}, {0: 1.0, 1: float("nan")}, {0: 1, 5: 1}]
)
def test_class_weights(X, y, class_weight):
    with refused("class"):
        LogisticRegression(class_weight=class_weight).fit(X, y)


@pytest.mark.parametrize("size", [1e300, 1e-300])
def test_extreme_class_weights(X, y, size):
    with refused("class_weight has .* as its largest value"):
        LogisticRegression(class_weight={0: size, 1: size}).fit(X, y)
    with refused("class_weight has .* as its largest value"):
        ChainCRF(class_weight={"a": size, "b": size}).fit([[["x"], ["y"]]] * 5, [["a", "b"]] * 5)


@pytest.mark.parametrize("size", [1e-8, 1e30])
def test_weights_of_unusual_size_are_used(X, y, size):
    """The loss is a sum over rows: k times the weights need k times the strength for the same coefficients."""
    once = LogisticRegression(tuner=None, strengths=1.0).fit(X, y)
    scaled = LogisticRegression(tuner=None, strengths=size).fit(X, y, sample_weight=np.full(40, size))
    np.testing.assert_allclose(scaled.coef_, once.coef_, rtol=1e-6)


@BOTH
def test_other_columns_when_predicting(kind, X, y):
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    model = kind(tuner=None).fit(frame, y)
    with refused("(?s)unseen at fit time:\n- d\n.*now missing:\n- c"):
        model.predict(frame.rename(columns={"c": "d"}))
    with refused("same order"):
        model.predict(frame[["b", "a", "c"]])
    with refused("same order"):
        model.predict(pl.DataFrame(frame[["b", "a", "c"]].to_dict("list")))
    with refused("X has 2 features, but .* is expecting 3"):
        kind(tuner=None).fit(X, y).predict(X[:, :2])


@BOTH
def test_not_fitted(kind, X, tmp_path):
    with pytest.raises(NotFittedError):
        kind().predict(X)
    with pytest.raises(NotFittedError):
        kind().save(tmp_path / "f")


@BOTH
def test_columns_of_one_group_that_differ_a_thousandfold_give_a_warning(kind, X, y):
    X[:, 2] *= 1e4
    with pytest.warns(TuningWarning, match="'x2' is .*'x.' is .*standardize=True"):
        kind(tuner=None).fit(X, y)
    with pytest.warns(TuningWarning, match="very different scale"):
        kind(tuner=None).fit(sp.csr_array(X), y)


def test_scales_are_compared_quickly_in_many_groups(rng):
    X = sp.csr_array(np.where(np.arange(50_000) % 7 == 0, rng.random((20, 50_000)), 0.0))
    X = sp.hstack([X, 1e-5 * X[:, :1], X[:, 1:2]], format="csr")
    groups = [f"g{j % 50_000}" for j in range(50_002)]
    start = time.perf_counter()
    with pytest.warns(TuningWarning, match="'g0' has columns of very different scale"):
        warn_of_scales(X, weight_groups(groups, groups, n_outputs=1, fit_intercept=True), groups, centred=True)
    assert time.perf_counter() - start < 2.0  # 50,000 passes over all columns would take minutes


@BOTH
def test_no_warning_where_scales_do_not_matter(kind, X, y, recwarn):
    X[:, 1] = 0.0  # a column of zeros has no scale
    kind(tuner=None).fit(X, y)
    X[:, 2] *= 1e4
    kind(tuner=None, standardize=True).fit(X, y)
    kind(tuner=None, groups=["a", "a", "b"]).fit(X, y)
    kind(tuner=None, groups=["a", "a", None]).fit(X, y)
    assert [str(w.message) for w in recwarn if "scale" in str(w.message)] == []


@BOTH
def test_an_end_without_convergence_is_a_warning_with_its_reason(kind, X, y):
    with pytest.warns(ConvergenceWarning, match=r"'mm' did not converge: max_steps .*raise max_steps"):
        model = kind(tuner=MM(max_steps=1)).fit(X, y)
    assert model.tuning_.status == "max_steps"


class Complaining(Tuner):
    """A tuner of one's own: it learns nothing and has something to say."""

    name = "complaining"
    uses_pairs = needs_likelihood = False
    checkpoint = None

    def tune(self, problem):
        fixed = dataclasses.replace(problem, groups=problem.groups.with_fixed(2.0))
        return dataclasses.replace(Fixed().tune(fixed), warnings=("look at this", "and at that"), status="stalled")


@BOTH
def test_warnings_of_the_tuner_are_warnings_of_the_estimator(kind, X, y):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = kind(tuner=Complaining()).fit(X, y)
    assert [(w.category, w.filename) for w in caught] == [
        (TuningWarning, __file__),
        (TuningWarning, __file__),
        (ConvergenceWarning, __file__),
    ]
    assert [str(w.message) for w in caught[:2]] == ["look at this", "and at that"]
    assert model.strengths_ == {"all": 2.0}
