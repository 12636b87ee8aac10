"""What tuners report as their criterion is true: against refits without each row, on random problems of all shapes."""

from dataclasses import replace

import numpy as np
import pytest
from tests import naive, problems

from tikhon import LogisticRegression, Ridge
from tikhon.models import Logistic
from tikhon.tuners import Auto, Evidence, Gradient, LeaveOneOut

BLOCKS, PER_BLOCK = 10, 20
ILL_CONDITIONED = 1e6


def ridge_problem(seed):
    """8 to 60 rows, a tenth to twice as many columns, noise of 0.01 to 3, columns of several scales and offsets."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(8, 61))
    p = max(1, int(np.exp(rng.uniform(np.log(n / 10), np.log(2 * n)))))
    grouped = bool(rng.integers(2))
    p = max(p, 5) if grouped else p
    X = rng.normal(size=(n, p)) * np.exp(rng.normal(size=p) * rng.choice([0.0, 1.0, 3.0]))
    X += rng.normal(size=p) * rng.choice([0.0, 1.0, 30.0])
    signal = X @ (rng.normal(size=p) / X.std(axis=0))
    noise = np.exp(rng.uniform(np.log(0.01), np.log(3.0)))
    y = signal * np.sqrt(p) / signal.std() + noise * rng.normal(size=n) + rng.choice([0.0, 5.0])
    groups = rng.permutation([f"g{k}" for k in [*range(5), *rng.integers(0, 5, p - 5)]]).tolist() if grouped else None
    a = np.ones(n) if rng.random() < 0.7 else np.where(rng.random(n) < 0.1, 0.0, np.exp(rng.normal(size=n)))
    return X, y, groups, bool(rng.random() < 0.75), a


def columns_strengths(model, groups, p):
    return np.array([model.strengths_[g] for g in (["all"] * p if groups is None else groups)])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::tikhon.errors.TuningWarning")
@pytest.mark.parametrize("block", range(BLOCKS))
def test_leave_one_out_of_ridge_is_that_of_refits(block):
    for seed in range(block * PER_BLOCK, (block + 1) * PER_BLOCK):
        X, y, groups, fit_intercept, a = ridge_problem(seed)
        model = Ridge(groups=groups, fit_intercept=fit_intercept).fit(X, y, a)
        strength = columns_strengths(model, groups, X.shape[1])
        expected = naive.squares_left_out(X, y, strength, fit_intercept, a) / a.sum()
        scaled = np.sqrt(a)[:, None] * (X - fit_intercept * (a @ X / a.sum())) / np.sqrt(strength)
        condition = 1.0 + np.linalg.norm(scaled, 2) ** 2
        tolerance = 1e-8 if condition > ILL_CONDITIONED else 1e-10
        assert model.tuning_.criterion == pytest.approx(expected, rel=tolerance), (seed, X.shape, condition)
        assert model.tuning_.converged, (seed, model.tuning_.reason)


@pytest.mark.parametrize("noise", [0.01, 0.3, 1.0])
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.filterwarnings("ignore::tikhon.errors.TuningWarning")
def test_as_many_columns_as_rows(noise, seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(8, 60))
    X = rng.normal(size=(n, n))
    y = X @ rng.normal(size=n) + noise * rng.normal(size=n)
    model = Ridge().fit(X, y)
    expected = naive.squares_left_out(X, y, np.full(n, model.strengths_["all"]), True, np.ones(n)) / n
    assert model.tuning_.criterion == pytest.approx(expected, rel=1e-8)


def logistic_problem(seed):
    """At least four rows per weight, from separable to next to no signal."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(20, 61))
    p = max(1, int(np.exp(rng.uniform(0.0, np.log(n / 4 - 1)))))
    X = rng.normal(size=(n, p)) * np.exp(rng.normal(size=p) * rng.choice([0.0, 1.0]))
    signal = X @ (rng.normal(size=p) / X.std(axis=0))
    noise = np.exp(rng.uniform(np.log(0.01), np.log(3.0))) * signal.std()
    return X, (signal + noise * rng.normal(size=n) > np.median(signal)).astype(float)


