"""2,000 files with a right checksum and one wrong entry: each is refused by name, or what it holds works."""

import copy
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import tikhon
from tests.forging import forged
from tikhon import ChainCRF, HiddenUnitCRF, LogisticRegression, Ridge, RNAFolder
from tikhon.cli import main
from tikhon.data.rna import PRETRAINED
from tikhon.data.safefile import read_file, write_file
from tikhon.errors import FileFormatError, TikhonError
from tikhon.tuners import TUNERS

N_MODELS, N_CHECKPOINTS = 1400, 600

rng = np.random.default_rng(0)
X = rng.normal(size=(40, 4))
SCORE = X[:, 0] - X[:, 1] + 0.5 * rng.normal(size=40)
THREE = np.array(["low", "mid", "top"])[np.digitize(SCORE, [-0.7, 0.7])]
TOKENS = [[["w=a", "s=x"], ["w=b"], ["w=c", "s=x"]], [["w=b", "s=y"], ["w=a"]], [["w=c"], ["w=d", "s=y"]]] * 3
LABELS = [["B", "I", "O"], ["B", "O"], ["O", "B"]] * 3
RNA = ["GGGAAAUCCC", "CCAAAAGG", "GCGAAAGC"]
STRUCTURES = ["(((....)))", "((....))", "((....))"]
TWO_GROUPS = {"first": [0, 1], "second": [2, 3]}


def models():
    arrays = [np.eye(len(sequence), 4) for sequence in LABELS]
    yield "logistic", LogisticRegression(groups=TWO_GROUPS, tuner="mm").fit(X, SCORE > 0)
    yield "softmax", LogisticRegression(per_class=True, class_weight={"low": 1, "mid": 2, "top": 1}).fit(X, THREE)
    yield "ridge", Ridge(groups=TWO_GROUPS, tuner=TUNERS["direct"]()).fit(X, SCORE)
    yield "targets", Ridge(tuner="grid", cv=3).fit(X, np.column_stack([SCORE, X[:, 2]]))
    yield "chain", ChainCRF(tuner="mm", allowed="bio").fit(TOKENS, LABELS)
    yield "chain2", ChainCRF(tuner=None, order=2, all_pairs=True).fit(TOKENS, LABELS)
    yield "columns", ChainCRF(tuner=None, allowed=[("B", "I"), ("I", "O"), ("O", "B"), ("B", "O")]).fit(arrays, LABELS)
    yield "hidden", HiddenUnitCRF(n_hidden=3, tuner=None, order=2).fit(TOKENS, LABELS)
    yield "folder", RNAFolder(tuner=None, strengths=0.1, without=["dangle"]).fit(RNA, STRUCTURES)


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> dict[str, tuple]:
    """Header and arrays of a model file of each kind."""
    folder = tmp_path_factory.mktemp("models")
    found = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, model in models():
            if name == "chain":
                model.recipe_ = {"templates": [["w", [[0, 0]]], ["s", [[-1, 0]]]], "n_columns": 1, "spelling": False}
            model.save(folder / name)
            found[name] = read_file(folder / name, kind="model", max_version=1)
    found["pretrained"] = read_file(PRETRAINED, kind="model", max_version=1)
    return found


def check_predictions(model, kind: str) -> None:
    if isinstance(model, RNAFolder):
        for sequence, structure in zip(RNA[:2], model.predict(RNA[:2]), strict=True):
            assert len(structure) == len(sequence)
            assert structure.count("(") == structure.count(")")
            assert set(structure) <= set("().")
    elif isinstance(model, ChainCRF | HiddenUnitCRF):
        given = [np.eye(3, 4)] if kind == "columns" else TOKENS[:2]
        for sequence, labels in zip(given, model.predict(given), strict=True):
            assert len(labels) == len(sequence)
            assert set(labels) <= set(model.classes_.tolist())
        largest = np.abs(model.tuning_.weights).max(initial=1.0)
        for marginals in model.predict_marginals(given):
            assert np.isfinite(marginals).all()
            if largest < 1e6:  # beyond, differences of scores drown in their rounding
                np.testing.assert_allclose(marginals.sum(axis=1), 1.0, rtol=1e-9)
    else:
        predicted = model.predict(X)
        assert len(predicted) == len(X)
        if isinstance(model, Ridge):
            assert np.isfinite(predicted).all()
        else:
            assert set(predicted.tolist()) <= set(model.classes_.tolist())
            np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0, rtol=1e-9)
    model.tuning_.summary()


def check_loaded(path: Path, kind: str) -> None:
    model = tikhon.load(path)
    model.n_jobs = 1
    check_predictions(model, kind)


