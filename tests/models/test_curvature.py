"""Leave-one-out, evidence and their derivatives: against refits, dense matrices and differences."""

from dataclasses import dataclass

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import naive, problems

from tikhon.models import LeastSquares, Logistic, Softmax
from tikhon.objective import Curved, hints_of

CRITERIA = ("leave_one_out", "evidence")


@dataclass(frozen=True)
class Case:
    """A model with so many outputs, on n rows and p columns; ``apart``: each output has strengths of its own."""

    model: str
    n: int = 50
    p: int = 5
    outputs: int = 1
    apart: bool = False


CASES = {
    "logistic": Case("logistic"),
    "logistic, few rows": Case("logistic", 20, 40),
    "softmax": Case("softmax", 50, 4, 3),
    "softmax per class": Case("softmax", 50, 3, 4, apart=True),
    "softmax, few rows": Case("softmax", 20, 30, 3),
    "least squares": Case("least_squares"),
    "least squares, few rows": Case("least_squares", 20, 40),
    "targets": Case("least_squares", 50, 5, 3),
    "targets apart": Case("least_squares", 50, 5, 3, apart=True),
    "targets, few rows": Case("least_squares", 20, 40, 2),
    "targets apart, few rows": Case("least_squares", 20, 40, 2, apart=True),
}
STORAGE = {"dense": np.asarray, "csr": sp.csr_array}


def made(case, rng, *, storage="dense", fit_intercept=True, row_weights=None):
    X = rng.normal(size=(case.n, case.p))
    X[rng.random(X.shape) < 0.3] = 0.0
    scores = X[:, :3] @ rng.normal(size=(3, case.outputs))
    a = rng.uniform(0.5, 2.0, case.n) if row_weights is None else row_weights
    kwargs = {"fit_intercept": fit_intercept, "row_weights": a}
    stored = STORAGE[storage](X)
    if case.model == "logistic":
        return Logistic(stored, (scores[:, 0] + rng.logistic(size=case.n) > 0).astype(float), **kwargs)
    if case.model == "softmax":
        y = np.argmax(scores + rng.gumbel(size=scores.shape), axis=1)
        return Softmax(stored, y, n_classes=case.outputs, **kwargs)
    return LeastSquares(stored, 2.0 + scores + rng.normal(size=scores.shape), **kwargs)


def strengths(case, rng, fit_intercept=True, unpenalised=0):
    """Random ones; the first columns may go unpenalised, the intercepts always do."""
    shape = (case.outputs if case.apart else 1, case.p)
    one = np.exp(rng.normal(size=shape))
    one[:, :unpenalised] = 0.0
    flat = np.broadcast_to(one, (case.outputs, case.p)).ravel()
    return np.append(flat, np.zeros(case.outputs)) if fit_intercept else flat.copy()


def slope(function, step=1e-4):
    """By differences of the fourth order: leverages near 1 bend too much for the second."""
    one, two = (function(k * step) - function(-k * step) for k in (1, 2))
    return (8 * one - two) / (12 * step)


@pytest.fixture(params=CASES, name="case")
def given_case(request):
    return CASES[request.param]


@pytest.fixture(params=STORAGE)
def storage(request):
    return request.param


@pytest.fixture(params=[True, False], ids=["intercept", "origin"])
def fit_intercept(request):
    return request.param


@pytest.mark.parametrize("unpenalised", [0, 2])
@pytest.mark.parametrize("seed", [0])
def test_solves_and_inverts_as_a_dense_matrix_does(case, storage, fit_intercept, unpenalised, rng):
    objective = made(case, rng, storage=storage, fit_intercept=fit_intercept)
    strength = strengths(case, rng, fit_intercept, unpenalised)
    weights, v = 0.5 * rng.normal(size=(2, objective.n_weights))
    flat = objective.flat_directions(strength == 0.0)
    v -= flat @ (flat.T @ v)
    curvature = objective.curvature_at(weights, strength)
    inverse = np.linalg.pinv(naive.dense_hessian(objective, weights) + np.diag(strength), rcond=1e-12)
    solved = curvature.solve(v)
    np.testing.assert_allclose(solved - flat @ (flat.T @ solved), inverse @ v, rtol=1e-8, atol=1e-9)
    determined = np.abs(flat).sum(axis=1) == 0.0  # along flat directions any answer will do
    assert determined.any()
    np.testing.assert_allclose(curvature.inverse_diagonal()[determined], np.diag(inverse)[determined], rtol=1e-8)


