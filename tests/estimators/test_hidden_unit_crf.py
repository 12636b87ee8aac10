"""HiddenUnitCRF as its users meet it."""

import pickle
import warnings

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.base import clone
from tests import naive
from tests.estimators.test_chain_crf import made

import tikhon
from tikhon import ChainCRF, HiddenUnitCRF, InputError
from tikhon.errors import FileFormatError, MissingCapability
from tikhon.solvers import LBFGS


class Recorder:
    """A solver that records what it is asked to minimise."""

    def minimise(self, objective, strength, start=None, *, tol=None):
        self.objective, self.strength, self.start = objective, strength, start
        return LBFGS().minimise(objective, strength, start, tol=0.5)


def exclusive_or(rng, n=40):
    """Labels that depend on the product of two features, so that no linear model is better than chance."""
    X = [rng.choice([-1.0, 1.0], size=(5, 2)) for _ in range(n)]
    return X, [np.where(x[:, 0] * x[:, 1] > 0, "same", "different").tolist() for x in X]


@pytest.mark.parametrize("order", [1, 2])
def test_it_learns_what_no_linear_chain_can(order, rng):
    X, y = exclusive_or(rng)
    new = exclusive_or(rng)
    hidden = HiddenUnitCRF(n_hidden=8, tuner=None, strengths=0.01, order=order).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tikhon.TuningWarning)  # weights shrank to almost zero: as they should
        linear = ChainCRF(tuner=None, strengths=0.01, order=order).fit(X, y)
    assert hidden.score(*new) == 1.0
    assert linear.score(*new) < 0.65
    assert hidden.tuning_.relative_gap <= 1e-3
    assert not hidden.tuning_.gap_is_bound
    assert "hidden units are summed out: fits converge to a local minimum" in hidden.tuning_.notes[0]


@pytest.mark.parametrize("order", [1, 2])
def test_probabilities_equal_enumeration_of_the_public_weights(order, rng):
    X, y = made(rng, n=20, longest=3)
    model = HiddenUnitCRF(n_hidden=2, order=order, tuner=None, strengths=0.1).fit(X, y)
    sequence = next(x for x in X if len(x) == 3)
    rows = np.zeros((3, len(model.feature_names_)))
    for t, token in enumerate(sequence):
        for name, value in token.items():
            feature = f"{name}={value}" if isinstance(value, str) else name
            rows[t, model.feature_names_.index(feature)] = 1.0 if isinstance(value, str) else value
    inputs = rows @ model.input_weights_ + model.hidden_biases_
    scores = np.logaddexp(0.0, inputs[:, None] + model.label_weights_).sum(axis=2) + model.label_biases_[0]
    scores[0] += model.label_biases_[1]
    scores[-1] += model.label_biases_[2]
    triples = model.transitions2_ if order == 2 else None
    paths, energies = naive.labellings(scores, model.transitions_, triples)
    shares = np.exp(energies - np.logaddexp.reduce(energies))
    by_label = np.stack([shares @ (paths == k) for k in range(len(model.classes_))], axis=1)
    np.testing.assert_allclose(model.predict_marginals([sequence])[0], by_label, atol=1e-12)
    assert model.predict([sequence])[0] == model.classes_[paths[np.argmax(energies)]].tolist()
    best, share = model.predict_nbest([sequence], 1)[0][0]
    assert best == model.predict([sequence])[0]
    assert share == pytest.approx(shares.max())


@pytest.mark.parametrize("kind", [ChainCRF, HiddenUnitCRF])
def test_decoding_token_by_token_follows_the_marginals(kind, rng):
    X, y = made(rng, n=60)
    model = kind(tuner=None, decoding="marginal").fit(X, y)
    expected = [model.classes_[each.argmax(axis=1)].tolist() for each in model.predict_marginals(X)]
    assert model.predict(X) == expected
    right = np.concatenate([np.array(a) == b for a, b in zip(expected, y, strict=True)])
    assert model.score(X, y) == pytest.approx(right.mean())
    model.set_params(decoding="beam")
    with pytest.raises(InputError, match="decoding='beam': write one of 'viterbi', 'marginal'"):
        model.predict(X)


