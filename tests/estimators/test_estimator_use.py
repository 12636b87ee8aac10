"""The estimators among scikit-learn's tools, and what their attributes mean."""

import doctest
import logging
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import Ridge as TheirRidge
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import tikhon.estimators.linear.logistic
import tikhon.estimators.linear.ridge
from tikhon import MM, Gradient, Grid, LogisticRegression, Ridge, TuningWarning
from tikhon.errors import InputError

BOTH = pytest.mark.parametrize("kind", [Ridge, LogisticRegression])
TUNERS = ("grid", "mm", "direct", "gradient")


@pytest.fixture
def rng():
    return np.random.default_rng(5)


@pytest.fixture(name="X")
def matrix(rng):
    return rng.normal(size=(80, 6))


@pytest.fixture
def labels(X, rng):
    effects = np.array([[1, -1, 1, 0.4, -0.2, 0.3], [-1, 0.5, -1, -0.3, 0.4, 0.2], [0.3, 0.8, 0.4, 0.1, -0.3, -0.5]])
    scores = X @ effects.T + rng.gumbel(size=(80, 3))
    return np.array(["low", "middle", "high"])[scores.argmax(axis=1)]


@pytest.fixture
def values(X, rng):
    return X @ [1.0, -1.0, 0.8, 0.6, -0.6, 0.5] + 1.5 * rng.normal(size=80)


@pytest.fixture
def target(kind, labels, values):
    return values if kind is Ridge else labels


@pytest.mark.parametrize("module", [tikhon.estimators.linear.logistic, tikhon.estimators.linear.ridge])
def test_examples_of_the_documentation_run(module):
    results = doctest.testmod(module)
    assert results.attempted > 5
    assert results.failed == 0


@BOTH
def test_clone_and_parameters(kind, X, target):
    tuner = Gradient(start=2.0)
    model = kind(groups={"a": [0]}, tuner=tuner, tol=1e-12)
    assert model.get_params()["tuner"] is tuner
    copy = clone(model.fit(X, target))
    assert not hasattr(copy, "coef_")
    assert copy.get_params()["groups"] == {"a": [0]}
    np.testing.assert_array_equal(copy.fit(X, target).coef_, model.coef_)


@BOTH
def test_pickle(kind, X, target):
    model = kind().fit(X, target)
    back = pickle.loads(pickle.dumps(model))
    assert (back.predict(X) == model.predict(X)).all()
    assert back.strengths_ == model.strengths_
    assert back.tuning_.summary() == model.tuning_.summary()


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
@BOTH
def test_frames_name_columns_and_groups(kind, X, target, frame):
    names = ["num__age", "num__size", "txt__the", "txt__of", "txt__a", "alone"]
    data = frame(dict(zip(names, X.T, strict=True)))
    model = kind(groups="prefix", tuner="mm").fit(data, target)
    assert list(model.feature_names_in_) == names
    assert list(model.strengths_) == ["num", "txt", "rest"]
    plain = kind(groups=[0, 0, 1, 1, 1, 2], tuner="mm").fit(X, target)
    np.testing.assert_allclose(model.coef_, plain.coef_, rtol=1e-10)  # the orders in memory differ
    assert list(kind(groups="separate", tuner=None).fit(data, target).strengths_) == names
    by_name = kind(groups={"a": ["txt__a", "alone"]}, tuner=None).fit(data, target)
    assert by_name.groups_.index[:6].tolist() == [0, 0, 0, 0, 1, 1]
    assert by_name.groups_.names == ("rest", "a")


@BOTH
def test_names_without_a_frame_are_those_of_scikit_learn(kind, X, target):
    assert list(kind(groups="separate", tuner=None).fit(X, target).strengths_) == [f"x{j}" for j in range(6)]


@BOTH
def test_pipeline_with_a_column_transformer(kind, X, target, rng):
    data = pd.DataFrame({"age": X[:, 0], "size": X[:, 1], "town": rng.choice(["A", "B", "C"], 80)})
    columns = ColumnTransformer(
        [("num", StandardScaler(), ["age", "size"]), ("cat", OneHotEncoder(sparse_output=False), ["town"])]
    ).set_output(transform="pandas")
    pipeline = make_pipeline(columns, kind(groups="prefix", tuner="mm")).fit(data, target)
    assert list(pipeline[-1].strengths_) == ["num", "cat"]
    assert pipeline.score(data, target) > 0.3


def test_sparse_text_in_a_pipeline(rng):
    words = np.array(["good", "bad", "film", "plot", "the"])
    texts = [" ".join(rng.choice(words, 6)) for _ in range(60)]
    y = np.array([text.count("good") - text.count("bad") > 0 for text in texts])
    pipeline = make_pipeline(CountVectorizer(), LogisticRegression(groups="separate", tuner="mm")).fit(texts, y)
    assert pipeline.score(texts, y) > 0.9
    assert pipeline[-1].classes_.dtype == bool


