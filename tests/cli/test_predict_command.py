"""``tikhon predict`` and ``tikhon inspect``: the same bits in another process, and clear refusals."""

import csv
import gzip
import io
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tikhon
from tikhon.data.safefile import MODEL_KIND, MODEL_VERSION, read_file, write_file

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(tikhon.__file__).parents[1])}


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "tikhon.cli", *map(str, arguments)]


def probabilities(text: str) -> np.ndarray:
    rows = list(csv.DictReader(io.StringIO(text)))
    return np.array([[float(row["probability_no"]), float(row["probability_yes"])] for row in rows])


@pytest.mark.slow
def test_a_new_process_predicts_the_same_bits(sample, train, tmp_path):
    model, out = tmp_path / "model.safetensors", tmp_path / "predictions.csv"
    for arguments in (
        ("fit", train, "--target", "label", "--groups", "prefix", "--tuner", "mm", "--model", model),
        ("predict", model, train, "--proba", "-o", out),
    ):
        done = subprocess.run(command(*arguments), env=ENVIRONMENT, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        assert done.stderr == ""
    groups = ["num", "num", "txt", "txt", "txt"]
    fitted = tikhon.LogisticRegression(groups=groups, tuner="mm").fit(sample.X, sample.label)
    np.testing.assert_array_equal(probabilities(out.read_text()), fitted.predict_proba(sample.X))
    rows = list(csv.DictReader(io.StringIO(out.read_text())))
    assert [row["prediction"] for row in rows] == fitted.predict(sample.X).tolist()
    assert sorted(os.listdir(tmp_path)) == ["model.safetensors", "predictions.csv", "train.csv"]


def test_columns_are_matched_by_name_and_others_ignored(run, sample, model, tmp_path):
    expected = probabilities(run("predict", model, sample.write(tmp_path / "plain.csv"), "--proba").out)
    order = [3, 0, 4, 2, 1]
    shuffled = tmp_path / "shuffled.csv"
    with shuffled.open("w", newline="") as file:
        writer = csv.writer(file, delimiter=";")
        writer.writerow(["comment", *(sample.columns[place] for place in order), "label"])
        writer.writerows([["some; text", *row, "?"] for row in sample.X[:, order].tolist()])
    np.testing.assert_array_equal(probabilities(run("predict", model, shuffled, "--proba").out), expected)
    zipped = tmp_path / "shuffled.csv.gz"
    zipped.write_bytes(gzip.compress(shuffled.read_bytes()))
    np.testing.assert_array_equal(probabilities(run("predict", model, zipped, "--proba", "-o", "-").out), expected)


def test_json(run, train, model, tmp_path):
    told = run("predict", model, train, "--proba", "--json").json
    assert told["rows"] == 80
    assert set(told["predictions"]) == {"prediction", "probability_no", "probability_yes"}
    out = tmp_path / "out.csv"
    told = run("predict", model, train, "--json", "-o", out).json
    assert told["output"] == str(out)
    assert len(out.read_text().splitlines()) == 81


def test_a_model_without_names_takes_columns_by_position(run, sample, train, tmp_path):
    path = tmp_path / "array.safetensors"
    fitted = tikhon.Ridge(tuner=None, strengths=1.0).fit(sample.X, sample.amount)
    fitted.save(path)
    lines = run("predict", path, sample.write(tmp_path / "plain.csv")).out.splitlines()
    np.testing.assert_array_equal([float(line) for line in lines[1:]], fitted.predict(sample.X))
    run("predict", path, train).assert_refused("without column names", "5 columns", "has 6")
    run("predict", path, train, "--proba").assert_refused("regression")


def test_other_columns_are_refused(run, model, tmp_path):
    data, out = tmp_path / "test.csv", tmp_path / "out.csv"
    data.write_text("num__age,num__size,txt__the\n1,2,3\n")
    run("predict", model, data, "-o", out).assert_refused("test.csv", "'txt__of', 'txt__and'", "columns are 'num__age'")
    assert not out.exists()
    data.write_text("num__age,num__size,txt__the,txt__of,txt__and\n1,2,3,4,5\n1,2,3,x,5\n")
    run("predict", model, data, "-o", out).assert_refused("line 3", "'txt__of'", "'x'")
    assert not out.exists()
    wide = tmp_path / "test.svm"
    wide.write_text("1 1:1 9:1\n")
    run("predict", model, wide).assert_refused("line 1", "the index 9", "5 columns")


@pytest.mark.parametrize("verb", ["predict", "inspect"])
def test_damaged_model_files_are_refused(run, train, model, tmp_path, verb):
    content = model.read_bytes()
    data = [train] if verb == "predict" else []
    edited = tmp_path / "edited.safetensors"
    for place in np.linspace(0, len(content) - 1, 25).astype(int):
        flipped = bytearray(content)
        flipped[place] ^= 1 << (int(place) % 8)
        edited.write_bytes(flipped)
        run(verb, edited, *data).assert_refused(str(edited))
    for length in (0, 7, 100, len(content) - 1):
        edited.write_bytes(content[:length])
        run(verb, edited, *data).assert_refused(str(edited))
    run(verb, train, *data).assert_refused(str(train))
    run(verb, tmp_path, *data).assert_refused("is a directory")
    run(verb, tmp_path / "none", *data).assert_refused("no such file")


def test_a_newer_model_file_is_refused(run, train, model, tmp_path):
    header, arrays = read_file(model, kind=MODEL_KIND, max_version=MODEL_VERSION)
    newer = tmp_path / "newer.safetensors"
    write_file(newer, kind=MODEL_KIND, version=MODEL_VERSION + 1, header=header, arrays=arrays)
    run("predict", newer, train).assert_refused("newer", "upgrade")


def test_an_unwritable_output_leaves_what_was_there(run, train, model, tmp_path):
    run("predict", model, train, "-o", tmp_path / "no" / "out.csv").assert_refused("no directory")
    run("predict", model, train, "-o", tmp_path).assert_refused("is a directory")
    before = train.read_bytes()
    run("predict", model, train, "-o", train).assert_refused("is also an input")
    run("predict", model, train, "-o", model).assert_refused("is also an input")
    assert train.read_bytes() == before


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_directory_without_permission_is_refused(run, train, model, tmp_path):
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o500)
    run("predict", model, train, "-o", closed / "out.csv").assert_refused("permission denied")


