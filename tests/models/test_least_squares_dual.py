"""Least squares with fewer rows than weights: factors of the size of the rows, from a kernel that all views share."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from tests import naive

from tikhon import Ridge
from tikhon.models import LeastSquares
from tikhon.models.linear.design import Design
from tikhon.models.linear.dual import SharedKernel
from tikhon.solvers import make_solver


def wide(rng, n=30, p=60, n_targets=1, **kwargs):
    X, y = rng.normal(size=(n, p)), rng.normal(size=(n, n_targets))
    return X, y, LeastSquares(X, y, **kwargs)


def without_a_fifth(rng, row_weights):
    return row_weights * (rng.permutation(len(row_weights)) % 5 != 0)


def dense_system(view, X, row_weights, strength):
    """The penalised Hessian from the definition, target by target."""
    X = np.column_stack([X, np.ones(len(X))]) if view.fit_intercept else X
    gram = X.T @ (row_weights[:, None] * X)
    T, width = view.n_targets, gram.shape[0]
    at = np.arange(T * X.shape[1]).reshape(T, -1)
    if view.fit_intercept:  # intercepts come after all coefficients
        at = np.column_stack([np.arange(T * (width - 1)).reshape(T, -1), T * (width - 1) + np.arange(T)])
    matrix = np.diag(strength)
    for own in at:
        matrix[np.ix_(own, own)] += gram
    return matrix


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("n_targets", [1, 3])
@pytest.mark.parametrize("strengths", ["alike", "by target", "unpenalised columns", "far apart", "as good as none"])
def test_factors_in_the_rows_solve_the_system(fit_intercept, n_targets, strengths, rng):
    X, _, whole = wide(rng, n_targets=n_targets, fit_intercept=fit_intercept)
    p = X.shape[1]
    one = rng.uniform(0.5, 2.0, p)
    if strengths == "unpenalised columns":
        one[:4] = 0.0
    elif strengths == "far apart":
        one[:20], one[40:] = 1e-4, 1e6
    elif strengths == "as good as none":
        one[:5] = 1e-12
    intercepts = np.zeros(n_targets if fit_intercept else 0)
    strength = np.concatenate([np.tile(one, n_targets), intercepts])
    if strengths == "by target":
        strength[: n_targets * p] *= np.repeat([1.0, 3.0, 0.2][:n_targets], p)
    for row_weights in (np.ones(30), without_a_fifth(rng, rng.uniform(0.1, 3.0, 30))):
        view = whole.reweighted(row_weights)
        assert view._sizes.in_rows
        v = rng.normal(size=view.n_weights)
        matrix = dense_system(view, X, row_weights, strength)
        left = v - matrix @ view.factorise(v, strength)(v)
        assert np.linalg.norm(left) < 1e-9 * np.linalg.norm(v)


def test_factors_in_the_rows_form_no_gram_matrix(rng, monkeypatch):
    monkeypatch.setattr(Design, "gram", lambda *_: pytest.fail("a Gram matrix was formed"))
    _, _, whole = wide(rng)
    view = whole.reweighted(without_a_fifth(rng, np.ones(30)))
    v = rng.normal(size=61)
    assert view.factorise(v, np.append(np.ones(60), 0.0))(v).shape == (61,)


def test_an_unpenalised_column_of_zeros_has_no_factor_in_the_rows(rng):
    X = rng.normal(size=(30, 60))
    X[:, 1] = 0.0
    strength = np.append(np.ones(60), 0.0)
    strength[1] = 0.0
    with pytest.raises(np.linalg.LinAlgError):
        LeastSquares(X, rng.normal(size=30)).factorise(strength, strength)


def test_collinear_unpenalised_columns_share_their_weight_in_the_rows(rng):
    X, y = rng.normal(size=(30, 60)), rng.normal(size=30)
    X[:, 1] = X[:, 0]
    objective = LeastSquares(X, y)
    strength = np.append(np.where(np.arange(60) < 2, 0.0, 1.0), 0.0)
    fit = make_solver("newton", tol=1e-20, max_iter=20).minimise(objective, strength)
    once = naive.ridge(X[:, 1:], y, strength[1:60], True, np.ones(30))
    assert fit.status == "converged"
    np.testing.assert_allclose(
        fit.weights, np.concatenate([[once[0] / 2, once[0] / 2], once[1:]]), rtol=1e-6, atol=1e-8
    )


def test_mostly_unpenalised_columns_are_left_to_the_gram_matrix(rng):
    X, _, view = wide(rng)
    strength = np.append(np.where(np.arange(60) < 20, 0.0, 1.0), 0.0)
    v = rng.normal(size=61)
    left = v - dense_system(view, X, np.ones(30), strength) @ view.factorise(v, strength)(v)
    assert np.linalg.norm(left) < 1e-9 * np.linalg.norm(v)


def test_a_kernel_is_formed_once_for_all_views_even_in_threads(rng, monkeypatch):
    formed = []
    form = SharedKernel._formed
    monkeypatch.setattr(SharedKernel, "_formed", lambda self, d: formed.append(d) or form(self, d))
    _, _, whole = wide(rng)
    folds = rng.permutation(30) % 5
    views = [whole.reweighted((folds != k) * 1.0) for k in range(5)]
    strength = np.append(rng.uniform(0.5, 2.0, 60), 0.0)
    with ThreadPoolExecutor(5) as pool:
        list(pool.map(lambda view: view.factorise(strength, strength), views))
    assert len(formed) == 1


@pytest.mark.parametrize("n_values", [1, 3, 40])
def test_kernels_do_not_depend_on_what_was_asked_before(n_values, rng):
    X = rng.normal(size=(20, 60))
    group = np.sort(rng.integers(0, n_values, 60))
    first, second = (rng.uniform(0.5, 2.0, n_values)[group] for _ in range(2))
    merged = np.where(group == group[-1], first[0], first)  # two groups happen to be alike
    shared = SharedKernel(X)
    for d in (merged, first, second, merged, first):
        found = shared.at(d)
        np.testing.assert_array_equal(found, SharedKernel(X).at(d))
        expected = (X * d) @ X.T
        np.testing.assert_allclose(np.tril(found), np.tril(expected), rtol=1e-12, atol=1e-12 * expected.max())


def test_ridge_with_more_columns_than_rows_equals_the_closed_form(rng):
    X = rng.normal(size=(50, 80))
    y = X[:, :40] @ rng.normal(size=40) + rng.normal(size=50)
    row_weights = rng.uniform(0.5, 2.0, 50)
    model = Ridge(groups=np.arange(80) // 40, tuner="gradient", cv=5, n_jobs=1).fit(X, y, sample_weight=row_weights)
    strength = np.repeat(list(model.strengths_.values()), 40)
    expected = naive.ridge(X, y, strength, True, row_weights)
    np.testing.assert_allclose(np.append(model.coef_, model.intercept_), expected, rtol=1e-6, atol=1e-7)
