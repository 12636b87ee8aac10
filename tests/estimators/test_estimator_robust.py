"""Data far from zero, of extreme size, or in other units: the answer follows, or the message says what to do."""

import signal

import numpy as np
import pytest
import scipy.sparse as sp

from tikhon import MM, Auto, Gradient, LogisticRegression, Ridge
from tikhon.errors import InputError, TuningWarning

TUNERS = [None, "grid", "mm", "direct", "gradient"]


@pytest.fixture(name="X")
def features(rng):
    return rng.normal(size=(100, 5))


@pytest.fixture
def values(X, rng):
    return 2.0 * X[:, 0] - X[:, 1] + rng.normal(size=100)


@pytest.fixture
def interruptible():
    """SIGINT raises KeyboardInterrupt, also in a background job, where a shell lets it be ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("tuner", TUNERS)
@pytest.mark.parametrize("shift", [1e2, 1e4, 1e8])
def test_a_shift_of_columns_changes_nothing_but_the_intercept(tuner, shift, X, values):
    for kind, target in ((Ridge, values), (LogisticRegression, values > 0)):
        here, there = kind(tuner=tuner).fit(X, target), kind(tuner=tuner).fit(X + shift, target)
        # A column of size 1 at 1e8 has eight digits left.
        np.testing.assert_allclose(there.coef_, here.coef_, rtol=1e-3, atol=1e-4)
        assert there.strengths_["all"] == pytest.approx(here.strengths_["all"], rel=1e-2)


@pytest.mark.parametrize("tuner", TUNERS)
@pytest.mark.parametrize("shift", [1e3, 1e6])
def test_a_shift_of_the_target_changes_nothing_but_the_intercept(tuner, shift, X, values):
    here, there = Ridge(tuner=tuner).fit(X, values), Ridge(tuner=tuner).fit(X, values + shift)
    np.testing.assert_allclose(there.coef_, here.coef_, rtol=1e-5, atol=1e-7)
    assert there.intercept_ == pytest.approx(here.intercept_ + shift)


def test_the_scale_of_columns_moves_the_learned_strength_with_it(X, values):
    """Penalty strength ||w||^2: columns c times as large want a strength c^2 times as large."""
    here, there = (LogisticRegression(tuner=Gradient(tol=1e-6)).fit(c * X, values > 0) for c in (1.0, 1e4))
    assert there.strengths_["all"] == pytest.approx(1e8 * here.strengths_["all"], rel=1e-3)


def test_a_group_scaled_by_itself_keeps_its_share(X, values):
    scaled = X * np.array([1.0, 1.0, 1e5, 1e5, 1e5])
    here, there = (
        LogisticRegression(groups=[0, 0, 1, 1, 1], tuner=Auto(tol=1e-6)).fit(data, values > 0) for data in (X, scaled)
    )
    np.testing.assert_allclose(there.predict_proba(scaled), here.predict_proba(X), atol=1e-3)


@pytest.mark.parametrize("kind", [Ridge, LogisticRegression])
@pytest.mark.parametrize("store", [np.asarray, sp.csr_array])
def test_values_whose_squares_overflow_are_named(kind, store, X, values):
    X[7, 3] = -1e200
    with pytest.raises(InputError, match=r"X holds -1e\+200 \(row 7, column 'x3'\)"):
        kind().fit(store(X), values > 0)


def test_targets_whose_squares_overflow_are_named(X, values):
    values[4] = 1e180
    with pytest.raises(InputError, match=r"y holds 1e\+180 \(row 4\)"):
        Ridge().fit(X, values)


def test_labels_that_cannot_be_sorted_are_refused(X):
    with pytest.raises(InputError):
        LogisticRegression().fit(X, np.array([None, "a"] * 50, dtype=object))
    with pytest.raises(InputError):
        LogisticRegression().fit(X, np.array([3, "a"] * 50, dtype=object))


def test_a_tuner_class_is_not_a_tuner(X, values):
    with pytest.raises(InputError, match=r"a class must be called: MM\(\)"):
        LogisticRegression(tuner=MM).fit(X, values > 0)


@pytest.mark.filterwarnings("ignore:the strength of .* bound:tikhon.errors.TuningWarning")  # true as well
def test_many_strengths_from_few_rows_are_announced(X, values):
    with pytest.warns(TuningWarning, match=r"6 strengths were learned from the held-out loss of 100 rows"):
        LogisticRegression(groups="separate", tuner=Gradient(max_steps=100)).fit(
            np.column_stack([X, X[:, 0] + X[:, 1]]), values > 0
        )


def test_targets_of_different_size_do_not_drown_each_other(X, values, rng):
    other = 1e6 * (X[:, 4] + rng.normal(size=100))
    model = Ridge(groups=[0, 0, 1, 1, 1], tuner="gradient", per_target=True).fit(X, np.column_stack([values, other]))
    alone = Ridge(groups=[0, 0, 1, 1, 1], tuner="gradient").fit(X, values)
    np.testing.assert_allclose(model.coef_[0], alone.coef_, rtol=0.05, atol=0.02)


@pytest.mark.filterwarnings("ignore::UserWarning")  # of bounds, of many strengths, of the interruption: all true
def test_ctrl_c_reaches_the_caller_and_the_best_so_far_is_kept(rng, interruptible):
    X = rng.normal(size=(400, 60))
    y = X[:, 0] + rng.normal(size=400) > 0
    model = LogisticRegression(groups="separate", tuner=Gradient(tol=1e-9), n_jobs=1)
    model._on_step = lambda step: signal.raise_signal(signal.SIGINT) if step.number == 3 else None
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    assert model.tuning_.status == "interrupted"
    assert model.score(X, y) > 0.5
