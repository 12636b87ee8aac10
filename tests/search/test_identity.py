"""What a search is: equal values have equal digests in every process, and another search is refused in words."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import optuna
import pandas
import polars
import pytest
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from tikhon.errors import InputError
from tikhon.search.identity import FORMAT, KEY, check_same, digest
from tikhon.search.storage import quiet

IDENTITY = {
    "space": {"C": "FloatDistribution(high=10.0, log=True, low=0.1)"},
    "stages": [0.3, 1.0],
    "n_trials": 40,
    "rows": 600,
    "X": digest(np.arange(6.0)),
}


def digests_of_every_kind() -> list[str]:
    X = np.random.default_rng(0).normal(size=(20, 3))
    frame = {"a": [1.5, float("nan")], "b": ["x", "y"]}
    weights = {"a": 1.0, "b": 2.0}
    values = [
        X,
        X[:, ::2],
        X.astype("f4"),
        np.array(["the", "cat", None, 3.5], dtype=object),
        np.array(["2020-01-01"], dtype="M8[ns]"),
        np.zeros((0, 4)),
        np.float32(2.5),
        sparse.csr_array(np.round(X)),
        frame,
        pandas.DataFrame(frame),
        pandas.Series([1, 2], dtype="category"),
        polars.DataFrame(frame),
        [(np.arange(3), np.arange(2)), (np.arange(2), np.arange(1))],
        {"x", "yy", "zzz"},
        frozenset({"u", "v", "w"}),
        None,
        "text",
        make_pipeline(FunctionTransformer(np.log1p), LogisticRegression(C=2.0, class_weight=weights)),
    ]
    return [digest(value) for value in values]


@pytest.fixture
def study():
    with quiet():
        return optuna.create_study(study_name="search/1", direction="maximize")


@pytest.mark.slow
def test_digests_are_the_same_in_every_process():
    code = "from tests.search.test_identity import digests_of_every_kind as digests; print(*digests(), sep=';')"
    other = subprocess.run(
        [sys.executable, "-c", code],
        cwd=Path(__file__).parents[2], env=os.environ | {"PYTHONHASHSEED": "1"}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    digests = digests_of_every_kind()
    assert other.stdout.strip().split(";") == digests
    assert len(set(digests)) == len(digests)


def test_digests_do_not_depend_on_the_layout_in_memory(rng, tmp_path):
    X = rng.normal(size=(30, 4))
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    strided = np.repeat(X, 2, axis=1)[:, ::2]
    assert {digest(same) for same in (X, np.asfortranarray(X), mapped, strided, X.copy())} == {digest(X)}
    assert digest(X[:, 0]) == digest(X[:, 0].copy())


def test_digests_of_sparse_matrices_do_not_depend_on_flags_or_format(rng):
    X = sparse.random_array((30, 20), density=0.2, format="csr", random_state=rng)
    before = digest(X)
    assert X.has_canonical_format
    assert {digest(same) for same in (X, X.tocsc(), X.tocoo(), sparse.csr_matrix(X))} == {before}
    assert digest(2.0 * X) != before


def test_digests_leave_sparse_matrices_as_they_are():
    X = sparse.csr_array(([1.0, 2.0, 3.0], [2, 0, 0], [0, 3]), shape=(1, 3))
    assert digest(X) == digest(sparse.csr_array([[5.0, 0.0, 1.0]]))
    assert X.indices.tolist() == [2, 0, 0]


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(np.arange(6.0).reshape(2, 3), id="shape"),
        pytest.param(np.arange(6.0, dtype="f4"), id="type"),
        pytest.param(np.array([0.0, 1, 2, 3, 4, 5.0000001]), id="one value"),
        pytest.param(np.arange(6.0)[::-1], id="order"),
        pytest.param(list(range(6)), id="a list"),
    ],
)
def test_other_values_have_other_digests(other):
    assert digest(other) != digest(np.arange(6.0))


def test_frames_are_compared_by_columns_without_row_labels():
    frame = pandas.DataFrame({"a": [1, 2, 3], "b": ["x", None, "z"]})
    assert digest(frame) == digest(frame.set_index(pandas.Index([7, 8, 9])))
    assert digest(frame) == digest(pandas.concat([frame[["a"]], frame[["b"]]], axis=1))
    for other in (frame[["b", "a"]], frame.rename(columns={"a": "c"}), frame.assign(a=[1, 2, 4]), frame.iloc[::-1]):
        assert digest(other) != digest(frame)
    assert digest(frame.astype({"a": float})) != digest(frame)
    twice = pandas.DataFrame(np.eye(2), columns=["a", "a"])
    assert digest(twice) == digest(twice.copy())


def test_polars_frames_and_columns():
    frame = polars.DataFrame({"a": [1, 2], "b": ["x", "y"]})
    assert digest(frame) == digest(frame.clone())
    assert digest(frame["a"]) != digest(frame["b"])
    assert digest(frame.with_columns(a=polars.Series([1, 3]))) != digest(frame)


def test_estimators_are_compared_by_their_parameters():
    def pipeline(C, function=np.log1p):
        return make_pipeline(StandardScaler(), FunctionTransformer(function), LogisticRegression(C=C))

    assert digest(pipeline(1.0)) == digest(pipeline(1.0))
    assert len({digest(pipeline(1.0)), digest(pipeline(2.0)), digest(pipeline(1.0, np.sqrt))}) == 3
    fitted = LogisticRegression().fit(np.eye(4), [0, 1, 0, 1])
    assert digest(fitted) == digest(LogisticRegression())
    assert digest(pipeline(1.0, lambda x: x)) == digest(pipeline(1.0, lambda x: x))


def test_what_cannot_be_compared_is_named():
    with pytest.raises(InputError, match=r"a generator cannot be compared between runs .* leave out the storage"):
        digest(i for i in range(3))


def test_a_new_study_gets_the_identity_and_then_agrees(study):
    check_same(study, IDENTITY | {"n_trials": np.int64(40), "stages": (0.3, 1.0), "limit": float("nan")})
    assert study.user_attrs[KEY]["format"] == FORMAT
    check_same(study, IDENTITY | {"limit": float("nan")})


def test_differences_are_told_in_words(study):
    check_same(study, IDENTITY)
    with pytest.raises(InputError) as refused:
        check_same(
            study,
            {
                "space": {"C": "FloatDistribution(high=1.0, log=True, low=0.1)", "tol": "x"},
                "stages": [1.0], "rows": 700, "X": digest(np.arange(7.0)), "seed": 3,
            },
        )  # fmt: skip
    text = str(refused.value)
    assert text.startswith("the study 'search/1' has the trials of another search: ")
    for part in (
        "the data have 700 rows instead of 600",
        "space of 'C': 'FloatDistribution(high=1.0, log=True, low=0.1)' instead of 'FloatDistribution(high=10.0, log",
        "space of 'tol': was not given before",
        "stages: [1.0] instead of [0.3, 1.0]",
        "X: other values",
        "seed: was not given before",
        "n_trials: was given before",
    ):
        assert part in text
    assert IDENTITY["X"] not in text
    check_same(study, IDENTITY)  # a refusal changes nothing


def test_long_values_are_cut_around_the_difference(study):
    check_same(study, {"estimator": "Pipeline(" + "a" * 500 + ", C=1" + ", tail" * 50})
    with pytest.raises(InputError) as refused:
        check_same(study, {"estimator": "Pipeline(" + "a" * 500 + ", C=2" + ", tail" * 50})
    assert "C=2" in str(refused.value)
    assert "C=1" in str(refused.value)
    assert len(str(refused.value)) < 500


def test_true_is_not_one(study):
    check_same(study, {"shuffle": True})
    with pytest.raises(InputError, match="shuffle: 1 instead of True"):
        check_same(study, {"shuffle": 1})


def test_a_study_that_tikhon_did_not_make_is_refused(study):
    study.add_trial(optuna.trial.create_trial(value=1.0))
    with pytest.raises(InputError, match="was not made by tikhon; name another study"):
        check_same(study, IDENTITY)
    assert KEY not in study.user_attrs


@pytest.mark.parametrize(
    ("stored", "words"),
    [
        ({"format": FORMAT + 1}, "has format 2, which is newer than that of this version of tikhon, 1; update tikhon"),
        ({"format": 0}, "has format 0, which is older"),
        ("x", "no readable identity"),
        ({"format": "1"}, "no readable identity"),
        ({}, "no readable identity"),
    ],
)
def test_identities_of_other_versions_and_edited_ones_are_refused(study, stored, words):
    study.set_user_attr(KEY, stored)
    with pytest.raises(InputError, match=words):
        check_same(study, IDENTITY)
