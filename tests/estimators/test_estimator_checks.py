"""All of scikit-learn's own checks, none exempted."""

import pytest
from sklearn.utils.estimator_checks import check_estimator, estimator_checks_generator

from tikhon import LogisticRegression, Ridge

TUNERS = (None, "grid", "mm", "direct", "gradient")
# The checks fit noise and tiny data on purpose, where tuners rightly warn.
pytestmark = [
    pytest.mark.filterwarnings("ignore::tikhon.TuningWarning"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning"),
]


CHECKS = [
    pytest.param(estimator, check, id=f"{kind.__name__}-{tuner}-{check.func.__name__}")
    for kind in (Ridge, LogisticRegression)
    for tuner in TUNERS
    for estimator, check in estimator_checks_generator(kind(tuner=tuner, cv=2, n_jobs=1))
]


@pytest.mark.parametrize(("estimator", "check"), CHECKS)
def test_every_check_with_every_tuner(estimator, check):
    check(estimator)


@pytest.mark.slow
@pytest.mark.parametrize("tuner", TUNERS, ids=str)
@pytest.mark.parametrize("kind", [Ridge, LogisticRegression])
def test_every_check_with_default_parameters(kind, tuner):
    results = check_estimator(kind(tuner=tuner), on_skip=None)
    assert {result["status"] for result in results} <= {"passed", "skipped"}
