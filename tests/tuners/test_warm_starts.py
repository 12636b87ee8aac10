"""Weights to begin with (``Problem.start``): every tuner ends where it would without them, in no more iterations."""

from dataclasses import replace

import numpy as np
import pytest
from tests import problems

from tikhon.tuners import MM, TUNERS, Auto, Direct, Evidence, Fixed, Gradient, Grid, LeaveOneOut

MATTERS = 1e-3, 1e4  # strengths between which the weights still change
GROUPS = ["a", "a", "b", "b", "c", -1]
TIGHT = {
    "mm": MM(tol=1e-6), "gradient": Gradient(tol=1e-7), "loo": LeaveOneOut(tol=1e-6), "evidence": Evidence(tol=1e-5),
    "auto": Auto(tol=1e-6),
}  # fmt: skip


def tuner_of(name):
    return TIGHT.get(name, TUNERS[name]())


def n_iter(result):
    return sum(step.n_iter for step in result.trace) + result.extras["n_iter"]


def assert_same_optimum(warm, cold, rtol=1e-3):
    assert warm.status == cold.status == "converged"
    # The weights of a group that is all noise are 0 at any large strength: nothing says which. Weak ones are alike, too.
    found, expected = (np.clip(list(one.strengths.values()), *MATTERS) for one in (warm, cold))
    np.testing.assert_allclose(found, expected, rtol=rtol)
    np.testing.assert_allclose(warm.weights, cold.weights, rtol=rtol, atol=rtol)


@pytest.mark.parametrize("model", ["logistic", "softmax"])
@pytest.mark.parametrize("tuner", TUNERS)
def test_a_refit_from_its_own_answer(model, tuner, rng):
    problem = problems.problem(model, rng, GROUPS, n=150)
    cold = tuner_of(tuner).tune(problem)
    strengths = np.array(list(cold.strengths.values()))
    warm = tuner_of(tuner).tune(replace(problem, start=cold.weights, start_strengths=strengths))
    assert_same_optimum(warm, cold)
    assert n_iter(warm) < n_iter(cold)
    weights_only = tuner_of(tuner).tune(replace(problem, start=cold.weights))
    assert_same_optimum(weights_only, cold)
    if tuner in ("mm", "direct"):
        assert len(warm.trace) == 1


@pytest.mark.parametrize("solver", ["newton", "newton-cg", "lbfgs"])
def test_fixed_strengths_begin_at_the_weights(solver, rng):
    problem = problems.problem("logistic", rng, fixed=2.0, solver=solver)
    cold = Fixed().tune(problem)
    warm = Fixed().tune(replace(problem, start=cold.weights))
    assert cold.extras["n_iter"] > 2
    assert warm.extras["n_iter"] <= 1
    np.testing.assert_allclose(warm.weights, cold.weights, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("tuner", ["mm", "direct", "grid"])
def test_weights_of_other_data_lead_to_the_same_optimum(tuner, rng):
    other, problem = (problems.problem("logistic", rng, GROUPS, n=n) for n in (120, 150))
    start = tuner_of(tuner).tune(other).weights
    assert_same_optimum(tuner_of(tuner).tune(replace(problem, start=start)), tuner_of(tuner).tune(problem))


def test_first_strengths_follow_from_the_weights_unless_given(rng):
    problem = problems.problem("logistic", rng, GROUPS)
    start = rng.normal(size=problem.objective.n_weights)
    start[[2, 3]] = 0.0  # group b: nothing is known of it
    warm = replace(problem, start=start)

    def first(tuner, problem):
        return tuner.tune(problem).trace[0].strengths

    a, c = (1.0 + 0.3) / (0.5 * start[[0, 1]] @ start[[0, 1]] + 0.7), (0.5 + 0.3) / (0.5 * start[4] ** 2 + 0.7)
    np.testing.assert_allclose(first(MM(alpha=0.3, beta=0.7), warm), [a, 1.0, c])
    np.testing.assert_allclose(first(MM(), problem), [1.0, 1.0, 1.0])
    np.testing.assert_allclose(first(MM(start=3.0), warm), [3.0, 3.0, 3.0])
    np.testing.assert_allclose(first(MM(start=1.0), warm), [1.0, 1.0, 1.0])


def test_a_group_that_begins_at_zero_is_not_lost(rng):
    """The update of weights that are all 0 would be the strongest strength there is; many weights hardly leave it."""
    problem = problems.problem("logistic", rng, {"signal": range(3)}, n=150, p=40)
    cold = MM(tol=1e-6).tune(problem)
    start = np.where(problem.groups.index == 0, 0.0, cold.weights)
    assert_same_optimum(MM(tol=1e-6).tune(replace(problem, start=start)), cold)


def test_direct_begins_its_descent_at_the_weights(rng):
    problem = problems.problem("logistic", rng, GROUPS)
    start = 0.1 * rng.normal(size=problem.objective.n_weights)
    first = Direct(alpha=0.5, beta=0.7).tune(replace(problem, start=start)).trace[0]
    half = {name: 0.5 * np.sum(start[np.array(members)] ** 2) + 0.7 for name, members in (("a", [0, 1]), ("b", [2, 3]))}
    np.testing.assert_allclose(first.strengths[:2], [1.5 / half["a"], 1.5 / half["b"]])
    assert first.criterion == pytest.approx(
        problem.objective.loss_gradient(start)[0]
        + 1.5 * np.log(half["a"]) + 1.5 * np.log(half["b"]) + 1.0 * np.log(0.5 * start[4] ** 2 + 0.7)
    )  # fmt: skip


class Starts:
    """A solver that remembers where it was told to start."""

    def __init__(self, solver):
        self.solver, self.starts = solver, []

    def minimise(self, objective, strength, start=None, *, tol=None):
        self.starts.append(None if start is None else start.copy())
        return self.solver.minimise(objective, strength, start, tol=tol)


def test_the_grid_starts_its_first_fits_and_the_last_one_at_the_weights(rng):
    problem = problems.problem("logistic", rng, n=150)
    weights = Fixed().tune(replace(problem, groups=problem.groups.with_fixed(0.5))).weights

    def starts(*values):
        solver = Starts(problem.solver)
        Grid(values=values, widen=False, refine=0).tune(replace(problem, solver=solver, start=weights))
        return solver.starts

    for start in starts(0.5):
        np.testing.assert_array_equal(start, weights)
    # So strong that the weights of the last fit are worse than none: the folds begin afresh, the last fit does not.
    *folds, last = starts(1e6)
    assert folds == [None] * 3
    np.testing.assert_array_equal(last, weights)
    # Values after the first begin at their neighbours.
    assert not any(np.array_equal(start, weights) for start in starts(0.5, 0.25)[3:6])
