"""The losses of single rows: they add up to that of all, and to refits where rows are left out."""

import numpy as np
import pytest
from tests import naive, problems
from tests.models.test_chain import made as made_chain
from tests.models.test_folding import a_sequence

from tikhon.models import LeastSquares
from tikhon.models.chain.layout import layout_of
from tikhon.models.chain.objective import Chain
from tikhon.models.folding.objective import Folding, example
from tikhon.models.folding.structures import Rules, encoded
from tikhon.objective import hints_of
from tikhon.solvers.penalised import damped, penalised


def check(objective, weights, rng):
    """Of views with some rows left out too."""
    assert hints_of(objective).row_losses is not None
    row_weights = rng.integers(0, 3, objective.n_rows).astype(float)
    for view in (objective, objective.reweighted(row_weights)):
        losses = view.row_losses(weights)
        assert losses.sum() == pytest.approx(view.loss_gradient(weights)[0], rel=1e-10)
    counted = np.flatnonzero(row_weights)
    assert len(losses) == len(counted)
    for place, loss in zip(counted[:5], losses, strict=False):
        alone = np.zeros(objective.n_rows)
        alone[place] = row_weights[place]
        assert loss == pytest.approx(objective.reweighted(alone).loss_gradient(weights)[0], rel=1e-8, abs=1e-10)


@pytest.mark.parametrize("model", problems.MODELS)
def test_linear_models(model, rng):
    objective = problems.objective(model, *problems.data(model, rng))
    check(objective, rng.normal(size=objective.n_weights), rng)


@pytest.mark.parametrize("order", [1, 2])
def test_chains(order, rng):
    data = made_chain(rng, unknown=0.3)
    objective = Chain(data, layout_of(data, order))
    check(objective, rng.normal(size=objective.n_weights), rng)


@pytest.mark.parametrize("model", problems.MODELS)
def test_leave_one_out_losses_add_up(model, rng):
    objective = problems.objective(model, *problems.data(model, rng))
    inner = penalised(objective, np.full(objective.n_weights, 2.0))
    found = damped(objective.curvature_at, inner, rng.normal(size=objective.n_weights)).leave_one_out()
    assert found.by_row.sum() == pytest.approx(found.value, rel=1e-12)
    assert found.by_row.shape == (objective.n_rows,)


@pytest.mark.parametrize("shape", [(40, 6), (20, 30)])
def test_leave_one_out_losses_of_least_squares_are_those_of_refits(shape, rng):
    X = rng.normal(size=shape)
    y = X[:, 0] + rng.normal(size=shape[0])
    strength = np.exp(rng.normal(size=shape[1]))
    closed = LeastSquares(X, y).closed_leave_one_out(np.append(np.zeros(shape[1], bool), True), common=False)
    found = closed(np.append(strength, 0.0)).by_row
    for i in range(shape[0]):
        others = np.arange(shape[0]) != i
        weights = naive.ridge(X[others], y[others], strength, True, np.ones(others.sum()))
        assert found[i] == pytest.approx(0.5 * (X[i] @ weights[:-1] + weights[-1] - y[i]) ** 2, rel=1e-8)


def test_molecules(rng):
    rules = Rules()
    partners = [np.full(30, -1), np.zeros(25, int), np.zeros(12, int), np.full(20, -1)]
    examples = [example(encoded(a_sequence(rng, len(known))), known, rules) for known in partners]
    check(Folding(examples, rules), 0.3 * rng.normal(size=708), rng)
