"""ChainCRF as its users meet it: against enumeration, in all forms of input, with scikit-learn around it."""

import itertools
import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy.special import logsumexp
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from tests import naive

import tikhon
from tikhon import MM, ChainCRF, Gradient, Grid, InputError
from tikhon.errors import FileFormatError, MissingCapability

WORDS = ["the", "cat", "sat", "on", "a", "mat"]
LABELS = np.array(["B-x", "I-x", "O"])


def made(rng, n=30, longest=5):
    """Words that lean towards labels, with a feature of a value."""
    X, y = [], []
    for _ in range(n):
        labels = rng.integers(0, 3, rng.integers(1, longest + 1))
        words = [
            WORDS[int(k) * 2 + int(rng.integers(2))] if rng.random() < 0.8 else WORDS[rng.integers(6)] for k in labels
        ]
        X.append([{"word": w, "length": float(rng.normal()), "bias": True} for w in words])
        y.append(LABELS[labels].tolist())
    return X, y


def token_scores(model, sequence):
    """Tokens x labels, by reading the public weights."""
    coef, names = model.coef_.toarray(), {name: j for j, name in enumerate(model.feature_names_)}
    rows = np.zeros((len(sequence), len(names)))
    for t, token in enumerate(sequence):
        for name, value in token.items():
            if isinstance(value, str):
                name, value = f"{name}={value}", 1.0
            if name in names:
                rows[t, names[name]] = value
    return rows @ coef.T


def enumerated(model, sequence):
    triples = model.transitions2_ if model.order == 2 else None
    return naive.labellings(token_scores(model, sequence), model.transitions_, triples)


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("all_pairs", [False, True])
def test_predictions_equal_enumeration(order, all_pairs, rng):
    X, y = made(rng)
    model = ChainCRF(tuner=None, order=order, all_pairs=all_pairs).fit(X, y)
    new, _ = made(rng, n=6)
    new[0][0] = {"word": "unheard of"}
    best, marginals, several = model.predict(new), model.predict_marginals(new), model.predict_nbest(new, 4)
    for i, sequence in enumerate(new):
        paths, scores = enumerated(model, sequence)
        shares = np.exp(scores - logsumexp(scores))
        assert best[i] == model.classes_[paths[np.argmax(scores)]].tolist()
        expected = np.array([[shares[paths[:, t] == k].sum() for k in range(3)] for t in range(len(sequence))])
        np.testing.assert_allclose(marginals[i], expected, atol=1e-10)
        top = np.sort(shares)[::-1][:4]
        np.testing.assert_allclose([share for _, share in several[i]], top, atol=1e-10)
        assert several[i][0][0] == best[i]


@pytest.mark.parametrize("order", [1, 2])
def test_log_likelihood_equals_enumeration_also_of_partial_labels(order, rng):
    X, y = made(rng, n=12)
    model = ChainCRF(tuner=None, order=order).fit(X, y)
    hidden = [[None if rng.random() < 0.4 else label for label in labels] for labels in y]
    for labels in (y, hidden):
        total = 0.0
        for sequence, given in zip(X, labels, strict=True):
            paths, scores = enumerated(model, sequence)
            names = model.classes_[paths]
            agree = np.all([[g is None or g == n for g, n in zip(given, row, strict=True)] for row in names], axis=1)
            total += logsumexp(scores[agree]) - logsumexp(scores)
        assert model.log_likelihood(X, labels) == pytest.approx(total, abs=1e-9)


def test_the_fit_is_the_minimum_of_what_the_docstring_says(rng):
    X, y = made(rng, n=8, longest=3)
    weights = rng.uniform(0.5, 2.0, 8)
    model = ChainCRF(tuner=None, strengths={"word": 0.5, "rest": 2.0, "transitions": 0.1}, tol=1e-18)
    model.fit(X, y, sample_weight=weights)
    strength = model.groups_.expand(np.array([model.strengths_[name] for name in model.groups_.names]))

    def value(w):
        other = clone(model).set_params(max_iter=1)
        other.__dict__.update({k: v for k, v in model.__dict__.items() if k.startswith("_") or k.endswith("_")})
        other._weights = w
        return -other.log_likelihood(X, y, sample_weight=weights) + 0.5 * strength @ np.square(w)

    least = value(model._weights)
    for _ in range(20):
        assert value(model._weights + 1e-3 * rng.normal(size=len(strength))) > least


