"""``tikhon fit``: what it writes and says, and what it refuses."""

import contextlib
import gzip
import json
import os
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import dump_svmlight_file

import tikhon
import tikhon.cli.fit
import tikhon.cli.fitting


def fit_arguments(train, model, *more):
    return ["fit", train, "--target", "label", "--model", model, *more]


def listing(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


@pytest.mark.parametrize("tuner", ["grid", "mm", "direct", "gradient"])
def test_each_tuner_writes_what_the_estimator_finds(run, sample, train, tmp_path, tuner):
    path = tmp_path / "model.safetensors"
    outcome = run(*fit_arguments(train, path, "--groups", "prefix", "--tuner", tuner, "--seed", 3, "--json"))
    assert outcome.code == 0, outcome.err
    told = outcome.json
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        groups = ["num", "num", "txt", "txt", "txt"]
        expected = tikhon.LogisticRegression(groups=groups, tuner=tuner, random_state=3).fit(sample.X, sample.label)
    assert {row["group"]: row["strength"] for row in told["groups"]} == expected.strengths_
    assert [row["columns"] for row in told["groups"]] == [2, 3]
    assert told["groups"][0]["norm"] == pytest.approx(np.linalg.norm(expected.coef_[0, :2]), rel=1e-12)
    assert told["classes"] == ["no", "yes"]
    assert told["tuning"]["status"] == expected.tuning_.status
    loaded = tikhon.load(path)
    np.testing.assert_array_equal(loaded.coef_, expected.coef_)
    assert loaded.feature_names_in_.tolist() == list(sample.columns)


@pytest.mark.parametrize(("tuner", "criterion"), [("auto", "leave-one-out"), ("gradient", "held-out")])
def test_text_output_names_groups_status_and_file(run, train, tmp_path, tuner, criterion):
    path = tmp_path / "model.safetensors"
    options = () if tuner == "auto" else ("--tuner", tuner)
    outcome = run(*fit_arguments(train, path, "--groups", "prefix", *options))
    assert outcome.code == 0
    assert "classification: 80 rows, 5 columns, 2 classes" in outcome.out
    for part in ("num", "txt", "strength", f"tuned by {tuner}", criterion, str(path)):
        assert part in outcome.out.replace("\n", " ")


def test_fixed_strengths_without_tuner_are_those_of_scikit_learn(run, sample, tmp_path):
    from sklearn.linear_model import Ridge

    data = sample.write(tmp_path / "train.csv", "amount")
    path = tmp_path / "model.safetensors"
    outcome = run("fit", data, "--target", "amount", "--tuner", "none", "--strength", "2.5", "--model", path, "--json")
    assert outcome.code == 0, outcome.err
    assert outcome.json["task"] == "regression"
    assert outcome.json["groups"][0]["learned"] is False
    reference = Ridge(alpha=2.5).fit(sample.X, sample.amount)
    np.testing.assert_allclose(np.ravel(tikhon.load(path).coef_), reference.coef_, rtol=1e-7)


def test_one_strength_given_the_others_learned(run, train, tmp_path):
    path = tmp_path / "model.safetensors"
    outcome = run(*fit_arguments(train, path, "--groups", "prefix", "--strength", "txt=4", "--tuner", "mm", "--json"))
    rows = {row["group"]: row for row in outcome.json["groups"]}
    assert rows["txt"]["strength"] == 4.0
    assert (rows["txt"]["learned"], rows["num"]["learned"]) == (False, True)


def test_groups_from_a_file(run, train, tmp_path):
    file = tmp_path / "groups.json"
    file.write_text(json.dumps({"first": ["num__age", "txt__of"], "second": ["num__size"]}))
    outcome = run(*fit_arguments(train, tmp_path / "m", "--groups", file, "--tuner", "mm", "--json"))
    assert {row["group"]: row["columns"] for row in outcome.json["groups"]} == {"first": 2, "second": 1, "rest": 2}


def test_whole_numbers_are_classes_and_keep_their_type(run, tmp_path):
    data = tmp_path / "train.csv"
    data.write_text("a,y\n" + "".join(f"{place / 7},{place % 3}\n" for place in range(30)))
    path = tmp_path / "model.safetensors"
    assert run("fit", data, "-t", "y", "-m", path, "--tuner", "none", "--json").json["classes"] == [0, 1, 2]
    assert run("predict", path, data).out.splitlines()[0] == "prediction"
    assert set(run("predict", path, data).out.splitlines()[1:]) <= {"0", "1", "2"}
    outcome = run("fit", data, "-t", "y", "-m", path, "--tuner", "none", "--task", "regression", "--json")
    assert outcome.json["task"] == "regression"


@pytest.mark.parametrize("first_index", [0, 1])
def test_svmlight_is_read_by_position_however_it_counts(run, sample, tmp_path, first_index):
    plain, path = tmp_path / "train.svm", tmp_path / "model.safetensors"
    codes = (sample.label == "yes").astype(int)
    dump_svmlight_file(sample.X, codes, str(plain), zero_based=first_index == 0)
    zipped = tmp_path / "train.svmlight.gz"
    zipped.write_bytes(gzip.compress(plain.read_bytes()))
    told = run("fit", zipped, "--tuner", "mm", "--model", path, "--json")
    assert told.code == 0, told.err
    assert (told.json["columns"], told.json["classes"]) == (5, [0, 1])
    # Rows that do not use the first column must not shift the others.
    rest = sample.X.copy()
    rest[:, 0] = 0.0
    test = tmp_path / "test.svm"
    dump_svmlight_file(rest, codes, str(test), zero_based=first_index == 0)
    predicted = run("predict", path, test).out.splitlines()[1:]
    loaded = tikhon.load(path)
    assert loaded.first_index_ == first_index
    assert run("inspect", path, "--json").json["columns"] == [f"f{n}" for n in range(first_index, first_index + 5)]
    stored = np.array([[float(f"{value:.16g}") for value in row] for row in rest])
    assert predicted == [str(label) for label in loaded.predict(stored)]


def test_warnings_are_short_lines_with_the_columns_of_the_file(run, sample, tmp_path):
    X = sample.X.copy()
    X[:, 3] *= 1e5
    data = type(sample)(sample.columns, X, sample.label, sample.amount).write(tmp_path / "train.csv", "label")
    outcome = run(*fit_arguments(data, tmp_path / "m", "--tuner", "mm"))
    assert outcome.code == 0
    lines = outcome.err.splitlines()
    assert any(line.startswith("tikhon: warning:") and "'txt__of'" in line for line in lines), outcome.err
    # Each once, and the same in the model file and what is read from it.
    stored = tikhon.load(tmp_path / "m").tuning_.warnings
    assert sorted(lines) == sorted(f"tikhon: warning: {message}" for message in stored)
    assert len(set(lines)) == len(lines)
    inspected = run("inspect", tmp_path / "m")
    assert all(inspected.out.count(f"warning: {message}\n") == 1 for message in stored)


BAD_TABLES = {
    "ragged": ("a,b,label\n1,2,x\n3,y\n", ["line 3", "2 fields", "header has 3"]),
    "no target": ("a,b,Label\n1,2,x\n", ["'label'", "columns are 'a', 'b', 'Label'", "did you mean 'Label'"]),
    "text": ("a,b,label\n1,2,x\n3,four,y\n5,6,x\n", ["line 3", "column 'b'", "'four'", "number is needed"]),
    "text column": ("a,city,label\n1,Rome,x\n2,Oslo,y\n", ["column 'city'", "holds text", "leave the column out"]),
    "empty": ("", ["empty"]),
    "header only": ("a,b,label\n", ["no row"]),
    "empty cell": ("a,b,label\n1,,x\n", ["line 2", "column 'b'", "empty"]),
    "nan": ("a,b,label\n1,2,x\n1,NaN,x\n", ["line 3", "column 'b'", "NaN"]),
    "infinity": ("a,b,label\n1,2,x\n1e999,1,x\n", ["line 3", "column 'a'", "1e999"]),
    "empty target": ("a,b,label\n1,2,\n", ["line 2", "target is empty"]),
    "twice": ("a,a,label\n1,2,x\n", ["'a'", "columns 1 and 2"]),
    "no name": (",a,label\n1,2,x\n", ["column 1", "no name"]),
    "no features": ("label\nx\n", ["no feature columns"]),
    "one class": ("a,label\n1,x\n2,x\n3,x\n4,x\n", ["class"]),
    "not utf-8": (b"a,label\n1,x\n\xff,y\n", ["line 3", "utf-8"]),
    "open quote": ('a,label\n1,"x\n', ["line 2"]),
}


@pytest.mark.parametrize("case", BAD_TABLES)
def test_bad_tables_are_refused_with_their_place(run, tmp_path, case):
    content, parts = BAD_TABLES[case]
    data = tmp_path / "train.csv"
    data.write_bytes(content if isinstance(content, bytes) else content.encode())
    outcome = run(*fit_arguments(data, tmp_path / "model.safetensors"))
    outcome.assert_refused(str(data), *parts)
    assert listing(tmp_path) == ["train.csv"]


def test_text_target_for_a_regression_is_named(run, tmp_path):
    data = tmp_path / "train.csv"
    data.write_text("a,label\n1,2\n3,high\n")
    run(*fit_arguments(data, tmp_path / "m", "--task", "regression")).assert_refused("line 3", "'high'", "'label'")


@pytest.mark.parametrize(
    ("more", "parts"),
    [
        (["--strength", "all=-1"], ["all=-1", "0 or larger"]),
        (["--strength", "all=nan"], ["all=nan"]),
        (["--strength", "all=x"], ["'x' is not a number"]),
        (["--strength", "other=1"], ["unknown group 'other'"]),
        (["--strength", "all=1", "--strength", "all=2"], ["'all' twice"]),
        (["--groups", "both"], ["'both'", "prefix"]),
        (["--groups", "missing.json"], ["missing.json", "no such file"]),
        (["--cv", "5", "--validation-fraction", "0.3"], ["mutually exclusive"]),
        (["--validation-fraction", "1.5"], ["1.5"]),
        (["--cv", "1"], ["--cv"]),
        (["--tuner", "guess"], ["guess", "gradient"]),
        (["--tuner", "none", "--checkpoint", "c"], ["--checkpoint"]),
        (["--ignore", "height"], ["'height'"]),
        (["--nonsense"], ["--nonsense"]),
    ],
)
def test_bad_options_are_refused(run, train, tmp_path, more, parts):
    run(*fit_arguments(train, tmp_path / "model.safetensors", *more)).assert_refused(*parts)
    assert listing(tmp_path) == ["train.csv"]


@pytest.mark.parametrize(
    ("groups", "part"),
    [
        ({"g": ["height"]}, "'height'"),
        ({"g": ["num__age"], "h": ["num__age"]}, "both 'g' and 'h'"),
        ({"g": []}, "no columns"),
        ({"g": {"a": 1}}, "list of column names"),
        (["g"], "5 columns"),
        (3, "write an object"),
    ],
)
def test_bad_group_files_are_refused(run, train, tmp_path, groups, part):
    file = tmp_path / "groups.json"
    file.write_text(json.dumps(groups))
    run(*fit_arguments(train, tmp_path / "m", "--groups", file)).assert_refused(str(file), part)


@pytest.mark.parametrize("text", ['{"g": ["a"], "g": ["b"]}', "{", "[" * 100_000])
def test_group_files_that_are_not_plain_json_are_refused(run, train, tmp_path, text):
    file = tmp_path / "groups.json"
    file.write_text(text)
    run(*fit_arguments(train, tmp_path / "m", "--groups", file)).assert_refused(str(file))


def test_files_that_are_not_there_or_not_files(run, train, tmp_path):
    run(*fit_arguments(tmp_path / "no.csv", tmp_path / "m")).assert_refused("no.csv", "no such file")
    (tmp_path / "folder.csv").mkdir()
    run(*fit_arguments(tmp_path / "folder.csv", tmp_path / "m")).assert_refused("folder.csv", "not a file")
    (tmp_path / "table.xlsx").write_bytes(b"PK")
    run(*fit_arguments(tmp_path / "table.xlsx", tmp_path / "m")).assert_refused("table.xlsx", ".csv", "--format")
    run("fit", train, "--model", tmp_path / "m").assert_refused("--target", "'num__age'")
    run("fit", train, "--target", "label").assert_refused("--model")


def test_output_that_cannot_be_written_is_refused_before_any_work(run, train, tmp_path, monkeypatch):
    monkeypatch.setattr(tikhon.cli.fit, "read_training_table", None)  # reading would fail
    run(*fit_arguments(train, tmp_path / "no" / "model")).assert_refused("no directory")
    run(*fit_arguments(train, tmp_path)).assert_refused("is a directory")
    run(*fit_arguments(train, train)).assert_refused("is also an input")
    run(*fit_arguments(train, tmp_path / "m", "--checkpoint", tmp_path / "m")).assert_refused("given for two outputs")


def test_cut_gzip_is_refused(run, train, tmp_path):
    cut = tmp_path / "cut.csv.gz"
    cut.write_bytes(gzip.compress(train.read_bytes())[:-20])
    run(*fit_arguments(cut, tmp_path / "m")).assert_refused("cut.csv.gz", "gzip")


def test_interrupt_before_anything_was_found(run, train, tmp_path, monkeypatch):
    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(tikhon.LogisticRegression, "fit", stop)
    outcome = run(*fit_arguments(train, tmp_path / "m", "--checkpoint", tmp_path / "steps"))
    assert outcome.code == 130
    assert outcome.err == "tikhon: interrupted; no model was written\n"
    assert listing(tmp_path) == ["train.csv"]


def test_interrupt_in_the_first_step_of_a_resumed_tuning(run, train, tmp_path, monkeypatch):
    def stop(*_, **__):
        raise KeyboardInterrupt

    arguments = fit_arguments(train, tmp_path / "m", "--checkpoint", tmp_path / "steps")
    assert run(*arguments).code == 0
    (tmp_path / "m").unlink()
    monkeypatch.setattr(tikhon.LogisticRegression, "fit", stop)
    assert run(*arguments).err.endswith(f"; the same command resumes from {tmp_path / 'steps'}\n")


@pytest.mark.parametrize("content", [b"", b"no checkpoint", None])
def test_a_damaged_checkpoint_is_to_be_deleted(content, run, train, tmp_path):
    steps = tmp_path / "steps"
    arguments = fit_arguments(train, tmp_path / "m", "--tuner", "gradient", "--checkpoint", steps)
    assert run(*arguments).code == 0
    (tmp_path / "m").unlink()
    steps.write_bytes(steps.read_bytes()[:-20] if content is None else content)
    run(*arguments).assert_refused(str(steps), "its checkpoint; delete it or name another file")
    assert not (tmp_path / "m").exists()
    steps.unlink()
    assert run(*arguments).code == 0


@pytest.mark.skipif(os.name != "posix", reason="needs a terminal")
@pytest.mark.parametrize(("tuner", "has_eta"), [("grid", True), ("gradient", False)])
def test_only_a_known_number_of_steps_has_an_eta(tuner, has_eta, train, tmp_path):
    """A descent stops when it converges: the time until its limit of steps is no estimate."""
    import pty

    terminal, stderr = pty.openpty()
    code = "from tikhon.cli import main; main()"
    arguments = fit_arguments(train, tmp_path / "m", "--tuner", tuner)
    environment = {**os.environ, "PYTHONPATH": str(Path(tikhon.__file__).parents[1]), "TERM": "xterm", "COLUMNS": "200"}
    subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        env=environment, stdout=subprocess.DEVNULL, stderr=stderr, timeout=120, check=True,
    )  # fmt: skip
    os.close(stderr)
    shown = b""
    # Linux ends what a terminal received with an error.
    with contextlib.suppress(OSError), os.fdopen(terminal, "rb", buffering=0) as file:
        while part := file.read(65536):
            shown += part
    _, name, tuning = shown.partition(f"tuning ({tuner})".encode())
    assert name != b""
    assert (b"left" in tuning) == has_eta


