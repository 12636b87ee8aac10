"""Each solver against closed forms, against scikit-learn and against the others."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression
from tests import naive, problems

from tikhon.errors import InputError, MissingCapability
from tikhon.models import LeastSquares, Logistic, NoiseIntegrated, Softmax
from tikhon.solvers import LBFGS, Newton, NewtonCG, make_solver, with_hessian
from tikhon.solvers.penalised import gradient_measure, penalised

# The residual that each is asked for; L-BFGS sees values only, so it cannot go as far.
SOLVERS = {"newton": Newton(tol=1e-24), "newton-cg": NewtonCG(tol=1e-24), "lbfgs": LBFGS(tol=1e-20)}
AGREE = 1e-7  # DESIGN: two solvers give the same weights to this


def strengths(objective, model, rng, fit_intercept=True):
    strength = rng.uniform(0.1, 5.0, objective.n_weights)
    if fit_intercept:
        strength[-problems.n_outputs(model) :] = 0.0
    return strength


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_ridge_has_its_closed_form(solver, fit_intercept, rng):
    X, y = problems.data("least_squares", rng)
    row_weights = rng.uniform(0.0, 2.0, len(y))
    objective = LeastSquares(X, y, fit_intercept=fit_intercept, row_weights=row_weights)
    strength = strengths(objective, "least_squares", rng, fit_intercept)
    fit = SOLVERS[solver].minimise(objective, strength)
    expected = naive.ridge(X, y, strength[:6], fit_intercept, row_weights)
    np.testing.assert_allclose(fit.weights, expected, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("model", problems.MODELS)
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("sparse", [False, True])
def test_the_residual_is_small_and_solvers_agree(model, solver, sparse, rng):
    X, y = problems.data(model, rng)
    objective = problems.objective(model, sp.csr_array(X) if sparse else X, y)
    strength = strengths(objective, model, rng)
    fit = SOLVERS[solver].minimise(objective, strength)
    left = objective.loss_gradient(fit.weights)[1] + strength * fit.weights
    assert np.linalg.norm(left) <= 1e-9 * gradient_measure(objective).scale
    assert fit.residual == pytest.approx(np.linalg.norm(left) / gradient_measure(objective).scale, abs=1e-11)
    assert fit.value == pytest.approx(fit.loss + 0.5 * (strength * fit.weights**2).sum(), rel=1e-12)
    reference = Newton(tol=1e-28).minimise(objective, strength)
    np.testing.assert_allclose(fit.weights, reference.weights, atol=AGREE)


@pytest.mark.parametrize("solver", SOLVERS)
def test_softmax_equals_scikit_learn(solver, rng):
    X, y = problems.data("softmax", rng)
    peer = LogisticRegression(C=0.5, tol=1e-10, max_iter=10_000).fit(X, y)
    strength = np.append(np.full(18, 2.0), np.zeros(3))
    fit = SOLVERS[solver].minimise(Softmax(X, y, n_classes=3), strength)
    np.testing.assert_allclose(fit.weights[:18].reshape(3, 6), peer.coef_, atol=1e-5)  # the peer's accuracy
    np.testing.assert_allclose(fit.weights[18:], peer.intercept_ - peer.intercept_.mean(), atol=1e-5)


@pytest.mark.parametrize("model", problems.MODELS)
@pytest.mark.parametrize("solver", SOLVERS)
def test_flat_directions_end_in_the_answer_of_least_norm(model, solver, rng):
    """A constant column and a repeated one, all of them and the intercept unpenalised, from an odd start."""
    X, y = problems.data(model, rng)
    X = np.column_stack([X, np.full(len(X), 2.0), X[:, 0]])
    objective = problems.objective(model, X, y)
    K, p = problems.n_outputs(model), X.shape[1]
    unpenalised = np.isin(np.arange(p), [0, 6, 7])
    strength = np.concatenate([np.tile(np.where(unpenalised, 0.0, 1.0), K), np.zeros(K)])
    flat = objective.flat_directions(strength == 0)
    assert flat.shape[1] >= 2 * K
    fits = [
        SOLVERS[solver].minimise(objective, strength, start) for start in (None, rng.normal(size=objective.n_weights))
    ]
    for fit in fits:
        np.testing.assert_allclose(flat.T @ fit.weights, 0.0, atol=1e-9)
        np.testing.assert_allclose(fit.weights, Newton(tol=1e-26).minimise(objective, strength).weights, atol=AGREE)


@pytest.mark.parametrize("model", problems.MODELS)
@pytest.mark.parametrize("solver", SOLVERS)
def test_a_warm_start_at_the_answer_costs_nothing(model, solver, rng):
    X, y = problems.data(model, rng)
    objective = problems.objective(model, X, y)
    strength = strengths(objective, model, rng)
    answer = Newton(tol=1e-28).minimise(objective, strength).weights
    again = SOLVERS[solver].minimise(objective, strength, answer)
    assert again.n_iter == 0
    assert again.status == "converged"


@pytest.mark.parametrize("model", problems.MODELS)
@pytest.mark.parametrize("solver", SOLVERS)
def test_duplicated_rows_equal_weight_two(model, solver, rng):
    X, y = problems.data(model, rng)
    twice = problems.objective(model, np.vstack([X, X]), np.concatenate([y, y]))
    weighted = problems.objective(model, X, y, row_weights=np.full(len(y), 2.0))
    strength = strengths(twice, model, rng)
    fits = [SOLVERS[solver].minimise(objective, strength).weights for objective in (twice, weighted)]
    np.testing.assert_allclose(fits[0], fits[1], atol=1e-8)


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_huge_strength_gives_zero_weights(solver, rng):
    X, y = problems.data("logistic", rng)
    fit = SOLVERS[solver].minimise(Logistic(X, y), np.append(np.full(6, 1e12), 0.0))
    np.testing.assert_allclose(fit.weights[:6], 0.0, atol=1e-9)
    assert fit.weights[6] == pytest.approx(np.log(y.mean() / (1 - y.mean())), abs=1e-6)


@pytest.mark.parametrize("solver", SOLVERS)
def test_separable_data_without_a_penalty_end_with_a_status(solver, rng):
    X, _y = problems.data("logistic", rng)
    fit = make_solver(solver, tol=1e-28, max_iter=8).minimise(Logistic(X, (X[:, 0] > 0).astype(float)), np.zeros(7))
    assert np.isfinite(fit.weights).all()
    assert fit.status != "converged" or fit.residual <= 1e-9
    assert fit.reason


@pytest.mark.parametrize("solver", ["newton-cg", "lbfgs"])
def test_a_loss_that_is_not_convex_is_minimised(solver, rng):
    X, y = problems.data("least_squares", rng)
    objective = NoiseIntegrated(LeastSquares(X, y))
    fit = SOLVERS[solver].minimise(objective, np.append(np.full(6, 0.5), 0.0), 5.0 * rng.normal(size=7))
    assert fit.residual <= 1e-8
    assert fit.value <= objective.loss_gradient(np.zeros(7))[0]


@pytest.mark.parametrize("method", ["finite", "complex"])
def test_a_model_with_only_a_gradient_can_be_solved(method, rng):
    X, y = problems.data("logistic", rng)
    inner = Logistic(X, y)

    class OnlyGradient:
        n_weights, is_convex = inner.n_weights, True
        loss_gradient = staticmethod(inner.loss_gradient)

    strength = np.append(np.ones(6), 0.0)
    fit = NewtonCG(tol=1e-18).minimise(with_hessian(OnlyGradient(), method), strength)
    np.testing.assert_allclose(fit.weights, Newton(tol=1e-26).minimise(inner, strength).weights, atol=1e-6)


def test_newton_names_what_is_missing(rng):
    X, y = problems.data("least_squares", rng)
    with pytest.raises(MissingCapability, match=r"factorise.*newton-cg"):
        Newton().minimise(NoiseIntegrated(LeastSquares(X, y)), np.ones(7))


def test_an_unknown_solver_is_refused():
    with pytest.raises(InputError, match=r"'sag'.*'newton-cg'"):
        make_solver("sag", tol=1e-8, max_iter=10)


@pytest.mark.slow
@pytest.mark.parametrize("solver", ["newton-cg", "lbfgs"])
def test_many_unpenalised_weights_have_one_answer_too(solver):
    """More than can be analysed for flat directions: a trifling strength decides."""
    rng = np.random.default_rng(3)
    X = problems.sparse(rng, 300, 2500, 25)
    objective = LeastSquares(X, rng.normal(size=300))
    fits = [
        make_solver(solver, tol=1e-22, max_iter=3000).minimise(objective, np.zeros(2501), start)
        for start in (None, rng.normal(size=2501))
    ]
    assert objective.loss_gradient(fits[0].weights)[0] == pytest.approx(
        objective.loss_gradient(fits[1].weights)[0], abs=1e-6
    )


@pytest.mark.parametrize("model", ["logistic", "softmax"])
@pytest.mark.parametrize("tol", [1e-3, 1e-8])
def test_sparse_data_are_fitted_roughly_by_gradients_and_finely_by_newton(model, tol, rng):
    """1e-3: by L-BFGS, with Hessian products for the intercepts at most; 1e-8: by conjugate gradients."""
    X = problems.sparse(rng, 400, 5000, 12)
    scores = X @ rng.normal(size=(5000, 3))
    y = scores.argmax(axis=1) if model == "softmax" else (scores[:, 0] > 0).astype(float)
    objective = problems.objective(model, X, y)
    assert objective.hints.lbfgs_gap < np.inf
    strength = np.full(objective.n_weights, 0.05)
    strength[-problems.n_outputs(model) :] = 0.0
    fit = make_solver("auto", tol=1e-8, max_iter=200).minimise(objective, strength, tol=tol)
    assert fit.status == "converged"
    assert fit.relative_gap <= tol
    assert (fit.n_products < fit.n_passes) == (tol == 1e-3)
    least = NewtonCG(tol=1e-20).minimise(objective, strength).value
    assert least <= fit.value <= least + tol * abs(least)


def test_dense_data_are_not_fitted_by_gradients(rng):
    X, y = problems.data("logistic", rng)
    assert Logistic(X, y).hints.lbfgs_gap == np.inf
    assert Softmax(X, y.astype(int), n_classes=2).hints.lbfgs_gap == np.inf
    assert (
        Softmax(sp.csr_array(X), y.astype(int), n_classes=2).hints.lbfgs_gap == np.inf
    )  # one factor per class is cheap


def test_weights_are_first_resized_to_other_strengths(rng):
    """Of a quadratic loss, to the best multiple of the penalised weights."""
    X, y = problems.data("least_squares", rng)
    objective = LeastSquares(X, y)
    strength = np.append(np.full(6, 20.0), 0.0)
    weights = Newton(tol=1e-24).minimise(objective, np.append(np.full(6, 1.0), 0.0)).weights
    problem = penalised(objective, strength)
    found = problem.resized(weights)
    ratio = found[:6] / weights[:6]
    np.testing.assert_allclose(ratio, ratio[0], rtol=1e-12)
    assert found[6] == weights[6]
    values = [
        problem.value_gradient(np.append(c * weights[:6], weights[6]))[1] for c in ratio[0] + np.array([-1e-3, 0, 1e-3])
    ]
    assert values[1] < min(values[0], values[2])
    np.testing.assert_array_equal(problem.resized(found), found)  # the best multiple is left alone
