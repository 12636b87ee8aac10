"""Leave-one-out tuning: its gradient, its optimum, refits on real data, and data that are hard."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from tests import naive, problems
from tests.tuners import curved_cases as curved

from tikhon import LeaveOneOut, LogisticRegression, Ridge
from tikhon.data.libsvm import load
from tikhon.errors import InputError, MissingCapability
from tikhon.models import Logistic, NoiseIntegrated
from tikhon.solvers import Newton
from tikhon.tuners import mackay, make_tuner
from tikhon.tuners.factored_criteria import iterate_strengths
from tikhon.tuners.settings import natural_strengths

SHARP = LeaveOneOut(tol=1e-7)
ROUGHER = LeaveOneOut(tol=1e-4)  # flat directions cost half of the digits


@pytest.mark.parametrize("model", problems.MODELS)
@pytest.mark.parametrize("groups", curved.GROUPS)
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("seed", [0])
def test_gradient_agrees_with_refits(model, groups, sparse, rng):
    curved.check_gradient(problems.problem(model, rng, curved.GROUPS[groups], sparse=sparse), "leave_one_out", rng)


@pytest.mark.parametrize("model", problems.MODELS)
def test_gradient_with_fixed_groups(model, rng):
    problem = problems.problem(model, rng, curved.GROUPS["given"], fixed={"b": 3.5, "c": 0.0})
    curved.check_gradient(problem, "leave_one_out", rng)


@pytest.mark.parametrize("per_target", [False, True])
def test_gradient_with_many_targets(per_target, rng):
    curved.check_gradient(curved.targets(rng, per_target=per_target), "leave_one_out", rng)


@pytest.mark.slow
@pytest.mark.parametrize("model", problems.MODELS)
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("seed", [0])
def test_gradient_with_more_weights_than_rows(model, sparse, rng):
    curved.check_gradient(curved.wide(model, rng, sparse=sparse), "leave_one_out", rng)


@pytest.mark.parametrize("model", problems.MODELS)
def test_reaches_the_optimum_that_scipy_finds(model, rng):
    problem = problems.problem(model, rng, ["a", "a", "a", "b", "b", "b"])
    ours = replace(SHARP, bounds=(1e-4, 1e4), max_steps=500).tune(problem)
    theirs = curved.minimum(problem, "leave_one_out")
    assert ours.criterion * 60 == pytest.approx(theirs.fun, rel=1e-5)
    assert ours.criterion_name == "leave-one-out loss per unit of weight"


def test_its_criterion_is_the_loss_of_refits(rng):
    """Exactly, for least squares."""
    problem = problems.problem("least_squares", rng, ["a", "a", "a", "b", "b", "b"], n=40)
    result = LeaveOneOut().tune(problem)
    strength = problem.groups.expand(np.array(list(result.strengths.values())))
    assert result.criterion == pytest.approx(naive.leave_one_out(problem.objective, strength) / 40, rel=1e-6)


def test_few_evaluations_are_enough(rng):
    for model, groups in itertools.product(problems.MODELS, (None, ["a", "a", "a", "b", "b", "b"])):
        result = LeaveOneOut().tune(problems.problem(model, rng, groups, n=200))
        assert result.status == "converged"
        assert len(result.trace) <= 15


@pytest.mark.slow
@pytest.mark.parametrize("name", ["heart", "diabetes", "german.numer"])
def test_real_data_agree_with_refits_within_a_hundredth(name, data_dir):
    dataset = load(name, data_dir)
    model = LogisticRegression(tuner="loo").fit(dataset.X_train, dataset.y_train)
    X, y = dataset.X_train, (dataset.y_train == model.classes_[1]).astype(float)
    whole = Logistic(X, y)
    strength = np.append(np.full(X.shape[1], model.strengths_["all"]), 0.0)
    fitted = np.append(model.coef_[0], model.intercept_)
    total, solver = 0.0, Newton(tol=1e-16)
    for i in range(len(y)):
        without = whole.reweighted((np.arange(len(y)) != i).astype(float))
        w = solver.minimise(without, strength, fitted).weights
        total += np.logaddexp(0.0, (1 - 2 * y[i]) * (X[i] @ w[:-1] + w[-1]))
    assert model.tuning_.criterion == pytest.approx(total / len(y), rel=0.01)
    assert total / len(y) > model.tuning_.train_loss / len(y)


@pytest.mark.parametrize("tuner", ["loo", "evidence"])
def test_a_model_without_curvature_is_told_what_it_lacks(tuner, rng):
    problem = problems.problem("least_squares", rng)
    for objective, name in (
        (NoiseIntegrated(problem.objective), "NoiseIntegrated"),
        (curved.LossOnly(problem.objective.n_weights), "LossOnly"),
    ):
        with pytest.raises(MissingCapability, match=rf"'{tuner}' needs .*{name} has no 'curvature_at'.*'gradient'"):
            make_tuner(tuner).tune(replace(problem, objective=objective))


@pytest.mark.parametrize(
    ("tuner", "words"),
    [
        (LeaveOneOut(start=-1.0), "start=-1.0"),
        (LeaveOneOut(start={"z": 1.0}), "unknown group 'z'"),
        (LeaveOneOut(bounds=(2.0, 1.0)), "bounds="),
        (LeaveOneOut(tol=0.0), "tol=0.0"),
        (LeaveOneOut(max_steps=0), "max_steps=0"),
    ],
)
@pytest.mark.parametrize("seed", [0])
def test_bad_settings_are_named(tuner, words, rng):
    with pytest.raises(InputError, match=words):
        tuner.tune(problems.problem("logistic", rng))


def test_a_start_is_where_it_starts(rng):
    problem = problems.problem("logistic", rng, ["a", "a", "a", "b", "b", "b"])
    result = LeaveOneOut(start={"a": 0.5, "b": 2.0}).tune(problem)
    np.testing.assert_allclose(result.trace[0].strengths, [0.5, 2.0], rtol=1e-12)
    assert result.criterion <= result.trace[0].criterion


@pytest.mark.parametrize("model", problems.MODELS)
def test_settling_stays_near_the_natural_strengths_with_a_group_of_noise(model, rng):
    problem = problems.problem(model, rng, ["signal"] * 3 + ["noise"] * 3, n=300)
    natural = natural_strengths(problem.objective, problem.groups)
    lower, upper = mackay.bounds(natural, natural * 2.0**-16, natural * 2.0**20)
    strengths, weights = iterate_strengths(
        curved.evaluator(problem, "leave_one_out"), problem.groups, 10.0 * natural, (lower, upper)
    )
    assert (strengths >= lower).all()
    assert (strengths <= upper).all()
    assert (upper <= 500.0 * natural).all()
    assert strengths[1] / natural[1] > 5.0 * strengths[0] / natural[0]
    assert np.isfinite(weights).all()


@pytest.mark.filterwarnings("ignore:the strength of 'noise' is at its upper bound:tikhon.errors.TuningWarning")
@pytest.mark.parametrize("kind", [Ridge, LogisticRegression])
def test_noise_is_penalised_more_than_signal(kind, rng):
    X = rng.normal(size=(300, 20))
    y = X[:, 0] - X[:, 1] + rng.normal(size=300)
    model = kind(groups={"signal": [0, 1], "noise": range(2, 20)}, tuner="loo").fit(X, y if kind is Ridge else y > 0)
    assert model.strengths_["noise"] > 10.0 * model.strengths_["signal"]
    assert np.abs(np.ravel(model.coef_)[2:]).max() < 0.2 * np.abs(np.ravel(model.coef_)[:2]).min()


# Data that are hard: the answer is the one that an easier form of the same data gives.


def fit(kind, X, y, sample_weight=None, tuner=SHARP, **kwargs):
    with curved.allowing_bounds():
        return kind(tuner=tuner, tol=1e-22, **kwargs).fit(X, y, sample_weight)


@pytest.fixture(name="X")
def features(rng):
    return rng.normal(size=(60, 4))


@pytest.fixture
def noisy(X, rng):
    return X[:, 0] - 0.5 * X[:, 1] + rng.normal(size=60)


@pytest.fixture(params=["ridge", "logistic", "softmax"])
def kind_target(request, noisy):
    if request.param == "ridge":
        return Ridge, noisy
    return LogisticRegression, noisy > 0 if request.param == "logistic" else np.digitize(noisy, [-0.6, 0.6])


def same_model(one, other, X, Y, atol=1e-4, rtol=1e-6):
    """Predictions of two models, each on its own form of the same rows."""
    if isinstance(one, Ridge):
        np.testing.assert_allclose(other.predict(Y), one.predict(X), rtol=0, atol=atol)
    else:
        np.testing.assert_allclose(other.predict_proba(Y), one.predict_proba(X), rtol=0, atol=atol)
    assert other.tuning_.criterion == pytest.approx(one.tuning_.criterion, rel=rtol)


def test_duplicate_columns_share_a_weight(kind_target, X):
    """Two copies at twice the strength are one column."""
    kind, y = kind_target
    one, twice = fit(kind, X, y), fit(kind, np.hstack([X, X]), y)
    same_model(one, twice, X, np.hstack([X, X]))
    assert twice.strengths_["all"] == pytest.approx(2.0 * one.strengths_["all"], rel=1e-2)


@pytest.mark.parametrize("store", [np.asarray, sp.csr_array])
def test_a_constant_column_is_nothing(kind_target, store, X):
    kind, y = kind_target
    wider = np.column_stack([X, np.full(60, 3.0)])
    one, more = fit(kind, store(X), y), fit(kind, store(wider), y)
    same_model(one, more, X, wider)
    assert more.strengths_["all"] == pytest.approx(one.strengths_["all"], rel=1e-2)


@pytest.mark.parametrize("store", [np.asarray, sp.csr_array])
def test_collinear_unpenalised_columns_count_once(kind_target, store, X, rng):
    kind, y = kind_target
    free = rng.normal(size=(60, 2))
    once, thrice = np.column_stack([X, free]), np.column_stack([X, free, free @ [1.0, -2.0], np.ones(60)])
    one = fit(kind, store(once), y, tuner=ROUGHER, groups=["a"] * 4 + [-1] * 2)
    more = fit(kind, store(thrice), y, tuner=ROUGHER, groups=["a"] * 4 + [-1] * 4)
    same_model(one, more, once, thrice, atol=1e-2, rtol=1e-5)


@pytest.mark.parametrize("kind", [Ridge, LogisticRegression])
def test_collinear_unpenalised_columns_with_more_weights_than_rows(kind, rng):
    X, free = rng.normal(size=(30, 60)) / 4, rng.normal(size=(30, 2))
    y = X[:, :5].sum(axis=1) + 0.5 * rng.normal(size=30)
    y = y if kind is Ridge else y > 0
    once, thrice = np.column_stack([X, free]), np.column_stack([X, free, free @ [1.0, -2.0], np.ones(30)])
    one = fit(kind, once, y, tuner=ROUGHER, groups=["a"] * 60 + [-1] * 2)
    more = fit(kind, thrice, y, tuner=ROUGHER, groups=["a"] * 60 + [-1] * 4)
    same_model(one, more, once, thrice, atol=1e-2, rtol=1e-5)


@pytest.mark.parametrize("store", [np.asarray, sp.csr_array])
def test_a_weight_of_0_leaves_a_row_out(kind_target, store, X):
    kind, y = kind_target
    weights = np.where(np.arange(60) % 5 == 0, 0.0, np.linspace(0.5, 2.0, 60))
    used = weights > 0
    one, more = fit(kind, store(X[used]), y[used], weights[used]), fit(kind, store(X), y, weights)
    same_model(one, more, X, X)
    assert more.strengths_["all"] == pytest.approx(one.strengths_["all"], rel=1e-4)


def test_one_very_heavy_row_stays_finite(kind_target, X):
    """Its own loss when it is left out is nearly all of the criterion."""
    kind, y = kind_target
    weights = np.where(np.arange(60) == 7, 1e6, 1.0)
    with curved.allowing_bounds():
        model = kind(tuner="loo").fit(X, y, weights)
    assert np.isfinite(model.coef_).all()
    assert np.isfinite(model.tuning_.criterion)
    assert 0.0 < model.strengths_["all"] < np.inf


@pytest.mark.filterwarnings(
    "ignore::tikhon.errors.TuningWarning"
)  # of a bound, where separable data ask for no penalty
@pytest.mark.parametrize("tuner", ["loo", "evidence", "auto"])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("shape", [(40, 3), (20, 50)])
def test_separable_data_stay_finite(tuner, n_classes, shape, rng):
    X = rng.normal(size=shape)
    y = np.digitize(X[:, 0], [0.0] if n_classes == 2 else [-0.5, 0.5])
    X[:, 0] += 3.0 * y
    model = LogisticRegression(tuner=tuner).fit(X, y)
    assert model.tuning_.converged
    assert np.isfinite(model.coef_).all()
    assert 0.0 < model.strengths_["all"] < np.inf
    assert model.score(X, y) == 1.0


@pytest.mark.parametrize("kind", [Ridge, LogisticRegression])
@pytest.mark.parametrize("store", [np.asarray, sp.csr_array])
def test_more_weights_than_rows(kind, store, rng):
    """The criterion at the strength found is the loss of refits."""
    X = rng.normal(size=(25, 40)) / 3
    y = X[:, :5].sum(axis=1) + 0.5 * rng.normal(size=25)
    y = y if kind is Ridge else y > 0
    model = fit(kind, store(X), y)
    strength = np.append(np.full(40, model.strengths_["all"]), 0.0)
    objective = problems.objective("least_squares" if kind is Ridge else "logistic", X, y.astype(float))
    refits = naive.leave_one_out(objective, strength, naive.fitted(objective, strength))
    if kind is Ridge:
        assert model.tuning_.criterion * 25 == pytest.approx(refits, rel=1e-6)
    else:
        assert model.tuning_.criterion * 25 == pytest.approx(refits, rel=0.1)


def test_many_strengths_from_few_rows_are_announced(rng):
    result = LeaveOneOut(max_steps=500).tune(problems.problem("logistic", rng, "separate", p=8))
    assert any("8 strengths were learned from the held-out loss of 60 rows" in message for message in result.warnings)
    few = LeaveOneOut().tune(problems.problem("logistic", rng, ["a"] * 3 + ["b"] * 3))
    assert not any("strengths were learned" in message for message in few.warnings)