@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("seed", [0])
def test_derivatives_agree_with_differences(case, storage, fit_intercept, criterion, rng):
    """At weights that are no fit, in random directions; some columns are unpenalised, some rows have weight 0."""
    a = rng.uniform(0.5, 2.0, case.n) * (np.arange(case.n) % 10 > 0)
    objective = made(case, rng, storage=storage, fit_intercept=fit_intercept, row_weights=a)
    strength = strengths(case, rng, fit_intercept, unpenalised=1)
    weights = 0.5 * rng.normal(size=objective.n_weights)

    def value(w, s):
        return getattr(objective.curvature_at(w, s), criterion)().value

    found = getattr(objective.curvature_at(weights, strength), criterion)()
    assert found.value == value(weights, strength)  # the same bits
    for _ in range(2):
        dw = rng.normal(size=len(weights))
        ds = rng.normal(size=len(weights)) * strength
        if not case.apart:  # one inverse serves all targets only while their strengths are the same
            by_output = ds[: case.outputs * case.p].reshape(case.outputs, -1)
            by_output[:] = by_output[0]
        by_weights = slope(lambda t, dw=dw: value(weights + t * dw, strength))
        by_strength = slope(lambda t, ds=ds: value(weights, strength + t * ds))
        assert found.by_weights @ dw == pytest.approx(by_weights, rel=1e-6, abs=1e-8 * abs(found.value))
        assert found.by_strength @ ds == pytest.approx(by_strength, rel=1e-6, abs=1e-8 * abs(found.value))
        assert abs(by_weights) > 1e-5 * abs(found.value)  # not zeros that agree
        assert abs(by_strength) > 1e-5 * abs(found.value)


@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_derivatives_by_each_strength_of_each_output(criterion, apart, fit_intercept, rng):
    """One strength at a time: moving one output's alone from equal ones changes from one inverse to many."""
    for case in (Case("softmax", 40, 3, 3, apart), Case("least_squares", 40, 3, 2, apart), Case("logistic", 40, 3)):
        objective = made(case, rng, fit_intercept=fit_intercept)
        strength = strengths(case, rng, fit_intercept)
        weights = 0.5 * rng.normal(size=objective.n_weights)

        def value(s, objective=objective, weights=weights):
            return getattr(objective.curvature_at(weights, s), criterion)().value

        found = getattr(objective.curvature_at(weights, strength), criterion)()
        for j in np.flatnonzero(strength):
            unit = strength[j] * (np.arange(len(strength)) == j)
            expected = slope(lambda t, unit=unit, at=value, strength=strength: at(strength + t * unit))
            assert found.by_strength[j] * strength[j] == pytest.approx(expected, rel=1e-6, abs=1e-9 * abs(found.value))


def test_a_strength_of_0_in_one_class_only(rng):
    """The other classes' penalties still decide the common part of the column's weights."""
    case = Case("softmax", 50, 3, 3, apart=True)
    objective = made(case, rng, fit_intercept=False)
    strength = strengths(case, rng, fit_intercept=False)
    for zero in (1, 7):  # a class in the middle, and the last, which the others are measured by
        strength[zero] = 0.0
        weights, v = rng.normal(size=(2, objective.n_weights))
        dense = naive.dense_hessian(objective, weights) + np.diag(strength)
        curvature = objective.curvature_at(weights, strength)
        np.testing.assert_allclose(curvature.solve(v), np.linalg.solve(dense, v), rtol=1e-8)
        np.testing.assert_allclose(curvature.inverse_diagonal(), np.diag(np.linalg.inv(dense)), rtol=1e-8)
        expected = naive.laplace(objective, weights, strength)
        assert curvature.evidence().value == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize("unpenalised", [0, 2])
def test_least_squares_leave_one_out_is_that_of_refits(storage, fit_intercept, unpenalised, rng):
    for name in ("least squares", "least squares, few rows", "targets", "targets apart", "targets apart, few rows"):
        case = CASES[name]
        a = rng.uniform(0.5, 2.0, case.n) * (np.arange(case.n) % 7 > 0)
        objective = made(case, rng, storage=storage, fit_intercept=fit_intercept, row_weights=a)
        strength = strengths(case, rng, fit_intercept, unpenalised)
        weights = naive.fitted(objective, strength)
        found = objective.curvature_at(weights, strength).leave_one_out().value
        X, p, total = np.asarray(objective.X.todense() if storage == "csr" else objective.X), case.p, 0.0
        for t in range(case.outputs):
            own, y = strength[t * p : (t + 1) * p], objective.y[:, t]
            for i in range(case.n):
                w = naive.ridge(X, y, own, fit_intercept, np.where(np.arange(case.n) == i, 0.0, a))
                total += 0.5 * a[i] * (X[i] @ w[:p] + (w[p] if fit_intercept else 0.0) - y[i]) ** 2
        assert found == pytest.approx(total, rel=1e-8), name


