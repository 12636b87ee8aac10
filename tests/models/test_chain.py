"""Chain CRFs of order 1 and 2 against enumeration of all labellings."""

import itertools

import numpy as np
import pytest
from tests import naive

from tikhon.models.chain.layout import layout_of
from tikhon.models.chain.objective import Chain
from tikhon.models.chain.sequences import Sequences
from tikhon.testing import check_objective

LENGTHS = (4, 1, 3, 5, 2)


def made(rng, *, n_labels=3, n_features=6, valued=False, unknown=0.0):
    """Short sequences; a token has up to four features, some have none."""
    n = sum(LENGTHS)
    per_token = rng.integers(0, min(4, n_features) + 1, n)
    features = np.concatenate([np.sort(rng.choice(n_features, m, replace=False)) for m in per_token])
    labels = rng.integers(0, n_labels, n).astype(np.int32)
    labels[rng.random(n) < unknown] = -1
    return Sequences(
        starts=np.concatenate([[0], np.cumsum(LENGTHS)]).astype(np.int64),
        pointers=np.concatenate([[0], np.cumsum(per_token)]).astype(np.int64),
        features=features.astype(np.int32),
        values=rng.normal(size=len(features)) if valued else None,
        labels=labels,
        n_features=n_features,
        n_labels=n_labels,
    )


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("all_pairs", [False, True])
@pytest.mark.parametrize(("valued", "unknown"), [(False, 0.0), (True, 0.0), (True, 0.4)])
@pytest.mark.parametrize("scale", [1.0, 700.0])
def test_loss_gradient_and_product_equal_enumeration(order, all_pairs, valued, unknown, scale, rng):
    data = made(rng, valued=valued, unknown=unknown)
    layout = layout_of(data, order, all_pairs=all_pairs)
    row_weights = rng.uniform(0.5, 2.0, len(LENGTHS))
    row_weights[1] = 0.0
    objective = Chain(data, layout, row_weights=row_weights)
    weights, v = scale * rng.normal(size=objective.n_weights), rng.normal(size=objective.n_weights)
    loss, gradient, hessian = naive.chain_loss(data, layout, weights, row_weights)
    found = objective.loss_gradient(weights)
    assert found[0] == pytest.approx(loss, rel=1e-12, abs=1e-10)
    np.testing.assert_allclose(found[1], gradient, atol=1e-10)
    np.testing.assert_allclose(objective.hessian_at(weights)(v), hessian @ v, atol=1e-9)


@pytest.mark.parametrize("order", [1, 2])
def test_features_of_many_labels_go_by_the_table(order, rng):
    data = made(rng, n_labels=5, n_features=3, valued=True)
    layout = layout_of(data, order, all_pairs=False)
    assert layout.n_dense_pairs > 0
    weights = rng.normal(size=layout.n_weights)
    loss, gradient, hessian = naive.chain_loss(data, layout, weights, np.ones(len(LENGTHS)))
    objective = Chain(data, layout)
    assert objective.loss_gradient(weights)[0] == pytest.approx(loss, rel=1e-12)
    np.testing.assert_allclose(objective.loss_gradient(weights)[1], gradient, atol=1e-10)
    np.testing.assert_allclose(objective.hessian_at(weights)(gradient), hessian @ gradient, atol=1e-9)


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("unknown", [0.0, 0.3])
def test_it_is_an_objective_like_the_others(order, unknown, rng):
    data = made(rng, n_labels=4, unknown=unknown)
    objective = Chain(data, layout_of(data, order))
    assert objective.is_convex == (unknown == 0.0)
    check_objective(objective, rng)


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("scale", [1.0, 100.0])
def test_the_diagonal_is_exact_for_features_that_no_sequence_has_twice(order, scale, rng):
    """With sequences of three tokens at most, and features of their own, also steps are not repeated by chance."""
    n = sum(LENGTHS)
    place = np.concatenate([np.arange(length) for length in LENGTHS])
    data = Sequences(
        starts=np.concatenate([[0], np.cumsum(LENGTHS)]).astype(np.int64), pointers=np.arange(n + 1), values=rng.normal(size=n),
        features=place.astype(np.int32), labels=rng.integers(0, 3, n).astype(np.int32), n_features=max(LENGTHS), n_labels=3,
    )  # fmt: skip
    layout = layout_of(data, order, all_pairs=True)
    row_weights = rng.uniform(0.5, 2.0, len(LENGTHS))
    weights = scale * rng.normal(size=layout.n_weights)
    found = Chain(data, layout, row_weights=row_weights).hessian_diagonal(weights)
    exact = np.diag(naive.chain_loss(data, layout, weights, row_weights)[2])
    np.testing.assert_allclose(found[: layout.n_pairs], exact[: layout.n_pairs], atol=1e-10)
    assert (found[layout.n_pairs :] >= 0.0).all()


