"""Views of a least squares share Gram matrices, kernels and factors, and are exact all the same."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.sparse as sp
from tests import naive, problems

from tikhon.groups import weight_groups
from tikhon.models import LeastSquares
from tikhon.models.linear import dual, least_squares
from tikhon.models.linear.design import Design
from tikhon.models.linear.gram import SharedGrams
from tikhon.objective import Pair
from tikhon.solvers import make_solver, prefers_factors
from tikhon.solvers.hessian import HESSIANS
from tikhon.testing import check_hypergradient, check_objective, check_tuner
from tikhon.tuners import Gradient, Problem

STORAGE = {"C": np.ascontiguousarray, "F": np.asfortranarray, "csr": sp.csr_array}


def exact_gram(X, row_weights, fit_intercept=True):
    """In extended precision."""
    X = np.column_stack([X, np.ones(len(X))]) if fit_intercept else X
    X = X.astype(np.longdouble)
    return X.T @ (row_weights.astype(np.longdouble)[:, None] * X)


def worst_entry(gram, exact):
    """The largest error, each entry measured by the columns' own squares."""
    size = np.sqrt(np.diag(exact))
    size[size == 0.0] = 1.0
    return float(np.abs((gram - exact) / np.outer(size, size)).max())


def tall(rng, n=200, p=8, **kwargs):
    """Few enough columns that the Gram matrix takes the place of the rows."""
    X, y = problems.data("least_squares", rng, n, p)
    return X, y, LeastSquares(X, y, **kwargs)


def wide(rng, n=30, p=60, n_targets=1, **kwargs):
    """Few enough rows that factors are made in them."""
    X, y = rng.normal(size=(n, p)), rng.normal(size=(n, n_targets))
    return X, y, LeastSquares(X, y, **kwargs)


def without_a_fifth(rng, row_weights):
    return row_weights * (rng.permutation(len(row_weights)) % 5 != 0)


@pytest.mark.parametrize("storage", STORAGE)
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_gram_of_a_view_is_that_of_its_rows(storage, fit_intercept, rng):
    X = rng.normal(size=(80, 9)) * np.logspace(-4, 4, 9)
    X[rng.random(X.shape) < 0.3] = 0.0
    row_weights = rng.uniform(0.5, 2.0, 80)
    whole = LeastSquares(STORAGE[storage](X), X[:, 0], fit_intercept=fit_intercept, row_weights=row_weights)
    kept = without_a_fifth(rng, row_weights)
    for weights in (row_weights, kept, row_weights - kept, 2.0 * kept, row_weights * rng.integers(0, 3, 80)):
        gram = whole.reweighted(weights)._gram
        assert worst_entry(gram, exact_gram(X, weights, fit_intercept)) < 1e-14


def cancelling(rng):
    """Columns that live in the first ten rows: wholly, but for a millionth of their size, and in a rare category."""
    X = rng.normal(size=(100, 40))
    X[:10, 3] *= 1e6
    X[:, 5] = np.arange(100) < 10
    X[:, 7] = np.where(np.arange(100) < 10, 1e9, 1.0) * X[:, 7]
    return X, (np.arange(100) >= 10).astype(float)


@pytest.mark.parametrize("storage", STORAGE)
def test_columns_that_cancel_are_formed_anew(storage, rng):
    X, kept = cancelling(rng)
    exact = exact_gram(X, kept)
    subtracted = (X.T @ X - X[:10].T @ X[:10])[3, 3]
    assert abs(subtracted / exact[3, 3] - 1.0) > 1e-9  # what the renewal is for
    gram = SharedGrams(Design(STORAGE[storage](X), True), np.ones(100)).of(kept)
    assert worst_entry(gram, exact) < 1e-13
    assert gram[5, 5] == 0.0


def test_where_most_columns_cancel_the_matrix_is_formed_anew(rng):
    X, kept = cancelling(rng)
    few = X[:, [3, 5, 7, 8]]
    assert worst_entry(SharedGrams(Design(few, True), np.ones(100)).of(kept), exact_gram(few, kept)) < 1e-14
    unequal = np.where(kept > 0, 1.0, 1e12)  # the intercept's own weight cancels
    gram = SharedGrams(Design(X, True), unequal).of(kept)
    assert worst_entry(gram, exact_gram(X, kept)) < 1e-14


