"""``tikhon tag``: from columns to a model, to labels and to scores."""

import gzip
import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tikhon
import tikhon.cli.fitting
from tikhon.data.chunk_scores import chunk_scores
from tikhon.data.conll import read_conll
from tikhon.data.token_windows import window_features

WORDS = {"B-x": ["red", "old"], "I-x": ["fox", "Hat"], "O": ["runs", "in", "."]}


def write(path: Path, seed: int, n: int = 60, *, labelled: bool = True) -> Path:
    rng = np.random.default_rng(seed)
    lines = []
    for _ in range(n):
        labels = []
        for _ in range(rng.integers(2, 5)):
            labels += [["O"], ["B-x"], ["B-x", "I-x"]][rng.integers(3)]
        for label in labels:
            word = str(rng.choice(WORDS[label]))
            tag = "V" if word in WORDS["O"] else "N"
            lines.append("\t".join([word, tag, *([label] if labelled else [])]))
        lines.append("")
    content = "\n".join(lines).encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


@pytest.fixture
def train(tmp_path: Path) -> Path:
    return write(tmp_path / "train.tsv", 0)


@pytest.fixture
def model(run, train, tmp_path: Path) -> Path:
    path = tmp_path / "model.safetensors"
    assert run("tag", "fit", train, "--model", path, "--tuner", "none", "--strength", "1").code == 0
    return path


def test_fit_learns_a_strength_for_each_template(run, train, tmp_path):
    out = run("tag", "fit", train, "-m", tmp_path / "m", "--cv", "2", "--json").json
    names = {row["group"] for row in out["groups"]}
    assert {"w[0]", "p[-1]|p[0]", "transitions"} <= names
    assert len(names) == 20
    assert out["sentences"] == 60
    assert out["labels"] == ["B-x", "I-x", "O"]
    text = run("tag", "fit", train, "-m", tmp_path / "m", "--tuner", "mm").out
    assert "60 sentences" in text
    assert "transitions" in text


def test_predictions_are_those_of_python_and_scores_those_of_conlleval(run, train, model, tmp_path):
    test = write(tmp_path / "test.tsv.gz", 1)
    out = tmp_path / "out.tsv"
    assert run("tag", "predict", model, test, "-o", out, "--probability").code == 0
    sentences, given = read_conll(out), read_conll(test)
    loaded = tikhon.load(model)
    maker = window_features(2, spelling=False)
    X = [maker.features(sentence) for sentence in given]
    expected = loaded.predict(X)
    assert [list(sentence.columns[3]) for sentence in sentences] == expected
    assert [sentence.columns[:3] for sentence in sentences] == [sentence.columns for sentence in given]
    shares = [float(share) for sentence in sentences for share in sentence.columns[4]]
    codes = [loaded.classes_.tolist().index(label) for labels in expected for label in labels]
    marginals = np.concatenate(loaded.predict_marginals(X))
    np.testing.assert_allclose(shares, marginals[np.arange(len(codes)), codes], atol=1e-6)
    scores = chunk_scores([sentence.columns[2] for sentence in given], expected)
    told = run("tag", "eval", model, test, "--json").json
    assert told["accuracy"] == scores.accuracy
    assert told["chunks"][-1]["F1 %"] == pytest.approx(100 * scores.all.f1)
    assert f"{100 * scores.accuracy:.2f} % correct" in run("tag", "eval", model, test).out


def test_labels_are_not_needed_to_predict(run, model, tmp_path):
    labelled, bare = write(tmp_path / "a.tsv", 2), write(tmp_path / "b.tsv", 2, labelled=False)
    with_labels = [line.split("\t")[-1] for line in run("tag", "predict", model, labelled).out.splitlines()]
    without = [line.split("\t")[-1] for line in run("tag", "predict", model, bare).out.splitlines()]
    assert with_labels == without
    run("tag", "eval", model, bare).assert_refused("b.tsv", "needs 2 columns and, after them, the label")


