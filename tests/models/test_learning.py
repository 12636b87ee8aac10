"""Learning from a few sequences at a time: against gradients of the whole loss, and enumeration of labels and hidden states."""

from dataclasses import replace

import numpy as np
import pytest
from tests import naive
from tests.models.test_chain import made as made_table
from tests.models.test_hidden_units import made as made_hidden

from tikhon.errors import InputError
from tikhon.models.chain.decoder import ChainDecoder
from tikhon.models.chain.hidden_objective import HiddenUnitChain
from tikhon.models.chain.hidden_units import HiddenLayer
from tikhon.models.chain.layout import ChainLayout, layout_of
from tikhon.models.chain.learner import ChainLearner, share_wrong, sizes_of
from tikhon.models.chain.objective import Chain
from tikhon.models.chain.transitions import transitions_of

FORMS = ("table", "valued table", "dense", "sparse", "repeated")


def chain(form, order, rng, *, unknown=0.0, all_pairs=False):
    if "table" in form:
        data = made_table(rng, n_labels=5, valued=form != "table", unknown=unknown)
        layout = layout_of(data, order, all_pairs=all_pairs)
        kind = Chain
    else:
        data = made_hidden(rng, form, unknown=unknown)
        layout = ChainLayout(
            HiddenLayer(data.n_features, data.n_labels, 2), transitions_of(data, order, all_pairs=all_pairs)
        )
        kind = HiddenUnitChain
    row_weights = rng.uniform(0.5, 2.0, data.n_sequences)
    row_weights[1] = 0.0
    return kind(data, layout, row_weights=row_weights), data


def rates_for(objective, rng):
    return rng.uniform(0.01, 0.1, len(objective.layout.emission.part_sizes) + 1)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize(("unknown", "all_pairs"), [(0.0, True), (0.0, False), (0.4, False)])
def test_a_batch_of_all_sequences_moves_along_the_gradient(form, order, unknown, all_pairs, rng):
    objective, _ = chain(form, order, rng, unknown=unknown, all_pairs=all_pairs)
    weights, rates = rng.normal(size=objective.n_weights), rates_for(objective, rng)
    rows = np.flatnonzero(objective.row_weights)
    learner = ChainLearner(objective, weights)
    np.testing.assert_array_equal(learner.weights(), weights)
    loss, gradient = objective.loss_gradient(weights)
    assert learner.learn(rows, rates, batch=len(rows), likelihood=True) == pytest.approx(loss, rel=1e-11)
    expected = weights - objective.layout.by_weight(rates) * gradient
    np.testing.assert_allclose(learner.weights(), expected, atol=1e-12)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("batch", [1, 2, 3])
def test_batches_follow_one_another(form, order, batch, rng):
    objective, _ = chain(form, order, rng)
    weights, rates = rng.normal(size=objective.n_weights), rates_for(objective, rng)
    rows = rng.permutation(np.flatnonzero(objective.row_weights))
    learner, total = ChainLearner(objective, weights), 0.0
    found = learner.learn(rows, rates, batch=batch, likelihood=True)
    for first in range(0, len(rows), batch):
        gradient = np.zeros_like(weights)
        total += objective.add_gradient(weights, rows[first : first + batch], gradient)
        weights = weights - objective.layout.by_weight(rates) * gradient
    assert found == pytest.approx(total, rel=1e-11)
    np.testing.assert_allclose(learner.weights(), weights, atol=1e-12)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("unknown", [0.0, 0.4])
@pytest.mark.parametrize("margin", [0.0, 0.7])
def test_perceptrons_move_by_what_the_best_and_the_given_labels_count(form, order, unknown, margin, rng):
    objective, data = chain(form, order, rng, unknown=unknown)
    weights, rates = rng.normal(size=objective.n_weights), rates_for(objective, rng)
    states_of = naive.chain_labellings if "table" in form else naive.hidden_unit_states
    for row in np.flatnonzero(objective.row_weights):
        learner = ChainLearner(objective, weights)
        found = learner.learn(np.array([row]), rates, batch=1, likelihood=False, margin=margin)
        paths, counts = states_of(data, objective.layout, row)
        energies = counts @ weights
        labels = data.labels[data.starts[row] : data.starts[row + 1]]
        agree = ((paths == labels) | (labels == -1)).all(axis=1)
        own = int(np.argmax(np.where(agree, energies, -np.inf)))
        total = energies + margin * (paths != paths[own]).sum(axis=1)
        best = int(np.argmax(total))
        a = objective.row_weights[row]
        assert found == pytest.approx(a * (total[best] - energies[own]), abs=1e-10)
        # The states of units of the best labels are those that score best, with the labels given.
        change = a * (counts[best] - counts[own]) * (not np.array_equal(paths[best], paths[own]))
        expected = weights - objective.layout.by_weight(rates) * change
        np.testing.assert_allclose(learner.weights(), expected, atol=1e-12)


def test_a_perceptron_learns_where_all_labels_score_the_same(rng):
    objective, _ = chain("table", 1, rng)
    learner = ChainLearner(objective, np.zeros(objective.n_weights))
    rows = np.flatnonzero(objective.row_weights)
    assert learner.learn(rows, np.ones(2), batch=len(rows), likelihood=False) == 0.0
    assert learner.weights().any()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("by_token", [False, True])
@pytest.mark.parametrize("best_states", [False, True])
def test_shares_of_wrong_labels_agree_with_the_decoder(form, by_token, best_states, rng):
    objective, data = chain(form, 2, rng, unknown=0.2)
    weights = rng.normal(size=objective.n_weights)
    layout = objective.layout.with_best_states() if best_states else objective.layout
    decoder = ChainDecoder(layout, weights)
    free = replace(data, labels=np.full_like(data.labels, -1))
    labels = decoder.marginals(free)[0].argmax(axis=1) if by_token else decoder.best(free)[0]
    token_weights = np.repeat(objective.row_weights, np.diff(data.starts)) * (data.labels != -1)
    expected = np.average(labels != data.labels, weights=token_weights)
    assert share_wrong(objective, layout, weights, by_token=by_token) == pytest.approx(expected)


@pytest.mark.parametrize("form", FORMS)
def test_sizes_count_what_has_weight(form, rng):
    objective, data = chain(form, 1, rng)
    found = sizes_of(objective)
    counted = np.repeat(objective.row_weights > 0.0, np.diff(data.starts))
    values = np.ones(len(data.features)) if data.values is None else data.values
    squares = np.repeat(counted, np.diff(data.pointers)) @ values**2
    assert found.n_sequences == (objective.row_weights > 0.0).sum()
    assert found.n_tokens == counted.sum()
    assert found.squared_norm == pytest.approx(squares / counted.sum())


def test_weights_beyond_the_range_of_the_kernels_count_as_diverged(rng):
    objective, _ = chain("dense", 1, rng)
    weights = rng.normal(size=objective.n_weights)
    objective.layout.emission.parts(weights[: objective.layout.emission.n_weights])[2][0, 0] = 151.0
    learner = ChainLearner(objective, weights)
    assert learner.learn(np.array([0]), np.zeros(5), batch=1, likelihood=True) == np.inf
    assert np.isfinite(learner.learn(np.array([0]), np.zeros(5), batch=1, likelihood=False))


def test_tables_of_too_many_steps_are_refused(rng, monkeypatch):
    monkeypatch.setattr("tikhon.models.chain.learner.MOST_STEPS", 10)
    objective, _ = chain("table", 1, rng)
    with pytest.raises(InputError, match="5 labels with order=1: trainers other than 'lbfgs'"):
        ChainLearner(objective, np.zeros(objective.n_weights))