def test_folds_take_two_passes_over_the_rows_even_in_threads(rng, monkeypatch):
    formed = []
    form = Design.gram
    monkeypatch.setattr(Design, "gram", lambda self, weights: formed.append(self.n_rows) or form(self, weights))
    _, _, whole = tall(rng)
    folds = rng.permutation(200) % 5
    views = [whole.reweighted((folds != k) * 1.0) for k in range(5)]
    with ThreadPoolExecutor(5) as pool:
        grams = list(pool.map(lambda view: view._gram, views))
    assert sorted(formed) == [40] * 5 + [200]
    assert worst_entry(grams[3], exact_gram(whole.X, views[3].row_weights)) < 1e-14


def test_the_left_out_rows_of_one_view_are_another(rng, monkeypatch):
    _, _, whole = tall(rng)
    kept = without_a_fifth(rng, np.ones(200))
    train, held_out = whole.reweighted(kept), whole.reweighted(1.0 - kept)
    assert held_out._gram.shape == (9, 9)
    formed = []
    form = Design.gram
    monkeypatch.setattr(Design, "gram", lambda self, weights: formed.append(self.n_rows) or form(self, weights))
    assert train._gram.shape == (9, 9)
    assert formed == [200]


def test_rows_are_not_copied_where_the_gram_matrix_suffices(rng):
    _, _, whole = tall(rng)
    view = whole.reweighted(without_a_fifth(rng, np.ones(200)))
    weights = rng.normal(size=view.n_weights)
    view.loss_gradient(weights)
    view.hessian_at(weights)(weights)
    view.hessian_diagonal(weights)
    view.baseline_weights()
    view.flat_directions(np.arange(9) == 8)
    view.factorise(weights, np.ones(9))(weights)
    assert "_active" not in vars(view)
    assert view._design.n_rows == 160  # they are, when asked for


@pytest.mark.parametrize("n_targets", [1, 3])
@pytest.mark.parametrize("storage", STORAGE)
def test_loss_and_gradient_through_the_gram_matrix_equal_loops(n_targets, storage, rng):
    X, _, _ = tall(rng)
    Y = X[:, :n_targets] + rng.normal(size=(200, n_targets))
    row_weights = rng.uniform(0.5, 2.0, 200)
    whole = LeastSquares(STORAGE[storage](X), Y, row_weights=row_weights)
    assert whole._sizes.gram_serves
    for view_weights in (row_weights, without_a_fifth(rng, row_weights)):
        view = whole.reweighted(view_weights)
        weights = rng.normal(size=view.n_weights)
        loss, gradient = view.loss_gradient(weights)
        assert loss == pytest.approx(naive.squared_loss(X, Y, weights, True, view_weights), rel=1e-13)
        coefficients, intercepts = naive.split_weights(weights, n_targets, 8, True)
        weighted = view_weights[:, None] * (X @ coefficients.T + intercepts - Y)
        expected = np.concatenate([(weighted.T @ X).ravel(), weighted.sum(axis=0)])
        np.testing.assert_allclose(gradient, expected, rtol=0, atol=1e-12 * np.abs(expected).max())


@pytest.mark.parametrize("shift", [0.0, 1e4])
@pytest.mark.parametrize("noise", [1.0, 1e-3, 1e-9])
def test_a_small_loss_keeps_its_digits(shift, noise, rng):
    X = rng.normal(size=(200, 8)) + shift
    coefficients = rng.normal(size=8)
    y = X @ coefficients + 50.0 + noise * rng.normal(size=200)
    view = LeastSquares(X, y)
    assert view._sizes.gram_serves
    weights = np.append(coefficients, 50.0)
    residuals = X.astype(np.longdouble) @ coefficients.astype(np.longdouble) + 50.0 - y
    expected = float(0.5 * (residuals**2).sum())
    # What the residuals themselves lose: y is rounded when it is stored, not here, but X w + b is.
    lost = 1e-15 * np.abs(X @ coefficients).max() / noise
    assert view.loss_gradient(weights)[0] == pytest.approx(expected, rel=1e-12 + 2 * lost)


def test_conformance_of_views(rng):
    _, _, whole = tall(rng)
    check_objective(whole.reweighted(without_a_fifth(rng, rng.uniform(0.5, 2.0, 200))), rng)
    _, _, many = wide(rng, n_targets=2)
    check_objective(many.reweighted(without_a_fifth(rng, rng.uniform(0.5, 2.0, 30))), rng)


