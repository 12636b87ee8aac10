"""Decoding of chains against enumeration of all labellings."""

from dataclasses import replace

import numpy as np
import pytest
from tests import naive
from tests.models.test_chain import LENGTHS, made

from tikhon.models.chain.decoder import ChainDecoder, Rules
from tikhon.models.chain.layout import layout_of


def enumerated(data, layout, weights, i, rules=None):
    """Labellings of a sequence that agree with its known labels and the rules, and their log probabilities."""
    paths, counts = naive.chain_labellings(data, layout, i)
    given = data.labels[data.starts[i] : data.starts[i + 1]]
    allowed = ((paths == given) | (given == -1)).all(axis=1)
    if rules is not None:
        allowed &= rules.first[paths[:, 0]] & rules.steps[paths[:, :-1], paths[:, 1:]].all(axis=1)
    scores = (counts @ weights)[allowed]
    return paths[allowed], scores, naive.chain_moments(counts, weights, allowed)[0]


def cases(rng, order, scale, ruled):
    data = made(rng, n_labels=3, valued=True, unknown=0.0)
    layout = layout_of(data, order)
    known = np.where(rng.random(data.n_tokens) < 0.2, data.labels, -1).astype(np.int32)
    weights = scale * rng.normal(size=layout.n_weights)
    steps = np.ones((3, 3), bool)
    steps[0, 1] = steps[2, 2] = False
    rules = Rules(np.array([True, True, False]), steps) if ruled else None
    if ruled:
        known[:] = -1  # or nothing might be left
    return replace(data, labels=known), layout, weights, rules


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("scale", [1.0, 700.0])
@pytest.mark.parametrize("ruled", [False, True])
def test_best_labels_probabilities_and_several_best_equal_enumeration(order, scale, ruled, rng):
    data, layout, weights, rules = cases(rng, order, scale, ruled)
    decoder = ChainDecoder(layout, weights, rules)
    best, scores = decoder.best(data)
    marginals, log_sums = decoder.marginals(data)
    several = decoder.several_best(data, 7)
    for i in range(len(LENGTHS)):
        paths, expected, log_sum = enumerated(data, layout, weights, i, rules)
        own = slice(data.starts[i], data.starts[i + 1])
        assert log_sums[i] == pytest.approx(log_sum, rel=1e-12, abs=1e-10)
        shares = np.exp(expected - log_sum)
        by_label = np.stack([shares @ (paths == k) for k in range(3)], axis=1)
        np.testing.assert_allclose(marginals[own], by_label, atol=1e-10)
        assert scores[i] == pytest.approx(expected.max(), rel=1e-12)
        score_of = dict(zip(map(tuple, paths.tolist()), expected, strict=True))
        assert score_of[tuple(best[own])] == pytest.approx(expected.max(), rel=1e-12)
        # Of labellings with equal scores any may come first; each comes once.
        found = [tuple(one.labels) for one in several[i]]
        assert len(set(found)) == len(found) == min(7, len(paths))
        ranked = np.sort(expected)[::-1][: len(found)]
        np.testing.assert_allclose([score_of[path] for path in found], ranked, rtol=1e-12, atol=1e-10)
        log_probabilities = [one.log_probability for one in several[i]]
        np.testing.assert_allclose(log_probabilities, ranked - log_sum, atol=1e-9 * scale)


@pytest.mark.parametrize("order", [1, 2])
def test_log_likelihoods_equal_enumeration(order, rng):
    data, layout, weights, _ = cases(rng, order, 1.0, ruled=False)
    found, _ = ChainDecoder(layout, weights).log_likelihoods(data)
    free = replace(data, labels=np.full_like(data.labels, -1))
    for i in range(len(LENGTHS)):
        log_sums = [enumerated(each, layout, weights, i)[2] for each in (data, free)]
        assert found[i] == pytest.approx(log_sums[0] - log_sums[1], abs=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("ruled", [False, True])
def test_labels_are_drawn_by_their_probability(order, ruled, rng):
    data, layout, weights, rules = cases(rng, order, 1.0, ruled)
    n_draws = 20_000
    drawn, _ = ChainDecoder(layout, weights, rules).drawn(data, n_draws, rng)
    for i in range(len(LENGTHS)):
        paths, scores, log_sum = enumerated(data, layout, weights, i, rules)
        shares = np.exp(scores - log_sum)
        codes = {tuple(path): n for n, path in enumerate(paths.tolist())}
        counts = np.bincount([codes[tuple(path)] for path in drawn[i].tolist()], minlength=len(paths))
        error = np.sqrt(shares * (1.0 - shares) / n_draws)
        assert (np.abs(counts / n_draws - shares) <= 5.0 * error + 1e-4).all()


def test_rules_that_leave_nothing_are_told_by_the_score(rng):
    data, layout, weights, _ = cases(rng, 1, 1.0, ruled=False)
    nothing = Rules(np.zeros(3, bool), np.ones((3, 3), bool))
    decoder = ChainDecoder(layout, weights, nothing)
    assert (decoder.best(data)[1] == -np.inf).all()
    assert (decoder.marginals(data)[1] == -np.inf).all()
    assert decoder.several_best(data, 3) == [[]] * len(LENGTHS)
