"""Chains of many labels, few of whose steps have a weight: against enumeration and against tables of all steps."""

import time

import numpy as np
import pytest
from tests import naive
from tests.models.test_chain import LENGTHS, made

from tikhon.kernels.chain.few_steps import FewSteps
from tikhon.models.chain import transitions
from tikhon.models.chain.decoder import ChainDecoder, Rules
from tikhon.models.chain.layout import layout_of
from tikhon.models.chain.objective import Chain
from tikhon.models.chain.sequences import Sequences
from tikhon.testing import check_objective


@pytest.fixture
def always_few(monkeypatch):
    monkeypatch.setattr(transitions, "MANY_LABELS", 1)
    monkeypatch.setattr(transitions, "MANY_STEPS", 0)


@pytest.mark.usefixtures("always_few")
@pytest.mark.parametrize("all_pairs", [False, True])
@pytest.mark.parametrize("unknown", [0.0, 0.4])
@pytest.mark.parametrize("scale", [1.0, 30.0, 700.0])  # the last one is beyond scaled probabilities
def test_loss_gradient_and_product_equal_enumeration(all_pairs, unknown, scale, rng):
    data = made(rng, n_labels=4, valued=True, unknown=unknown)
    layout = layout_of(data, 1, all_pairs=all_pairs)
    row_weights = rng.uniform(0.5, 2.0, len(LENGTHS))
    row_weights[1] = 0.0
    objective = Chain(data, layout, row_weights=row_weights)
    weights, v = scale * rng.normal(size=objective.n_weights), rng.normal(size=objective.n_weights)
    assert isinstance(layout.steps.table(layout.split(weights)[1]), FewSteps) == (scale < 700.0)
    loss, gradient, hessian = naive.chain_loss(data, layout, weights, row_weights)
    found = objective.loss_gradient(weights)
    assert found[0] == pytest.approx(loss, rel=1e-12, abs=1e-10)
    np.testing.assert_allclose(found[1], gradient, atol=1e-10)
    np.testing.assert_allclose(objective.hessian_at(weights)(v), hessian @ v, atol=1e-9)
    by_few = np.zeros(objective.n_weights)
    assert objective.add_gradient(weights, np.arange(len(LENGTHS)), by_few) == pytest.approx(loss, rel=1e-12)
    np.testing.assert_allclose(by_few, gradient, atol=1e-10)


@pytest.mark.usefixtures("always_few")
@pytest.mark.parametrize("unknown", [0.0, 0.4])
def test_conformance(unknown, rng):
    data = made(rng, n_labels=5, valued=True, unknown=unknown)
    check_objective(Chain(data, layout_of(data, 1), n_threads=2), rng)


@pytest.mark.parametrize("scale", [1.0, 20.0])
def test_the_diagonal_and_predictions_are_those_of_tables(scale, rng, monkeypatch):
    data = made(rng, n_labels=6, valued=True, unknown=0.3)
    layout = layout_of(data, 1)
    weights = scale * rng.normal(size=layout.n_weights)
    given = np.where(rng.random(data.n_tokens) < 0.3, data.labels, -1).astype(np.int32)
    asked = Sequences(
        data.starts, data.pointers, data.features, data.values, given, n_features=data.n_features, n_labels=data.n_labels
    )  # fmt: skip

    def found():
        decoder = ChainDecoder(layout, weights)
        return [
            Chain(data, layout).hessian_diagonal(weights), *decoder.best(asked), *decoder.marginals(asked),
            *decoder.log_likelihoods(data), Chain(data, layout).row_losses(weights),
        ]  # fmt: skip

    by_table = found()
    monkeypatch.setattr(transitions, "MANY_LABELS", 1)
    monkeypatch.setattr(transitions, "MANY_STEPS", 0)
    assert layout.steps.are_few
    for one, other in zip(found(), by_table, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)


@pytest.mark.usefixtures("always_few")
def test_rules_and_several_best_use_tables(rng):
    data = made(rng, n_labels=4)
    layout = layout_of(data, 1)
    weights = rng.normal(size=layout.n_weights)
    rules = Rules(np.ones(4, bool), ~np.eye(4, dtype=bool))
    paths, scores = ChainDecoder(layout, weights, rules).best(data)
    assert np.isfinite(scores).any()
    best = ChainDecoder(layout, weights).several_best(data, 3)
    assert all(one[0].log_probability >= one[-1].log_probability for one in best)
    assert len(paths) == data.n_tokens


@pytest.mark.slow
def test_the_time_of_a_pass_does_not_grow_with_the_square_of_the_labels(rng):
    """With 3,000 labels a pass over 2,000 tokens took half a minute."""

    def pass_seconds(n_labels):
        n = 2000
        labels = rng.integers(0, n_labels, n).astype(np.int32)
        data = Sequences(
            starts=np.arange(0, n + 1, 20), pointers=np.arange(0, 3 * n + 1, 3),
            features=rng.integers(0, 500, 3 * n).astype(np.int32), values=None, labels=labels, n_features=500,
            n_labels=n_labels,
        )  # fmt: skip
        objective = Chain(data, layout_of(data, 1))
        assert objective.layout.steps.are_few
        weights = 0.1 * rng.normal(size=objective.n_weights)
        seconds = []
        for _ in range(3):
            begun = time.process_time()
            objective.loss_gradient(weights + 1e-3 * len(seconds))
            seconds.append(time.process_time() - begun)
        return min(seconds)

    few, many = pass_seconds(750), pass_seconds(3000)
    assert many < 8.0 * few  # 16 times as long if all steps were worked on
    assert many < 5.0