@pytest.mark.filterwarnings("ignore::tikhon.errors.TuningWarning")
def test_leave_one_out_of_logistic_regression_is_close_to_refits():
    ratios = []
    for seed in range(40):
        X, y = logistic_problem(seed)
        model = LogisticRegression().fit(X, y)
        assert model.tuning_.criterion_name == "leave-one-out loss per unit of weight"
        strength = np.append(np.full(X.shape[1], model.strengths_["all"]), 0.0)
        fitted = np.append(model.coef_[0], model.intercept_)
        ratios.append(model.tuning_.criterion * len(y) / naive.leave_one_out(Logistic(X, y), strength, fitted))
    assert min(ratios) > 0.5
    assert np.mean(np.abs(np.array(ratios) - 1.0) <= 0.2) >= 0.95


@pytest.mark.filterwarnings("ignore::tikhon.errors.TuningWarning")
@pytest.mark.parametrize("seed", range(30))
def test_separable_classes_never_have_a_negative_loss(seed):
    """Nor a loss that an inexact fit makes small."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(40, int(rng.integers(2, 60))))
    result = LogisticRegression(tuner="loo").fit(X, X[:, 0] > 0).tuning_
    assert min(step.criterion for step in result.trace) > 0.0
    assert result.criterion > 0.0


TUNERS = {
    "loo": LeaveOneOut(), "loo with a prior": LeaveOneOut(prior_deviation=0.5), "sharp": LeaveOneOut(tol=1e-7),
    "evidence": Evidence(), "gradient": Gradient(), "gradient with a prior": Gradient(prior_deviation=0.5),
    "sharp gradient": Gradient(tol=1e-7, max_steps=300), "auto": Auto(),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("tuner", TUNERS)
@pytest.mark.parametrize("model", problems.MODELS)
def test_the_criterion_is_that_of_the_last_step_taken(tuner, model, rng):
    problem = problems.problem(model, rng, ["a", "a", "a", "b", "b", "b"])
    result = TUNERS[tuner].tune(problem)
    last = [step for step in result.trace if step.accepted][-1]
    assert result.criterion == last.criterion
    np.testing.assert_array_equal(list(result.strengths.values()), last.strengths)


@pytest.mark.slow
@pytest.mark.parametrize("tuner", TUNERS)
@pytest.mark.parametrize("model", problems.MODELS)
@pytest.mark.parametrize("seed", range(3))
def test_an_end_after_a_step_that_was_not_taken_says_what_another_promises(tuner, model, rng):
    for n in (25, 60):
        result = TUNERS[tuner].tune(problems.problem(model, rng, "separate", n=n))
        assert "0.0e+00" not in result.reason.replace("gradient 0.0e+00", "")
        if not result.trace[-1].accepted and result.status == "converged":
            assert "a shorter one promises" in result.reason or "norm of the gradient" in result.reason


STARTED = {"loo": LeaveOneOut(tol=1e-5), "evidence": Evidence(tol=1e-4), "auto": Auto(tol=1e-5)}


@pytest.mark.parametrize("tuner", STARTED)
@pytest.mark.parametrize("model", problems.MODELS)
def test_weights_to_start_with_lead_to_the_same_strengths(tuner, model, rng):
    problem = problems.problem(model, rng, ["a", "b", "a", "b", "a", "b"], n=200)
    problem = replace(problem, pairs=())
    cold = STARTED[tuner].tune(problem)
    warm = STARTED[tuner].tune(replace(problem, start=cold.weights))
    np.testing.assert_allclose(np.log([*warm.strengths.values()]), np.log([*cold.strengths.values()]), atol=0.02)
    assert warm.criterion == pytest.approx(cold.criterion, rel=1e-5)
    assert len(warm.trace) <= len(cold.trace) + 2


@pytest.mark.parametrize("criterion", [LeaveOneOut(), Evidence()])
@pytest.mark.parametrize("model", ["logistic", "softmax"])
@pytest.mark.parametrize("seed", [0])
def test_the_first_fit_begins_with_the_weights_given(criterion, model, rng):
    problem = problems.problem(model, rng, ["a", "a", "a", "b", "b", "b"])
    known = criterion.tune(problem)
    tuner = replace(criterion, start=known.strengths)
    cold, warm = (tuner.tune(replace(problem, start=start)).trace[0] for start in (None, known.weights))
    assert warm.n_iter == 0 < cold.n_iter
    assert warm.criterion == pytest.approx(cold.criterion, rel=1e-3)
