"""Coefficients at given strengths are those of scikit-learn, whose alpha is our strength and whose C is 1 / strength."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression as TheirLogistic
from sklearn.linear_model import Ridge as TheirRidge

from tikhon import LogisticRegression, Ridge

FORMS = {
    "C order": np.ascontiguousarray,
    "F order": np.asfortranarray,
    "csr": sp.csr_array,
    "csc": sp.csc_array,
    "coo matrix": sp.coo_matrix,
}


@pytest.fixture
def rng():
    return np.random.default_rng(0)  # one seed: the combinations are many


@pytest.fixture(name="X")
def sparse_enough(rng):
    return np.where(rng.random((60, 7)) < 0.6, rng.normal(size=(60, 7)) + 0.3, 0.0)


@pytest.fixture
def weights(rng):
    return rng.random(60) * 3


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("n_targets", [None, 1, 3])
def test_ridge(X, rng, weights, form, fit_intercept, weighted, n_targets):
    y = rng.normal(size=60 if n_targets is None else (60, n_targets)) + 1.0
    sample_weight = weights if weighted else None
    ours = Ridge(tuner=None, strengths=2.5, fit_intercept=fit_intercept, tol=1e-24)
    ours.fit(FORMS[form](X), y, sample_weight)
    theirs = TheirRidge(alpha=2.5, fit_intercept=fit_intercept, solver="cholesky").fit(X, y, sample_weight)
    assert ours.coef_.shape == theirs.coef_.reshape((-1, 7) if y.ndim == 2 else 7).shape
    np.testing.assert_allclose(ours.coef_, theirs.coef_.reshape(ours.coef_.shape), rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(ours.predict(FORMS[form](X)).ravel(), theirs.predict(X).ravel(), rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("n_classes", [2, 4])
def test_logistic(X, rng, weights, form, fit_intercept, weighted, n_classes):
    y = np.array(["d", "a", "c", "b"])[rng.permutation(np.arange(60) % n_classes)]
    sample_weight = weights if weighted else None
    ours = LogisticRegression(tuner=None, strengths=0.4, fit_intercept=fit_intercept, tol=1e-22)
    ours.fit(FORMS[form](X), y, sample_weight)
    theirs = TheirLogistic(C=1 / 0.4, fit_intercept=fit_intercept, solver="newton-cg", tol=1e-11, max_iter=10_000)
    theirs.fit(X, y, sample_weight)
    assert ours.coef_.shape == theirs.coef_.shape
    assert ours.intercept_.shape == theirs.intercept_.shape
    assert (ours.classes_ == theirs.classes_).all()
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-6, atol=1e-7)
    for method in ("decision_function", "predict_proba", "predict_log_proba"):
        mine, other = getattr(ours, method)(FORMS[form](X)), getattr(theirs, method)(X)
        if method == "decision_function" and n_classes > 2:  # their intercepts are not centred
            other = other - other.mean(axis=1, keepdims=True)
            mine = mine - mine.mean(axis=1, keepdims=True)
        np.testing.assert_allclose(mine, other, rtol=1e-6, atol=1e-6)
    assert (ours.predict(X) == theirs.predict(X)).all()
    assert ours.score(X, y) == theirs.score(X, y)


@pytest.mark.parametrize("class_weight", ["balanced", {"a": 3.0, "b": 0.5, "c": 1.0}])
def test_class_weights(X, rng, class_weight):
    y = np.array(["a", "b", "c"])[rng.choice(3, 60, p=[0.5, 0.3, 0.2])]
    ours = LogisticRegression(tuner=None, class_weight=class_weight, tol=1e-22).fit(X, y)
    theirs = TheirLogistic(class_weight=class_weight, solver="newton-cg", tol=1e-11, max_iter=10_000).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-6, atol=1e-7)


def test_strengths_by_group_are_those_of_scaled_columns(X, rng):
    """A strength s on some columns is a strength 1 on these columns divided by sqrt(s)."""
    y = rng.normal(size=60)
    ours = Ridge(groups={"a": [0, 1]}, tuner=None, strengths={"a": 4.0, "rest": 0.25}, tol=1e-24).fit(X, y)
    scale = np.sqrt([4.0, 4.0, 0.25, 0.25, 0.25, 0.25, 0.25])
    theirs = TheirRidge(alpha=1.0, solver="cholesky").fit(X / scale, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_ / scale, rtol=1e-8)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_standardize_divides_by_the_weighted_deviation(X, rng, weights, form):
    X[:, 3] = 2.0  # constant columns are left alone
    y = rng.normal(size=60)
    ours = Ridge(tuner=None, strengths=3.0, standardize=True, tol=1e-24).fit(form(X), y, weights)
    mean = np.average(X, axis=0, weights=weights)
    scale = np.sqrt(np.average((X - mean) ** 2, axis=0, weights=weights))
    scale[3] = 1.0
    theirs = TheirRidge(alpha=3.0, solver="cholesky").fit(X / scale, y, weights)
    np.testing.assert_allclose(ours.coef_, theirs.coef_ / scale, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X / scale), rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("dtype", [np.float32, np.int64, bool])
def test_other_types_of_numbers_are_the_same_numbers(rng, dtype):
    X = np.maximum(rng.normal(size=(40, 3)) * 3, 0).astype(dtype)
    y = rng.normal(size=40)
    for form in (np.asarray, sp.csc_array):
        ours = Ridge(tuner=None).fit(form(X), y)
        np.testing.assert_allclose(ours.coef_, Ridge(tuner=None).fit(X.astype(float), y).coef_, rtol=1e-12)


def test_repeated_entries_of_a_sparse_matrix_are_summed_and_left_alone(rng):
    X = sp.csr_array(([1.0, 2.0, 1.0, 4.0], [0, 0, 1, 1], [0, 2, 3, 4]), shape=(3, 2))
    assert not X.has_canonical_format
    model = Ridge(tuner=None, standardize=True).fit(X, [1.0, 2.0, 0.0])
    np.testing.assert_allclose(model.coef_, Ridge(tuner=None, standardize=True).fit(X.toarray(), [1.0, 2.0, 0.0]).coef_)
    assert X.nnz == 4
