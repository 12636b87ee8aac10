"""Evidence tuning: its gradient, its optimum, a dense marginal likelihood, effective degrees of freedom, hard data."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize
from tests import naive, problems
from tests.tuners import curved_cases as curved

from tikhon import Evidence, LogisticRegression, Ridge
from tikhon.errors import InputError

SHARP = Evidence(tol=1e-6)


@pytest.mark.parametrize("model", problems.MODELS)
@pytest.mark.parametrize("groups", curved.GROUPS)
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("seed", [0])
def test_gradient_agrees_with_refits(model, groups, sparse, rng):
    curved.check_gradient(problems.problem(model, rng, curved.GROUPS[groups], sparse=sparse), "evidence", rng)


@pytest.mark.parametrize("model", problems.MODELS)
def test_gradient_with_fixed_groups(model, rng):
    problem = problems.problem(model, rng, curved.GROUPS["given"], fixed={"b": 3.5, "c": 0.0})
    curved.check_gradient(problem, "evidence", rng)


@pytest.mark.parametrize("per_target", [False, True])
def test_gradient_with_many_targets(per_target, rng):
    curved.check_gradient(curved.targets(rng, per_target=per_target), "evidence", rng)


@pytest.mark.parametrize("model", problems.MODELS)
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("seed", [0])
def test_gradient_with_more_weights_than_rows(model, sparse, rng):
    curved.check_gradient(curved.wide(model, rng, sparse=sparse), "evidence", rng)


@pytest.mark.parametrize("model", problems.MODELS)
def test_reaches_the_optimum_that_scipy_finds(model, rng):
    problem = problems.problem(model, rng, ["a", "a", "a", "b", "b", "b"])
    ours = replace(SHARP, bounds=(1e-4, 1e4), max_steps=500).tune(problem)
    theirs = curved.minimum(problem, "evidence")
    assert ours.criterion == pytest.approx(theirs.fun, abs=1e-5)
    assert ours.criterion_name == "negative log evidence"


@pytest.mark.parametrize("shape", [(50, 8), (25, 60)])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_ridge_finds_the_optimum_of_a_dense_marginal_likelihood(shape, fit_intercept, rng):
    """Two groups, an unpenalised column, weights that are counts; y ~ N(F b, v (I + X S^-1 X')) written out."""
    n, p = shape
    X = rng.normal(size=(n, p))
    y = 1.0 + X[:, 1:4] @ [2.0, -2.0, 2.0] + X[:, 4:] @ rng.normal(size=p - 4) / np.sqrt(p) + rng.normal(size=n)
    counts = (np.arange(n) % 10 > 0) + (rng.random(n) < 0.3)
    labels = [-1, "a", "a", "a"] + ["b"] * (p - 4)
    model = Ridge(groups=labels, tuner=replace(SHARP, bounds=(1e-3, 1e4)), fit_intercept=fit_intercept, tol=1e-24)
    with curved.allowing_bounds():
        model.fit(X, y, counts.astype(float))
    rows, target = np.repeat(X, counts, axis=0), np.repeat(y, counts)
    free = np.column_stack([rows[:, 0], np.ones(len(rows))]) if fit_intercept else rows[:, :1]

    def minus_log(theta):
        strength = np.exp(np.array([theta[0]] * 3 + [theta[1]] * (p - 4)))
        return naive.restricted_likelihood(rows[:, 1:], target, strength, free)

    ours = np.log([model.strengths_["a"], model.strengths_["b"]])
    nearby = np.clip(ours + np.array([0.2, -0.3]), np.log(1e-3), np.log(1e4))  # few rows leave more than one optimum
    best = minimize(
        minus_log, nearby, method="Nelder-Mead", bounds=[(np.log(1e-3), np.log(1e4))] * 2,
        options={"xatol": 1e-7, "fatol": 1e-12, "maxiter": 2000},
    )  # fmt: skip
    assert minus_log(ours) == pytest.approx(best.fun, abs=1e-6)
    np.testing.assert_allclose(ours, best.x, atol=5e-3)


def test_the_noise_it_finds_is_that_of_the_data():
    """Weights and noise drawn from the model itself: strength is their ratio of variances."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 200))
    y = X @ (0.2 * rng.normal(size=200)) + 1.5 * rng.normal(size=2000)
    model = Ridge(tuner="evidence").fit(X, y)
    assert model.strengths_["all"] == pytest.approx((1.5 / 0.2) ** 2, rel=0.25)


@pytest.mark.parametrize(
    ("tuner", "words"),
    [
        (Evidence(start=0.0), "start=0.0"),
        (Evidence(bounds=(0.0, 1.0)), "bounds="),
        (Evidence(tol=-1.0), "tol=-1.0"),
        (Evidence(max_steps=0), "max_steps=0"),
    ],
)
@pytest.mark.parametrize("seed", [0])
def test_bad_settings_are_named(tuner, words, rng):
    with pytest.raises(InputError, match=words):
        tuner.tune(problems.problem("logistic", rng))


# Data in two forms have the same evidence, up to a constant, and so the same strengths.


def fit(kind, X, y, sample_weight=None, tol=1e-5, **kwargs):
    with curved.allowing_bounds():
        return kind(tuner=Evidence(tol=tol), tol=1e-22, **kwargs).fit(X, y, sample_weight)


@pytest.fixture(name="X")
def features(rng):
    return rng.normal(size=(60, 4))


@pytest.fixture(params=["ridge", "logistic", "softmax"])
def kind_target(request, X, rng):
    noisy = 1.5 * (X[:, 0] - X[:, 1]) + X[:, 2] + rng.normal(size=60)
    if request.param == "ridge":
        return Ridge, noisy
    return LogisticRegression, noisy > 0 if request.param == "logistic" else np.digitize(noisy, [-0.6, 0.6])


def test_duplicate_columns_share_a_weight(kind_target, X):
    kind, y = kind_target
    one, twice = fit(kind, X, y), fit(kind, np.hstack([X, X]), y)
    assert twice.strengths_["all"] == pytest.approx(2.0 * one.strengths_["all"], rel=1e-3)


@pytest.mark.parametrize("store", [np.asarray, sp.csr_array])
def test_a_constant_column_is_nothing(kind_target, store, X):
    kind, y = kind_target
    one, more = fit(kind, store(X), y), fit(kind, store(np.column_stack([X, np.full(60, 3.0)])), y)
    assert more.strengths_["all"] == pytest.approx(one.strengths_["all"], rel=1e-3)


@pytest.mark.parametrize("store", [np.asarray, sp.csr_array])
def test_collinear_unpenalised_columns_count_once(kind_target, store, X, rng):
    """Also in the number of weights that the noise is judged by."""
    kind, y = kind_target
    free = rng.normal(size=(60, 2))
    once, thrice = np.column_stack([X, free]), np.column_stack([X, free, free @ [1.0, -2.0], np.ones(60)])
    # Flat directions cost half of the digits: a rougher tolerance.
    one = fit(kind, store(once), y, tol=1e-3, groups=["a"] * 4 + [-1] * 2)
    more = fit(kind, store(thrice), y, tol=1e-3, groups=["a"] * 4 + [-1] * 4)
    assert more.strengths_["a"] == pytest.approx(one.strengths_["a"], rel=5e-3)


@pytest.mark.parametrize("store", [np.asarray, sp.csr_array])
def test_a_weight_of_0_leaves_a_row_out(kind_target, store, X):
    kind, y = kind_target
    weights = np.where(np.arange(60) % 5 == 0, 0.0, np.linspace(0.5, 2.0, 60))
    used = weights > 0
    one, more = fit(kind, store(X[used]), y[used], weights[used]), fit(kind, store(X), y, weights)
    assert more.strengths_["all"] == pytest.approx(one.strengths_["all"], rel=1e-5)


def test_a_row_of_weight_2_is_two_rows(kind_target, X):
    """A posterior does not care; leave-one-out does, since it leaves a row out whole."""
    kind, y = kind_target
    counts = np.arange(60) % 3
    one = fit(kind, np.repeat(X, counts, axis=0), np.repeat(y, counts))
    weighted = fit(kind, X, y, counts.astype(float))
    assert weighted.strengths_["all"] == pytest.approx(one.strengths_["all"], rel=1e-4)


def test_one_very_heavy_row_stays_finite(kind_target, X):
    kind, y = kind_target
    with curved.allowing_bounds():
        model = kind(tuner="evidence").fit(X, y, np.where(np.arange(60) == 7, 1e4, 1.0))
    assert np.isfinite(model.coef_).all()
    assert 0.0 < model.strengths_["all"] < np.inf


# How many weights the data decide.


def decided(model, X, y, labels):
    """sum_j (1 - s (H^-1)_jj) per group, from a fitted estimator's own coefficients and a dense Hessian."""
    design = np.column_stack([X, np.ones(len(X))])
    if isinstance(model, Ridge):
        hessian = design.T @ design
    elif len(model.classes_) == 2:
        p = model.predict_proba(X)[:, 1]
        hessian = design.T @ ((p * (1 - p))[:, None] * design)
    else:
        P = model.predict_proba(X)
        blocks = np.einsum("ik,kl->ikl", P, np.eye(P.shape[1])) - P[:, :, None] * P[:, None, :]
        size = P.shape[1] * design.shape[1]
        hessian = np.einsum("ikl,ij,im->kjlm", blocks, design, design).reshape(size, size)
    n_outputs = hessian.shape[0] // design.shape[1]
    strength = np.tile(np.append([model.strengths_[label] for label in labels], 0.0), n_outputs)
    inverse = np.diag(np.linalg.pinv(hessian + np.diag(strength), rcond=1e-12))
    return {
        name: sum(
            1.0 - strength[j] * inverse[j]
            for j in range(len(strength))
            if j % design.shape[1] < X.shape[1] and labels[j % design.shape[1]] == name
        )
        for name in model.strengths_
    }


@pytest.mark.parametrize("tuner", [None, "loo", "evidence", "auto", "mm", "direct", "gradient", "grid"])
@pytest.mark.parametrize("kind", ["ridge", "logistic", "softmax"])
@pytest.mark.parametrize("seed", [0, 1])
def test_every_tuner_tells_how_many_weights_the_data_decide(tuner, kind, rng):
    X = rng.normal(size=(150, 6))
    noisy = 2.0 * X[:, 0] - X[:, 1] + 0.5 * X[:, 4] + rng.normal(size=150)
    y = {"ridge": noisy, "logistic": noisy > 0, "softmax": np.digitize(noisy, [-1.0, 1.0])}[kind]
    labels = ["a"] * 3 + ["b"] * 3
    with curved.allowing_bounds():
        model = (Ridge if kind == "ridge" else LogisticRegression)(groups=labels, tuner=tuner, tol=1e-20).fit(X, y)
    found, expected = model.tuning_.extras["degrees_of_freedom"], decided(model, X, y, labels)
    assert found == pytest.approx(expected, rel=1e-6, abs=1e-8)
    assert 0.5 < found["a"] < 3.0 * (3 if kind == "softmax" else 1)


def test_degrees_of_freedom_of_many_targets_and_with_weights(rng):
    X = rng.normal(size=(80, 4))
    Y = np.column_stack([X[:, 0] + rng.normal(size=80), X[:, 1] + rng.normal(size=80)])
    a = rng.integers(1, 3, 80).astype(float)
    model = Ridge(tuner="loo", groups=[0, 0, 1, 1], per_target=True).fit(X, Y, a)
    centred = X - np.average(X, axis=0, weights=a)
    for t in range(2):
        strength = np.array([model.strengths_[f"{g}[y{t}]"] for g in (0, 0, 1, 1)])
        shares = 1.0 - strength * np.diag(np.linalg.inv(centred.T @ (a[:, None] * centred) + np.diag(strength)))
        found = model.tuning_.extras["degrees_of_freedom"]
        assert [found[f"0[y{t}]"], found[f"1[y{t}]"]] == pytest.approx([shares[:2].sum(), shares[2:].sum()], rel=1e-8)


@pytest.mark.parametrize("strength", [1e-1, 1e-4, 1e-7])
def test_degrees_of_freedom_with_more_weights_than_rows_and_hardly_a_penalty(strength, rng):
    X = rng.normal(size=(20, 60))
    model = Ridge(tuner=None, strengths=strength).fit(X, X[:, 0] + rng.normal(size=20))
    centred = X - X.mean(axis=0)
    curvatures = np.linalg.eigvalsh(centred @ centred.T)[1:]
    expected = (curvatures / (curvatures + strength)).sum()
    assert model.tuning_.extras["degrees_of_freedom"]["all"] == pytest.approx(expected, rel=1e-6)