def refused(act: Callable[[], None], what: str) -> TikhonError | None:
    """The refusal, None where there is none; whatever else is raised is told with the file that it came from."""
    try:
        act()
    except TikhonError as error:
        return error
    except BaseException as error:
        raise AssertionError(what) from error
    return None


def names_field(error: TikhonError, path: object, field: str, file: tuple) -> bool:
    """Does a message name the field, or another of the file with which it no longer agrees?"""
    message = str(error).replace(str(path), "")
    parts = [part for part in field.split(".") if not part.isdecimal()]
    if "sums over its structures are out of the range" in message:  # which weights are too much depends on the molecule
        return "weights" in field
    needed = ("transitions.2", "features.text")  # of another order, of features with names
    others = [*file[0], *file[0].get("parameters", ()), *file[1], *needed]
    return any(name in message for name in [*parts, *others])


def test_forged_models_are_refused_by_name_or_predict(files, tmp_path):
    path = tmp_path / "forged"
    random = np.random.default_rng(1)
    kinds = list(files)
    n_refused = 0
    for number in range(N_MODELS):
        kind = kinds[number % len(kinds)]
        field, header, arrays = forged(random, *files[kind])
        write_file(path, kind="model", version=1, header=header, arrays=arrays)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            refusal = refused(lambda kind=kind: check_loaded(path, kind), f"file {number}: {kind}, {field}")
        if refusal is not None:
            n_refused += 1
            assert names_field(refusal, path, field, files[kind]), (number, kind, field, refusal)
    assert n_refused > N_MODELS // 2


def test_files_as_they_are_load_and_predict(files, tmp_path):
    for kind, (header, arrays) in files.items():
        write_file(tmp_path / kind, kind="model", version=1, header=header, arrays=arrays)
        check_predictions(tikhon.load(tmp_path / kind), kind)


# Checkpoints.


def tunings():
    ridge = {"cv": 3, "n_jobs": 1, "groups": TWO_GROUPS}
    for name in ("grid", "mm", "direct", "gradient", "loo", "evidence", "auto"):
        yield name, lambda path, name=name: Ridge(tuner=TUNERS[name](checkpoint=path), **ridge).fit(X, SCORE)
    for name in ("gradient", "loo", "mm", "grid"):
        yield (
            f"logistic {name}",
            lambda path, name=name: LogisticRegression(tuner=TUNERS[name](checkpoint=path), **ridge).fit(X, SCORE > 0),
        )
    pooled = TUNERS["gradient"]
    yield (
        "pooled",
        lambda path: LogisticRegression(tuner=pooled(pooling=0.5, checkpoint=path), **ridge).fit(X, SCORE > 0),
    )


