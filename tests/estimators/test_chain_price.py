"""What learned strengths of chains cost, counted in passes over the data: times depend on the machine, these do not."""

import pytest

from tikhon import ChainCRF
from tikhon.data.tagged import load_tagged
from tikhon.data.token_windows import window_features
from tikhon.models.chain.objective import Chain

ONE_IN = 16
MOST_FITS = 6.0
PRODUCT = 2.0  # passes that a Hessian product is worth


@pytest.fixture
def passes(monkeypatch):
    """Passes so far, each counted by the share of all sentences that it visits."""
    seen = {"passes": 0.0}
    gradient, hessian = Chain._loss_gradient, Chain.hessian_at

    def count(chain, price):
        seen["passes"] += price * float((chain.row_weights > 0.0).mean())

    def counted_gradient(chain, weights):
        count(chain, 1.0)
        return gradient(chain, weights)

    def counted_hessian(chain, weights):
        product = hessian(chain, weights)

        def counted(v):
            count(chain, PRODUCT)
            return product(v)

        return counted

    monkeypatch.setattr(Chain, "_loss_gradient", counted_gradient)
    monkeypatch.setattr(Chain, "hessian_at", counted_hessian)
    return seen


@pytest.mark.slow
def test_nineteen_strengths_cost_a_few_fits(data_dir, passes):
    train = load_tagged("conll2000", data_dir).train[::ONE_IN]
    maker = window_features(2, spelling=False)
    X, y = [maker.features(sentence) for sentence in train], [list(sentence.columns[-1]) for sentence in train]
    model = ChainCRF(tuner="auto", cv=None).fit(X, y)
    tuned = passes["passes"]
    ChainCRF(tuner=None, strengths=model.strengths_).fit(X, y)
    assert len(model.strengths_) == 20
    assert model.tuning_.status == "converged"
    assert tuned <= MOST_FITS * (passes["passes"] - tuned)
