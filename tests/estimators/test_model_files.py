import os
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import KFold

import tikhon
from tikhon import Gradient, Grid, InputError, LogisticRegression, Ridge
from tikhon.data.safefile import read_file, write_file
from tikhon.errors import FileFormatError

LABELS = {
    "text": np.array(["no", "yes", "perhaps"]),
    "objects": np.array(["no", "yes", "perhaps"], dtype=object),
    "int64": np.array([3, -1, 10]),
    "int8": np.array([3, -1, 10], dtype=np.int8),
    "float": np.array([0.0, 1.0, 7.0]),
    "bool": np.array([True, False, True]),
}


@pytest.fixture
def rng():
    return np.random.default_rng(8)


@pytest.fixture(name="X")
def matrix(rng):
    return rng.normal(size=(45, 4)) + np.eye(3).repeat(15, axis=0) @ rng.normal(size=(3, 4))


def reloaded(model, tmp_path):
    model.save(tmp_path / "m.safetensors")
    return tikhon.load(tmp_path / "m.safetensors")


def equal_results(a, b):
    assert type(a) is type(b)
    for name in vars(a):
        left, right = getattr(a, name), getattr(b, name)
        if name == "trace":
            for step, other in zip(left, right, strict=True):
                equal_results(step, other)
        elif isinstance(left, np.ndarray):
            np.testing.assert_array_equal(left, right)
        else:
            assert left == right, name


@pytest.mark.parametrize("labels", LABELS.values(), ids=LABELS)
def test_labels_keep_their_type(X, tmp_path, labels):
    y = labels.repeat(15)
    model = LogisticRegression(tuner="mm").fit(X, y)
    back = reloaded(model, tmp_path)
    assert back.classes_.dtype == model.classes_.dtype
    assert [type(label) for label in back.classes_.tolist()] == [type(label) for label in model.classes_.tolist()]
    assert (back.predict(X) == model.predict(X)).all()
    assert back.predict_proba(X).tobytes() == model.predict_proba(X).tobytes()


@pytest.mark.parametrize("tuner", [None, "grid", "mm", "direct", "gradient"])
@pytest.mark.parametrize("n_targets", [None, 1, 2])
def test_everything_that_was_fitted_comes_back(X, rng, tmp_path, tuner, n_targets):
    y = X[:, 0] * 2 + rng.normal(size=45)
    y = y if n_targets is None else np.column_stack([y, X[:, 1] + rng.normal(size=45)])[:, :n_targets]
    frame = pd.DataFrame(X, columns=["a", "b", "ü", "d"])
    model = Ridge(groups={"some": ["a", "ü"]}, tuner=tuner, standardize=True, cv=3).fit(frame, y)
    back = reloaded(model, tmp_path)
    assert back.get_params() == model.get_params()
    assert back.predict(frame).tobytes() == model.predict(frame).tobytes()
    assert type(back.intercept_) is type(model.intercept_)
    assert back.strengths_ == model.strengths_
    np.testing.assert_array_equal(back.noise_variance_, model.noise_variance_)
    assert back.feature_names_in_.tolist() == ["a", "b", "ü", "d"]
    assert back.n_iter_ == model.n_iter_
    equal_results(back.groups_, model.groups_)
    equal_results(back.tuning_, model.tuning_)
    assert set(vars(back)) == set(vars(model))


def test_parameters_that_json_can_hold_come_back(X, tmp_path):
    y = np.arange(45) % 3
    given = {
        "groups": np.array(["a", "b", "a", "b"]),
        "tuner": Grid(values=(0.5, 2.0), widen=False, refine=1),
        "strengths": {"a": 2.0},
        "class_weight": {0: 1.0, 1: 2.0, 2: 0.5},
        "cv": None,
        "random_state": 4,
        "solver": "newton",
    }
    with pytest.warns(tikhon.TuningWarning):
        model = LogisticRegression(**given).fit(X, y)
    back = reloaded(model, tmp_path).get_params()
    assert back.pop("groups") == ["a", "b", "a", "b"]
    for name in ("tuner", "strengths", "class_weight", "cv", "random_state", "solver"):
        assert back[name] == given[name], name


@pytest.mark.parametrize(
    "columns", [range(1, 3), (1, 2), np.array([1, 2]), pd.Index([1, 2]), [np.int64(1), 2]], ids=repr
)
def test_groups_of_columns_in_any_sequence_come_back(X, tmp_path, columns):
    model = Ridge(groups={"middle": columns}, tuner=None).fit(X, X[:, 0])
    back = reloaded(model, tmp_path)
    assert back.groups == {"middle": [1, 2]}
    assert back.fit(X, X[:, 0]).groups_.index.tolist() == model.groups_.index.tolist()


