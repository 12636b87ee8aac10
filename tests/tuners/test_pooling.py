"""Strengths drawn to a common one: its prior, its promises, groups that mean nothing and groups that mean something."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize
from tests import problems
from tests.tuners import curved_cases as curved

from tikhon import ChainCRF, LogisticRegression, Ridge
from tikhon.errors import InputError
from tikhon.groups import Groups, weight_groups
from tikhon.models import Logistic
from tikhon.solvers import make_solver
from tikhon.tuners import Auto, Gradient, LeaveOneOut
from tikhon.tuners.base import Problem
from tikhon.tuners.hypergradient import hypergradient
from tikhon.tuners.pooling import Known, Pooling, size_offsets
from tikhon.tuners.staged_descent import tied

GROUPS = ["a", "a", "b", "b", "c", "c"]
SHARP = {"tol": 1e-7, "max_steps": 300}


def criteria(problem):
    """The criteria that are pooled, as functions of theta."""
    yield curved.evaluator(replace(problem, pairs=()), "leave_one_out")
    yield lambda theta, accuracy, warm: hypergradient(problem, theta, accuracy=accuracy, warm=warm)


@pytest.mark.parametrize("model", problems.MODELS)
def test_the_gradient_agrees_with_differences(model, rng):
    problem = problems.problem(model, rng, GROUPS)
    pool = Pooling(centre=np.full(3, 0.3), deviation=0.5, n_rows=60.0, noisy=model == "least_squares", dispersion=1.7)
    theta = 0.3 + rng.normal(size=3)
    for evaluate in criteria(problem):
        pooled = pool.applied(evaluate)
        found = pooled(theta, 1e-12, None)
        assert found.criterion == evaluate(theta, 1e-12, None).value < found.value
        for _ in range(2):
            v = rng.normal(size=3)
            slope = curved.slope(lambda t, v=v: pooled(theta + t * v, 1e-12, None).value, 1e-3)  # noqa: B023
            assert found.gradient @ v == pytest.approx(slope, rel=1e-5, abs=1e-7)


def test_the_prior_is_a_cauchy_density_in_nats_of_the_rows():
    pool = Pooling(centre=np.ones(2), deviation=0.5, n_rows=40.0, noisy=False, dispersion=2.0)
    assert pool(np.array([1.0, 1.0])) == (0.0, pytest.approx([0.0, 0.0]))
    nats, _ = pool(np.array([1.5, 3.0]))
    assert nats == pytest.approx(math.log(2.0) + math.log(17.0))
    at = Known(np.array([1.5, 3.0]), 0.7, np.zeros(2), None, None)
    assert at.evaluation(pool).value == pytest.approx(0.7 + nats / 20.0)
    of_squares = replace(pool, noisy=True)
    assert math.log(at.evaluation(of_squares).value) == pytest.approx(math.log(0.7) + 2.0 * nats / 20.0)


@pytest.mark.parametrize("model", problems.MODELS)
def test_tied_groups_are_one_group(model, rng):
    problem = replace(problems.problem(model, rng, GROUPS), pairs=())
    one = curved.evaluator(replace(problem, groups=problem.groups.merged()), "leave_one_out")
    several = tied(curved.evaluator(problem, "leave_one_out"), np.zeros(3))
    theta = rng.normal(size=1)
    alone, together = one(theta, 1e-12, None), several(theta, 1e-12, None)
    assert together.value == pytest.approx(alone.value, rel=1e-9)
    assert together.gradient == pytest.approx(alone.gradient, rel=1e-6)
    assert together.plain[1].sum() == pytest.approx(together.gradient[0])


@given(
    index=st.lists(st.integers(-1, 3), min_size=1, max_size=12), fixed=st.lists(st.booleans(), min_size=4, max_size=4)
)
def test_merged_groups_expand_to_the_same_strengths(index, fixed):
    strengths = np.where(fixed, [0.5, 2.0, 0.0, 7.0], np.nan)
    groups = Groups(np.array(index, np.intp), tuple("abcd"), strengths)
    if not groups.learned.any():
        return
    merged = groups.merged()
    assert merged.learned.sum() == 1
    expected = groups.expand(groups.with_common(3.0))
    np.testing.assert_array_equal(merged.expand(merged.with_common(3.0)), expected)


@pytest.mark.slow
@pytest.mark.parametrize("splits", [(), "folds"])
@pytest.mark.parametrize("model", problems.MODELS)
def test_it_ends_at_the_optimum_of_criterion_and_prior(model, splits, rng):
    """Found by another minimiser, from the common strength that one group learns."""
    problem = problems.problem(model, rng, GROUPS)
    problem = problem if splits else replace(problem, pairs=())
    tuner = Gradient(pooling=0.5, **SHARP) if splits else LeaveOneOut(pooling=0.5, **SHARP)
    found = tuner.tune(problem)
    common = tuner.tune(replace(problem, groups=problem.groups.merged()))
    centre = math.log(common.strengths["all"])
    assert found.extras["pooling"]["common_strength"] == pytest.approx(math.exp(centre), rel=1e-3)
    evaluate = list(criteria(problem))[1 if splits else 0]
    dispersion = found.extras["pooling"]["dispersion"]
    pool = Pooling(
        centre=np.full(3, centre), deviation=0.5, n_rows=60.0, noisy=model == "least_squares", dispersion=dispersion
    )
    unit = 1.0 if splits else 60.0  # the evaluator of the tests gives sums

    def value(theta):
        if splits:
            return pool.applied(evaluate)(theta, 1e-10, None).value
        plain = evaluate(theta, 1e-10, None)
        mean = replace(plain, value=plain.value / unit, gradient=plain.gradient / unit)
        return pool.applied(lambda *_: mean)(theta, 0.0, None).value

    ours = np.log(list(found.strengths.values()))
    best = minimize(
        value, ours + 0.05 * rng.normal(size=3), method="Nelder-Mead", options={"xatol": 1e-4, "fatol": 1e-12}
    )
    assert value(ours) <= best.fun + 1e-5 * abs(best.fun)


@pytest.mark.parametrize("kind", [LogisticRegression, Ridge])
@pytest.mark.parametrize("cv", ["auto", 4])
@pytest.mark.parametrize("groups", [["a", "a", "b", "b", "c", "c"], "separate"])
def test_groups_never_end_above_one_strength(kind, cv, groups, rng):
    X, y = problems.data("least_squares" if kind is Ridge else "logistic", rng, 80)
    with curved.allowing_bounds():
        one, several = (kind(groups=g, cv=cv).fit(X, y).tuning_ for g in (None, groups))
    told = several.extras["pooling"]
    assert told["common_strength"] == pytest.approx(one.strengths["all"], rel=1e-3)
    assert told["common_criterion"] == pytest.approx(one.criterion, rel=1e-6)
    assert several.criterion <= one.criterion * (1.0 + 1e-9)
    assert "pooling" not in one.extras


def test_columns_dealt_at_random_hardly_leave_the_common_strength():
    farthest = []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(100, 20))
        y = X @ (0.5 * rng.normal(size=20)) + rng.normal(size=100) > 0
        groups = rng.permutation(np.arange(20) % 4)
        ratios = LogisticRegression(groups=groups).fit(X, y).tuning_.extras["pooling"]["ratios"]
        farthest.append(max(abs(math.log(ratio)) for ratio in ratios.values()))
    assert np.median(farthest) < 0.3
    assert max(farthest) < 1.5


@pytest.mark.parametrize("kind", [LogisticRegression, Ridge])
def test_a_group_of_noise_departs(kind, rng):
    X = rng.normal(size=(200, 105))  # as many columns of noise as half of the rows
    y = X[:, :5] @ np.array([1.0, -1.0, 1.0, -1.0, 1.0]) + rng.normal(size=200)
    model = kind(groups={"signal": range(5)}).fit(X, y if kind is Ridge else y > 0)
    told = model.tuning_.extras["pooling"]
    assert told["ratios"]["rest"] > 5.0 * told["ratios"]["signal"]
    assert told["ratios"]["signal"] < 1.0 < told["ratios"]["rest"]
    assert model.tuning_.criterion < told["common_criterion"]
    assert model.strengths_["rest"] == pytest.approx(told["common_strength"] * told["ratios"]["rest"])
    assert "times the common strength" in model.tuning_.summary()


@pytest.mark.parametrize("kind", [LogisticRegression, Ridge])
def test_a_large_group_is_drawn_to_a_strength_that_suits_its_size(kind, rng):
    """And not drawn away from it where the rows say nothing else."""
    X = rng.normal(size=(200, 105))
    y = X[:, :5] @ np.array([1.0, -1.0, 1.0, -1.0, 1.0]) + rng.normal(size=200)
    told = kind(groups={"signal": range(5)}).fit(X, y if kind is Ridge else y > 0).tuning_.extras["pooling"]
    centres = told["centres"]
    assert centres["rest"] / centres["signal"] == pytest.approx((100 / 5) ** 1.5)
    assert f"than {centres['rest']:.3g} times the common strength" in told["reasons"]["rest"]


def test_groups_of_one_size_are_drawn_to_one_strength(rng):
    X = rng.normal(size=(300, 40))
    y = X[:, :20] @ rng.normal(size=20) + rng.normal(size=300)
    told = Ridge(groups={"signal": range(20)}).fit(X, y).tuning_.extras["pooling"]
    assert told["centres"] == {"signal": pytest.approx(1.0), "rest": pytest.approx(1.0)}
    assert told["reasons"]["rest"].startswith("stronger than the common strength")


@pytest.mark.parametrize("sizes", [(3, 5, 4), (10, 10), (19, 10), (7,)])
def test_sizes_that_are_alike_suggest_nothing(sizes, rng):
    assert not size_offsets(problem_of_sizes(sizes, rng)).any()


@pytest.mark.parametrize("sizes", [(3, 6), (20, 1, 5)])
def test_offsets_follow_the_sizes(sizes, rng):
    offsets = size_offsets(problem_of_sizes(sizes, rng))
    np.testing.assert_allclose(np.exp(offsets), (np.array(sizes) / min(sizes)) ** 1.5)


def test_a_small_group_of_noise_is_not_forced_to_be_weak(rng):
    """Where slopes say that a large group wants less, its size is not looked at."""
    X = rng.normal(size=(300, 44))
    y = X[:, :40] @ rng.normal(size=40) + rng.normal(size=300)
    told = LogisticRegression(groups={"noise": range(40, 44)}).fit(X, y > 0).tuning_.extras["pooling"]
    assert told["centres"] == {"noise": pytest.approx(1.0), "rest": pytest.approx(1.0)}


def problem_of_sizes(sizes, rng):
    index = np.repeat(np.arange(len(sizes)), sizes)
    X = rng.normal(size=(30, len(index)))
    names = [str(group) for group in index]
    groups = weight_groups(names, [str(column) for column in range(len(index))], n_outputs=1, fit_intercept=True)
    return Problem(
        objective=Logistic(X, (X[:, 0] > 0.0).astype(float)), groups=groups, solver=make_solver("auto", tol=1e-8, max_iter=10),
        pairs=(), total_weight=30.0,
    )  # fmt: skip


def test_strengths_that_are_fixed_stay_out_of_it(rng):
    X, y = problems.data("logistic", rng, 80)
    groups = ["a", "a", "b", "b", "c", "c"]
    model = LogisticRegression(groups=groups, strengths={"b": 100.0}).fit(X, y)
    told = model.tuning_.extras["pooling"]
    assert set(told["ratios"]) == {"a", "c"}
    assert model.strengths_["b"] == 100.0
    # With all but one fixed there is nothing to draw together.
    alone = LogisticRegression(groups=groups, strengths={"b": 100.0, "c": 1.0}).fit(X, y)
    assert "pooling" not in alone.tuning_.extras


def test_few_rows_that_make_up_the_gain_count_for_less():
    """The variance of a sum of gains over twice the sum."""
    pool = Pooling(centre=np.zeros(2), deviation=0.5, n_rows=100.0, noisy=False)
    losses = np.full(100, 1.0)
    common = Known(np.zeros(2), 1.0, np.zeros(2), losses, None)
    even, single = losses - 0.1, losses.copy()
    single[7] -= 10.0
    for found, expected in ((even, 1.0), (single, 100.0 * np.var(losses - single) / 20.0)):
        known = Known(np.ones(2), float(found.mean()), np.zeros(2), found, None)
        assert pool.dispersion_of(common, known) == pytest.approx(expected)
    worse = Known(np.ones(2), 1.1, np.zeros(2), losses + 0.1, None)
    unknown = Known(np.ones(2), 0.9, np.zeros(2), None, None)
    assert pool.dispersion_of(common, worse) == pool.dispersion_of(common, unknown) == 1.0


def test_an_outlier_does_not_set_groups_apart(rng):
    """Where one row pays for the departure, it is taken back."""
    X = rng.normal(size=(150, 8))
    y = X[:, 0] + 0.5 * rng.normal(size=150) > 0
    X[0, 4:] *= 30.0
    y[0] = not y[0]
    tuned = LogisticRegression(groups=["a"] * 4 + ["b"] * 4, tuner="auto").fit(X, y).tuning_
    free = LogisticRegression(groups=["a"] * 4 + ["b"] * 4, tuner=LeaveOneOut()).fit(X, y).strengths_
    told = tuned.extras["pooling"]
    apart, free_apart = (abs(math.log(s["a"] / s["b"])) for s in (tuned.strengths, free))
    assert told["dispersion"] >= 1.0
    assert apart < free_apart


@pytest.mark.parametrize("pooling", [0.0, -1.0, 0.01, 1e3, math.inf, math.nan])
@pytest.mark.parametrize("tuner", [Gradient, LeaveOneOut])
@pytest.mark.parametrize("seed", [0])
def test_a_bad_deviation_is_named(tuner, pooling, rng):
    with pytest.raises(InputError, match=f"pooling={pooling}"):
        tuner(pooling=pooling).tune(problems.problem("logistic", rng, GROUPS))


def test_chains_are_pooled_too():
    X = [[["word=the", "last=e"], ["word=cat", "last=t"]], [["word=a", "last=a"], ["word=rat", "last=t"]]] * 10
    y = [["DET", "NOUN"]] * 20
    told = ChainCRF().fit(X, y).tuning_.extras["pooling"]
    assert set(told["ratios"]) == set(told["slopes"]) == set(told["reasons"])
    assert len(told["ratios"]) > 1


def test_a_warm_start_begins_at_the_last_strengths(rng):
    X, y = problems.data("logistic", rng, 120)
    model = LogisticRegression(groups=GROUPS, warm_start=True).fit(X, y)
    first = model.tuning_
    second = model.fit(X, y).tuning_
    assert len(second.trace) <= len(first.trace)
    np.testing.assert_allclose(list(second.strengths.values()), list(first.strengths.values()), rtol=0.2)


def test_steps_that_run_out_in_the_first_stage_leave_the_common_strength(rng):
    problem = replace(problems.problem("logistic", rng, GROUPS), pairs=())
    result = Auto(max_steps=1, tol=1e-9).tune(problem)
    assert result.status == "max_steps"
    assert len(set(result.strengths.values())) == 1
