"""ChainCRF at the corners: nothing of the user's is changed, nothing is guessed, nothing impossible is answered."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from tikhon import Auto, ChainCRF, Gradient, InputError, load
from tikhon.data.safefile import MODEL_KIND, MODEL_VERSION, read_file, write_file
from tikhon.errors import FileFormatError

PLAIN = [[["w=a"], ["w=b"]], [["w=b"], ["w=a"]]] * 3
LABELS = [["A", "B"], ["B", "A"]] * 3


def test_sparse_matrices_of_the_user_stay_as_they_are():
    def unsorted():
        return sp.csr_array((np.array([1, 2, 3, 4]), np.array([2, 0, 1, 0]), np.array([0, 2, 4])), shape=(2, 3))

    X, before = unsorted(), unsorted().toarray()
    model = ChainCRF(tuner=None, n_jobs=1).fit([X, X], [[0, 1], [1, 0]])
    np.testing.assert_array_equal(X.toarray(), before)
    same = ChainCRF(tuner=None, n_jobs=1).fit([before, before], [[0, 1], [1, 0]])
    np.testing.assert_array_equal(model.coef_.toarray(), same.coef_.toarray())


@pytest.mark.filterwarnings("ignore::tikhon.TuningWarning")
@pytest.mark.parametrize("tuner", [Auto(), Gradient(), "mm", "direct"])
def test_groups_without_weights_do_not_stop_the_others(tuner):
    """A template that only a token without a label has, and triples of labels where no sequence has three."""
    X, y = [*PLAIN, [["p=x"]]], [*LABELS, [None]]
    model = ChainCRF(tuner=tuner, order=2, n_jobs=1).fit(X, y)
    assert model.tuning_.status == "converged"
    assert np.isfinite(list(model.strengths_.values())).all()
    assert set(model.strengths_) == {"w", "p", "transitions", "transitions2"}


@pytest.mark.filterwarnings("ignore::tikhon.TuningWarning")
def test_sequences_of_weight_zero_change_nothing():
    X = [[{"v": 1.0}, {"v": -2.0}], [{"v": -1.0}, {"v": 2.0}]] * 3
    alone = ChainCRF(cv=None, n_jobs=1).fit(X, LABELS)
    far = ChainCRF(cv=None, n_jobs=1).fit([*X, [{"v": 1e4}]], [*LABELS, ["A"]], sample_weight=[1.0] * 6 + [0.0])
    assert far.strengths_ == pytest.approx(alone.strengths_, rel=1e-9)


@pytest.mark.parametrize("odd", [("N", "x"), float("nan"), frozenset("N")])
def test_labels_are_text_or_numbers(odd):
    with pytest.raises(InputError, match="labels must be text or numbers, or None if unknown"):
        ChainCRF(tuner=None).fit(PLAIN, [[odd, odd]] * 6)


def test_where_every_labelling_is_forbidden_every_method_says_so():
    model = ChainCRF(tuner=None, n_jobs=1, allowed=[("A", "B")]).fit(PLAIN, LABELS)
    three = [[["w=a"]] * 3]
    for call in (model.predict, model.predict_marginals, model.predict_nbest, model.sample):
        with pytest.raises(InputError, match="sequence 0: no labelling agrees"):
            call(three)
    for call in (model.score, model.log_likelihood):
        with pytest.raises(InputError, match="sequence 0: no labelling agrees"):
            call(three, [["A", "B", "A"]])
    two = [[["w=a"], ["w=b"]]] * 2
    assert model.log_likelihood(two, [["A", "B"], ["B", "A"]]) == -np.inf
    assert model.log_likelihood(two, [["A", "B"], ["B", "A"]], sample_weight=[1.0, 0.0]) == 0.0


@pytest.mark.parametrize("value", [1e160, -1e160, 10**400])
def test_values_whose_squares_overflow_are_refused(value):
    with pytest.raises(InputError, match="sequence 0, token 0, feature 'x'"):
        ChainCRF(tuner=None).fit([[{"x": value}, {"y": 1}]] * 3, [["A", "B"]] * 3)
    if isinstance(value, float):
        with pytest.raises(InputError, match=r"sequence 0, token 0, column 0.*rescale"):
            ChainCRF(tuner=None).fit([np.array([[value], [1.0]])] * 3, [["A", "B"]] * 3)


def test_rules_are_lists_and_changed_rules_are_obeyed():
    with pytest.raises(InputError, match="allowed is of type zip"):
        ChainCRF(tuner=None, allowed=zip("AB", "BA", strict=True)).fit(PLAIN, LABELS)
    model = ChainCRF(tuner=None, n_jobs=1, allowed=np.array([("A", "B")])).fit(PLAIN, LABELS)
    assert model.predict(PLAIN[1:2]) == [["A", "B"]]
    model.set_params(allowed=np.array([("B", "A")]))
    assert model.predict(PLAIN[:1]) == [["B", "A"]]
    model.set_params(allowed=[("A", "B")])
    assert model.predict(PLAIN[1:2]) == [["A", "B"]]
    model.allowed[:] = [("B", "A")]
    assert model.predict(PLAIN[:1]) == [["B", "A"]]


@pytest.mark.parametrize("dtype", ["Int64", "mixed"])
def test_frames_of_numbers_of_several_kinds(dtype):
    columns = {"a": [1, 0], "b": [0, 1]} if dtype == "Int64" else {"a": [1.0, 0.0], "b": [False, True]}
    frame = pd.DataFrame(columns, dtype=dtype if dtype == "Int64" else None)
    model = ChainCRF(tuner=None, n_jobs=1).fit([frame] * 3, [["A", "B"]] * 3)
    np.testing.assert_array_equal(
        model.coef_.toarray(), ChainCRF(tuner=None, n_jobs=1).fit([np.eye(2)] * 3, [["A", "B"]] * 3).coef_.toarray()
    )


def test_booleans_of_numpy_are_booleans():
    names = ChainCRF(tuner=None, n_jobs=1).fit([[{"x": np.True_, "z": np.False_}, {"y": True}]] * 3, [["A", "B"]] * 3)
    assert names.feature_names_ == ["x", "y"]


def test_nothing_to_predict_is_no_mistake():
    model = ChainCRF(tuner=None, n_jobs=1).fit([np.eye(2)] * 3, [["A", "B"]] * 3)
    assert model.predict([]) == []
    assert model.predict(np.zeros((0, 2)), lengths=[]) == []


def test_orders_are_whole_numbers():
    with pytest.raises(InputError, match=r"order=2\.0"):
        ChainCRF(tuner=None, order=2.0).fit(PLAIN, LABELS)


def test_the_word_for_no_splits_is_not_one_of_the_users():
    with pytest.raises(InputError, match="cv='none'"):
        ChainCRF(cv="none").fit(PLAIN, LABELS)


@pytest.mark.parametrize("change", ["columns", "names", "labels", "kind of count"])
def test_counts_of_a_forged_file_must_agree(change, tmp_path):
    X = [np.eye(2)] * 3 if change == "columns" else [[["aa"], ["bb"]]] * 3
    path = tmp_path / "m.safetensors"
    ChainCRF(tuner=None, n_jobs=1).fit(X, [["A", "B"]] * 3).save(path)
    header, arrays = read_file(path, kind=MODEL_KIND, max_version=MODEL_VERSION)
    if change == "columns":
        header["n_columns"] = 9
    elif change == "names":
        arrays["features.text"] = np.frombuffer(b"aaaabb", np.uint8)
        arrays["features.ends"] = np.array([2, 4, 6])
    elif change == "labels":
        header["n_labels"] = 3
    else:
        header["n_features"] = 2.0
    write_file(path, kind=MODEL_KIND, version=MODEL_VERSION, header=header, arrays=arrays)
    with pytest.raises(FileFormatError):
        load(path)