def test_the_diagonal_of_single_steps_is_exact(rng):
    data = Sequences(
        starts=np.array([0, 2, 4]), pointers=np.arange(5), values=None, features=np.zeros(4, np.int32),
        labels=np.array([0, 1, 2, 2], np.int32), n_features=1, n_labels=3,
    )  # fmt: skip
    layout = layout_of(data, 1, all_pairs=True)
    weights = rng.normal(size=layout.n_weights)
    exact = np.diag(naive.chain_loss(data, layout, weights, np.ones(2))[2])
    found = Chain(data, layout).hessian_diagonal(weights)
    np.testing.assert_allclose(found[layout.n_pairs :], exact[layout.n_pairs :], atol=1e-10)


def test_natural_strengths_are_mean_squares_of_what_tokens_have(rng):
    data = made(rng, n_labels=5, valued=True)
    layout = layout_of(data, 1, all_pairs=True)
    found = Chain(data, layout, row_weights=rng.uniform(0.5, 2.0, len(LENGTHS))).natural_strengths()
    for strength, feature in zip(found, layout.pair_features, strict=False):
        assert strength == pytest.approx(np.mean(data.values[data.features == feature] ** 2))
    np.testing.assert_array_equal(found[layout.n_pairs :], 1.0)


def test_natural_strengths_of_features_without_values_are_1(rng):
    data = made(rng)
    np.testing.assert_array_equal(Chain(data, layout_of(data, 2, all_pairs=False)).natural_strengths(), 1.0)


def test_threads_give_the_same_bits(rng):
    data = made(rng, n_labels=5)
    layout = layout_of(data, 2)
    weights, v = rng.normal(size=(2, layout.n_weights))
    one, two = (Chain(data, layout, n_threads=n) for n in (1, 2))
    assert one.loss_gradient(weights)[0] == two.loss_gradient(weights)[0]
    np.testing.assert_array_equal(one.loss_gradient(weights)[1], two.loss_gradient(weights)[1])
    np.testing.assert_array_equal(one.hessian_at(weights)(v), two.hessian_at(weights)(v))


@pytest.mark.parametrize("all_pairs", [False, True])
def test_frequent_features_come_first(all_pairs, rng):
    data = made(rng, n_labels=5, unknown=0.3)
    layout = layout_of(data, 1, all_pairs=all_pairs)
    n_uses = np.bincount(data.features, minlength=data.n_features)
    for part in (layout.pair_features[: layout.n_dense_pairs], layout.pair_features[layout.n_dense_pairs :]):
        assert (np.diff(n_uses[part]) <= 0).all()


def test_only_pairs_that_are_seen_have_weights(rng):
    data = made(rng, unknown=0.3)
    layout = layout_of(data, 2)
    label = np.repeat(data.labels, np.diff(data.pointers))
    seen = {(f, k) for f, k in zip(data.features.tolist(), label.tolist(), strict=True) if k >= 0}
    assert seen == set(zip(layout.pair_features.tolist(), layout.pair_labels.tolist(), strict=True))
    pairs, triples = set(), set()
    for start, end in itertools.pairwise(data.starts):
        labels = data.labels[start:end].tolist()
        pairs |= {step for step in itertools.pairwise(labels) if -1 not in step}
        triples |= {step for step in zip(labels, labels[1:], labels[2:], strict=False) if -1 not in step}
    assert pairs == set(map(tuple, layout.transitions[0].tolist()))
    assert triples == set(map(tuple, layout.transitions[1].tolist()))