@pytest.mark.parametrize("name", ["logistic", "softmax", "softmax per class"])
@pytest.mark.parametrize("seed", [0, 1])
def test_leave_one_out_is_close_to_that_of_refits(name, fit_intercept, rng):
    """A row is left out whole, whatever its weight; one of weight 0 does not count."""
    case = CASES[name]
    a = rng.uniform(0.5, 2.0, case.n) * (np.arange(case.n) % 10 > 0)
    objective = made(case, rng, fit_intercept=fit_intercept, row_weights=a)
    strength = strengths(case, rng, fit_intercept)
    strength[strength > 0.0] += 1.0
    weights = naive.fitted(objective, strength)
    found = objective.curvature_at(weights, strength).leave_one_out().value
    refitted = naive.leave_one_out(objective, strength, weights)
    training = objective.loss_gradient(weights)[0]
    assert found == pytest.approx(refitted, rel=0.02)
    assert abs(found - refitted) < 0.2 * (refitted - training)  # most of what leaving rows out does is there


@pytest.mark.parametrize("unpenalised", [0, 2])
def test_evidence_is_that_of_an_explicit_hessian(storage, fit_intercept, unpenalised, rng):
    """As differences between two points: constants drop."""
    for name in ("logistic", "logistic, few rows", "softmax", "softmax per class", "softmax, few rows"):
        case = CASES[name]
        objective = made(case, rng, storage=storage, fit_intercept=fit_intercept)
        found, expected = [], []
        for _ in range(2):
            strength = strengths(case, rng, fit_intercept, unpenalised)
            weights = 0.3 * rng.normal(size=objective.n_weights)
            found.append(objective.curvature_at(weights, strength).evidence().value)
            expected.append(naive.laplace(objective, weights, strength))
        assert found[1] - found[0] == pytest.approx(expected[1] - expected[0], rel=1e-8), name


@pytest.mark.parametrize("unpenalised", [0, 2])
def test_evidence_of_least_squares_is_the_restricted_likelihood(storage, fit_intercept, unpenalised, rng):
    """Row weights are counts here: the likelihood sees a row so many times."""
    for name in ("least squares", "least squares, few rows", "targets", "targets apart", "targets apart, few rows"):
        case, counts = CASES[name], rng.integers(0, 3, CASES[name].n)
        objective = made(case, rng, storage=storage, fit_intercept=fit_intercept, row_weights=counts.astype(float))
        X = np.repeat(np.asarray(objective.X.todense() if storage == "csr" else objective.X), counts, axis=0)
        free = np.column_stack([X[:, :unpenalised], np.ones(len(X))]) if fit_intercept else X[:, :unpenalised]
        found, expected = [], []
        for _ in range(2):
            strength = strengths(case, rng, fit_intercept, unpenalised)
            weights = naive.fitted(objective, strength)
            found.append(objective.curvature_at(weights, strength).evidence().value)
            own = strength[: case.outputs * case.p].reshape(case.outputs, -1)[:, unpenalised:]
            expected.append(
                sum(
                    naive.restricted_likelihood(X[:, unpenalised:], np.repeat(objective.y[:, t], counts), own[t], free)
                    for t in range(case.outputs)
                )
            )
        assert found[1] - found[0] == pytest.approx(expected[1] - expected[0], rel=1e-8), name


@pytest.mark.parametrize("criterion", CRITERIA)
def test_softmax_of_two_classes_is_logistic(criterion, fit_intercept, rng):
    """Weights -v/2 and v/2 with strengths s are penalised as v is with s / 2."""
    n, p = 50, 4
    X, y = problems.data("logistic", rng, n, p)
    a = rng.uniform(0.0, 2.0, n)
    softmax = Softmax(X, y.astype(np.intp), n_classes=2, row_weights=a, fit_intercept=fit_intercept)
    logistic = Logistic(X, y, row_weights=a, fit_intercept=fit_intercept)
    values = []
    for _ in range(2):
        own = np.append(np.exp(rng.normal(size=p)), [0.0] * fit_intercept)
        v = 0.5 * rng.normal(size=len(own))
        two = np.concatenate([-v[:p], v[:p], -v[p:], v[p:]]) / 2
        strength = np.concatenate([own[:p], own[:p], own[p:], own[p:]])
        both = softmax.curvature_at(two, strength), logistic.curvature_at(v, own / 2)
        values.append([getattr(curvature, criterion)().value for curvature in both])
    (here, same), (there, again) = values
    if criterion == "leave_one_out":
        assert here == pytest.approx(same, rel=1e-10)
    assert there - here == pytest.approx(again - same, rel=1e-8)