@pytest.mark.parametrize("tuner", ["auto", "gradient", "mm", "direct", "grid"])
def test_every_tuner_ends_in_a_local_minimum_at_its_strengths(tuner, rng):
    X, y = exclusive_or(rng)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tikhon.TuningWarning)  # few rows; strengths at their bounds
        model = HiddenUnitCRF(n_hidden=6, tuner=tuner, cv=2, tol=1e-6).fit(X, y)
        kept = Recorder()
        HiddenUnitCRF(n_hidden=6, tuner=None, strengths=model.strengths_, solver=kept).fit(X, y)
    assert model.tuning_.converged
    assert set(model.strengths_) == {"inputs", "hidden_to_label", "biases", "transitions"}

    def value(weights):
        loss, gradient = kept.objective.loss_gradient(weights)
        return loss + 0.5 * kept.strength @ weights**2, gradient + kept.strength * weights

    reached = value(model.tuning_.weights)[0]
    assert minimize(value, model.tuning_.weights, jac=True, method="L-BFGS-B").fun >= reached * (1.0 - 5e-3) - 1e-6


@pytest.mark.parametrize("tuner", ["auto", "gradient", "mm", "direct", "grid"])
def test_no_tuner_ends_where_all_units_have_vanished(tuner, rng):
    """At the strength 1, where tuners begin, the units of these few data vanish, and no criterion has a slope."""
    X, y = exclusive_or(rng)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tikhon.TuningWarning)
        assert HiddenUnitCRF(n_hidden=6, tuner=None, strengths=3.0).fit(X, y).score(X, y) < 0.7
        assert HiddenUnitCRF(n_hidden=6, tuner=tuner, cv=2).fit(X, y).score(X, y) == 1.0


@pytest.mark.parametrize("tuner", ["loo", "evidence"])
def test_tuners_that_leave_rows_out_are_refused(tuner, rng):
    with pytest.raises(MissingCapability, match=f"{tuner!r} needs the Hessian row by row"):
        HiddenUnitCRF(n_hidden=2, tuner=tuner).fit(*exclusive_or(rng))


@pytest.mark.parametrize("order", [1, 2])
def test_the_hypergradient_equals_differences_of_refits(order, rng):
    X, y = made(rng, n=40)
    report = HiddenUnitCRF(n_hidden=3, order=order, cv=None).check_hypergradient(X, y, seed=1)
    assert report.error < 1e-5


def test_groups_of_features_units_biases_and_transitions(rng):
    X, y = made(rng)
    model = HiddenUnitCRF(n_hidden=4, order=2, tuner=None).fit(X, y)
    expected = {"word", "rest", "hidden_to_label", "biases", "transitions", "transitions2"}
    assert set(model.groups_.names) == expected
    by_group = model.weights_by_group()
    np.testing.assert_array_equal(np.sort(by_group["hidden_to_label"]), np.sort(model.label_weights_.ravel()))
    of_words = [name.startswith("word=") for name in model.feature_names_]
    np.testing.assert_array_equal(np.sort(by_group["word"]), np.sort(model.input_weights_[of_words].ravel()))
    assert len(by_group["biases"]) == model.hidden_biases_.size + model.label_biases_.size
    assert HiddenUnitCRF(n_hidden=4, groups=None, tuner=None).fit(X, y).groups_.names == ("all",)
    separate = HiddenUnitCRF(n_hidden=4, groups="separate", tuner=None).fit(X, y)
    assert set(model.feature_names_) < set(separate.groups_.names)
    with pytest.raises(InputError, match="groups='prefix': write 'template'"):
        HiddenUnitCRF(groups="prefix").fit(X, y)


def test_the_seed_decides_where_a_fit_begins_and_threads_do_not(rng):
    X, y = exclusive_or(rng)
    model = HiddenUnitCRF(n_hidden=5, tuner=None, strengths=0.1, n_jobs=1).fit(X, y)
    same, other = clone(model).set_params(n_jobs=2).fit(X, y), clone(model).set_params(random_state=1).fit(X, y)
    np.testing.assert_array_equal(model.input_weights_, same.input_weights_)
    assert not np.allclose(model.input_weights_, other.input_weights_)


