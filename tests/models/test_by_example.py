"""The loss and gradient of a few examples: against enumeration, against the whole objective, and at their own cost."""

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from tests import naive, problems
from tests.models.test_chain import LENGTHS
from tests.models.test_chain import made as made_chain
from tests.models.test_folding import a_sequence, all_counts

from tikhon.models import LeastSquares
from tikhon.models.chain.layout import layout_of
from tikhon.models.chain.objective import Chain
from tikhon.models.chain.sequences import Sequences
from tikhon.models.folding.objective import Folding, example
from tikhon.models.folding.structures import Rules, encoded
from tikhon.objective import Examples

MODELS = (*problems.MODELS, "two targets")


def linear(model, rng, *, sparse, fit_intercept=True, n=60, p=6):
    X, y = problems.data("least_squares" if model == "two targets" else model, rng, n, p)
    X = X * (rng.random(X.shape) < 0.4) if sparse else X
    form = sp.csr_array(X) if sparse else X
    settings = {"fit_intercept": fit_intercept, "row_weights": rng.uniform(0.0, 2.0, n) * (rng.random(n) < 0.8)}
    if model == "two targets":
        y = np.column_stack([y, rng.normal(size=n)])
        return LeastSquares(form, y, **settings), X, y
    return problems.objective(model, form, y, **settings), X, y


def chain(rng, order, **settings):
    data = made_chain(rng, **settings)
    layout = layout_of(data, order)
    return Chain(data, layout, row_weights=np.array([0.5, 0.0, 2.0, 1.5, 1.0])), data, layout


def molecules(rng):
    sequences = [a_sequence(rng, n) for n in (9, 11, 8, 10)]
    structures = [list(naive.foldings(sequence)) for sequence in sequences]
    known = [np.array(each[rng.integers(len(each))]) + 1 for each in structures]
    known[1][rng.random(len(known[1])) < 0.5] = -1
    rules = Rules(least_hairpin=0)
    examples = [example(encoded(a), b, rules) for a, b in zip(sequences, known, strict=True)]
    return Folding(examples, rules, row_weights=np.array([1.0, 0.5, 2.0, 0.0])), sequences, structures, known


def some_rows(objective, rng):
    """Some examples, and some of them more than once."""
    return rng.integers(0, objective.n_rows, objective.n_rows)


def found_at(objective, weights, rows, scale=1.0):
    out = rng_like(weights)
    before = out.copy()
    loss = objective.add_gradient(weights, rows, out, scale)
    return loss, out - before, out


def rng_like(weights):
    return np.random.default_rng(1).normal(size=len(weights))


def check(objective, weights, rng):
    """Against the objective itself: all rows, some rows, scaled; only the support is touched; the weights may be ``out``."""
    assert isinstance(objective, Examples)
    every = np.arange(objective.n_rows)
    cases = [every, rng.permutation(every), some_rows(objective, rng), every[:1]]
    for rows in cases:
        counts = np.bincount(rows, minlength=objective.n_rows)
        expected = objective.reweighted(counts * objective.row_weights).loss_gradient(weights)
        loss, gradient, out = found_at(objective, weights, rows)
        scale = np.abs(expected[1]).max(initial=1.0)
        assert loss == pytest.approx(expected[0], rel=1e-10, abs=1e-10)
        np.testing.assert_allclose(gradient, expected[1], rtol=0.0, atol=1e-10 * scale)
        np.testing.assert_allclose(found_at(objective, weights, rows, -0.3)[1], -0.3 * gradient, atol=1e-10 * scale)
        support = objective.support(rows)
        assert (np.diff(support) > 0).all()
        elsewhere = np.setdiff1d(np.arange(objective.n_weights), support)
        np.testing.assert_array_equal(out[elsewhere], rng_like(weights)[elsewhere])
        moved = weights.copy()
        objective.add_gradient(moved, rows, moved)
        np.testing.assert_allclose(moved - weights, gradient, rtol=0.0, atol=1e-10 * scale)
    nothing = np.zeros(0, np.intp)
    loss, gradient, _ = found_at(objective, weights, nothing)
    assert loss == 0.0
    assert not gradient.any()
    assert len(objective.support(nothing)) == 0


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_linear_models(model, sparse, fit_intercept, rng):
    objective, X, y = linear(model, rng, sparse=sparse, fit_intercept=fit_intercept)
    weights = rng.normal(size=objective.n_weights)
    check(objective, weights, rng)
    rows = some_rows(objective, rng)
    row_weights = objective.row_weights * np.bincount(rows, minlength=objective.n_rows)
    losses = {
        "logistic": lambda w: naive.logistic_loss(X, y, w, fit_intercept, row_weights),
        "softmax": lambda w: naive.softmax_loss(X, y, problems.N_CLASSES, w, fit_intercept, row_weights),
    }
    value = losses.get(model, lambda w: naive.squared_loss(X, y.reshape(len(y), -1), w, fit_intercept, row_weights))
    assert objective.add_gradient(weights, rows, np.zeros(len(weights))) == pytest.approx(value(weights), rel=1e-10)


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize(
    "settings", [{}, {"valued": True, "unknown": 0.3}, {"n_labels": 5, "n_features": 3, "valued": True}]
)
def test_chains(order, settings, rng):
    objective, data, layout = chain(rng, order, **settings)
    for size in (1.0, 700.0):  # so far apart, scores need logarithms
        check(objective, size * rng.normal(size=objective.n_weights), rng)
    weights = rng.normal(size=objective.n_weights)
    rows = some_rows(objective, rng)
    row_weights = objective.row_weights * np.bincount(rows, minlength=len(LENGTHS))
    expected = naive.chain_loss(data, layout, weights, row_weights)
    loss, gradient, _ = found_at(objective, weights, rows)
    assert loss == pytest.approx(expected[0], rel=1e-10, abs=1e-10)
    np.testing.assert_allclose(gradient, expected[1], atol=1e-10)