def test_what_json_cannot_hold_takes_its_default_and_a_function_its_groups(X, rng, tmp_path):
    y = X[:, 0] + X[:, 1] + rng.normal(size=45)
    model = Ridge(
        groups=lambda name: None if name == "x3" else "even" if int(name[1]) % 2 == 0 else "odd",
        tuner=Gradient(start=2.0),
        cv=KFold(3),
        random_state=np.random.RandomState(0),  # a generator that JSON cannot hold
    ).fit(X, y)
    back = reloaded(model, tmp_path)
    assert back.groups == ["even", "odd", "even", None]
    assert back.cv == "auto"
    assert back.random_state is None
    assert back.tuner == Gradient(start=2.0)
    assert back.predict(X).tobytes() == model.predict(X).tobytes()


@pytest.mark.parametrize("per_class", [True, False])
def test_a_function_comes_back_as_groups_of_columns_also_per_class(X, tmp_path, per_class):
    model = LogisticRegression(groups=lambda n: f"[{n[1]}]", tuner=None, per_class=per_class).fit(
        X, np.arange(45) // 15
    )
    back = reloaded(model, tmp_path)
    assert back.groups == ["[0]", "[1]", "[2]", "[3]"]
    assert list(back.fit(X, np.arange(45) // 15).strengths_) == list(model.strengths_)


@pytest.mark.slow
def test_another_process_predicts_the_same_bits(X, tmp_path):
    model = LogisticRegression(groups="separate", tuner="mm").fit(X, np.arange(45) // 15)
    model.save(tmp_path / "m.safetensors")
    np.save(tmp_path / "X.npy", X)
    code = (
        "import sys, numpy, tikhon; model = tikhon.load(sys.argv[1]);"
        "sys.stdout.write(model.predict_proba(numpy.load(sys.argv[2])).tobytes().hex())"
    )
    arguments = [sys.executable, "-c", code, tmp_path / "m.safetensors", tmp_path / "X.npy"]
    found = subprocess.run(arguments, check=True, capture_output=True, text=True, timeout=60).stdout
    assert found == model.predict_proba(X).tobytes().hex()


def test_every_single_flipped_bit_is_an_error(X, tmp_path):
    path = tmp_path / "m.safetensors"
    LogisticRegression(tuner=None).fit(X[:, :1], X[:, 0] > 0).save(path)
    content = path.read_bytes()
    with open(path, "r+b", buffering=0) as file:
        for position, byte in enumerate(content):
            for bit in range(8):
                os.pwrite(file.fileno(), bytes([byte ^ (1 << bit)]), position)
                with pytest.raises(FileFormatError):
                    tikhon.load(path)
            os.pwrite(file.fileno(), bytes([byte]), position)
    assert path.read_bytes() == content


def test_files_of_other_kinds_versions_and_models(X, tmp_path):
    path = tmp_path / "m.safetensors"
    Ridge(tuner=None).fit(X, X[:, 0]).save(path)
    header, arrays = read_file(path, kind="model", max_version=1)
    write_file(path, kind="model", version=2, header=header, arrays=arrays)
    with pytest.raises(FileFormatError, match=r"newer tikhon \(format 2, this one reads up to 1\): upgrade"):
        tikhon.load(path)
    write_file(path, kind="checkpoint", version=1, header=header, arrays=arrays)
    with pytest.raises(FileFormatError, match="checkpoint file"):
        tikhon.load(path)
    write_file(path, kind="model", version=1, header=header | {"estimator": "Lasso"}, arrays=arrays)
    with pytest.raises(FileFormatError, match="'Lasso'; this version of tikhon supports LogisticRegression, Ridge"):
        tikhon.load(path)
    del arrays["coef"]
    write_file(path, kind="model", version=1, header=header, arrays=arrays)
    with pytest.raises(FileFormatError, match="coef"):
        tikhon.load(path)


def test_labels_that_cannot_be_stored_leave_no_file(X, tmp_path):
    model = LogisticRegression(tuner=None).fit(X, np.arange(45) // 15)
    model.classes_ = np.array([b"a", b"b", b"c"])
    with pytest.raises(InputError, match="cannot be saved"):
        model.save(tmp_path / "f")
    assert list(tmp_path.iterdir()) == []


def test_a_loaded_model_can_be_fitted_again(X, tmp_path):
    y = X[:, 0] - X[:, 1]
    model = Ridge(groups="separate", tuner="mm").fit(X, y)
    np.testing.assert_array_equal(reloaded(model, tmp_path).fit(X, y).coef_, model.coef_)
