"""Default fits reach their optimum: the penalised objective within 1e-3 of that of a tight fit by another method."""

import warnings

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris, load_wine

from tikhon import ChainCRF, LogisticRegression, Ridge, RNAFolder
from tikhon.data.rna import read_rna
from tikhon.data.tagged import as_lists, load_tagged
from tikhon.solvers import LBFGS

GAP = 1e-3
SETS = {
    "iris": load_iris,
    "wine": load_wine,
    "cancer": load_breast_cancer,
    "diabetes": load_diabetes,
    "digits": load_digits,
}
MOLECULES = ["s151rfam", "tornado_trainA", "tornado_trainB", "tornado_testA", "bprna1m90_short"]
ONE_IN = {"conll2000": 64, "conll2002-es": 64, "wnut17": 32}


class Kept:
    """A solver that keeps what it is asked to minimise."""

    def minimise(self, objective, strength, start=None, *, tol=None):
        self.objective, self.strength = objective, strength
        return LBFGS().minimise(objective, strength, start, tol=0.5)


def objective_gap(model, X, y):
    """(objective of the fitted model - least one) / least one, at its strengths; the least one by scipy's L-BFGS-B."""
    kept = Kept()
    same = type(model)(**(model.get_params() | {"tuner": None, "strengths": model.strengths_, "solver": kept}))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        same.fit(X, y)

    def value(weights):
        loss, gradient = kept.objective.loss_gradient(weights)
        return loss + 0.5 * kept.strength @ np.square(weights), gradient + kept.strength * weights

    reached = value(model.tuning_.weights)[0]
    options = {"maxiter": 20_000, "maxfun": 40_000, "ftol": 1e-15, "gtol": 1e-9, "maxcor": 30}
    least = minimize(value, model.tuning_.weights, jac=True, method="L-BFGS-B", options=options).fun
    return (reached - least) / least


@pytest.mark.parametrize("kind", [Ridge, LogisticRegression])
@pytest.mark.parametrize("name", SETS)
def test_tables(kind, name):
    X, y = SETS[name](return_X_y=True)
    X, y = X[::2] / (X.std(axis=0) + 1e-3), y[::2]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = kind().fit(X, y.astype(float) if kind is Ridge else np.digitize(y, np.unique(y)[1:5]))
    assert objective_gap(model, X, y.astype(float) if kind is Ridge else np.digitize(y, np.unique(y)[1:5])) <= GAP
    assert model.tuning_.relative_gap <= GAP


@pytest.mark.slow
@pytest.mark.parametrize("name", ONE_IN)
@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("strength", [1.0, 0.1])
def test_chains(name, order, strength, data_dir):
    X, y = as_lists(name, load_tagged(name, data_dir).train[:: ONE_IN[name] * order])
    model = ChainCRF(tuner=None, strengths=strength, order=order).fit(X, y)
    gap = objective_gap(model, X, y)
    assert gap <= GAP
    assert model.tuning_.relative_gap <= GAP
    if model.tuning_.gap_is_bound:
        assert gap <= model.tuning_.relative_gap


@pytest.mark.slow
def test_a_chain_with_learned_strengths(data_dir):
    X, y = as_lists("conll2002-es", load_tagged("conll2002-es", data_dir).train[::64])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = ChainCRF(cv=None).fit(X, y)
    assert objective_gap(model, X, y) <= GAP


def test_labels_known_in_part_leave_an_estimate(data_dir):
    X, y = as_lists("wnut17", load_tagged("wnut17", data_dir).train[::64])
    y = [[None if (i + t) % 3 == 0 else label for t, label in enumerate(labels)] for i, labels in enumerate(y)]
    model = ChainCRF(tuner=None).fit(X, y)
    assert model.tuning_.converged
    assert not model.tuning_.gap_is_bound
    assert model.tuning_.relative_gap <= GAP


@pytest.mark.slow
@pytest.mark.parametrize("strength", [1.0, 0.1])
@pytest.mark.parametrize("name", MOLECULES)
def test_molecules(name, strength, data_dir):
    records = [one for one in read_rna(data_dir / "rna" / f"{name}.txt.gz") if len(one.sequence) >= 20]
    short = sorted(records, key=lambda one: len(one.sequence))[:12]
    X, y = [one.sequence for one in short], [one.structure for one in short]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # molecules that no structure of the model explains are left out
        model = RNAFolder(tuner=None, strengths=strength).fit(X, y)
    assert objective_gap(model, X, y) <= GAP
    assert model.tuning_.relative_gap <= GAP
