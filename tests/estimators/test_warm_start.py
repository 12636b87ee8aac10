"""``warm_start=True``: the next fit begins at the weights of the last one and ends at the same answer."""

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array

from tikhon import MM, Auto, ChainCRF, Evidence, Gradient, InputError, LeaveOneOut, LogisticRegression, RNAFolder, load
from tikhon.tuners.base import Tuner

TUNERS = ("auto", "loo", "evidence", "gradient", "mm", "direct", "grid", None)
SEQUENTIAL = ("auto", "gradient", "mm", "direct", "grid", None)
TIGHT = {
    "mm": MM(tol=1e-6), "gradient": Gradient(tol=1e-7), "loo": LeaveOneOut(tol=1e-6), "evidence": Evidence(tol=1e-5),
    "auto": Auto(tol=1e-6),
}  # fmt: skip
pytestmark = pytest.mark.filterwarnings("ignore::tikhon.TuningWarning")


COEFFICIENTS = np.array([1.5, -1.5, 0.5, -0.5, 0.5, -0.5])


def binary(rng, n=200):
    X = rng.normal(size=(n, len(COEFFICIENTS)))
    return X, X @ COEFFICIENTS + rng.logistic(size=n) > 0


def sentences(rng, n=60):
    X, y = [], []
    for _ in range(n):
        labels = rng.choice(["A", "B", "C"], size=rng.integers(3, 8))
        X.append([[f"word={label}{rng.integers(4)}", f"shape={rng.choice([label, 'x'])}"] for label in labels])
        y.append(labels.tolist())
    return X, y


def refitted(model, X, y):
    """Iterations and strengths of two fits."""
    return [(model.fit(X, y).n_iter_, model.strengths_) for _ in range(2)]


class Problems(Tuner):
    """A tuner that keeps the problems it is given."""

    name, uses_pairs, needs_likelihood, checkpoint = "mm", False, False, None

    def __init__(self):
        self.problems = []

    def tune(self, problem):
        self.problems.append(problem)
        return MM().tune(problem)


@pytest.mark.parametrize("tuner", TUNERS)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_refits_of_logistic_regression(tuner, n_classes, rng):
    X, y = binary(rng)
    y = y if n_classes == 2 else np.digitize(X @ COEFFICIENTS + rng.logistic(size=len(X)), [-1.0, 1.0])
    model = LogisticRegression(groups={"signal": [0, 1]}, tuner=TIGHT.get(tuner, tuner), warm_start=True, n_jobs=1)
    (cold, strengths), (warm, again) = refitted(model, X, y)
    assert warm <= cold
    if tuner in ("mm", "direct", "grid", None):
        assert warm < cold
    assert again == pytest.approx(strengths, rel=1e-3)
    (afresh, _), _ = refitted(model.set_params(warm_start=False), X, y)
    assert afresh == cold


@pytest.mark.parametrize("tuner", SEQUENTIAL)
@pytest.mark.parametrize("seed", [0])
def test_refits_of_chains(tuner, rng):
    X, y = sentences(rng)
    model = ChainCRF(tuner=TIGHT.get(tuner, tuner), warm_start=True, tol=1e-6, n_jobs=1)
    (cold, strengths), (warm, again) = refitted(model, X, y)
    assert warm <= cold
    if tuner in ("mm", "direct", "grid", None):
        assert warm < cold
    assert again == pytest.approx(strengths, rel=1e-2)


@pytest.mark.parametrize("tuner", ["mm", "direct", None])
def test_refits_of_molecules(tuner):
    X = ["GGGAAAUCCC", "GCGCAAGCGC", "CCAAAAGG", "GGCUUCGGCC", "GGGGAAAACCCC", "AGCCAAAGGCA"]
    y = ["(((....)))", "((((..))))", "((....))", "(((....)))", "((((....))))", ".(((...)))."]
    model = RNAFolder(tuner=tuner, warm_start=True, n_jobs=1)
    (cold, strengths), (warm, again) = refitted(model, X, y)
    assert warm < 0.5 * cold
    assert again == pytest.approx(strengths, rel=1e-2)


