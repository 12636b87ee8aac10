"""The rivals do what their libraries do."""

import warnings
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.preprocessing import StandardScaler

from tikhon.bench import peers
from tikhon.bench.peers import FITS, LinearAnswer, fit_next_to_nothing, installed, logistic_cv

LOADERS = (load_breast_cancer, load_wine)


def standardised(loader: Any) -> tuple[Any, Any]:
    X, y = loader(return_X_y=True)
    return StandardScaler().fit_transform(X), np.where(y == 0, "first", np.where(y == 1, "second", "third"))


def test_the_rival_is_quiet_and_has_our_grid() -> None:
    X = np.random.default_rng(0).normal(size=(60, 3))
    y = (X[:, 0] > 0).astype(int)
    folds = [(np.arange(30), np.arange(30, 60)), (np.arange(30, 60), np.arange(30))]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = logistic_cv("newton-cholesky", folds).fit(X, y)
    np.testing.assert_allclose(np.ravel(model.Cs_), 2.0 ** np.arange(-10, 11))


@pytest.mark.parametrize("loader", LOADERS)
@pytest.mark.parametrize("one_against_rest", [False, True])
def test_probabilities_of_a_linear_answer_are_scikit_learns(loader: Any, one_against_rest: bool) -> None:
    X, y = standardised(loader)
    model: Any = LogisticRegression().fit(X, y)
    if one_against_rest and len(model.classes_) > 2:
        model = OneVsRestClassifier(LogisticRegression()).fit(X, y)
        model.coef_ = np.vstack([each.coef_ for each in model.estimators_])
        model.intercept_ = np.concatenate([each.intercept_ for each in model.estimators_])
    answer = LinearAnswer(model.classes_, model.coef_, model.intercept_, 1.0, one_against_rest=one_against_rest)
    np.testing.assert_allclose(answer.predict_proba(X), model.predict_proba(X), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("peer", peers.PACKAGES)
@pytest.mark.parametrize("loader", LOADERS)
def test_a_peer_finds_the_classes_that_it_should(peer: str, loader: Any) -> None:
    if not installed(peer):
        pytest.skip(f"{peers.PACKAGES[peer]} is not installed: pip install 'tikhon[peers]'")
    X, y = standardised(loader)
    answer = FITS[peer](sparse.csr_matrix(X), y)
    # scikit-learn at the strength that the peer chose, one class against the rest where the peer does so
    fit: Any = LogisticRegression(C=1.0 / answer.strength, tol=1e-8, max_iter=10_000)
    if answer.one_against_rest and len(answer.classes_) > 2:
        fit = OneVsRestClassifier(fit)
    expected = fit.fit(X, y).predict_proba(X)
    np.testing.assert_allclose(answer.predict_proba(X), expected, atol=0.1)  # the peer stops early
    np.testing.assert_array_equal(answer.classes_, np.unique(y))


def test_next_to_nothing_is_two_classes_and_three() -> None:
    seen = []
    fit_next_to_nothing(lambda X, y, folds: seen.append((X.shape, len(np.unique(y)), len(folds))))
    assert seen == [((60, 3), 2, 2), ((60, 3), 3, 2)]