def test_weights_and_likelihood_agree_with_crfsuite(rng, tmp_path):
    pycrfsuite = pytest.importorskip("pycrfsuite")
    X, y = made(rng, n=60)
    for token in (token for sequence in X for token in sequence):
        token["length"] = abs(token["length"])  # CRFsuite drops pairs whose values sum to less than 0
    c2 = 0.7
    trainer = pycrfsuite.Trainer(algorithm="lbfgs", verbose=False)
    trainer.set_params({"c1": 0.0, "c2": c2, "epsilon": 1e-9, "delta": 1e-12, "max_iterations": 2000})
    for sequence, labels in zip(X, y, strict=True):
        trainer.append(pycrfsuite.ItemSequence(sequence), labels)
    trainer.train(str(tmp_path / "crfsuite"))
    tagger = pycrfsuite.Tagger()
    tagger.open(str(tmp_path / "crfsuite"))
    info = tagger.info()
    model = ChainCRF.from_c2(c2, tol=1e-20).fit(X, y)
    assert model.c2_ == pytest.approx(c2)
    codes = {label: k for k, label in enumerate(model.classes_)}
    names = {name: j for j, name in enumerate(name.replace("=", ":") for name in model.feature_names_)}
    coef = model.coef_.toarray()
    assert len(info.state_features) == model.coef_.nnz
    for (name, label), weight in info.state_features.items():
        assert coef[codes[label], names[name]] == pytest.approx(weight, abs=2e-4)
    for (before, after), weight in info.transitions.items():
        assert model.transitions_[codes[before], codes[after]] == pytest.approx(weight, abs=2e-4)
    tagger.set(pycrfsuite.ItemSequence(X[0]))
    own = model.log_likelihood(X[:1], y[:1])
    assert own == pytest.approx(np.log(tagger.probability(y[0])), abs=1e-3)


# Forms of input.


def test_all_forms_of_input_make_the_same_model(rng):
    arrays = [rng.integers(0, 2, size=(n, 5)).astype(float) for n in rng.integers(1, 6, 40)]
    y = [LABELS[rng.integers(0, 3, len(one))].tolist() for one in arrays]
    dicts = [[{f"x{j}": value for j, value in enumerate(row) if value} for row in one] for one in arrays]
    lists = [[list(token) for token in sequence] for sequence in dicts]
    flat, lengths = np.concatenate(arrays), [len(one) for one in arrays]
    flat_y = np.concatenate(y)
    model = ChainCRF(groups=None, strengths=1.0)
    expected = clone(model).fit(arrays, y)
    for form, labels, more in [
        (dicts, y, {}),
        (lists, y, {}),
        ([sp.csr_array(one) for one in arrays], y, {}),
        ([pd.DataFrame(one) for one in arrays], pd.Series(y), {}),
        (pd.DataFrame(flat), pd.Series(flat_y), {"lengths": lengths}),
        ([one.astype(np.int8) for one in arrays], [np.array(labels) for labels in y], {}),
        (flat, flat_y, {"lengths": lengths}),
        (sp.coo_array(flat), flat_y, {"lengths": lengths}),
        ([token for sequence in dicts for token in sequence], flat_y.tolist(), {"lengths": np.array(lengths)}),
    ]:
        found = clone(model).fit(form, labels, **more)
        assert found.predict(form, **more) == expected.predict(arrays)
        assert found.log_likelihood(form, labels, **more) == pytest.approx(expected.log_likelihood(arrays, y), rel=1e-3)


def test_labels_may_be_numbers(rng):
    X, y = made(rng)
    numbers = [[int(np.flatnonzero(label == LABELS)[0]) for label in labels] for labels in y]
    text, counted = ChainCRF(tuner=None).fit(X, y), ChainCRF(tuner=None).fit(X, numbers)
    assert counted.classes_.tolist() == [0, 1, 2]
    assert [[LABELS[k] for k in labels] for labels in counted.predict(X)] == text.predict(X)


def test_a_weight_of_two_is_a_copy_and_of_none_an_absence(rng):
    X, y = made(rng, n=20)
    doubled = ChainCRF(tuner=None, tol=1e-16).fit(X + X[:5], y + y[:5])
    weights = np.ones(20)
    weights[:5] = 2.0
    weighted = ChainCRF(tuner=None, tol=1e-16).fit(X, y, sample_weight=weights)
    np.testing.assert_allclose(weighted.transitions_, doubled.transitions_, atol=1e-6)
    odd = [[{"word": "odd"}]], [["strange"]]
    with_odd = ChainCRF(tuner=None, tol=1e-16).fit(X + odd[0], y + odd[1], sample_weight=[*weights, 0.0])
    assert with_odd.classes_.tolist() == LABELS.tolist()
    np.testing.assert_allclose(with_odd.transitions_, weighted.transitions_, atol=1e-6)