def test_templates_spelling_and_rules(run, train, tmp_path):
    template, words = tmp_path / "template", tmp_path / "words.tsv"
    template.write_text("U00:%x[0,0]\nU01:%x[-1,1]/%x[0,1]\nB\n")
    done = run("tag", "fit", train, "-m", tmp_path / "m", "--template", template, "--tuner", "none", "--json").json
    assert [row["group"] for row in done["groups"]] == ["U00", "U01", "transitions"]
    words.write_text(
        "\n".join(line.replace("\tN\t", "\t").replace("\tV\t", "\t") for line in train.read_text().split("\n"))
    )
    done = run(
        "tag", "fit", words, "-m", tmp_path / "w", "--tuner", "none", "--allowed", "bio", "--order", "2", "--json"
    ).json
    groups = {row["group"] for row in done["groups"]}
    assert {"shape", "suffix3", "transitions2"} <= groups
    labels = [line.split("\t")[-1] for line in run("tag", "predict", tmp_path / "w", words).out.splitlines()]
    assert not any(a in ("", "O") and b == "I-x" for a, b in itertools.pairwise(labels))


def test_inspect_shows_what_speaks_for_each_label(run, model):
    shown = run("inspect", model)
    assert shown.code == 0
    assert "strongest features" in shown.out
    told = run("inspect", model, "--json").json
    assert told["estimator"] == "ChainCRF"
    assert any("red" in name or "old" in name for name in told["strongest"]["B-x"])


def test_bad_input_is_refused_in_one_line(run, train, model, tmp_path):
    ragged, one = tmp_path / "ragged.tsv", tmp_path / "one.tsv"
    ragged.write_text("a b O\nc O\n")
    one.write_text("a\nb\n")
    run("tag", "fit", ragged, "-m", tmp_path / "m").assert_refused("ragged.tsv, line 2", "2 columns")
    run("tag", "fit", one, "-m", tmp_path / "m").assert_refused("one.tsv, line 1", "1 column")
    run("tag", "fit", tmp_path / "none", "-m", tmp_path / "m").assert_refused("no such file")
    run("tag", "fit", train, "-m", train).assert_refused("is also an input")
    template = tmp_path / "template"
    template.write_text("U00:%x[0,7]\n")
    run("tag", "fit", train, "-m", tmp_path / "m", "--template", template).assert_refused("line 1", "column 7")
    run("tag", "fit", train, "-m", tmp_path / "m", "--tuner", "none", "--strength", "x=1").assert_refused("'x'")
    run("tag", "predict", model, one).assert_refused("one.tsv: has 1 columns", "needs 2")
    run("predict", model, train).assert_refused("tikhon tag predict")
    run("tag", "predict", model, model).assert_refused("UTF-8")
    assert not (tmp_path / "m").exists()
    same = tmp_path / "same.tsv"
    same.write_text("a O\nb O\n")
    run("tag", "fit", same, "-m", tmp_path / "m").assert_refused("same.tsv", "only 'O'")


def test_an_interrupt_keeps_the_best_and_the_same_command_goes_on(run, train, tmp_path, monkeypatch):
    def interrupting(*_):
        def show(step):
            if step.number == 2:
                raise KeyboardInterrupt

        return show

    steps, out = tmp_path / "steps", tmp_path / "m"
    arguments = ("tag", "fit", train, "-m", out, "--tuner", "mm", "--checkpoint", steps)
    with monkeypatch.context() as patch:
        patch.setattr(tikhon.cli.fitting, "show_step", interrupting)
        outcome = run(*arguments)
    assert outcome.code == 130
    assert "the best so far is in" in outcome.err
    assert tikhon.load(out).tuning_.status == "interrupted"
    assert run(*arguments).code == 0
    assert run("tag", "fit", train, "-m", tmp_path / "whole", "--tuner", "mm").code == 0
    assert tikhon.load(out).strengths_ == tikhon.load(tmp_path / "whole").strengths_


