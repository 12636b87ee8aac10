"""A prior of the log strengths: its gradient, its units, and that it fades."""

import numpy as np
import pytest
from tests import problems
from tests.tuners import curved_cases as curved

from tikhon import LogisticRegression, Ridge
from tikhon.errors import InputError
from tikhon.tuners import Gradient, LeaveOneOut
from tikhon.tuners.prior import strength_prior
from tikhon.tuners.settings import natural_strengths

TUNERS = {"loo": LeaveOneOut, "gradient": Gradient}


@pytest.mark.parametrize("model", problems.MODELS)
def test_gradient_agrees_with_differences_and_the_prior_comes_out_again(model, rng):
    problem = problems.problem(model, rng, curved.GROUPS["given"])
    natural = natural_strengths(problem.objective, problem.groups)
    prior = strength_prior(problem, natural, 0.7)
    plain = curved.evaluator(problem, "leave_one_out")
    evaluate = prior.applied(plain)
    theta = np.log(natural) + rng.normal(size=3)
    found = evaluate(theta, 1e-12, None)
    assert found.value > plain(theta, 1e-12, None).value
    assert found.criterion == plain(theta, 1e-12, None).value
    for g in range(3):
        unit = (np.arange(3) == g).astype(float)
        slope = curved.slope(lambda t, unit=unit: evaluate(theta + t * unit, 1e-12, None).value, 1e-3)
        assert found.gradient[g] == pytest.approx(slope, rel=1e-5, abs=1e-7)


@pytest.mark.parametrize("name", TUNERS)
@pytest.mark.parametrize("model", problems.MODELS)
@pytest.mark.parametrize("seed", [0])
def test_a_narrow_prior_holds_the_natural_strengths_and_a_wide_one_none(name, model, rng):
    problem = problems.problem(model, rng, ["a", "a", "a", "b", "b", "b"])
    natural = natural_strengths(problem.objective, problem.groups)
    narrow = TUNERS[name](prior_deviation=0.2, tol=1e-6, max_steps=300).tune(problem)
    np.testing.assert_allclose(list(narrow.strengths.values()), natural, rtol=0.2)
    wide, without = (TUNERS[name](prior_deviation=d, tol=1e-6, max_steps=300).tune(problem) for d in (1e6, None))
    assert wide.criterion == pytest.approx(without.criterion, rel=1e-6)
    assert without.criterion < narrow.criterion


@pytest.mark.parametrize("name", TUNERS)
def test_the_unit_of_the_target_does_not_matter(name, rng):
    """A log-likelihood of squares is half their number times the logarithm of their mean."""
    X = rng.normal(size=(40, 5))
    y = X[:, 0] + rng.normal(size=40)
    one, other = (Ridge(tuner=TUNERS[name](prior_deviation=1.0, tol=1e-6)).fit(X, c * y) for c in (1.0, 1e3))
    assert other.strengths_["all"] == pytest.approx(one.strengths_["all"], rel=1e-3)


def test_separable_data_do_not_drive_the_strength_to_its_bound(rng):
    X = rng.normal(size=(40, 3))
    y = X[:, 0] > 0
    X[:, 0] += 3.0 * (2 * y - 1)
    natural = LeaveOneOut(prior_deviation=0.2, tol=1e-6)
    centre = LogisticRegression(tuner=natural).fit(X, y).strengths_["all"]
    found = LogisticRegression(tuner=LeaveOneOut(prior_deviation=1.0)).fit(X, y).strengths_["all"]
    assert 1e-3 * centre < found < centre


@pytest.mark.parametrize("deviation", [0.0, -1.0, np.inf, np.nan])
@pytest.mark.parametrize("seed", [0])
def test_a_bad_deviation_is_named(deviation, rng):
    for tuner in TUNERS.values():
        with pytest.raises(InputError, match=f"prior_deviation={deviation}"):
            tuner(prior_deviation=deviation).tune(problems.problem("logistic", rng))
