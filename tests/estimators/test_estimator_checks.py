"""All of scikit-learn's own checks with every tuner.

One does not hold for ``loo`` (see ``NOT_FOR_LOO``), and a test of what does hold takes its place. No other is exempted.
"""

import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import check_estimator, estimator_checks_generator

from tikhon import LeaveOneOut, LogisticRegression, Ridge

TUNERS = (None, "auto", "loo", "evidence", "grid", "mm", "direct", "gradient")
# The checks fit noise and tiny data on purpose, where tuners rightly warn.
pytestmark = [
    pytest.mark.filterwarnings("ignore::tikhon.TuningWarning"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning"),
]


# A row of weight k is held out as a whole, k equal rows are held out one by one: the others give them away. For tuners
# with splits the same checks keep equal rows in one fold; leave-one-out has no folds. Ridge begins where generalised
# cross-validation is least, which knows no such difference, and on the data of these checks it stays there.
NOT_FOR_LOO = dict.fromkeys(
    ("check_sample_weight_equivalence_on_dense_data", "check_sample_weight_equivalence_on_sparse_data"),
    "leave-one-out holds out a row of weight k as a whole",
)


def is_of_the_array_api(check):
    """scikit-learn skips these unless a variable is set before SciPy is imported; they run in a process of their own."""
    return check.func.__name__.startswith("check_array_api")


def expected_failures(kind, tuner):
    return NOT_FOR_LOO if tuner == "loo" and kind is LogisticRegression else {}


def marks(kind, tuner, check):
    reason = expected_failures(kind, tuner).get(check.func.__name__)
    return () if reason is None else pytest.mark.xfail(reason=reason, raises=AssertionError, strict=True)


CHECKS = [
    pytest.param(estimator, check, id=f"{kind.__name__}-{label}-{check.func.__name__}", marks=marks(kind, label, check))
    for kind in (Ridge, LogisticRegression)
    for label, model in (("default", kind()), *((tuner, kind(tuner=tuner, cv=2, n_jobs=1)) for tuner in TUNERS))
    for estimator, check in estimator_checks_generator(model)
    if not is_of_the_array_api(check)
]


@pytest.mark.slow
@pytest.mark.parametrize(("estimator", "check"), CHECKS)
def test_every_check_with_every_tuner(estimator, check):
    try:
        check(estimator)
    except pytest.skip.Exception as skipped:
        pytest.fail(f"scikit-learn skipped a check: {skipped}")


@pytest.mark.parametrize("kind", [Ridge, LogisticRegression])
def test_rows_of_weight_zero_are_left_out_by_loo(kind, rng):
    """What NOT_FOR_LOO leaves of the equivalence: weights of 0 and 1, and a common factor of all weights."""
    X = rng.normal(size=(60, 5))
    y = X[:, 0] + rng.normal(size=60) > 0
    weights = (rng.random(60) < 0.7).astype(float)
    model = kind(tuner=LeaveOneOut(tol=1e-9))
    with_weights = clone(model).fit(X, y, weights)
    without_rows = clone(model).fit(X[weights > 0], y[weights > 0])
    np.testing.assert_allclose(with_weights.coef_, without_rows.coef_, rtol=1e-7)
    assert with_weights.strengths_ == pytest.approx(without_rows.strengths_, rel=1e-7)
    twice = clone(model).fit(X, y, 2.0 * weights)
    assert twice.strengths_["all"] == pytest.approx(2.0 * with_weights.strengths_["all"], rel=1e-6)
    np.testing.assert_allclose(twice.coef_, with_weights.coef_, rtol=1e-6)


@pytest.mark.slow
def test_the_checks_of_the_array_api():
    code = textwrap.dedent(
        """
        import sys, warnings
        warnings.simplefilter("ignore")
        from sklearn.utils.estimator_checks import estimator_checks_generator
        from tikhon import LogisticRegression, Ridge
        n_done = 0
        for kind in (Ridge, LogisticRegression):
            for model in (kind(), *(kind(tuner=None if t == "None" else t, cv=2, n_jobs=1) for t in sys.argv[1:])):
                for estimator, check in estimator_checks_generator(model):
                    if check.func.__name__.startswith("check_array_api"):
                        check(estimator)
                        n_done += 1
        print(n_done)
        """
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "SCIPY_ARRAY_API": "1"}
    ran = subprocess.run(
        [sys.executable, "-c", code, *map(str, TUNERS)], env=environment, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    checks = [check for kind in (Ridge, LogisticRegression) for _, check in estimator_checks_generator(kind())]
    assert int(ran.stdout) == sum(map(is_of_the_array_api, checks)) * (1 + len(TUNERS))


@pytest.mark.slow
@pytest.mark.parametrize("tuner", TUNERS, ids=str)
@pytest.mark.parametrize("kind", [Ridge, LogisticRegression])
def test_every_check_with_default_parameters(kind, tuner):
    expected = expected_failures(kind, tuner)
    results = check_estimator(kind(tuner=tuner), on_skip=None, expected_failed_checks=expected)
    statuses = {result["check_name"]: result["status"] for result in results}
    assert {name for name, status in statuses.items() if status == "xfail"} == set(expected)
    assert {name for name, status in statuses.items() if status == "skipped"} <= {"check_array_api_input"}
    assert set(statuses.values()) <= {"passed", "skipped", "xfail"}
