"""Implicit gradients against refits and against a dense solve, at random theta."""

import numpy as np
import pytest
from tests import naive, problems

from tikhon.solvers import Newton
from tikhon.testing import check_hypergradient
from tikhon.tuners.hypergradient import CHEAP_FIT_GAP, hypergradient

GROUPS = {"one": None, "given": ["a", "a", "b", "b", "c", -1], "separate": "separate"}


@pytest.mark.parametrize("model", problems.MODELS)
@pytest.mark.parametrize("groups", GROUPS)
@pytest.mark.parametrize("sparse", [False, True])
def test_agrees_with_newton_refits(model, groups, sparse, rng):
    problem = problems.problem(model, rng, GROUPS[groups], sparse=sparse)
    report = check_hypergradient(problem, seed=int(rng.integers(1000)), step=1e-4, tol=1e-6)
    assert max(map(abs, report.refitted)) > 1e-4  # not at an optimum, where a wrong sign would also give 0


@pytest.mark.parametrize("model", problems.MODELS)
def test_agrees_with_the_jacobian_written_out(model, rng):
    """Equations (5) and (6): J = -(C + H)^-1 B column by column, then J' grad."""
    problem = problems.problem(model, rng, GROUPS["given"], solver=Newton(tol=1e-26))
    theta = rng.normal(size=3)
    strengths = problem.groups.strengths(theta)
    strength = problem.groups.expand(strengths)
    expected = np.zeros(3)
    for pair in problem.pairs:
        w = problem.solver.minimise(pair.train, strength).weights
        B = np.column_stack([np.where(problem.groups.index == g, strengths[g] * w, 0.0) for g in range(3)])
        system = naive.dense_hessian(pair.train, w) + np.diag(strength)
        J = -np.linalg.lstsq(system, B, rcond=1e-10)[0]  # least norm: softmax's shift is flat
        expected += J.T @ pair.holdout.loss_gradient(w)[1]
    total = sum(pair.holdout_weight for pair in problem.pairs)
    found = hypergradient(problem, theta, accuracy=1e-11)
    np.testing.assert_allclose(found.gradient, expected / total, rtol=1e-6, atol=1e-10)


@pytest.mark.parametrize("model", problems.MODELS)
@pytest.mark.parametrize("hessian", ["analytic", "finite", "complex"])
def test_conjugate_gradients_and_factors_agree(model, hessian, rng):
    seed = int(rng.integers(1000))
    direct = hypergradient(
        problems.problem(model, np.random.default_rng(seed), GROUPS["given"]), np.zeros(3), accuracy=1e-10
    )
    problem = problems.problem(model, np.random.default_rng(seed), GROUPS["given"], solver="newton-cg")
    iterative = hypergradient(problem, np.zeros(3), accuracy=1e-8, hessian=hessian)
    tolerance = 1e-4 if hessian == "finite" else 1e-6  # differences of gradients limit what CG can reach
    np.testing.assert_allclose(iterative.gradient, direct.gradient, rtol=tolerance, atol=1e-8)


def test_one_fold_is_a_hold_out(rng):
    problem = problems.problem("logistic", rng)
    one = type(problem)(
        objective=problem.objective, groups=problem.groups, solver=problem.solver, pairs=problem.pairs[:1]
    )
    found = hypergradient(one, np.zeros(1), accuracy=1e-10)
    pair = problem.pairs[0]
    w = Newton(tol=1e-26).minimise(pair.train, problem.groups.expand(np.ones(1))).weights
    assert found.value == pytest.approx(pair.holdout.loss_gradient(w)[0] / pair.holdout_weight, rel=1e-9)


def test_a_loose_fit_is_corrected_to_first_order(rng):
    """The value with an inexact fit, corrected by the adjoint, is far closer to the exact one than without."""
    problem = problems.problem("logistic", rng, solver="lbfgs")
    exact = hypergradient(problem, np.zeros(1), accuracy=1e-10).value
    loose = hypergradient(problem, np.zeros(1), accuracy=1.0)
    strength = problem.groups.expand(np.ones(1))
    plain = sum(
        pair.holdout.loss_gradient(problem.solver.minimise(pair.train, strength, tol=CHEAP_FIT_GAP).weights)[0]
        for pair in problem.pairs
    ) / sum(pair.holdout_weight for pair in problem.pairs)
    assert abs(loose.value - exact) <= max(0.5 * abs(plain - exact), 1e-9)


def test_a_direction_flat_in_training_does_not_spoil_the_gradient(rng):
    """An unpenalised column that is constant in training and not in the hold-out: least norm keeps it at bay."""
    X, y = problems.data("logistic", rng)
    fold = np.arange(60) % 2
    X[:, 5] = np.where(fold == 0, 1.0, rng.normal(size=60))
    problem = problems.problem("logistic", rng, ["a"] * 5 + [-1])
    whole = problems.objective("logistic", X, y)
    pair = type(problem.pairs[0])(whole.reweighted((fold == 0) * 1.0), whole.reweighted((fold == 1) * 1.0), 30.0, 30.0)
    problem = type(problem)(objective=whole, groups=problem.groups, solver=problem.solver, pairs=[pair])
    check_hypergradient(problem, tol=1e-6)
