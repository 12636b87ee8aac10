"""The outer loop descends any named numbers: here the width and the noise of kernel ridge regression."""

import numpy as np
import pytest
from scipy.optimize import minimize

from tikhon.solvers.descent import Descent
from tikhon.tuners.journal import Journal
from tikhon.tuners.outer_loop import Evaluation, OuterLoop, OuterParameters, Stopping, WarmStart

START = np.log([3.0, 0.5])


def evidence(X, y, theta):
    """-log N(y; 0, K + noise I) with K = exp(-|x - x'|^2 / 2 width^2), and its gradient in log width and log noise."""
    width, noise = np.exp(theta)
    squares = np.square(X[:, None] - X).sum(axis=2)
    kernel = np.exp(-squares / (2.0 * width**2))
    covariance = kernel + noise * np.eye(len(y))
    inverse = np.linalg.inv(covariance)
    a = inverse @ y
    value = 0.5 * (y @ a + np.linalg.slogdet(covariance)[1])
    by_covariance = 0.5 * (inverse - np.outer(a, a))
    return value, np.array([(by_covariance * kernel * squares / width**2).sum(), noise * np.trace(by_covariance)])


@pytest.fixture
def data(rng):
    X = rng.uniform(-3.0, 3.0, (40, 1))
    return X, np.sin(2.0 * X[:, 0]) + 0.2 * rng.normal(size=40)


def descend(data, seen=None, parameters=None):
    def evaluate(theta, accuracy, warm):
        value, gradient = evidence(*data, theta)
        return Evaluation(
            value=value, gradient=gradient, error=0.0, residual=0.0, poor="", n_fits=1, n_iter=0, n_passes=0, n_products=0,
            warm=WarmStart((), (), theta),
        )  # fmt: skip

    journal = Journal(None, lambda: "", {"n_groups": 2}, None if seen is None else seen.append)
    stopping = Stopping(
        tol=1e-6, least_decrease=0.0, little_slope=0.0, max_steps=100, unit=lambda value: 1.0, noun="evidence"
    )
    run = OuterLoop(
        parameters or OuterParameters(("width", "noise")), Descent(first_move=1.0, lower=np.log(1e-3), upper=np.log(1e3)),
        START, journal, evaluate, stopping, accuracy=1e-8,
    )  # fmt: skip
    return run, run.descend()


def test_widths_of_kernels_are_descended_as_strengths_are(data):
    seen = []
    run, (status, reason) = descend(data, seen)
    assert status == "converged", reason
    reference = minimize(lambda theta: evidence(*data, theta), START, jac=True, method="BFGS", tol=1e-9)
    np.testing.assert_allclose(run.state.x, reference.x, atol=1e-5)
    np.testing.assert_allclose(run.criterion, reference.fun, rtol=1e-10)
    np.testing.assert_allclose(seen[0].strengths, [3.0, 0.5])  # the trace has the numbers themselves
    best = [step for step in seen if step.accepted][-1]
    np.testing.assert_allclose(best.strengths, np.exp(run.state.x))


def test_the_trace_has_fixed_parameters_too(data):
    seen = []
    with_one_fixed = OuterParameters(
        ("scale", "width", "noise"), values=lambda theta: np.concatenate([[1.0], np.exp(theta)])
    )
    descend(data, seen, with_one_fixed)
    assert all(step.strengths[0] == 1.0 and len(step.strengths) == 3 for step in seen)


def remaining_gain(seed, least):
    """Descend a random convex quadratic of five variables; how the descent ended, and what was left to gain."""
    rng = np.random.default_rng(seed)
    axes = np.linalg.qr(rng.normal(size=(5, 5)))[0]
    hessian = axes @ np.diag(np.exp(rng.uniform(-2.0, 1.0, 5))) @ axes.T
    start = rng.normal(size=5)

    def evaluate(theta, accuracy, warm):
        return Evaluation(
            value=1.0 + 0.5 * float(theta @ hessian @ theta), gradient=hessian @ theta, error=0.0, residual=0.0, poor="",
            n_fits=1, n_iter=0, n_passes=0, n_products=0, warm=WarmStart((), (), theta),
        )  # fmt: skip

    stopping = Stopping(
        tol=1e-9, least_decrease=least, little_slope=0.0, max_steps=50, unit=lambda value: 1.0, noun="criterion"
    )
    run = OuterLoop(
        OuterParameters(tuple("abcde")), Descent(metric=np.full(5, 1.0)), start,
        Journal(None, lambda: "", {"n_groups": 5}, None), evaluate, stopping, accuracy=1e-8,
    )  # fmt: skip
    status, reason = run.descend()
    assert status == "converged", reason
    return reason, run.criterion - 1.0


def test_a_promise_is_believed_only_if_little_is_left_to_gain():
    least = 0.05
    ends = [remaining_gain(seed, least) for seed in range(200)]
    believed = [left for reason, left in ends if "kept its promise" in reason]
    assert len(believed) > 20
    assert np.mean(np.array(believed) <= least) > 0.9
    assert max(believed) < 4.0 * least
