"""``tikhon fold``: from sequences to structures, from structures to a model, and to scores."""

import gzip
import io
import os
import subprocess
import sys
import tempfile
import time
from contextlib import redirect_stderr, redirect_stdout
from itertools import count, islice
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tikhon.cli.fitting
from tikhon import RNAFolder
from tikhon.cli import folding, main
from tikhon.data.dot_bracket import partners_of
from tikhon.data.rna import read_rna
from tikhon.models.folding.prediction import AHEAD, LONGEST_SEQUENCE, in_order

STRUCTURES = ["(((....)))", "((((..))))", "((....))", "(((....)))", "((..((...))..))", ".((....))."]
LEARNED = ["GGGAAAUCCC", "GCGCAAGCGC", "CCAAAAGG", "GGCUUCGGCC", "GGAACCAAAGGAACC", "ACGAAAACGA"]
SEQUENCES = ["GGGAAAACCC", "gcgcuuaaagcgc", "ACGTTTGCAACGT"]
NAMES = ["one", "two", "three"]
LIBRARIES = """
import numba, numpy, rich, safetensors.numpy, scipy.linalg, typer

@numba.njit(cache=True)
def total(x):
    return x.sum()

total(numpy.ones(3))
"""
MOST_OF_LIBRARIES = 1.7  # CPU time of folding a hundred letters


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model that was fitted once, and its files."""
    home = tmp_path_factory.mktemp("models")
    model = RNAFolder(tuner=None, strengths=0.1).fit(LEARNED, STRUCTURES)
    model.save(home / "rna.safetensors")
    model.save_parameters(home / "rna.params.gz")
    return SimpleNamespace(model=model, file=home / "rna.safetensors", parameters=home / "rna.params.gz")


@pytest.fixture
def fasta(tmp_path):
    return written(tmp_path / "some.fa", "".join(f">{n}\n{s}\n" for n, s in zip(NAMES, SEQUENCES, strict=True)))


@pytest.fixture
def known(tmp_path):
    lines = (f">m{n} of set\n{s}\n{t}\n" for n, (s, t) in enumerate(zip(LEARNED, STRUCTURES, strict=True)))
    return written(tmp_path / "known.dbn", "".join(lines))


def written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def said_by(outcome) -> list[str]:
    assert outcome.code == 0, outcome.err
    return outcome.out.split()[2::3]


# Predictions.


@pytest.mark.parametrize("method", ["mea", "centroid", "viterbi"])
@pytest.mark.parametrize("gamma", [0.5, 6.0])
def test_predictions_are_those_of_python(run, folder, fasta, method, gamma):
    expected = folder.model.predict(SEQUENCES, method=method, gamma=gamma)
    for model in (folder.file, folder.parameters):
        out = run("fold", "predict", fasta, "--model", model, "--method", method, "--gamma", gamma, "--jobs", 2)
        assert out.out == "".join(f">{n}\n{s}\n{t}\n" for n, s, t in zip(NAMES, SEQUENCES, expected, strict=True))
        assert out.err == ""


def test_samples_are_those_of_python(run, folder, fasta):
    arguments = ("fold", "predict", fasta, "-m", folder.file, "--method", "sample", "--samples", 4, "--seed", 7)
    expected = folder.model.sample(SEQUENCES, 4, random_state=7)
    found = [line for line in run(*arguments).out.splitlines() if "." in line]
    assert found == [structure for each in expected for structure in each]
    assert ">two sample 3\n" in run(*arguments, "--jobs", 1).out
    assert "13 two sample 3\n" in run(*arguments, "--format", "ct").out
    assert run(*arguments[:7]).out.count("sample 1") == 3


def test_every_format_is_read_again(run, folder, fasta, tmp_path):
    expected = said_by(run("fold", "predict", fasta, "-m", folder.file))
    for number, kind in enumerate(("dot-bracket", "bpseq", "ct")):
        path = tmp_path / f"out{number}.gz"
        done = run("fold", "predict", fasta, "-m", folder.file, "--format", kind, "-o", path)
        assert done.out == f"3 structures of 3 sequences: {path}\n"
        records = read_rna(path)
        assert [one.structure for one in records] == expected
        assert [one.name for one in records] == NAMES
        assert [one.sequence for one in records] == SEQUENCES
        assert said_by(run("fold", "predict", path, "-m", folder.file)) == expected


@pytest.mark.parametrize("zipped", [False, True])
def test_stdin_and_plain_lines(run, folder, fasta, monkeypatch, zipped):
    content = "\n".join(SEQUENCES).encode()
    content = gzip.compress(content) if zipped else content
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    out = run("fold", "predict", "-", "-m", folder.file)
    assert out.out.startswith(">sequence_1\nGGGAAAACCC\n")
    assert said_by(out) == said_by(run("fold", "predict", fasta, "-m", folder.file))


def test_probabilities_are_those_of_python(run, folder, fasta, tmp_path):
    path = tmp_path / "pairs.tsv"
    run("fold", "predict", fasta, "-m", folder.file, "--probabilities", path, "--method", "viterbi")
    header, *rows = (line.split("\t") for line in path.read_text().splitlines())
    assert header == ["name", "i", "j", "probability"]
    found = {(name, int(i) - 1, int(j) - 1): float(p) for name, i, j, p in rows}
    for name, pairs in zip(NAMES, folder.model.predict_pairs(SEQUENCES), strict=True):
        dense = pairs.toarray()
        for i, j in zip(*np.nonzero(dense >= folding.LEAST_PROBABILITY), strict=True):
            assert found.pop((name, i, j)) == pytest.approx(dense[i, j], rel=1e-5)
    assert found == {}
    only = run("fold", "predict", fasta, "-m", folder.file, "--probabilities", "-", "-o", tmp_path / "o")
    assert only.out == path.read_text()
    run("fold", "predict", fasta, "-m", folder.file, "--probabilities", "-").assert_refused("--output")


def test_constraints_by_name_and_in_order(run, folder, fasta, tmp_path):
    free = said_by(run("fold", "predict", fasta, "-m", folder.file))
    wanted = ["..........", "?????????????", "(????|??????)"]
    expected = folder.model.predict(SEQUENCES, constraints=wanted)
    assert expected != free
    lines = written(tmp_path / "lines", "\n".join(wanted))
    named = written(
        tmp_path / "named", f">three\n{wanted[2]}\n>one again\n{SEQUENCES[0].lower()}\n{wanted[0]}\n"
    )  # nothing is known of two
    for path in (lines, named):
        assert said_by(run("fold", "predict", fasta, "-m", folder.file, "--constraints", path)) == expected
    # What was predicted is a constraint that nothing else agrees with.
    out = written(tmp_path / "out", run("fold", "predict", fasta, "-m", folder.file).out)
    assert (
        said_by(run("fold", "predict", fasta, "-m", folder.file, "--constraints", out, "--method", "viterbi")) == free
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("..........\n", ("bad: has 1 structures", "more sequences")),
        ("..........\n" * 3, ("bad, line 2", "10 characters", "13 letters")),
        ("?\n" * 4, ("bad, line 1", "1 characters")),
        (">four\n....\n", ("bad, line 1: four", "no sequence")),
        (">one\nGGGAAAACCA\n..........\n", ("bad, line 1: one has another sequence",)),
        (">one\n..........\n>one\n..........\n", ("line 3: one occurs twice",)),
        (">one\nGGGAAAACCC\n", ("one has no structure",)),
        (">one\n((......).\n", ("bad, line 1: one", "'(' at position 1 without a closing bracket")),
        (">one\n[[......].\n", ("bad, line 1: one", "'[' at position 1 without a closing bracket")),
        (">one\n(......).x\n", ("bad, line 1: one", "'x'")),
        (">one\n....|.....\n", ("bad, line 1: one says that A at 5 pairs", "write '?'")),
        (">one\n...(..)...\n", ("bad, line 1: one pairs A at 4 with A at 7", "write '?'")),
    ],
)  # fmt: skip
def test_constraints_that_contradict_are_refused(run, folder, fasta, tmp_path, monkeypatch, text, said):
    monkeypatch.chdir(tmp_path)
    written(Path("bad"), text)
    run("fold", "predict", fasta, "-m", folder.file, "--constraints", "bad").assert_refused(*said)


def test_constraints_that_no_structure_agrees_with(run, folder, tmp_path):
    n = 40  # a loop with more unpaired letters than the model knows
    sequence = written(tmp_path / "long.fa", f">long\nGG{'A' * n}CAC\n")
    constraint = written(tmp_path / "c", f"(({'.' * n}).)\n")
    assert run("fold", "predict", sequence, "-m", folder.file, "--constraints", constraint).code == 0
    constraint = written(tmp_path / "c", f"({'.' * (n // 2)}({'.' * (n // 2 - 1)}){'.' * 12})\n")
    sequence = written(tmp_path / "long.fa", f">long\nG{'A' * (n // 2)}G{'A' * (n // 2 - 1)}C{'A' * 12}C\n")
    refused = run("fold", "predict", sequence, "-m", folder.file, "--constraints", constraint)
    refused.assert_refused("long.fa, line 1: long: no structure agrees with", "c, line 1")
    near = written(tmp_path / "near.fa", ">near\nGAC\n")
    constraint = written(tmp_path / "c", "(.)\n")
    assert said_by(run("fold", "predict", near, "-m", folder.file, "--constraints", constraint)) == ["(.)"]
    refused = run("fold", "predict", near, "-m", folder.file, "--constraints", constraint, "--least-hairpin", 3)
    refused.assert_refused("pairs G at 1 with C at 3")


def test_without_a_model_it_is_that_of_the_package(run, fasta, known):
    assert said_by(run("fold", "predict", fasta)) == RNAFolder.pretrained().predict(SEQUENCES)
    assert run("fold", "eval", known, "--json").json["model"] == "packaged"


# Drawings.


def test_drawings_of_one_and_of_several(run, folder, fasta, tmp_path):
    one = written(tmp_path / "one.fa", f">a/b\n{SEQUENCES[0]}\n")
    done = run(
        "fold", "predict", one, "-m", folder.file, "--plot", tmp_path / "s.svg", "--dot-plot", tmp_path / "d.svg"
    )
    assert len(said_by(done)) == 1
    for name in ("s.svg", "d.svg"):
        assert ElementTree.parse(tmp_path / name).getroot().tag.endswith("svg")
    fasta.write_text(fasta.read_text() + f">a/b\n{SEQUENCES[0]}\n" * 2)
    assert run("fold", "predict", fasta, "-m", folder.file, "--plot", tmp_path / "p.svg").code == 0
    found = sorted(path.name for path in tmp_path.glob("p*.svg"))
    assert found == ["p-a_b-2.svg", "p-a_b.svg", "p-one.svg", "p-three.svg", "p-two.svg"]
    assert "two" in (tmp_path / "p-two.svg").read_text()


def test_drawings_that_are_refused(run, folder, fasta, tmp_path):
    many = written(tmp_path / "many.fa", f">a\n{SEQUENCES[0]}\n" * (folding.MOST_PLOTS + 1))
    run("fold", "predict", many, "-m", folder.file, "--plot", tmp_path / "p.svg").assert_refused("more than 100")
    run("fold", "predict", fasta, "-m", folder.file, "--plot", tmp_path / "p.png").assert_refused("--plot", ".svg")
    same = ("--plot", tmp_path / "p.svg", "--dot-plot", tmp_path / "p.svg")
    run("fold", "predict", fasta, "-m", folder.file, *same).assert_refused("two outputs")
    assert list(tmp_path.glob("*.svg")) == []


# Bad input.


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b">a\nACGU\n>b\nGGA\nAJC\n", ("bad.fa, line 5: b has 'J' at position 5", "write A, C, G, U")),
        (b"ACGU\nAC-GU\n", ("bad.fa, line 2: sequence 2 has '-' at position 3",)),
        (b">a\n>b\nACGU\n", ("bad.fa, line 1: a has no sequence", "leave it out")),
        (b">a\n", ("bad.fa, line 1: a has no sequence",)),
        (b"", ("bad.fa: holds no sequences",)),
        (b"\n \n", ("bad.fa: holds no sequences",)),
        (b">a\nACGU\n(.)\n", ("bad.fa, line 1: a has 4 letters, but its structure has 3",)),
        (b">a\nACGU\n(..)\nAC\n", ("bad.fa, line 4: a continues after its structure",)),
        (b">a\nAC\xffU\n", ("bad.fa, line 2: is not UTF-8 text", "0xff")),
        (b"\x00\x01\x02", ("bad.fa, line 1: sequence 1 has '\\x00' at position 1",)),
        (b"1 G 2\n2 C 3\n3 C 2\n", ("bad.fa, line 1: letter 1 has the partner 2, but letter 2",)),
        (gzip.compress(b">a\nACGU\n" * 500, mtime=0)[:-9], ("bad.fa: the gzip file is truncated",)),
        (b"....\n", ("bad.fa, line 1: sequence 1 has no sequence",)),
    ],
)
def test_bad_files_are_refused_in_one_line(run, folder, tmp_path, content, said):
    path = tmp_path / "bad.fa"
    path.write_bytes(content)
    run("fold", "predict", path, "-m", folder.file).assert_refused(*said)
    run("fold", "eval", path, "-m", folder.file).assert_refused("bad.fa")
    run("fold", "fit", path, "-m", tmp_path / "m").assert_refused("bad.fa")
    assert not (tmp_path / "m").exists()


def test_other_mistakes_are_refused(run, folder, fasta, known, tmp_path):
    run("fold", "predict", tmp_path / "none", "-m", folder.file).assert_refused("no such file")
    run("fold", "predict", fasta, "-m", tmp_path / "none").assert_refused("no such file")
    run("fold", "predict", fasta, "-m", tmp_path).assert_refused("is a directory")
    run("fold", "predict", fasta, "-m", fasta).assert_refused("some.fa, line 1", "a name and a value")
    few = written(tmp_path / "few.params", "base_pair_AU 1\n")
    run("fold", "predict", fasta, "-m", few).assert_refused("few.params: lacks weight", "707 in total")
    run("fold", "predict", fasta, "-m", folder.file, "--gamma", 0).assert_refused("--gamma 0.0")
    run("fold", "predict", fasta, "-m", folder.file, "--samples", 2).assert_refused("--method sample")
    run("fold", "predict", fasta, "-m", folder.file, "-o", fasta).assert_refused("is also an input")
    run("fold", "predict", fasta, "-m", folder.file, "-o", tmp_path / "no" / "o").assert_refused("no directory")
    run("fold", "predict", fasta, "-m", folder.file, "--constraints", "-").assert_refused("stdin is for sequences")
    run("fold", "eval", fasta, "-m", folder.file).assert_refused("some.fa, line 1: one has no structure")
    run("fold", "fit", fasta, "-m", tmp_path / "m").assert_refused("some.fa, line 1: one has no structure")
    run("fold", "fit", known, "-m", known).assert_refused("is also an input")
    run("fold", "fit", known, "-m", tmp_path / "m", "--export-parameters", tmp_path / "m").assert_refused("two outputs")
    run("fold", "fit", known, "-m", tmp_path / "m", "--cv", 2, "--validation-fraction", 0.5).assert_refused("give one")
    run("fold", "fit", known, "-m", tmp_path / "m", "--tuner", "none", "--strength", "x=1").assert_refused("'x'")
    run("fold", "fit", known, "-m", tmp_path / "m", "--tuner", "evidence").assert_refused("'evidence'", "'mm'")
    (tmp_path / "empty").mkdir()
    run("fold", "fit", tmp_path / "empty", "-m", tmp_path / "m").assert_refused("no file in this directory", ".bpseq")
    tikhon.Ridge(tuner=None).fit(np.eye(3), [1.0, 2.0, 3.0]).save(tmp_path / "ridge")
    run("fold", "predict", fasta, "-m", tmp_path / "ridge").assert_refused("is a Ridge model")
    run("fold", "prdict").assert_refused("tikhon fold --help")
    run("fold", "eval").assert_refused("tikhon fold eval --help")
    assert not (tmp_path / "m").exists()


def test_a_long_sequence_is_refused_before_any_work(run, folder, fasta, tmp_path):
    path = written(tmp_path / "long.fa", f">short\nACGU\n>long\n{'ACGU' * 5000}\n")
    refused = run("fold", "predict", path, "-m", folder.file)
    refused.assert_refused("long.fa, line 3: long has more than 6,000 letters", "--longest 6000 is the limit", "2.7 GB")
    run("fold", "predict", fasta, "-m", folder.file, "--longest", 12).assert_refused(
        "two has more than 12 letters", "--longest 12"
    )
    assert len(said_by(run("fold", "predict", fasta, "-m", folder.file, "--longest", 13))) == 3


def test_a_full_disk_leaves_no_file(run, folder, fasta, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    out = written(tmp_path / "out", "before")
    monkeypatch.setattr(os, "fsync", full)
    refused = run("fold", "predict", fasta, "-m", folder.file, "-o", out, "--probabilities", tmp_path / "p")
    refused.assert_refused("no space left on device")
    assert out.read_text() == "before"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "some.fa"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is full")
def test_a_full_device_is_named(run, folder, fasta):
    run("fold", "predict", fasta, "-m", folder.file, "-o", "/dev/full").assert_refused("/dev/full", "no space left")
    run("fold", "predict", "/dev/full", "-m", folder.file).assert_refused("/dev/full: is not a file; write - to read")


def test_letters_that_are_not_known_are_counted_once(run, folder, tmp_path):
    path = written(tmp_path / "n.fa", ">a\nGGGNAAXCCC\n>b\nNNNN\n")
    out = run("fold", "predict", path, "-m", folder.file)
    assert out.code == 0
    assert out.err == (
        "tikhon: warning: letters other than A, C, G and U: 6; they pair with nothing and have score 0\n"
    )


GOOD_LINES = st.sampled_from(
    [">a", "ACGU", "(..)", "1 A 0", "2 C 1", "4 x", "1 A 0 2 4 1", "2 C 1 3 0 2", "", "#Name: a"]
)
HOSTILE = st.lists(GOOD_LINES | st.text(max_size=6), max_size=6).map(lambda lines: "\n".join(lines).encode())


@pytest.mark.slow
@given(content=st.binary(max_size=60) | HOSTILE)
@settings(max_examples=150, deadline=None)
def test_no_bytes_give_a_traceback(folder, content):
    with tempfile.TemporaryDirectory() as home:
        path, err, out = Path(home) / "in", io.StringIO(), io.TextIOWrapper(io.BytesIO())
        path.write_bytes(content)
        arguments = ["fold", "predict", str(path), "-m", str(folder.file), "--constraints", str(path)]
        with redirect_stderr(err), redirect_stdout(out), pytest.raises(SystemExit) as stop:
            main(arguments if len(content) % 2 else arguments[:-2])
        if stop.value.code:
            assert stop.value.code == 2, err.getvalue()
            assert err.getvalue().startswith("tikhon: ")
            assert err.getvalue().count("\n") == 1
        assert os.listdir(home) == ["in"]


def test_control_c_says_what_was_printed(run, folder, fasta, monkeypatch, tmp_path):
    real, number = folding.fold, count()

    def interrupted(*arguments):
        if next(number) == 1:
            raise KeyboardInterrupt
        return real(*arguments)

    monkeypatch.setattr(folding, "fold", interrupted)
    outcome = run("fold", "predict", fasta, "-m", folder.file, "--jobs", 1)
    assert outcome.code == 130
    assert "the structures of 1 sequences were printed" in outcome.err
    assert outcome.out.startswith(">one\n")
    number = count()
    outcome = run("fold", "predict", fasta, "-m", folder.file, "--jobs", 1, "-o", tmp_path / "out")
    assert outcome.err == "tikhon: interrupted; no structures were written\n"
    assert not (tmp_path / "out").exists()


def test_few_molecules_are_under_way_at_a_time():
    asked = 0

    def jobs():
        nonlocal asked
        for number in count():
            asked += 1
            yield number

    def slow(number):
        time.sleep(0.001)
        return number

    done = in_order(slow, jobs(), 2)
    assert list(islice(done, 50)) == list(range(50))
    assert asked <= 50 + 2 * AHEAD
    done.close()


# Fitting and scores.


@pytest.mark.slow
def test_fit_learns_a_strength_for_each_kind(run, known, tmp_path):
    model, parameters = tmp_path / "m.safetensors", tmp_path / "m.params"
    out = run("fold", "fit", known, "-m", model, "--tuner", "mm", "--export-parameters", parameters, "--json").json
    assert (out["molecules"], out["letters"]) == (6, sum(map(len, LEARNED)))
    assert len(out["groups"]) == 15
    loaded = tikhon.load(model)
    expected = RNAFolder(tuner="mm", random_state=0).fit(LEARNED, STRUCTURES)
    assert loaded.strengths_ == expected.strengths_
    assert RNAFolder.from_parameters(parameters).weights_ == expected.weights_
    text = run("fold", "fit", known, "-m", model, "--groups", "none", "--tuner", "none", "--strength", 1, "--longest-loop", 4,
               "--least-hairpin", 2, "--all-pairs", "--longest", 100, "--jobs", 1).out  # fmt: skip
    assert "6 molecules, 63 letters, 708 weights" in text
    loaded = tikhon.load(model)
    assert (loaded.longest_loop, loaded.least_hairpin, loaded.all_pairs, loaded.longest_sequence) == (4, 2, True, 100)
    assert folding.read_folder(model, longest=None).rules == loaded._rules()
    assert folding.read_folder(model, longest=None).longest == 100
    one = run("fold", "fit", known, "-m", model, "--strength", "base_pair=2", "--cv", 2, "--seed", 3, "--json").json
    assert [row["strength"] for row in one["groups"] if not row["learned"]] == [2.0]
    held_out = run("fold", "fit", known, "-m", model, "--validation-fraction", 0.5, "--groups", "none", "--json")
    assert held_out.code == 0


def test_a_directory_of_tables_is_what_a_file_is(run, folder, known, tmp_path):
    tables = tmp_path / "tables"
    tables.mkdir()
    for n, (sequence, structure) in enumerate(zip(LEARNED, STRUCTURES, strict=True)):
        partners = partners_of(structure).tolist()
        rows = "".join(f"{i} {a} {j}\n" for i, (a, j) in enumerate(zip(sequence, partners, strict=True), 1))
        written(tables / f"m{n}.bpseq", rows)
    written(tables / "README.txt", "not a table")
    results = []
    for source in (known, tables):
        path = tmp_path / f"{source.name}.model"
        assert run("fold", "fit", source, "-m", path, "--tuner", "none").code == 0
        results.append(tikhon.load(path).weights_)
        results.append(run("fold", "eval", source, "-m", folder.file).out)
    assert results[:2] == results[2:]


def test_molecules_that_are_left_out_are_named(run, tmp_path):
    knot = ">knot\nGGGAAACCCAAA\n(([...))]...\n"
    near = ">near\nGC\n()\n"
    path = written(tmp_path / "k.dbn", f">good\nGGGAAACCC\n(((...)))\n{near}{knot}")
    out = run("fold", "fit", path, "-m", tmp_path / "m", "--tuner", "none", "--least-hairpin", 3)
    assert out.code == 0
    assert "1 of 3 structures cannot be used for training and are left out: near (letters 1 and 2" in out.err
    assert "brackets other than ( and ): 1; pseudoknots are read as unpaired" in out.err
    scored = run("fold", "eval", path, "-m", tmp_path / "m", "--json")
    assert scored.json["with_log_loss"] == 2
    assert scored.err == "tikhon: warning: pairs in brackets other than ( and ): 1; pseudoknots are read as unpaired\n"


def test_scores_are_what_their_definitions_say(run, folder, tmp_path):
    truth = ["(((....)))", ".............", "((.........))"]
    path = written(
        tmp_path / "t.dbn", "".join(f">{n}\n{s}\n{t}\n" for n, s, t in zip(NAMES, SEQUENCES, truth, strict=True))
    )
    pairs = [{(i, int(j)) for i, j in enumerate(partners_of(one), 1) if j > i} for one in truth]
    for method in ("mea", "viterbi", "centroid"):
        guesses = folder.model.predict(SEQUENCES, method=method, gamma=4.0)
        rows = []
        for known, guess in zip(pairs, guesses, strict=True):
            found = {(i, int(j)) for i, j in enumerate(partners_of(guess), 1) if j > i}
            right = len(known & found)
            rows.append((
                right / len(known) if known else 1.0, right / len(found) if found else 1.0,
                2 * right / (len(known) + len(found)) if known or found else 1.0,
            ))  # fmt: skip
        out = run("fold", "eval", path, "-m", folder.file, "--method", method, "--gamma", 4, "--jobs", 2, "--json").json
        np.testing.assert_allclose([out["sensitivity"], out["ppv"], out["f1"]], np.mean(rows, axis=0))
        assert out["log_loss"] == pytest.approx(-folder.model.log_likelihood(SEQUENCES, truth) / 3)
        assert (out["molecules"], out["letters"], out["with_log_loss"]) == (3, 36, 3)
    text = run("fold", "eval", path, "-m", folder.parameters).out
    assert "3 molecules, 36 letters" in text
    assert "log loss" in text


def test_an_interrupt_keeps_the_best_and_the_same_command_goes_on(run, known, tmp_path, monkeypatch):
    def interrupting(*_):
        def show(step):
            if step.number == 2:
                raise KeyboardInterrupt

        return show

    steps, out = tmp_path / "steps", tmp_path / "m"
    arguments = ("fold", "fit", known, "-m", out, "--tuner", "mm", "--checkpoint", steps)
    with monkeypatch.context() as patch:
        patch.setattr(tikhon.cli.fitting, "show_step", interrupting)
        outcome = run(*arguments)
    assert outcome.code == 130
    assert "the best so far is in" in outcome.err
    assert f"resumes from {steps}" in outcome.err
    assert tikhon.load(out).tuning_.status == "interrupted"
    assert run(*arguments).code == 0
    assert run("fold", "fit", known, "-m", tmp_path / "whole", "--tuner", "mm").code == 0
    assert tikhon.load(out).strengths_ == tikhon.load(tmp_path / "whole").strengths_


# Start-up.


def test_what_is_copied_from_the_estimators_is_the_same():
    assert RNAFolder().longest_sequence == LONGEST_SEQUENCE == 6000
    assert folding.Rules() == RNAFolder()._rules()


def in_new_process(*arguments: object) -> tuple[str, float]:
    """What Python prints with these arguments, and its CPU seconds."""
    import resource

    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {**os.environ, "PYTHONPATH": str(Path(tikhon.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, *map(str, arguments)],
        env=environment, capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.stderr == ""
    return done.stdout, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="needs the times of child processes")
def test_a_hundred_letters_take_little_more_than_the_libraries(tmp_path):
    """0.93 to 1.1 seconds of CPU time where the libraries take 0.7 to 0.85 to be imported and to call a function that
    numba has compiled before: what every command with compiled code takes, and its share differs between versions of numba.
    """
    sequence = "".join(np.random.default_rng(0).choice(list("ACGU"), 100))
    path = written(tmp_path / "hundred.fa", f">hundred\n{sequence}\n")
    command = ("-c", "from tikhon.cli import main; main()", "fold", "predict", path)
    libraries = written(tmp_path / "libraries.py", LIBRARIES)
    for arguments in (command, (libraries,)):
        in_new_process(*arguments)  # compiles, if this machine has not yet
    pairs = [(in_new_process(*command), in_new_process(libraries)) for _ in range(5)]
    assert len({printed for (printed, _), _ in pairs}) == 1
    # The least of five: other work on the machine slows both.
    assert min(ours for (_, ours), _ in pairs) < MOST_OF_LIBRARIES * min(theirs for _, (_, theirs) in pairs)


def test_folding_does_not_import_scikit_learn(folder, fasta):
    code = (
        "import sys\nfrom tikhon.cli import main\ntry: main(sys.argv[1:])\nexcept SystemExit: pass\n"
        "heavy = {'sklearn', 'pandas', 'matplotlib', 'scipy.stats', 'rich.progress'} & set(sys.modules)\n"
        "raise SystemExit(str(heavy) if heavy else 0)"
    )
    arguments = ["fold", "predict", str(fasta), "--model", str(folder.file)]
    subprocess.run([sys.executable, "-c", code, *arguments], check=True, capture_output=True)
