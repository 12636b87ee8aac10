"""Hidden-unit chains of order 1 and 2 against enumeration of all labellings and all states of the units."""

from dataclasses import replace

import numpy as np
import pytest
from tests import naive
from tests.models.test_by_example import check

from tikhon.models.chain.decoder import ChainDecoder
from tikhon.models.chain.hidden_objective import HiddenUnitChain
from tikhon.models.chain.hidden_units import HiddenLayer
from tikhon.models.chain.layout import ChainLayout
from tikhon.models.chain.sequences import Sequences
from tikhon.models.chain.token_rows import DenseRows, SparseRows
from tikhon.models.chain.transitions import transitions_of
from tikhon.testing import check_objective

LENGTHS = (2, 1, 3, 2)
FORMS = ("dense", "sparse", "repeated")


def made(rng, form="dense", *, n_labels=3, valued=True, unknown=0.0):
    """Short sequences; of "repeated" ones, tokens are of three kinds."""
    n, n_features = sum(LENGTHS), 12 if form == "sparse" else 3
    kinds = [np.sort(rng.choice(n_features, rng.integers(1, 3), replace=False)) for _ in range(n)]
    values = [rng.normal(size=len(kind)) for kind in kinds]
    chosen = rng.integers(0, 3, n) if form == "repeated" else np.arange(n)
    features = [kinds[i] for i in chosen]
    labels = rng.integers(0, n_labels, n).astype(np.int32)
    labels[rng.random(n) < unknown] = -1
    return Sequences(
        starts=np.concatenate([[0], np.cumsum(LENGTHS)]).astype(np.int64),
        pointers=np.concatenate([[0], np.cumsum([len(each) for each in features])]).astype(np.int64),
        features=np.concatenate(features).astype(np.int32),
        values=np.concatenate([values[i] for i in chosen]) if valued else None,
        labels=labels, n_features=n_features, n_labels=n_labels,
    )  # fmt: skip


def layout_for(data, order, n_hidden=2):
    return ChainLayout(
        HiddenLayer(data.n_features, data.n_labels, n_hidden), transitions_of(data, order, all_pairs=True)
    )  # fmt: skip


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("valued", "unknown"), [(False, 0.0), (True, 0.0), (True, 0.4)])
@pytest.mark.parametrize("scale", [1.0, 200.0])  # beyond 150, terms are computed one by one
def test_loss_gradient_and_product_equal_enumeration(order, form, valued, unknown, scale, rng):
    data = made(rng, form, valued=valued, unknown=unknown)
    layout, row_weights = layout_for(data, order), rng.uniform(0.5, 2.0, len(LENGTHS))
    row_weights[1] = 0.0
    objective = HiddenUnitChain(data, layout, row_weights=row_weights)
    weights, v = scale * rng.normal(size=objective.n_weights), rng.normal(size=objective.n_weights)
    loss, gradient, hessian = naive.hidden_unit_loss(data, layout, weights, row_weights)
    found = objective.loss_gradient(weights)
    assert found[0] == pytest.approx(loss, rel=1e-11, abs=1e-10)
    np.testing.assert_allclose(found[1], gradient, atol=1e-10)
    np.testing.assert_allclose(objective.hessian_at(weights)(v), hessian @ v, atol=1e-9)


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("scale", [1.0, 200.0])
def test_marginals_and_best_joint_assignments_equal_enumeration(order, scale, rng):
    data = made(rng)
    layout = layout_for(data, order)
    weights = scale * rng.normal(size=layout.n_weights)
    joint = replace(layout, emission=layout.emission.with_best_states())
    unknown = replace(data, labels=np.full_like(data.labels, -1))
    marginals = ChainDecoder(layout, weights).marginals(unknown)[0]
    best, best_of_joint = (ChainDecoder(each, weights).best(unknown)[0] for each in (layout, joint))
    for i, (start, end) in enumerate(zip(data.starts[:-1], data.starts[1:], strict=True)):
        paths, counts = naive.hidden_unit_states(data, layout, i)
        energies = counts @ weights
        shares = np.exp(energies - naive.chain_moments(counts, weights, np.ones(len(paths), bool))[0])
        by_label = np.stack([shares @ (paths == k) for k in range(3)], axis=1)
        np.testing.assert_allclose(marginals[start:end], by_label, atol=1e-10)
        labellings, which = np.unique(paths, axis=0, return_inverse=True)
        share_of = np.bincount(which.ravel(), shares)
        np.testing.assert_array_equal(best[start:end], labellings[np.argmax(share_of)])
        np.testing.assert_array_equal(best_of_joint[start:end], paths[np.argmax(energies)])


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("unknown", [0.0, 0.3])
def test_it_is_an_objective_like_the_others(order, form, unknown, rng):
    data = made(rng, form, n_labels=5, unknown=unknown)
    objective = HiddenUnitChain(data, layout_for(data, order, n_hidden=7))
    assert not objective.is_convex
    check_objective(objective, rng)


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("form", FORMS)
def test_a_few_sequences_give_their_part_of_the_gradient(order, form, rng):
    data = made(rng, form)
    objective = HiddenUnitChain(data, layout_for(data, order), row_weights=np.array([0.5, 0.0, 2.0, 1.5]))
    for scale in (1.0, 200.0):
        check(objective, scale * rng.normal(size=objective.n_weights), rng)