def test_one_step_is_not_called_steps(run, train, tmp_path):
    outcome = run(*fit_arguments(train, tmp_path / "m", "--tuner", "none", "--strength", "1"))
    assert "0 steps, 1 fit, " in outcome.out
    assert "0 steps, 1 fit, " in tikhon.load(tmp_path / "m").tuning_.summary()
    assert tikhon.results.counted(1, "step") == "1 step"


def test_interrupt_during_tuning_keeps_the_best_and_goes_on(run, train, tmp_path, monkeypatch):
    def interrupting(*_):
        def show(step):
            if step.number == 2:
                raise KeyboardInterrupt

        return show

    arguments = fit_arguments(train, tmp_path / "m", "--groups", "separate", "--checkpoint", tmp_path / "steps")
    with monkeypatch.context() as patch:
        patch.setattr(tikhon.cli.fitting, "show_step", interrupting)
        outcome = run(*arguments)
    assert outcome.code == 130
    assert "interrupted; the best so far is in" in outcome.err
    assert tikhon.load(tmp_path / "m").tuning_.status == "interrupted"
    assert run(*arguments).code == 0
    resumed = (tmp_path / "m").read_bytes()
    whole = tmp_path / "whole"
    assert run(*fit_arguments(train, whole, "--groups", "separate")).code == 0
    assert resumed != b""
    np.testing.assert_array_equal(tikhon.load(tmp_path / "m").coef_, tikhon.load(whole).coef_)
