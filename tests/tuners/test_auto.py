"""The tuner that chooses a tuner: by sizes only, and it says what it chose."""

import inspect
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.model_selection import KFold
from tests import problems
from tests.tuners import curved_cases as curved

from tikhon import Auto, LeaveOneOut, LogisticRegression, Ridge
from tikhon.errors import InputError
from tikhon.models import LeastSquares, Logistic, Softmax
from tikhon.tuners import Gradient, make_tuner
from tikhon.tuners.auto import PRIOR_DEVIATION
from tikhon.tuners.settings import natural_strengths

SHAPES = {"none": (200, 12, 3), "folds": (400, 900, 6), "holdout": (5000, 800, 3)}  # rows, columns, entries per row

LOO = LeaveOneOut(tol=2e-3, prior_deviation=PRIOR_DEVIATION)
GRADIENT = Gradient(tol=2e-3, prior_deviation=PRIOR_DEVIATION, rough_start=True)
PART_OF_CHANCE = {"none": 0.05, "folds": 0.25, "holdout": 0.5}  # that a further step must gain


def made(splits, kind=LogisticRegression, more=0):
    """Rows of a few entries 1 and -1 each, so that no column is much larger than another; ``more`` of them to test on."""
    rng = np.random.default_rng(0)
    n, p, per_row = SHAPES[splits]
    X = problems.sparse(rng, n + more, p, per_row)
    X.data = np.sign(X.data)
    y = X @ rng.normal(size=p) + 0.5 * rng.normal(size=n + more)
    return X, y if kind is Ridge else y > 0


@pytest.mark.parametrize("kind", [LogisticRegression, Ridge])
def test_it_is_the_default(kind):
    parameters = inspect.signature(kind).parameters
    assert (parameters["tuner"].default, parameters["cv"].default) == ("auto", "auto")
    assert make_tuner("auto") == Auto()


@pytest.mark.parametrize("splits", SHAPES)
@pytest.mark.parametrize("model", [Logistic, LeastSquares])
def test_sizes_decide_what_it_splits_by(splits, model):
    X, y = made(splits)
    y = y.astype(float)
    assert Auto().splits_for(model(X, y)) == splits
    # What the numbers are does not matter, only how many there are.
    other = model(sp.csr_array((100.0 * X.data, X.indices, X.indptr), shape=X.shape), 1.0 - y)
    assert Auto().splits_for(other) == splits


def test_one_row_more_makes_the_difference():
    rng = np.random.default_rng(0)
    for n, splits in ((4999, "folds"), (5000, "holdout")):
        X = problems.sparse(rng, n, 800, 3)
        assert Auto().splits_for(Logistic(X, (X[:, [0]].toarray()[:, 0] > 0).astype(float))) == splits


def test_few_rows_per_weight_are_split_unless_leave_one_out_is_exact(rng):
    X, y = problems.data("logistic", rng, 150, 50)
    assert Auto().splits_for(Logistic(X, y)) == "folds"
    assert Auto().splits_for(LeastSquares(X, y)) == "none"
    assert Auto().splits_for(Logistic(X[:, :20], y)) == "none"
    assert Auto().splits_for(Softmax(X[:, :20], y.astype(np.intp), n_classes=3)) == "folds"  # three weights a column


@pytest.mark.parametrize("seed", [0])
def test_matrices_too_large_to_keep_are_never_tried(rng):
    X = problems.sparse(rng, 4500, 6000, 1)
    X.data = np.sign(X.data)
    y = (X.sum(axis=1) > 0).astype(np.intp)
    for model in (Logistic(X, y.astype(float)), LeastSquares(X, y.astype(float)), Softmax(X, y, n_classes=2)):
        assert Auto().splits_for(model) == "folds"
        for tuner in ("loo", "evidence"):
            with pytest.raises(InputError, match=rf"'{tuner}' factorises the Hessian, .* too many .* 'gradient'"):
                LogisticRegression(tuner=tuner).fit(X, y)


def test_a_model_without_leverages_is_split_in_folds(rng):
    assert Auto().splits_for(curved.LossOnly(4)) == "folds"


@pytest.mark.parametrize("splits", SHAPES)
def test_it_says_what_it_chose_and_why(splits):
    X, y = made(splits)
    with curved.allowing_bounds():
        result = LogisticRegression(n_jobs=1).fit(X, y).tuning_
    words = {"none": "leave-one-out loss (tuner='loo')", "folds": "held-out loss of 5 folds by gradients",
             "holdout": "held-out loss of one hold-out part by gradients"}[splits]  # fmt: skip
    assert result.tuner == "auto"
    assert result.notes[0].startswith(f"auto chose {words}")
    n, p, _ = SHAPES[splits]
    assert f"{n:,} rows, {p + 1:,} weights" in result.notes[0]
    assert "Hessian products" in result.notes[0]
    assert result.criterion_name == f"{'leave-one-out' if splits == 'none' else 'held-out'} loss per unit of weight"


