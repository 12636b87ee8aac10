"""The experiment on learned strengths of chains, and its peer."""

from pathlib import Path

import numpy as np
import pytest

from tikhon import ChainCRF
from tikhon.data.chunk_scores import chunk_scores
from tikhon.data.tagged import as_lists, load_tagged
from tikhon.experiments import EXPERIMENTS
from tikhon.experiments.chunking_strengths import HELD_OUT, METHODS, held_out_split, plan
from tikhon.harness import crfsuite


def small_chains(n: int) -> tuple[list[list[list[str]]], list[list[str]]]:
    rng = np.random.default_rng(0)
    X = [[[f"w={word}", f"s={word % 7}"] for word in rng.integers(0, 60, size=8)] for _ in range(n)]
    y = [[f"B-{int(token[0][2:]) % 3}" if rng.random() < 0.8 else "O" for token in sentence] for sentence in X]
    return X, y


@pytest.mark.slow
def test_peers_hold_out_the_same_sentences():
    X, y = small_chains(100)
    train, held_out = held_out_split(len(X))
    assert len(held_out) == 20
    assert sorted([*train, *held_out]) == list(range(100))
    models = [
        ChainCRF(groups=None, cv=None, validation_fraction=HELD_OUT, n_jobs=1).fit(X, y),
        ChainCRF(groups=None, cv=[(train, held_out)], n_jobs=1).fit(X, y),
    ]
    assert models[0].tuning_.criterion == models[1].tuning_.criterion
    assert models[0].strengths_ == models[1].strengths_


@pytest.mark.slow
def test_crfsuite_has_our_objective_and_log_loss():
    pytest.importorskip("pycrfsuite")
    X, y = small_chains(60)
    peer = crfsuite.train(X, y, c2=0.5, iterations=None)
    model = ChainCRF.from_c2(0.5, tol=1e-8, n_jobs=1).fit(X, y)
    weights = model.tuning_.weights
    assert peer.trace[-1][1] == pytest.approx(model.tuning_.train_loss + 0.5 * float(weights @ weights), rel=1e-4)
    assert peer.log_loss(X, y) == pytest.approx(-model.log_likelihood(X, y) / len(X), rel=1e-2)
    assert peer.log_loss(X[:1], [["unseen"] * len(y[0])]) is None
    assert peer.tag(X[:1]) == model.predict(X[:1])
    seconds = [second for second, _ in peer.trace]
    assert seconds[0] > 0.0
    assert seconds == sorted(seconds)
    assert seconds[-1] <= peer.train_seconds
    assert len(crfsuite.train(X, y, c2=0.5, iterations=3, early_stop=False).trace) == 3


def test_the_gain_is_over_the_best_of_the_others():
    f1 = {"grid": 80.0, "one": 81.0, "templates": 83.0, "crfsuite": 82.0}
    rows = [
        {
            "data": "wnut17", "method": method, "f1": f1[method], "accuracy": 95.0, "held_out_loss": 2.0, "seconds": 4.0,
            "cpu_seconds": 6.0, "fits": 3.0, "fits_wall_clock": 2.5, "n_steps": 5, "held_out_f1": 79.0,
            "f1_unlimited": 82.5, "fit_iterations_unlimited": 150, "strengths": {"all": 2.0},
        }
        for method in METHODS
    ]  # fmt: skip
    found = EXPERIMENTS["chunking-strengths"].evaluate(plan(False), rows)
    assert found.summary["wnut17"]["f1_gain"] == pytest.approx(1.0)
    assert found.summary["wnut17"]["best_rival"] == "crfsuite"
    assert found.summary["wnut17"]["fits"] == 3.0
    assert "+1.00 points" in found.markdown
    assert set(found.summary) == {"wnut17"}


def test_spanish_entities_are_counted_as_they_are_labelled(data_dir: Path) -> None:
    data = load_tagged("conll2002-es", data_dir)
    assert (len(data.train), len(data.test)) == (8323, 1517)
    X, y = as_lists("conll2002-es", data.test)
    assert (len(X[0]), len(X[0][0])) == (len(y[0]), 17)
    scores = chunk_scores(y, y)
    assert scores.all.true == 3559  # as conlleval counts them: one begins with an I
    assert set(scores.by_kind) == {"LOC", "MISC", "ORG", "PER"}