def test_molecules(rng):
    objective, sequences, structures, known = molecules(rng)
    weights = 0.3 * rng.normal(size=objective.n_weights)
    check(objective, weights, rng)
    rows = np.array([2, 0, 1, 2, 3])
    loss, gradient = 0.0, np.zeros(len(weights))
    for row in rows:
        counts = all_counts(sequences[row], structures[row])
        agrees = ((np.array(structures[row]) + 1 == known[row]) | (known[row] == -1)).all(axis=1)
        for sign, chosen in ((1.0, np.ones_like(agrees)), (-1.0, agrees)):
            log_sum, mean, _ = naive.chain_moments(counts, weights, chosen)
            loss += sign * objective.row_weights[row] * log_sum
            gradient += sign * objective.row_weights[row] * mean
    found = found_at(objective, weights, rows)
    assert found[0] == pytest.approx(loss, rel=1e-10)
    np.testing.assert_allclose(found[1], gradient, atol=1e-10)


def test_the_support_of_a_sequence_is_what_its_features_have_weights_for(rng):
    objective, data, layout = chain(rng, 1, valued=True)
    for row, (start, end) in enumerate(zip(data.starts[:-1], data.starts[1:], strict=True)):
        features = data.features[data.pointers[start] : data.pointers[end]]
        own = np.flatnonzero(np.isin(layout.pair_features, features))
        steps = np.arange(layout.n_pairs, layout.n_weights)
        np.testing.assert_array_equal(objective.support(np.array([row])), np.concatenate([own, steps]))


def allocated(objective, rows):
    """The most bytes that are allocated at a time, ``out`` apart; what is kept after a first call does not count."""
    weights, out = np.zeros(objective.n_weights), np.zeros(objective.n_weights)

    def call():
        objective.support(rows)
        objective.add_gradient(weights, rows, out)

    call()
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def repeated_chain(rng, n_times):
    """The same sequences many times, each time with features of their own."""
    data = made_chain(rng, valued=True)
    n = data.n_features
    tiled = Sequences(
        np.concatenate([[0], np.cumsum(np.tile(np.diff(data.starts), n_times))]),
        np.concatenate([[0], np.cumsum(np.tile(np.diff(data.pointers), n_times))]),
        np.concatenate([data.features + n * time for time in range(n_times)]).astype(np.int32),
        np.tile(data.values, n_times), np.tile(data.labels, n_times), n * n_times, data.n_labels,
    )  # fmt: skip
    return Chain(tiled, layout_of(tiled, 1))


@pytest.mark.parametrize("model", ["chain", *(f"{form} {name}" for form in ("dense", "sparse") for name in MODELS)])
def test_memory_does_not_grow_with_the_rows_nor_with_weights_of_others(model, rng):
    rows = np.array([3, 1, 3])
    if model == "chain":
        few, many = (repeated_chain(np.random.default_rng(0), n) for n in (2, 2000))
        assert many.n_weights > 500 * few.n_weights
    else:
        form, _, name = model.partition(" ")
        few, many = (linear(name, rng, sparse=form == "sparse", n=n)[0] for n in (20, 20_000))
    assert allocated(many, rows) <= 1.5 * allocated(few, rows) + 2000


@pytest.mark.parametrize("model", problems.MODELS)
def test_memory_does_not_grow_with_the_columns_of_sparse_rows(model, rng):
    def wide(p):
        X = problems.sparse(np.random.default_rng(0), 50, p, 5)
        y = {"logistic": np.arange(50) % 2.0, "softmax": np.arange(50) % 3}.get(model, np.arange(50.0))
        return problems.objective(model, X, y)

    rows = np.array([3, 1, 3])
    assert allocated(wide(100_000), rows) <= 1.5 * allocated(wide(10), rows) + 2000
