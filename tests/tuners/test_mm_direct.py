"""MM and its rival against the formulas of the 2009 paper."""

import itertools

import numpy as np
import pytest
from scipy.optimize import minimize
from tests import problems

from tikhon import LogisticRegression
from tikhon.errors import TuningWarning
from tikhon.models import LeastSquares, NoiseIntegrated
from tikhon.solvers import Newton
from tikhon.testing import check_objective
from tikhon.tuners import MM, Direct, Problem
from tikhon.tuners.integrated import IntegratedOut

GROUPS = ["a", "a", "b", "b", "c", -1]


def integrated(problem, weights, alpha=0.0, beta=1.0):
    """Equation (6), written out; the last column and the intercept are never penalised."""
    value = problem.objective.loss_gradient(weights)[0]
    for g in range(problem.groups.count):
        own = weights[problem.groups.index == g]
        value += (len(own) / 2 + alpha) * np.log(0.5 * (own**2).sum() + beta)
    return value


@pytest.mark.parametrize("model", problems.MODELS)
def test_integrated_objective_and_its_derivatives(model, rng):
    problem = problems.problem(model, rng, GROUPS)
    objective = IntegratedOut(problem.objective, problem.groups, 0.3, 0.7)
    weights = rng.normal(size=objective.n_weights)
    assert objective.loss_gradient(weights)[0] == pytest.approx(integrated(problem, weights, 0.3, 0.7))
    check_objective(objective, rng)


@pytest.mark.parametrize("model", problems.MODELS)
def test_plain_steps_are_algorithm_2(model, rng):
    problem = problems.problem(model, rng, GROUPS)
    result = MM(accelerate=False, tol=1e-6).tune(problem)
    np.testing.assert_array_equal(result.trace[0].strengths, 1.0)
    weights = Newton(tol=1e-24).minimise(problem.objective, problem.groups.expand(np.ones(3))).weights
    second = [
        (len(own) / 2) / (0.5 * (own**2).sum() + 1.0)
        for own in (weights[problem.groups.index == g] for g in range(3))
    ]  # fmt: skip
    np.testing.assert_allclose(result.trace[1].strengths, second, rtol=1e-6)
    for g, name in enumerate("abc"):  # the end is a fixed point
        own = result.weights[problem.groups.index == g]
        assert result.strengths[name] == pytest.approx((len(own) / 2) / (0.5 * (own**2).sum() + 1.0), rel=1e-4)


@pytest.mark.parametrize("model", problems.MODELS)
@pytest.mark.parametrize("accelerate", [True, False])
@pytest.mark.parametrize("groups", [None, GROUPS, "separate"])
def test_the_objective_falls_in_every_step(model, accelerate, groups, rng):
    problem = problems.problem(model, rng, groups)
    trace = MM(accelerate=accelerate, tol=1e-5).tune(problem).trace
    values = [step.criterion for step in trace if step.accepted]
    assert all(b <= a + 1e-9 * abs(a) for a, b in itertools.pairwise(values))
    if not accelerate:
        assert all(step.accepted for step in trace)


@pytest.mark.parametrize("model", problems.MODELS)
def test_acceleration_ends_at_the_same_strengths(model, rng):
    problem = problems.problem(model, rng, GROUPS)
    slow, fast = (MM(accelerate=a, tol=1e-7, max_steps=3000).tune(problem) for a in (False, True))
    np.testing.assert_allclose(list(fast.strengths.values()), list(slow.strengths.values()), rtol=1e-3)
    assert len(fast.trace) <= len(slow.trace) + 2


@pytest.mark.parametrize("model", problems.MODELS)
@pytest.mark.parametrize("tuner", [MM(tol=1e-8, max_steps=2000), Direct(tol=1e-9)])
def test_both_end_in_a_minimum_that_scipy_confirms(model, tuner, rng):
    problem = problems.problem(model, rng, GROUPS)
    result = tuner.tune(problem)
    ours = integrated(problem, result.weights)
    near = minimize(lambda w: integrated(problem, w), result.weights, method="BFGS", options={"gtol": 1e-6})
    assert ours <= near.fun + 1e-5 * max(1.0, abs(near.fun))


@pytest.mark.parametrize("n_columns", [6, 80])
def test_least_squares_with_integrated_noise_is_a_series_of_ridges(n_columns, rng):
    """Also with more columns than rows, where the noise would vanish without its floor."""
    X = rng.normal(size=(60, n_columns))
    y = X[:, :3] @ [1.0, -2.0, 0.5] + 0.3 * rng.normal(size=60)
    template = problems.problem("least_squares", rng, p=n_columns)
    noise = NoiseIntegrated(LeastSquares(X, y))
    problem = Problem(objective=noise, groups=template.groups, solver=template.solver)
    result = MM(tol=1e-6, max_steps=500).tune(problem)
    assert np.isfinite(result.weights).all()
    values = [step.criterion for step in result.trace if step.accepted]
    assert all(b <= a + 1e-8 * abs(a) for a, b in itertools.pairwise(values))
    ridge = result.strengths["all"] / result.extras["loss_factor"]
    penalty = np.append(np.full(n_columns, ridge), 0.0)
    expected = Newton(tol=1e-26).minimise(LeastSquares(X, y), penalty).weights
    np.testing.assert_allclose(result.weights, expected, rtol=1e-6, atol=1e-8)


def test_alpha_and_beta_pull_the_way_they_should(rng):
    problem = problems.problem("logistic", rng)
    plain = MM().tune(problem).strengths["all"]
    assert MM(alpha=10.0).tune(problem).strengths["all"] > plain
    assert MM(beta=50.0).tune(problem).strengths["all"] < plain


def test_weights_that_vanish_are_announced(rng):
    problem = problems.problem("logistic", rng)
    result = MM(alpha=1e6).tune(problem)
    assert any("shrank to almost zero" in warning for warning in result.warnings)
    assert not any("shrank" in warning for warning in MM().tune(problem).warnings)


@pytest.mark.parametrize("tuner", ["mm", "direct"])
def test_a_group_that_vanishes_against_the_data_is_named(tuner):
    """In small units their weights would have to be large, which the prior does not expect."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 21))
    y = 2.0 * X[:, 0] + X[:, 1:].sum(axis=1) + rng.normal(size=300) > 0
    X[:, 1:] *= 0.01
    with pytest.warns(TuningWarning, match=r"the weights of 'small' shrank to almost zero, although the data support"):
        LogisticRegression(groups={"one": [0], "small": range(1, 21)}, tuner=tuner).fit(X, y)


def test_a_group_of_noise_vanishes_without_a_word(rng):
    X = rng.normal(size=(300, 81))
    y = 2.0 * X[:, 0] + rng.normal(size=300) > 0
    model = LogisticRegression(groups={"one": [0], "noise": range(1, 81)}, tuner="mm").fit(X, y)
    assert model.strengths_["noise"] > 25.0  # 40 were all weights 0
    assert model.tuning_.warnings == ()