def test_the_weight_of_a_sequence_is_the_mean_of_its_labels_weights(rng):
    X, y = made(rng, n=20)
    by_label = {"B-x": 3.0, "I-x": 0.5, "O": 1.0}
    weights = [float(np.mean([by_label[label] for label in labels])) for labels in y]
    by_class = ChainCRF(tuner=None, class_weight=by_label, tol=1e-16).fit(X, y)
    by_hand = ChainCRF(tuner=None, tol=1e-16).fit(X, y, sample_weight=weights)
    np.testing.assert_allclose(by_class.transitions_, by_hand.transitions_, atol=1e-7)


def test_features_fall_into_groups_by_template(rng):
    X, y = made(rng)
    model = ChainCRF(tuner=None, order=2).fit(X, y)
    assert model.groups_.names == ("word", "rest", "transitions", "transitions2")
    colons = [[[f"word:{token['word']}", "a=b:c"] for token in sequence] for sequence in X]
    assert "word" in ChainCRF(tuner=None).fit(colons, y).groups_.names
    by_hand = ChainCRF(groups=lambda name: "length" if name == "length" else "others", tuner=None).fit(X, y)
    assert by_hand.groups_.names == ("others", "length", "transitions")
    assert ChainCRF(groups=None, tuner=None).fit(X, y).groups_.names == ("all",)


# Learning and decoding.


@pytest.mark.slow
@pytest.mark.parametrize("tuner", ["auto", "gradient", "mm", "direct", "grid", Gradient(tol=0.01), MM(beta=0.5)])
def test_every_tuner_of_the_core_serves(tuner, rng):
    X, y = made(rng, n=60)
    model = ChainCRF(tuner=tuner, cv=3).fit(X, y)
    assert set(model.strengths_) == {"word", "rest", "transitions"}
    assert model.score(X, y) > 0.6
    assert model.tuning_.status == "converged"


@pytest.mark.parametrize("tuner", ["loo", "evidence"])
def test_tuners_that_leave_out_rows_say_that_chains_cannot(tuner, rng):
    X, y = made(rng)
    with pytest.raises(MissingCapability):
        ChainCRF(tuner=tuner).fit(X, y)


@pytest.mark.parametrize("order", [1, 2])
def test_hypergradients_agree_with_refits(order, rng):
    X, y = made(rng, n=40)
    report = ChainCRF(order=order, cv=None).check_hypergradient(X, y, seed=1)
    assert report.error < 1e-5


def test_partial_labels_teach_as_well(rng):
    X, y = made(rng, n=200)
    hidden = [[None if rng.random() < 0.5 else label for label in labels] for labels in y]
    model = ChainCRF(tuner=None).fit(X, hidden)
    new, truth = made(rng, n=100)
    assert model.score(new, truth) > 0.9 * ChainCRF(tuner=None).fit(X, y).score(new, truth)


def test_known_labels_are_kept_and_rules_obeyed(rng):
    X, y = made(rng, n=60)
    model = ChainCRF(tuner=None, allowed="bio").fit(X, y)
    predicted = model.predict(X)
    assert not any(a == "O" and b == "I-x" for labels in predicted for a, b in itertools.pairwise(labels))
    assert not any(labels[0] == "I-x" for labels in predicted)
    assert all(marginals[0, 1] == 0.0 for marginals in model.predict_marginals(X))
    model.set_params(allowed=None)
    known = [[None, "B-x", *[None] * 8][: len(labels)] for labels in y]
    fixed = model.predict(X, known=known)
    assert all(labels[1] == "B-x" for labels in fixed if len(labels) > 1)
    for labels, sequence in zip(fixed, X, strict=True):
        paths, scores = enumerated(model, sequence)
        agree = paths[:, 1] == 0 if len(sequence) > 1 else np.ones(len(paths), bool)
        assert labels == model.classes_[paths[agree][np.argmax(scores[agree])]].tolist()
    pairs = [("O", "O"), ("O", "B-x"), ("B-x", "O")]
    model.set_params(allowed=pairs)
    steps = {step for labels in model.predict(X) for step in itertools.pairwise(labels)}
    assert steps <= set(pairs)
    with pytest.raises(InputError, match="sequence 0: no labelling agrees"):
        model.set_params(allowed="bio").predict([[{"word": "cat"}]], known=[["I-x"]])