@BOTH
def test_grid_search_and_cross_validation_over_our_parameters(kind, X, target):
    search = GridSearchCV(kind(tuner=None), {"strengths": [0.1, 1.0, 1e4], "fit_intercept": [True, False]}, cv=3)
    with pytest.warns(TuningWarning, match="shrank"):  # at 1e4
        search.fit(X, target)
    assert search.best_params_["strengths"] < 1e4
    assert cross_val_score(kind(tuner="mm"), X, target, cv=3).mean() > 0.3


@pytest.mark.parametrize("tuner", TUNERS)
@BOTH
def test_weights_are_repetitions_at_an_interior_optimum(kind, X, target, rng, tuner):
    """Two groups whose best strengths are far from any bound; each split's weighted rows are repeated in place."""
    counts = rng.integers(0, 4, size=80)
    folds = np.arange(80) % 3
    repeated = np.repeat(np.arange(80), counts)
    cv_weighted = [(np.flatnonzero(folds != k), np.flatnonzero(folds == k)) for k in range(3)]
    cv_repeated = [(np.flatnonzero(folds[repeated] != k), np.flatnonzero(folds[repeated] == k)) for k in range(3)]
    groups = [0, 0, 0, 1, 1, 1]
    weighted = kind(groups, tuner, cv=cv_weighted).fit(X, target, sample_weight=counts)
    plain = kind(groups, tuner, cv=cv_repeated).fit(X[repeated], target[repeated])
    assert all(1e-3 < strength < 1e4 for strength in plain.strengths_.values())
    np.testing.assert_allclose(list(weighted.strengths_.values()), list(plain.strengths_.values()), rtol=1e-6)
    np.testing.assert_allclose(weighted.coef_, plain.coef_, rtol=1e-6, atol=1e-9)


@BOTH
@pytest.mark.parametrize("tuner", TUNERS)
def test_nothing_left_to_learn_is_a_plain_fit(kind, X, target, tuner):
    model = kind(tuner=tuner, strengths=3.0).fit(X, target)
    assert model.strengths_ == {"all": 3.0}
    np.testing.assert_array_equal(model.coef_, kind(tuner=None, strengths=3.0).fit(X, target).coef_)


@pytest.mark.parametrize("tuner", TUNERS)
def test_some_strengths_fixed_others_learned(X, labels, tuner):
    model = LogisticRegression(groups={"a": [0, 1, 2]}, tuner=tuner, strengths={"rest": 7.0}).fit(X, labels)
    assert model.strengths_["rest"] == 7.0
    assert model.strengths_["a"] != 7.0


@pytest.mark.parametrize("tuner", TUNERS)
@pytest.mark.parametrize("n_targets", [1, 2])
def test_learned_ridge_strengths_are_ridge_strengths(X, values, rng, tuner, n_targets):
    y = values if n_targets == 1 else np.column_stack([values, rng.normal(size=80) + X[:, 5]])
    model = Ridge(groups=[0, 0, 0, 1, 1, 1], tuner=tuner).fit(X, y)
    again = Ridge(groups=[0, 0, 0, 1, 1, 1], tuner=None, strengths=model.strengths_).fit(X, y)
    np.testing.assert_allclose(again.coef_, model.coef_, rtol=1e-6, atol=1e-9)
    if tuner in ("mm", "direct"):
        relative = np.mean(np.square((y - model.predict(X)) / y.std(axis=0)))
        np.testing.assert_allclose(model.noise_variance_, relative * y.var(axis=0), rtol=0.01)
        assert model.tuning_.strengths == model.strengths_
        for name, precision in model.tuning_.extras["precisions"].items():
            assert model.strengths_[name] == pytest.approx(precision * relative, rel=0.01)
    else:
        assert model.noise_variance_ is None


@pytest.mark.parametrize("tuner", ["mm", "direct"])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_units_of_the_target_do_not_matter(X, values, tuner, fit_intercept):
    """Unless the prior is stated in them, as in the paper."""
    small, large = (Ridge(tuner=tuner, fit_intercept=fit_intercept).fit(X, unit * values) for unit in (1.0, 1e4))
    assert large.strengths_["all"] == pytest.approx(small.strengths_["all"], rel=1e-5)
    np.testing.assert_allclose(large.coef_, 1e4 * small.coef_, rtol=1e-5)
    assert large.noise_variance_ == pytest.approx(1e8 * small.noise_variance_, rel=1e-5)
    raw = [
        Ridge(tuner=tuner, fit_intercept=fit_intercept, scale_target=False).fit(X, unit * values)
        for unit in (1.0, 1e-4)
    ]
    assert raw[0].strengths_["all"] != pytest.approx(raw[1].strengths_["all"], rel=0.5)


