"""Grid search: it finds what an exhaustive search finds, widens, refines, and follows the one-standard-error rule."""

import numpy as np
import pytest
from tests import problems

from tikhon.errors import InputError
from tikhon.solvers import Newton
from tikhon.tuners import Gradient, Grid


def exhaustive(problem, values):
    losses = []
    for value in values:
        strength = problem.groups.expand(np.full(problem.groups.count, value))
        fits = [Newton(tol=1e-24).minimise(pair.train, strength).weights for pair in problem.pairs]
        losses.append(sum(p.holdout.loss_gradient(w)[0] for p, w in zip(problem.pairs, fits, strict=True)) / 60.0)
    return np.array(losses)


@pytest.mark.parametrize("model", problems.MODELS)
@pytest.mark.parametrize("extrapolate", [True, False])
def test_equals_cold_fits_one_by_one(model, extrapolate, rng):
    problem = problems.problem(model, rng)
    values = 2.0 ** np.arange(-6, 7)
    result = Grid(values=tuple(values), widen=False, refine=0, inner_tol=1e-20, extrapolate=extrapolate).tune(problem)
    losses = exhaustive(problem, values)
    np.testing.assert_allclose(result.extras["grid"]["losses"], losses, rtol=1e-7)
    assert result.strengths["all"] == values[losses.argmin()]
    assert result.criterion == pytest.approx(losses.min(), rel=1e-7)


@pytest.mark.parametrize("side", ["low", "high"])
def test_widens_while_the_best_is_at_the_border(side, rng):
    problem = problems.problem("logistic", rng)
    values = (1e-5, 1e-4) if side == "low" else (1e3, 1e4)
    values = values[::-1] if side == "high" else values
    plain = Grid(values=values, widen=False, refine=0).tune(problem)
    wide = Grid(values=values, refine=0).tune(problem)
    assert wide.criterion <= plain.criterion
    assert any("border" in warning for warning in plain.warnings)
    tried = wide.extras["grid"]["strengths"]
    assert min(tried) < wide.strengths["all"] < max(tried)
    assert any("widened" in note for note in wide.notes)


def test_widening_stops_at_the_bounds_and_says_so():
    rng = np.random.default_rng(0)
    problem = problems.problem("logistic", rng)
    noise = problems.objective("logistic", rng.normal(size=(60, 6)), (rng.random(60) < 0.5) * 1.0)
    pairs = [
        type(p)(
            noise.reweighted((np.arange(60) % 3 != k) * 1.0),
            noise.reweighted((np.arange(60) % 3 == k) * 1.0),
            40.0,
            20.0,
        )
        for k, p in enumerate(problem.pairs)
    ]
    problem = type(problem)(objective=noise, groups=problem.groups, solver=problem.solver, pairs=pairs)
    result = Grid(values=(0.5, 1.0), bounds=(0.25, 8.0)).tune(problem)
    assert result.strengths["all"] == 8.0
    assert any("upper bound" in warning for warning in result.warnings)


def test_refining_closes_in_on_the_optimum_of_the_gradient_tuner(rng):
    problem = problems.problem("logistic", rng)
    best = Gradient(tol=1e-7).tune(problem)
    coarse, fine = (Grid(values=(2.0**-9, 0.125, 32.0), refine=n, inner_tol=1e-18).tune(problem) for n in (0, 12))
    assert fine.criterion <= coarse.criterion
    assert fine.criterion == pytest.approx(best.criterion, rel=1e-5)


def test_the_one_standard_error_rule_takes_the_strongest_within_an_error(rng):
    problem = problems.problem("logistic", rng)
    best, cautious = (Grid(refine=0, one_standard_error=rule).tune(problem) for rule in (False, True))
    grid = best.extras["grid"]
    at = int(np.argmin(grid["losses"]))
    limit = grid["losses"][at] + grid["standard_errors"][at]
    expected = max(s for s, loss in zip(grid["strengths"], grid["losses"], strict=True) if loss <= limit)
    assert cautious.strengths["all"] == expected
    assert cautious.strengths["all"] >= best.strengths["all"]


def test_the_rule_needs_folds(rng):
    problem = problems.problem("logistic", rng)
    one = type(problem)(
        objective=problem.objective, groups=problem.groups, solver=problem.solver, pairs=problem.pairs[:1]
    )
    with pytest.raises(InputError, match="two or more folds"):
        Grid(one_standard_error=True).tune(one)