def test_forged_checkpoints_are_refused_by_name_or_end_in_a_model(tmp_path, monkeypatch):
    """From the first, a middle and the last state of each tuning."""
    states = {}
    for name, fit in tunings():
        kept = []
        path = str(tmp_path / name.replace(" ", "-"))

        def keep(written, kept=kept, **content):
            write_file(written, **content)
            kept.append(read_file(written, kind="checkpoint", max_version=1))

        with monkeypatch.context() as patch, warnings.catch_warnings():
            patch.setattr("tikhon.tuners.journal.write_file", keep)
            warnings.simplefilter("ignore")
            fit(path)
        states[name] = (fit, path, [kept[0], kept[len(kept) // 2], kept[-1]])
    random = np.random.default_rng(2)
    names = list(states)
    n_refused = 0
    for number in range(N_CHECKPOINTS):
        name = names[number % len(names)]
        fit, path, kept = states[name]
        field, header, arrays = forged(random, *kept[number // len(names) % 3])
        write_file(path, kind="checkpoint", version=1, header=header, arrays=arrays)
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            warnings.simplefilter("ignore", UserWarning)
            refusal = refused(
                lambda fit=fit, path=path: check_predictions(fit(path), "linear"), f"file {number}: {name}, {field}"
            )
        if refusal is not None:
            n_refused += 1
            assert names_field(refusal, path, field, kept[0]), (number, name, field, refusal)
    assert n_refused > N_CHECKPOINTS // 2


# What the checks of today were missing.


@pytest.mark.parametrize(
    ("kind", "change", "said"),
    [
        ("softmax", lambda h, a: a.update(coef=a["coef"].T.copy()), "coef is of shape"),
        ("ridge", lambda h, a: h.update(n_features_in=5), "coef is of shape"),
        ("folder", lambda h, a: a.update({"tuning.weights": np.zeros(10)}), "tuning.weights is of shape (10,)"),
        ("folder", lambda h, a: h["parameters"].update(least_hairpin=-5), "parameters.least_hairpin is -5"),
        ("chain", lambda h, a: a.update({"pairs.labels": a["pairs.labels"][:, None]}), "pairs.labels is of shape"),
        ("chain", lambda h, a: a["pairs.features"].__setitem__(0, 10**6), "pairs.features[0] is 1000000"),
        ("chain", lambda h, a: a["features.ends"].__setitem__(0, 10**6), "features.ends[0] is 1000000"),
        ("chain", lambda h, a: h.update(n_dense_pairs=1), "n_dense_pairs is 1"),
        ("logistic", lambda h, a: a["groups.index"].__setitem__(0, 2), "groups.index[0] is 2"),
        ("logistic", lambda h, a: a["coef"].__setitem__((0, 1), np.nan), "coef[0, 1] is nan"),
        ("softmax", lambda h, a: h["classes"].update(dtype="<U999999999"), "classes.dtype is '<U999999999'"),
        ("ridge", lambda h, a: h["parameters"]["tuner"]["options"].update(memory="x"), "tuner.options.memory is 'x'"),
        ("targets", lambda h, a: h["tuning"]["trace"][0].update(seconds=[1]), "tuning.trace[0].seconds is [1]"),
    ],
)
def test_messages_name_file_field_value_and_what_was_expected(files, tmp_path, kind, change, said):
    header, arrays = copy.deepcopy(files[kind])
    change(header, arrays)
    write_file(tmp_path / "forged.model", kind="model", version=1, header=header, arrays=arrays)
    with pytest.raises(FileFormatError, match=r"forged\.model") as caught:
        tikhon.load(tmp_path / "forged.model")
    assert said in str(caught.value)
    assert "; expected " in str(caught.value)


# Through the command.


def code_of(capsys, *arguments: object) -> tuple[int, str]:
    """The exit code of a command, and what it says on stderr."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(SystemExit) as stop:
            main([str(argument) for argument in arguments])
    return int(stop.value.code or 0), capsys.readouterr().err


@pytest.fixture
def tables(tmp_path) -> dict[str, Path]:
    csv = tmp_path / "x.csv"
    csv.write_text("x0,x1,x2,x3\n" + "\n".join(",".join(map(str, row)) for row in X[:5].tolist()) + "\n")
    tokens = tmp_path / "tokens.txt"
    tokens.write_text("a\nb\n\nc\n")
    molecules = tmp_path / "rna.fa"
    molecules.write_text(">m\nGGGAAAUCCC\n")
    return {"csv": csv, "tokens": tokens, "rna": molecules}


def test_commands_refuse_forged_files_with_exit_code_2(files, tables, tmp_path, capsys):
    path = tmp_path / "forged.safetensors"
    random = np.random.default_rng(3)
    kinds = list(files)
    codes = []
    for number in range(180):
        kind = kinds[number % len(kinds)]
        field, header, arrays = forged(random, *files[kind])
        write_file(path, kind="model", version=1, header=header, arrays=arrays)
        command = ("predict", path, tables["csv"])
        if kind in ("chain", "chain2", "columns", "hidden"):
            command = ("tag", "predict", path, tables["tokens"], "--jobs", "1")
        elif kind in ("folder", "pretrained"):
            command = ("fold", "predict", tables["rna"], "-m", path, "--jobs", "1")
        for arguments in (command, ("inspect", path), ("inspect", path, "--json")):
            code, said = code_of(capsys, *arguments)
            assert code in (0, 2), (number, kind, field, said)
            assert "unexpected" not in said, (number, kind, field, said)
            codes.append(code)
    assert codes.count(2) > len(codes) // 3


def test_a_fit_refuses_to_go_on_from_a_forged_checkpoint(tables, tmp_path, capsys):
    train = tmp_path / "train.csv"
    rows = [",".join(map(str, [*row, label])) for row, label in zip(X.tolist(), THREE.tolist(), strict=True)]
    train.write_text("a,b,c,d,y\n" + "\n".join(rows) + "\n")
    checkpoint = tmp_path / "run.checkpoint"
    command = [
        "fit", str(train), "--target", "y", "--tuner", "gradient", "--model", str(tmp_path / "m.safetensors"), "--checkpoint",
        str(checkpoint), "--jobs", "1",
    ]  # fmt: skip

    assert code_of(capsys, *command)[0] == 0
    whole = tmp_path / "whole"
    shutil.copy(checkpoint, whole)
    state = read_file(whole, kind="checkpoint", max_version=1)
    random = np.random.default_rng(4)
    codes = []
    for number in range(40):
        field, header, arrays = forged(random, *state)
        write_file(checkpoint, kind="checkpoint", version=1, header=header, arrays=arrays)
        code, said = code_of(capsys, *command)
        assert code in (0, 2), (number, field, said)
        assert "unexpected" not in said, (number, field, said)
        codes.append(code)
    assert 2 in codes