def test_warm_start_goes_on_with_what_is_the_same(rng):
    X, y = made(rng, n=60)
    model = HiddenUnitCRF(n_hidden=5, tuner=None, strengths=0.1, warm_start=True, tol=1e-5).fit(X, y)
    cold, names = model.n_iter_, model.feature_names_
    assert model.fit(X, y).n_iter_ < 0.3 * cold
    label_weights = model.label_weights_[:2].copy()
    before = model.input_weights_.copy()
    fewer = [(sequence, labels) for sequence, labels in zip(X, y, strict=True) if "O" not in labels]
    recorder = Recorder()
    model.set_params(n_hidden=9, solver=recorder).fit([s for s, _ in fewer], [labels for _, labels in fewer])
    assert model.classes_.tolist() == ["B-x", "I-x"]
    w, _, v, _ = model._layout.emission.parts(recorder.start[: model._layout.emission.n_weights])
    kept = [names.index(name) for name in model.feature_names_]
    np.testing.assert_array_equal(w[:, :5], before[kept])
    np.testing.assert_array_equal(v[:, :5], label_weights)
    assert 0.0 < np.abs(w[:, 5:]).max() < 1.0


def test_a_saved_model_is_the_same_model(tmp_path, rng):
    X, y = made(rng)
    model = HiddenUnitCRF(n_hidden=3, order=2, tuner=None, decoding="marginal", allowed="bio").fit(X, y)
    model.save(tmp_path / "model")
    for restored in (tikhon.load(tmp_path / "model"), pickle.loads(pickle.dumps(model))):
        assert isinstance(restored, HiddenUnitCRF)
        assert restored.predict(X) == model.predict(X)
        for mine, theirs in zip(restored.predict_marginals(X), model.predict_marginals(X), strict=True):
            np.testing.assert_array_equal(mine, theirs)


def test_a_file_of_another_number_of_hidden_units_is_refused(tmp_path, rng):
    from tikhon.data.safefile import read_file, write_file

    HiddenUnitCRF(n_hidden=3, tuner=None).fit(*made(rng)).save(tmp_path / "model")
    header, arrays = read_file(tmp_path / "model", kind="model", max_version=1)
    header["n_hidden"] = 4
    write_file(tmp_path / "model", kind="model", version=1, header=header, arrays=arrays)
    with pytest.raises(FileFormatError, match=r"groups\.index is of shape .*; expected the shape"):
        tikhon.load(tmp_path / "model")


@pytest.mark.parametrize(
    ("n_hidden", "message"),
    [(0, "use ChainCRF"), (-3, "n_hidden=-3: write a whole number"), (2.5, "n_hidden=2.5"), (True, "n_hidden=True")],
)
def test_wrong_numbers_of_hidden_units_are_refused(n_hidden, message, rng):
    with pytest.raises(InputError, match=message):
        HiddenUnitCRF(n_hidden=n_hidden).fit(*exclusive_or(rng))


def test_sequences_of_one_token_and_constant_columns(rng):
    X, y = exclusive_or(rng)
    tokens = [
        (np.append(row, 1.0)[None], [label])
        for x, labels in zip(X, y, strict=True)
        for row, label in zip(x, labels, strict=True)
    ]
    model = HiddenUnitCRF(n_hidden=8, tuner=None, strengths=0.01, all_pairs=True)
    model.fit([x for x, _ in tokens], [label for _, label in tokens])
    assert model.score([x for x, _ in tokens], [label for _, label in tokens]) == 1.0
    assert not model.transitions_.any()


def test_many_hidden_units_for_many_tokens_are_told_before_the_work(rng, monkeypatch):
    monkeypatch.setattr("tikhon.estimators.chain.weights.LONG_PASS", 1e-9)
    with pytest.warns(tikhon.TuningWarning, match="8 hidden units and 4 steps between 2 labels takes about"):
        HiddenUnitCRF(n_hidden=8, tuner=None).fit(*exclusive_or(rng))