def test_inspect_shows_groups_and_tuning(run, model):
    told = run("inspect", model, "--json").json
    loaded = tikhon.load(model)
    assert {row["group"]: row["strength"] for row in told["groups"]} == loaded.strengths_
    assert told["estimator"] == "LogisticRegression"
    assert told["written_by"] == tikhon.__version__
    assert told["tuning"]["status"] == loaded.tuning_.status
    assert [step["criterion"] for step in told["tuning"]["trace"]] == [s.criterion for s in loaded.tuning_.trace]
    text = run("inspect", model).out
    for part in (
        "LogisticRegression: 5 columns, 2 classes",
        "num",
        "txt",
        "tuned by mm",
        "criterion",
        tikhon.__version__,
    ):
        assert part in text


def test_many_groups_are_cut_in_text_only(run, tmp_path):
    random = np.random.default_rng(0)
    X = random.normal(size=(30, 50))
    model = tmp_path / "many.safetensors"
    tikhon.Ridge(groups="separate", tuner=None, strengths=1.0).fit(X, X[:, 0]).save(model)
    assert len(run("inspect", model, "--json").json["groups"]) == 50
    text = run("inspect", model).out
    assert "30 of 50 groups with the largest weights" in text
    assert "x0 " in text


@pytest.mark.slow
def test_a_closed_pipe_ends_quietly(model, tmp_path, sample):
    big = tmp_path / "big.csv"
    row = ",".join(map(repr, sample.X[0].tolist()))
    big.write_text(",".join(sample.columns) + "\n" + f"{row}\n" * 50_000)
    with subprocess.Popen(
        command("predict", model, big, "--proba"), env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"prediction,probability_no,probability_yes\n"
        process.stdout.close()
        assert process.stderr is not None
        assert process.stderr.read() == b""
        assert process.wait(timeout=60) != 0