@pytest.mark.parametrize("kind", [Ridge, LogisticRegression])
@pytest.mark.parametrize("groups", [None, [0, 0, 0, 1, 1, 1], "separate"])
def test_users_can_check_the_hypergradient(X, values, labels, kind, groups):
    model = kind(groups=groups, cv=3)
    report = model.check_hypergradient(X, values if kind is Ridge else labels, tol=1e-6)
    assert report.error <= 1e-6
    assert max(map(abs, report.implicit)) > 0
    assert not hasattr(model, "coef_")


def test_there_must_be_a_hypergradient_to_check(X, labels):
    with pytest.raises(InputError, match="all strengths are fixed"):
        LogisticRegression(strengths=1.0).check_hypergradient(X, labels)


def test_one_group_is_the_ridge_of_scikit_learn(X, values):
    model = Ridge(tuner="gradient").fit(X, values)
    theirs = TheirRidge(alpha=model.strengths_["all"], solver="cholesky").fit(X, values)
    np.testing.assert_allclose(model.coef_, theirs.coef_, rtol=1e-7)


def test_groups_per_class_and_per_target(X, labels, values):
    model = LogisticRegression(groups={"a": [0]}, per_class=True, tuner="mm").fit(X, labels)
    assert list(model.strengths_) == [f"{g}[{c}]" for c in ("high", "low", "middle") for g in ("a", "rest")]
    assert list(LogisticRegression(per_class=True, tuner=None).fit(X, labels == "low").strengths_) == ["all"]
    y = np.column_stack([values, X[:, 5]])
    assert list(Ridge(per_target=True, tuner=None).fit(X, y).strengths_) == ["all[y0]", "all[y1]"]
    frame = pd.DataFrame(y, columns=["height", "weight"])
    assert list(Ridge(per_target=True, tuner=None).fit(X, frame).strengths_) == ["all[height]", "all[weight]"]


def test_columns_that_are_never_penalised(X, values):
    with pytest.warns(TuningWarning, match="shrank"):
        model = Ridge(groups=[None, 0, 0, 0, 0, 0], tuner=None, strengths=1e9).fit(X, values)
    alone = TheirRidge(alpha=1e-12).fit(X[:, :1], values)
    np.testing.assert_allclose(model.coef_[0], alone.coef_[0], rtol=1e-5)
    assert np.abs(model.coef_[1:]).max() < 1e-6
    unpenalised = Ridge(groups=[None] * 6).fit(X, values)
    assert unpenalised.strengths_ == {}
    np.testing.assert_allclose(
        unpenalised.coef_, np.linalg.lstsq(np.c_[X, np.ones(80)], values, rcond=None)[0][:6], rtol=1e-7
    )


@BOTH
def test_the_same_call_gives_the_same_answer_for_any_number_of_threads(kind, X, target):
    models = [kind(n_jobs=n_jobs).fit(X, target) for n_jobs in (1, 1, 2, None)]
    for model in models[1:]:
        np.testing.assert_allclose(model.coef_, models[0].coef_, rtol=1e-9)
    np.testing.assert_array_equal(models[0].coef_, models[1].coef_)


@BOTH
def test_hold_out_and_rescaling(kind, X, target):
    held = kind(cv=None, validation_fraction=0.25, tuner=Grid(refine=0)).fit(X, target)
    scaled = kind(cv=None, validation_fraction=0.25, tuner=Grid(refine=0), rescale="n").fit(X, target)
    assert scaled.strengths_["all"] == pytest.approx(held.strengths_["all"] * 80 / 60, rel=0.03)


def test_verbose_steps_go_to_the_log(X, values, caplog):
    with caplog.at_level(logging.INFO, logger="tikhon.estimators.base"):
        model = Ridge(tuner=MM(), verbose=1).fit(X, values)
    assert [record.step.number for record in caplog.records] == [step.number for step in model.tuning_.trace]
    caplog.clear()
    Ridge(tuner=MM()).fit(X, values)
    assert caplog.records == []


@BOTH
def test_a_second_fit_forgets_the_first(kind, X, target):
    model = kind(tuner="mm").fit(pd.DataFrame(X, columns=list("abcdef")), target)
    model.set_params(tuner=None).fit(X, target)
    assert not hasattr(model, "feature_names_in_")
    assert getattr(model, "noise_variance_", None) is None


def test_input_is_not_changed(X, labels):
    sparse, weights = sp.csr_array(X), np.ones(80)
    before = X.copy(), sparse.copy(), labels.copy()
    for data in (X, sparse):
        LogisticRegression(tuner="mm", standardize=True, class_weight="balanced").fit(data, labels, weights)
    assert (before[0] == X).all()
    assert (before[1] != sparse).nnz == 0
    assert (before[2] == labels).all()
    assert (weights == 1).all()


def test_classes_with_no_weight_are_no_classes(X, labels):
    weights = (labels != "low").astype(float)
    model = LogisticRegression(tuner=None).fit(X, labels, weights)
    assert model.classes_.tolist() == ["high", "middle"]
    kept = labels != "low"
    np.testing.assert_allclose(model.coef_, LogisticRegression(tuner=None).fit(X[kept], labels[kept]).coef_, rtol=1e-8)