@pytest.mark.parametrize("form", FORMS)
def test_rows_are_stored_in_the_form_that_suits_them(form, rng):
    rows = layout_for(data := made(rng, form), 1).emission.tokens(data).rows
    assert isinstance(rows.rows, SparseRows if form == "sparse" else DenseRows)
    assert (rows.places is not None) == (form == "repeated")


@pytest.mark.parametrize("form", FORMS)
def test_threads_give_the_same_bits(form, rng):
    data = made(rng, form, n_labels=5)
    layout = layout_for(data, 2, n_hidden=5)
    weights, v = rng.normal(size=(2, layout.n_weights))
    one, two = (HiddenUnitChain(data, layout, n_threads=n) for n in (1, 2))
    assert one.loss_gradient(weights)[0] == two.loss_gradient(weights)[0]
    np.testing.assert_array_equal(one.loss_gradient(weights)[1], two.loss_gradient(weights)[1])
    np.testing.assert_array_equal(one.hessian_at(weights)(v), two.hessian_at(weights)(v))


def test_the_diagonal_is_exact_for_weights_that_act_on_scores_alone(rng):
    """Where units are certain (far from 0), only the variances of labels count."""
    data = replace(made(rng), starts=np.arange(sum(LENGTHS) + 1))
    layout = layout_for(data, 1)
    weights = layout.emission.start()
    weights = np.concatenate([weights, np.zeros(layout.n_weights - len(weights))])
    layout.emission.parts(weights[: layout.emission.n_weights])[1][:] = 60.0
    objective = HiddenUnitChain(data, layout)
    exact = np.array([unit @ objective.hessian_at(weights)(unit) for unit in np.eye(layout.n_weights)])
    found = objective.hessian_diagonal(weights)
    v, c = (layout.emission.parts(each[: layout.emission.n_weights])[2:] for each in (found, exact))
    for mine, theirs in zip(v, c, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-10)


def test_starts_tell_units_apart_and_depend_on_the_seed():
    layer = HiddenLayer(4, 3, 5)
    first, again, other = layer.start(), layer.start(), replace(layer, seed=1).start()
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)
    w, b, v, c = layer.parts(first)
    assert len(np.unique(w, axis=1).T) == len(np.unique(v, axis=1).T) == 5
    assert not b.any()
    assert not c.any()


def test_units_that_vanished_are_begun_anew(rng):
    data = made(rng)
    layout = layout_for(data, 1, n_hidden=5)
    parts, removable = layout.emission.parts, HiddenUnitChain(data, layout).hints.removable
    weights = rng.normal(size=layout.n_weights)
    w, b, v, c = parts(weights[: layout.emission.n_weights])
    w[:, 1], v[:, 1] = 0.0, 1e-4
    before = weights.copy()
    found = removable.revived(weights)
    np.testing.assert_array_equal(weights, before)
    new_w, new_b, new_v, new_c = parts(found[: layout.emission.n_weights])
    started = parts(layout.emission.start())
    np.testing.assert_array_equal(new_w[:, 1], started[0][:, 1])
    np.testing.assert_array_equal(new_v[:, 1], started[2][:, 1])
    np.testing.assert_array_equal(np.delete(new_w, 1, axis=1), np.delete(w, 1, axis=1))
    np.testing.assert_array_equal(np.delete(new_v, 1, axis=1), np.delete(v, 1, axis=1))
    np.testing.assert_array_equal(np.concatenate([new_b, new_c.ravel()]), np.concatenate([b, c.ravel()]))
    without = removable.removed(found)
    assert not parts(without[: layout.emission.n_weights])[2].any()
    assert np.count_nonzero(without != found) == v.size


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("valued", [False, True])
def test_natural_strengths_are_mean_squares_of_what_tokens_have(form, valued, rng):
    data = made(rng, form, valued=valued)
    row_weights = np.array([1.0, 0.0, 2.0, 0.5])
    objective = HiddenUnitChain(data, layout_for(data, 1), row_weights=row_weights)
    found = objective.natural_strengths()
    strengths = objective.layout.emission.parts(found[: objective.layout.emission.n_weights])[0]
    counted = np.repeat(np.repeat(row_weights > 0.0, LENGTHS), np.diff(data.pointers))
    values = np.ones(len(data.features)) if data.values is None else data.values
    for feature in range(data.n_features):
        own = values[counted & (data.features == feature)]
        np.testing.assert_allclose(strengths[feature], np.mean(own**2) if len(own) else 1.0)
    np.testing.assert_array_equal(found[strengths.size :], 1.0)