@pytest.mark.parametrize("make", [tall, wide])
def test_complex_steps_pass_through_views(make, rng):
    _, _, whole = make(rng)
    view = whole.reweighted(without_a_fifth(rng, np.ones(whole.n_rows)))
    weights, v = rng.normal(size=view.n_weights), rng.normal(size=view.n_weights)
    analytic, stepped = (HESSIANS[kind](view, weights)(v) for kind in ("analytic", "complex"))
    np.testing.assert_allclose(stepped, analytic, rtol=1e-11, atol=1e-11 * np.abs(analytic).max())


@pytest.mark.parametrize("make", [tall, wide])
def test_the_last_factor_is_kept(make, rng, monkeypatch):
    made = []
    for module in (least_squares, dual):
        cholesky = module.cholesky
        monkeypatch.setattr(module, "cholesky", lambda matrix, f=cholesky: made.append(len(matrix)) or f(matrix))
    _, _, view = make(rng)
    weights, strength = rng.normal(size=view.n_weights), np.ones(view.n_weights)
    view.factorise(weights, strength)
    n_first = len(made)
    view.factorise(2.0 * weights, strength.copy())
    assert len(made) == n_first > 0
    view.factorise(weights, 2.0 * strength)
    assert len(made) == 2 * n_first


def test_factors_are_preferred_where_they_pay(rng):
    """A training part of 600 x 800, through its rows; 600 x 200, through its columns; not a sparse 2000 x 3000."""
    for n, p in ((600, 800), (600, 200)):
        view = LeastSquares(np.zeros((n, p)), np.zeros(n)).reweighted((np.arange(n) % 5 > 0) * 1.0)
        assert prefers_factors(view)
    sparse = LeastSquares(problems.sparse(rng, 2000, 3000, 5), np.zeros(2000))
    assert not prefers_factors(sparse)
    assert not sparse._sizes.gram_serves
    more_targets = LeastSquares(np.zeros((600, 200)), np.zeros((600, 10)))
    assert more_targets.factor_cost < LeastSquares(np.zeros((600, 200)), np.zeros(600)).factor_cost


def separate_problem(X, y, groups, folds, *, shared):
    """Five folds, as views of one objective or as objectives of their own rows that share nothing."""
    whole = LeastSquares(X, y)

    def part(chosen):
        return whole.reweighted(chosen * 1.0) if shared else LeastSquares(X[chosen], y[chosen])

    pairs = [
        Pair(part(folds != k), part(folds == k), float((folds != k).sum()), float((folds == k).sum())) for k in range(5)
    ]
    columns = [f"x{j}" for j in range(X.shape[1])]
    return Problem(
        objective=whole, groups=weight_groups(groups, columns, n_outputs=1, fit_intercept=True), pairs=pairs,
        solver=make_solver("newton", tol=1e-20, max_iter=50), total_weight=float(len(y)),
    )  # fmt: skip


@pytest.mark.parametrize(("n", "p"), [(100, 12), (60, 90)])
def test_tuning_on_views_is_tuning_on_their_rows(n, p, rng):
    X = rng.normal(size=(n, p))
    groups = np.arange(p) % 3
    y = X @ (rng.normal(size=p) * np.array([1.0, 0.3, 0.0])[groups]) + rng.normal(size=n)
    folds = rng.permutation(n) % 5
    views, rows = (
        Gradient(tol=1e-6).tune(separate_problem(X, y, groups, folds, shared=shared)) for shared in (True, False)
    )
    assert views.criterion == pytest.approx(rows.criterion, rel=1e-9)
    check_hypergradient(separate_problem(X, y, groups, folds, shared=True))


@pytest.mark.parametrize("seed", [0])
def test_a_resumed_tuning_in_the_rows_ends_with_the_same_bits(rng, tmp_path):
    X, y = rng.normal(size=(40, 60)), rng.normal(size=40)
    problem = separate_problem(X, y + X[:, 0], np.arange(60) // 30, rng.permutation(40) % 5, shared=True)
    check_tuner(lambda checkpoint: Gradient(checkpoint=checkpoint), problem, str(tmp_path / "run"))