def test_molecules_begin_at_the_packaged_model_without_what_is_left_out():
    X, y = ["GGGAAAUCCC", "GCGCAAAAGCGC"], ["(((....)))", "((((....))))"]
    tuner, model = Problems(), RNAFolder.pretrained(warm_start=True)
    weights = model._weights.copy()
    model.set_params(tuner=tuner, n_jobs=1).fit(X, y)
    np.testing.assert_array_equal(tuner.problems[0].start, weights)
    start = model._weights.copy()
    model.set_params(without=["helix_stacking"]).fit(X, y)
    stacks = np.array([name.startswith("helix_stacking") for name in model.weights_])
    np.testing.assert_array_equal(tuner.problems[1].start, np.where(stacks, 0.0, start))


@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("standardize", [True, False])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("seed", [0])
def test_the_coefficients_come_back_as_the_weights_that_they_were(kind, fit_intercept, standardize, n_classes, rng):
    """In units of divided and, where columns lie far from zero, centred columns."""
    X, _ = binary(rng)
    y = np.digitize(X[:, 0] + rng.logistic(size=len(X)), [0.0] if n_classes == 2 else [-1.0, 1.0])
    X = X * [1.0, 3.0, 0.5, 2.0, 1.0, 1.0]
    X = csr_array(X) if kind == "sparse" else X + 5e3 * fit_intercept
    tuner = Problems()
    model = LogisticRegression(
        tuner=tuner, fit_intercept=fit_intercept, standardize=standardize, warm_start=True, n_jobs=1
    )  # fmt: skip
    first = model.fit(X, y).tuning_.weights
    model.fit(X, y)
    assert tuner.problems[0].start is None
    np.testing.assert_allclose(tuner.problems[1].start, first, rtol=1e-9, atol=1e-9)


def test_parameters_that_change_the_units_may_change_between_fits(rng):
    X, y = binary(rng)
    X = X * [1.0, 30.0, 0.05, 2.0, 1.0, 1.0] + 4.0
    model = LogisticRegression(tuner=None, strengths=1e-6, warm_start=True).fit(X, y)
    cold = model.n_iter_
    again = model.set_params(standardize=True).fit(X, y).n_iter_  # hardly penalised: the answer is nearly the same
    assert again < 0.5 * cold


def test_other_columns_or_classes_begin_afresh(rng):
    X, y = binary(rng)
    names = list("abcdef")
    tuner = Problems()
    model = LogisticRegression(tuner=tuner, warm_start=True)
    fits = [
        (X, y, False), (X, y, True), (X[:, :4], y, False), (X[:, :4], np.where(y, "yes", "no"), False),
        (X[:, :4], np.where(y, "yes", np.where(X[:, 2] > 0.5, "so", "no")), False),
        (pd.DataFrame(X, columns=names), y, False), (pd.DataFrame(X, columns=names[::-1]), y, False),
        (pd.DataFrame(X, columns=names[::-1]), y, True),
    ]  # fmt: skip
    for X, y, _ in fits:
        model.fit(X, y)
    assert [problem.start is not None for problem in tuner.problems] == [warm for *_, warm in fits]


def test_a_loaded_model_goes_on(tmp_path, rng):
    X, y = binary(rng)
    model = LogisticRegression(tuner="mm", warm_start=True).fit(X, y)
    cold = model.n_iter_
    model.save(tmp_path / "model.safetensors")
    loaded = load(tmp_path / "model.safetensors")
    assert loaded.warm_start is True
    assert loaded.fit(X, y).n_iter_ < cold


@pytest.mark.parametrize("kind", [LogisticRegression, ChainCRF, RNAFolder])
def test_warm_start_is_true_or_false(kind):
    with pytest.raises(InputError, match="warm_start='yes': write True or False"):
        kind(warm_start="yes").fit([[0.0], [1.0]], [0, 1])