@pytest.mark.parametrize("splits", SHAPES)
def test_it_does_what_the_tuner_it_names_does(splits):
    X, y = made(splits)
    share, rows = y.mean(), len(y) // 5 if splits == "holdout" else len(y)
    constant = -share * np.log(share) - (1.0 - share) * np.log(1.0 - share)
    least = PART_OF_CHANCE[splits] * (1.0 / np.sqrt(rows) + 1.0 / (rows * constant))
    named = replace(LOO if splits == "none" else GRADIENT, least_gain=least)
    cv = None if splits == "holdout" else 5
    with curved.allowing_bounds():
        model = LogisticRegression(n_jobs=1).fit(X, y)
        chosen = LogisticRegression(tuner=named, cv=cv, n_jobs=1).fit(X, y)
    np.testing.assert_array_equal(model.tuning_.weights, chosen.tuning_.weights)
    assert model.strengths_ == chosen.strengths_
    assert model.tuning_.criterion == chosen.tuning_.criterion


@pytest.mark.parametrize("splits", ["none", "folds"])
@pytest.mark.parametrize("kind", [LogisticRegression, Ridge])
def test_the_same_call_gives_the_same_bits(splits, kind):
    X, y = made(splits, kind)
    with curved.allowing_bounds():
        one, two = kind().fit(X, y), kind().fit(X.copy(), y.copy())
    np.testing.assert_array_equal(one.coef_, two.coef_)
    assert one.strengths_ == two.strengths_
    assert [step.criterion for step in one.tuning_.trace] == [step.criterion for step in two.tuning_.trace]


@pytest.mark.parametrize("kind", [LogisticRegression, Ridge])
def test_splits_that_are_given_decide(kind):
    X, y = made("none", kind)
    with curved.allowing_bounds():
        for cv, words in ((3, "3 folds"), (KFold(4), "4 folds"), (None, "one hold-out part")):
            model = kind(cv=cv).fit(X, y)
            assert model.tuning_.notes[0].startswith(f"auto chose held-out loss of {words}")
            assert model.tuning_.criterion_name == "held-out loss per unit of weight"
        fraction = kind(cv=None, validation_fraction=0.4).fit(X, y)
    assert fraction.tuning_.criterion != model.tuning_.criterion


def test_other_tuners_split_in_five_where_cv_is_left_to_them():
    X, y = made("none")
    with curved.allowing_bounds():
        automatic = LogisticRegression(tuner="gradient").fit(X, y)
        five = LogisticRegression(tuner="gradient", cv=5).fit(X, y)
        none = LogisticRegression(tuner="loo", cv=3).fit(X, y)  # which has no use for splits
    np.testing.assert_array_equal(automatic.coef_, five.coef_)
    assert none.tuning_.criterion_name == "leave-one-out loss per unit of weight"


def test_its_settings_reach_the_tuner_it_chooses(rng, tmp_path):
    problem = problems.problem("logistic", rng, ["a", "a", "a", "b", "b", "b"])
    for pairs in (problem.pairs, ()):
        sharp = Auto(tol=1e-7).tune(replace(problem, pairs=pairs))
        rough = Auto(tol=1e-1).tune(replace(problem, pairs=pairs))
        assert min(step.criterion for step in sharp.trace) <= min(step.criterion for step in rough.trace) + 1e-12
        assert len(sharp.trace) > len(rough.trace)
        path = tmp_path / f"checkpoint{len(pairs)}"
        stopped = Auto(tol=1e-7, max_steps=1, checkpoint=str(path)).tune(replace(problem, pairs=pairs))
        assert stopped.status == "max_steps"
        assert path.exists()


@pytest.mark.parametrize("model", problems.MODELS)
def test_rough_fits_end_near_the_natural_strengths_with_a_group_of_noise(model, rng):
    problem = problems.problem(model, rng, ["signal"] * 3 + ["noise"] * 3, n=300)
    natural = natural_strengths(problem.objective, problem.groups)
    found = Gradient(rough_start=True, max_steps=1, tol=1e-9).tune(problem).trace[0].strengths
    assert (found <= 500.0 * natural).all()
    assert (found >= natural / 500.0).all()
    assert found[1] / natural[1] > 5.0 * found[0] / natural[0]


def test_all_strengths_given_leave_nothing_to_choose():
    X, y = made("none")
    model = LogisticRegression(strengths=2.0).fit(X, y)
    assert model.tuning_.tuner == "none"
    assert model.strengths_ == {"all": 2.0}


@pytest.mark.parametrize("kind", [LogisticRegression, Ridge])
@pytest.mark.parametrize("splits", SHAPES)
def test_strengths_are_useful(kind, splits):
    """On fresh rows, hardly worse than the strength that does best there among a wide choice."""
    n = SHAPES[splits][0]
    X, y = made(splits, kind, more=1000)

    def loss(model):
        if kind is Ridge:
            return np.mean((model.predict(X[n:]) - y[n:]) ** 2)
        return -np.mean(np.log(model.predict_proba(X[n:])[np.arange(1000), y[n:].astype(int)]))

    with curved.allowing_bounds():
        ours = loss(kind().fit(X[:n], y[:n]))
        others = [loss(kind(tuner=None, strengths=s).fit(X[:n], y[:n])) for s in (0.01, 0.1, 1.0, 10.0, 100.0)]
    assert ours < 1.05 * min(others)
    assert ours < 0.9 * max(others)