def test_samples_follow_the_probabilities(rng):
    X, y = made(rng, n=40)
    model = ChainCRF(tuner=None).fit(X, y)
    sequence = max(X, key=len)
    drawn = model.sample([sequence], n=4000, random_state=3)[0]
    shares = np.array([[np.mean([labels[t] == k for labels in drawn]) for k in LABELS] for t in range(len(sequence))])
    expected = model.predict_marginals([sequence])[0]
    assert np.abs(shares - expected).max() < 5.0 * np.sqrt(0.25 / 4000)
    assert drawn == model.sample([sequence], n=4000, random_state=3)[0]


def test_an_empty_sequence_has_no_labels(rng):
    X, y = made(rng)
    model = ChainCRF(tuner=None).fit(X, y)
    assert model.predict([[], X[0], []]) == [[], model.predict(X[:1])[0], []]
    assert [m.shape for m in model.predict_marginals([[], X[0]])] == [(0, 3), (len(X[0]), 3)]
    assert model.predict_nbest([[]], 2) == [[([], 1.0)]]
    assert model.sample([[]], 2) == [[[], []]]


def test_warm_start_goes_on_where_the_last_fit_ended(rng):
    X, y = made(rng, n=100)
    model = ChainCRF(tuner=None, warm_start=True, tol=1e-12).fit(X, y)
    cold = model.n_iter_
    again = model.fit(X, y).n_iter_
    assert again < 0.3 * cold
    # Other features and labels: those that are the same keep their weights.
    fewer = [(sequence, labels) for sequence, labels in zip(X, y, strict=True) if "O" not in labels]
    model.fit([s for s, _ in fewer], [labels for _, labels in fewer])
    assert model.classes_.tolist() == ["B-x", "I-x"]
    model.fit(X, y)
    np.testing.assert_allclose(
        model.transitions_, ChainCRF(tuner=None, tol=1e-12).fit(X, y).transitions_, atol=1e-4
    )  # fmt: skip


def test_the_strongest_features_are_those_of_the_largest_weights(rng):
    X, y = made(rng, n=100)
    model = ChainCRF(tuner=None).fit(X, y)
    coef = model.coef_.toarray()[2]
    strongest = model.strongest_features("O", 2)
    assert [name for name, _ in strongest] == [model.feature_names_[j] for j in np.argsort(-coef)[:2]]
    assert model.strongest_features("O", -1)[0][1] == coef.min()
    with pytest.raises(InputError, match=r"'other'.*not seen"):
        model.strongest_features("other")


# Everyday life with scikit-learn.


def test_clone_pickle_and_searches_work(rng):
    X, y = made(rng, n=60)
    model = ChainCRF(tuner=None, strengths=0.3)
    assert clone(model).get_params() == model.get_params()
    fitted = model.fit(X, y)
    copy = pickle.loads(pickle.dumps(fitted))
    assert copy.predict(X) == fitted.predict(X)
    scores = cross_val_score(model, X, y, cv=KFold(3))
    assert scores.shape == (3,)
    assert scores.min() > 0.3
    search = GridSearchCV(model, {"strengths": [0.1, 1.0]}, cv=2).fit(X, y)
    assert search.best_estimator_.score(X, y) > 0.6