def test_a_model_without_a_recipe_says_so(run, train, tmp_path):
    X, y = [[["a"], ["b"]]] * 3, [["O", "B-x"]] * 3
    tikhon.ChainCRF(tuner=None).fit(X, y).save(tmp_path / "python")
    run("tag", "predict", tmp_path / "python", train).assert_refused("saved from Python")
    tikhon.Ridge(tuner=None).fit(np.eye(3), [1.0, 2.0, 3.0]).save(tmp_path / "ridge")
    run("tag", "eval", tmp_path / "ridge", train).assert_refused("is a Ridge model")


@pytest.mark.slow
def test_a_new_process_writes_the_same_columns(train, model, tmp_path):
    arguments = [sys.executable, "-m", "tikhon.cli", "tag", "predict", str(model), str(train)]
    environment = {**os.environ, "PYTHONPATH": str(Path(tikhon.__file__).parents[1])}
    outs = [subprocess.run(arguments, env=environment, capture_output=True, timeout=120, check=True) for _ in range(2)]
    assert outs[0].stdout == outs[1].stdout
    assert outs[0].stderr == b""


@pytest.mark.parametrize("trainer", ["lbfgs", "sgd", "perceptron", "margin"])
@pytest.mark.parametrize("kind", ["linear", "hidden"])
def test_hidden_units_and_trainers(run, train, tmp_path, trainer, kind):
    path, new = tmp_path / "model", write(tmp_path / "new.tsv", 1)
    hidden = ["--hidden", "20"] if kind == "hidden" else []
    options = [
        "--model-type",
        kind,
        *hidden,
        "--trainer",
        trainer,
        "--early-stopping",
        "--epochs",
        "15",
        "--order",
        "2",
    ]
    done = run("tag", "fit", train, "-m", path, *options, "--decoding", "marginal", "--json")
    assert done.code == 0
    told = json.loads(done.out)
    assert told["tuning"]["tuner"] == trainer
    model = tikhon.load(path)
    assert type(model).__name__ == ("HiddenUnitCRF" if kind == "hidden" else "ChainCRF")
    assert model.decoding == "marginal"
    assert model.trainer.early_stopping
    scores = json.loads(run("tag", "eval", path, new, "--json").out)
    assert scores["accuracy"] > 0.7
    assert run("inspect", path).code == 0
    assert run("tag", "predict", path, new, "-o", tmp_path / "out.tsv", "--probability").code == 0


def test_a_training_resumes_from_its_checkpoint(run, train, tmp_path):
    options = ["--trainer", "sgd", "--epochs", "6"]
    assert run("tag", "fit", train, "-m", tmp_path / "whole", *options).code == 0
    for epochs in (6, 6):
        arguments = [
            "-m",
            tmp_path / "model",
            "--checkpoint",
            tmp_path / "kept",
            "--trainer",
            "sgd",
            "--epochs",
            epochs,
        ]
        assert run("tag", "fit", train, *arguments).code == 0
    whole, resumed = (tikhon.load(tmp_path / name).tuning_.weights for name in ("whole", "model"))
    np.testing.assert_array_equal(whole, resumed)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--hidden", "5"], "--hidden 5: goes with --model-type hidden"),
        (["--trainer", "sgd", "--rho", "1"], "--rho: the trainer sgd has no such setting"),
        (["--trainer", "margin", "--tuner", "mm"], "learns no strengths"),
        (["--trainer", "margin", "--strength", "1"], "'margin' has no penalty"),
        (["--trainer", "sgd", "--step", "-1"], "step=-1.0"),
    ],
)
def test_options_that_do_not_go_together(run, train, tmp_path, options, message):
    done = run("tag", "fit", train, "-m", tmp_path / "model", *options)
    assert done.code == 2
    assert message in done.err
    assert not (tmp_path / "model").exists()