def test_noise_precision(rng):
    case = CASES["targets apart"]
    objective = made(case, rng)
    strength = strengths(case, rng)
    weights = naive.fitted(objective, strength)
    precision = objective.curvature_at(weights, strength).noise_precision()
    X, a = objective.X, objective.row_weights
    for t in range(3):
        own, w = strength[t * 5 : t * 5 + 5], weights[t * 5 : t * 5 + 5]
        squares = a @ (X @ w + weights[15 + t] - objective.y[:, t]) ** 2 + own @ w**2
        np.testing.assert_allclose(precision[[t * 5, t * 5 + 4, 15 + t]], (a.sum() - 1) / squares, rtol=1e-10)
    assert hints_of(objective).noise_is_unknown
    loss = objective.loss_gradient(weights)[0]
    assert objective.noise_precision(loss) == pytest.approx(3 * a.sum() / (2 * loss))
    assert made(CASES["softmax"], rng).curvature_at(np.zeros(15), np.ones(15)).noise_precision() == 1.0
    assert made(CASES["logistic"], rng).curvature_at(np.zeros(6), np.ones(6)).noise_precision() == 1.0


def test_an_exact_fit_leaves_evidence_finite(rng):
    """Targets that the columns explain without any error: no residuals are left to tell the noise from."""
    X = rng.normal(size=(30, 3))
    objective = LeastSquares(X, (X @ np.ones(3))[:, None], fit_intercept=False)
    found = objective.curvature_at(np.ones(3), np.full(3, 1e-12)).evidence()
    assert np.isfinite(found.value)
    assert np.isfinite(found.by_weights).all()
    assert np.isfinite(found.by_strength).all()


@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("seed", [0])
def test_a_row_of_weight_0_is_no_row(case, storage, criterion, rng):
    # So few that most cases keep these rows rather than copy the others away.
    a = rng.uniform(0.5, 2.0, case.n) * (np.arange(case.n) % 30 > 0)
    objective = made(case, rng, storage=storage, row_weights=a)
    used = np.flatnonzero(a)
    kwargs = {"n_classes": case.outputs} if case.model == "softmax" else {}
    without = type(objective)(objective.X[used], objective.y[used], row_weights=a[used], **kwargs)
    strength = strengths(case, rng)
    weights = 0.5 * rng.normal(size=objective.n_weights)
    whole, part = (getattr(o.curvature_at(weights, strength), criterion)() for o in (objective, without))
    assert whole.value == pytest.approx(part.value, rel=1e-10)
    np.testing.assert_allclose(whole.by_weights, part.by_weights, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(whole.by_strength, part.by_strength, rtol=1e-7, atol=1e-9)


def test_a_matrix_that_is_not_positive_definite_is_refused(rng):
    for name in ("logistic", "softmax", "least squares", "logistic, few rows", "least squares, few rows"):
        case = CASES[name]
        objective = made(case, rng)
        assert isinstance(objective, Curved)
        assert np.isfinite(objective.curvature_cost)
        kwargs = {"n_classes": case.outputs} if case.model == "softmax" else {}
        empty = type(objective)(np.column_stack([np.zeros(case.n), objective.X]), objective.y, **kwargs)
        strength = np.ones(empty.n_weights)
        strength[[k * (case.p + 1) for k in range(case.outputs)]] = 0.0  # a column of zeros that nothing penalises
        with pytest.raises(np.linalg.LinAlgError):
            empty.curvature_at(np.zeros(empty.n_weights), strength).solve(strength)


@given(st.integers(0, 2**32 - 1), st.floats(-12, 12), st.booleans(), st.sampled_from([(15, 4), (8, 14)]))
@settings(max_examples=60, deadline=None)
def test_leave_one_out_is_never_below_the_training_loss(seed, log_strength, fit_intercept, shape):
    rng = np.random.default_rng(seed)
    case = Case("least_squares", *shape, outputs=2)
    objective = made(case, rng, fit_intercept=fit_intercept)
    strength = np.exp(log_strength) * strengths(case, rng, fit_intercept)
    weights = rng.normal(size=objective.n_weights)
    found = objective.curvature_at(weights, strength).leave_one_out().value
    assert found >= objective.loss_gradient(weights)[0] * (1 - 1e-12)


@given(st.integers(0, 2**32 - 1), st.floats(-12, 12), st.booleans(), st.sampled_from([(15, 4), (8, 14)]))
@settings(max_examples=60, deadline=None)
def test_a_row_never_decides_its_own_score_alone(seed, log_strength, fit_intercept, shape):
    """Leverage times curvature is in [0, 1)."""
    rng = np.random.default_rng(seed)
    case = Case("logistic", *shape)
    objective = made(case, rng, fit_intercept=fit_intercept)
    strength = np.exp(log_strength) * strengths(case, rng, fit_intercept)
    weights = rng.normal(size=objective.n_weights)
    share = objective.curvature_at(weights, strength).rows.inverse.leverages * objective.working_weights(weights)
    assert (share >= 0.0).all()
    assert (share < 1.0).all()
