"""The benchmark of hidden-unit CRFs: what it times is the same work, and its figures are ratios of its times."""

from pathlib import Path

import numpy as np
import pytest

from tikhon.bench import BENCHES
from tikhon.bench.hucrf import _chain as chain_of
from tikhon.bench.hucrf import _check, _epoch, _products, evaluate, plan
from tikhon.bench.torch_chain import TorchChain
from tikhon.models.chain.sequences import Sequences
from tikhon.report.progress import Silent
from tikhon.trainers import SGD, Margin

LENGTHS = (3, 1, 4, 2)


@pytest.fixture
def words(rng):
    X = [rng.choice([-1.0, 1.0], size=(length, 5)) for length in LENGTHS]
    y = [rng.integers(0, 3, length) for length in LENGTHS]
    n = sum(LENGTHS)
    starts = np.concatenate([[0], np.cumsum(LENGTHS)]).astype(np.int64)
    data = Sequences(
        starts, np.arange(n + 1) * 5, np.tile(np.arange(5, dtype=np.int32), n), np.concatenate(X).ravel(),
        np.concatenate(y).astype(np.int32), 5, 3,
    )  # fmt: skip
    return X, y, data


def test_pytorch_computes_the_same(words):
    pytest.importorskip("torch", reason="PyTorch is not installed")
    X, y, data = words
    chain = chain_of(data, 4, 1)
    weights = np.random.default_rng(0).normal(size=chain.n_weights)
    own, _ = chain.layout.split(weights)
    parts, steps = chain.layout.emission.parts(own), chain.layout.transition_weights(weights, 1)
    for chunk in (1, 3, 10):
        loss, gradient = TorchChain(X, y, n_labels=3, n_threads=1).loss_gradient(parts, steps, chunk)
        expected, found = chain.loss_gradient(weights)
        _check(loss, gradient, expected, chain.layout.emission.parts(chain.layout.split(found)[0]))
        np.testing.assert_allclose(gradient[-1].ravel(), chain.layout.split(found)[1], atol=1e-9)


def test_differences_are_told():
    with pytest.raises(AssertionError, match="losses differ"):
        _check(1.0, [], 1.1, ())
    with pytest.raises(AssertionError, match="gradients differ"):
        _check(1.0, [np.ones(2)], 1.0, (np.zeros(2),))


def test_epochs_begin_anew_each_time(words):
    chain = chain_of(words[2], 4, 1)
    for trainer in (SGD(), Margin()):
        visit = _epoch(chain, trainer)
        assert visit() == visit() > 0.0
    _products(words[2], 4)()


def test_figures_are_ratios_of_times():
    made = plan(False)
    seconds = {"products": 1.0, "gradient-1": 2.0, "gradient-2": 1.25, "epoch-sgd": 3.0, "epoch-margin": 1.0}
    rows = [{"what": "own", "n_hidden": n, "letters": 10, "seconds": seconds} for n in (100, 500)]
    rows.append(
        {"what": "torch", "n_hidden": 500, "installed": True, "torch-1": 14.0, "tikhon-1": 2.0, "torch-2": 9.0, "tikhon-2": 1.5,
         "chunk-1": 30, "chunk-2": 10}
    )  # fmt: skip
    summary = evaluate(made, rows).summary
    assert summary["gemm_ratio"] == 2.0
    assert summary["speedup_threads"] == 1.6
    assert summary["speedup_torch"] == 7.0
    assert summary["speedup_torch_2"] == 6.0
    without = evaluate(made, rows[:2])
    assert "PyTorch is not installed" in without.markdown
    assert "speedup_torch" not in without.summary


@pytest.mark.slow
def test_quick(data_dir: Path, tmp_path: Path) -> None:
    result = BENCHES["hucrf"].run(data_dir, tmp_path, quick=True, jobs=1, progress=Silent())
    assert result["summary"]["n_failed"] == 0
    assert result["summary"]["gemm_ratio"] > 1.0
    assert (tmp_path / "hucrf.png").stat().st_size > 5_000