def test_threads_give_the_same_bits(rng):
    X, y = made(rng, n=80)
    one, two = (ChainCRF(n_jobs=n, cv=None).fit(X, y) for n in (1, 2))
    assert one.strengths_ == two.strengths_
    np.testing.assert_array_equal(one.transitions_, two.transitions_)
    np.testing.assert_array_equal(one.coef_.toarray(), two.coef_.toarray())
    assert one.log_likelihood(X, y) == two.log_likelihood(X, y)
    for a, b in zip(one.predict_marginals(X), two.predict_marginals(X), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("order", [1, 2])
def test_model_files_predict_the_same_bits(order, rng, tmp_path):
    X, y = made(rng)
    X[0][0]["word"] = "uml\u00e4ut\n=\ud800"
    model = ChainCRF(tuner=Grid(values=(0.1, 1.0)), order=order, cv=2, allowed="bio").fit(X, y)
    model.save(tmp_path / "model")
    loaded = tikhon.load(tmp_path / "model")
    assert isinstance(loaded, ChainCRF)
    assert loaded.predict(X) == model.predict(X)
    assert loaded.log_likelihood(X, y) == model.log_likelihood(X, y)
    assert loaded.strengths_ == model.strengths_
    assert loaded.feature_names_ == model.feature_names_
    arrays = [rng.normal(size=(n, 3)) for n in (2, 4, 3, 1)]
    labels = [LABELS[rng.integers(0, 3, len(one))].tolist() for one in arrays]
    dense = ChainCRF(tuner=None).fit(arrays, labels)
    dense.save(tmp_path / "dense")
    assert tikhon.load(tmp_path / "dense").predict(arrays) == dense.predict(arrays)


def test_a_file_put_together_by_hand_is_refused(rng, tmp_path):
    from tikhon.data.safefile import read_file, write_file

    X, y = made(rng)
    ChainCRF(tuner=None).fit(X, y).save(tmp_path / "model")
    header, arrays = read_file(tmp_path / "model", kind="model", max_version=1)
    for name, value in [("pairs.labels", 7), ("pairs.features", -1), ("transitions.1", 99)]:
        bad = {key: array.copy() for key, array in arrays.items()}
        bad[name].flat[0] = value
        write_file(tmp_path / "bad", kind="model", version=1, header=header, arrays=bad)
        with pytest.raises(FileFormatError):
            tikhon.load(tmp_path / "bad")


# Bad input.

GOOD_X, GOOD_Y = [[["a"], ["b"]], [["c"]]], [["O", "B-x"], ["O"]]


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        ([], [], "no sequences"),
        ([[["a"]], []], [["O"], []], "sequence 1 is empty"),
        (GOOD_X, [["O", "B-x"]], "2 sequences, but labels for 1"),
        (GOOD_X, [["O", "B-x"], ["O", "O"]], "sequence 1 has 1 tokens, but 2 labels"),
        (GOOD_X, [["O", "B-x"], "O"], "sequence 1 is 'O'"),
        (GOOD_X, [["O", "O"], ["O"]], "only 'O'"),
        (GOOD_X, [[None, None], [None]], "at least two labels"),
        (GOOD_X, [["O", ["B-x"]], ["O"]], "sequence 0"),
        ([[["a"], 3], [["c"]]], GOOD_Y, "sequence 0, token 1 is 3"),
        ([[["a"], [3]], [["c"]]], GOOD_Y, "feature 3 is not text"),
        ([[{"a": np.nan}, ["b"]], [["c"]]], GOOD_Y, "token 0, feature 'a': the value is nan"),
        ([np.array([[1.0], [np.inf]]), np.ones((1, 1))], GOOD_Y, "sequence 0, token 1, column 0: the value is inf"),
        ([np.ones((2, 1)), np.ones((1, 2))], GOOD_Y, "sequence 1 has 2 columns"),
        ("text", GOOD_Y, "X is a str"),
        (np.ones((3, 2)), GOOD_Y, "lengths"),
    ],
)
def test_bad_input_is_refused_with_its_place(X, y, message):
    with pytest.raises(InputError, match=message):
        ChainCRF(tuner=None).fit(X, y)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"order": 3}, "order=3"),
        ({"groups": "prefix"}, "groups='prefix'"),
        ({"allowed": "iob"}, "allowed='iob'"),
        ({"allowed": [("O", "X")]}, "'X', which was not seen"),
        ({"allowed": ["O"]}, "write pairs"),
        ({"class_weight": {"O": -1.0}}, "class_weight of label"),
        ({"strengths": {"nothing": 1.0}}, "unknown group 'nothing'"),
        ({"tuner": "best"}, "tuner='best'"),
        ({"n_jobs": 0}, "n_jobs=0"),
    ],
)
def test_bad_parameters_are_refused(parameters, message):
    with pytest.raises(InputError, match=message):
        ChainCRF(**({"tuner": None} | parameters)).fit(GOOD_X, GOOD_Y)


def test_bad_lengths_and_unknown_labels_are_refused(rng):
    X, y = np.ones((3, 2)), ["O", "B-x", "O"]
    for lengths, message in [([2, 2], "sum to 4, but X has 3"), ([0, 3], "1 or larger"), ([1.5, 1.5], "whole numbers")]:
        with pytest.raises(InputError, match=message):
            ChainCRF(tuner=None).fit(X, y, lengths=lengths)
    model = ChainCRF(tuner=None).fit(GOOD_X, GOOD_Y)
    with pytest.raises(InputError, match=r"label 'I-x' \(sequence 1, token 0\) was not seen"):
        model.predict(GOOD_X, known=[["O", None], ["I-x"]])
    with pytest.raises(InputError, match="fitted to tokens"):
        model.predict([np.ones((1, 2))])
    assert model.score(GOOD_X, [["O", "I-x"], ["O"]]) == pytest.approx(2 / 3)


def test_no_features_in_common_with_training_deserve_a_warning():
    model = ChainCRF(tuner=None).fit(GOOD_X, GOOD_Y)
    with pytest.warns(UserWarning, match="no token has a feature that was seen"):
        model.predict([[["new"]]])
    with pytest.raises(NotFittedError):
        ChainCRF().predict(GOOD_X)
