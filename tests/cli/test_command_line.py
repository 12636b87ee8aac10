"""The command as a whole: help, versions, exit codes, runs of experiments, hostile files."""

import io
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tikhon
from tikhon.cli import main
from tikhon.cli.console import complain

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(tikhon.__file__).parents[1])}


def test_help_and_version(run):
    assert run("--version").out == f"tikhon {tikhon.__version__}\n"
    for command in ("fit", "predict", "inspect", "demo", "reproduce", "bench"):
        assert command in run("--help").out
        assert run(command, "--help").code == 0
    assert run().out == run("--help").out


def test_help_and_version_do_not_load_the_numerics():
    code = (
        "import sys\nfrom tikhon.cli import main\ntry: main(sys.argv[1:])\nexcept SystemExit: pass\n"
        "heavy = {'numpy', 'scipy', 'sklearn', 'matplotlib', 'safetensors'} & set(sys.modules)\n"
        "raise SystemExit(str(heavy) if heavy else 0)"
    )
    for argument in ("--version", "--help"):
        subprocess.run([sys.executable, "-c", code, argument], env=ENVIRONMENT, check=True, capture_output=True)


def test_mistakes_in_the_command_line_are_one_line(run):
    run("fti").assert_refused("fti")
    run("predict").assert_refused("tikhon predict --help")
    run("--wrong").assert_refused("--wrong")


def test_one_line_whatever_the_message(capsys):
    complain("two\nlines \x1b[31m and a bell \a")
    assert capsys.readouterr().err == "tikhon: two lines �[31m and a bell �\n"


def test_unexpected_errors_are_one_line_too(run, train, tmp_path, monkeypatch):
    def fail(*_, **__):
        raise ZeroDivisionError("inside")

    monkeypatch.setattr(tikhon.LogisticRegression, "fit", fail)
    outcome = run("fit", train, "--target", "label", "--model", tmp_path / "m")
    assert outcome.code == 1
    assert outcome.err == "tikhon: unexpected ZeroDivisionError: inside (set TIKHON_TRACEBACK=1 to see where)\n"
    monkeypatch.setenv("TIKHON_TRACEBACK", "1")
    assert "Traceback" in run("fit", train, "--target", "label", "--model", tmp_path / "m").err


class CountingRun:
    summary = "counts to three"

    def run(self, data, out, *, quick, jobs, progress, folds=None):
        progress.start(3, "counting")
        for number in range(3):
            progress.advance(1, f"number {number}")
        if quick and jobs == 2:
            raise KeyboardInterrupt
        return {"data": None if data is None else str(data), "out": str(out), "quick": quick, "jobs": jobs}


@pytest.mark.parametrize(("command", "home"), [("reproduce", "tikhon.experiments"), ("bench", "tikhon.bench")])
def test_runs_are_listed_and_run(run, tmp_path, monkeypatch, command, home):
    runs = {"count": CountingRun()}
    monkeypatch.setitem(sys.modules, home, SimpleNamespace(EXPERIMENTS=runs, BENCHES=runs))
    monkeypatch.delenv("TIKHON_DATA", raising=False)
    assert run(command).out == "count  counts to three\n"
    told = run(command, "count", "--out", tmp_path, "--quick", "--json").json
    assert told == {"data": None, "out": str(tmp_path), "quick": True, "jobs": 1}
    monkeypatch.setenv("TIKHON_DATA", str(tmp_path))
    assert run(command, "count", "--json").json["data"] == str(tmp_path)
    run(command, "sum").assert_refused("'sum'", "count")
    run(command, "count", "--data", tmp_path / "none").assert_refused("no such directory")


def test_an_interrupted_run_says_how_to_go_on(run, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tikhon.experiments", SimpleNamespace(EXPERIMENTS={"count": CountingRun()}))
    monkeypatch.delenv("TIKHON_DATA", raising=False)
    outcome = run("reproduce", "count", "--out", tmp_path, "--quick", "--jobs", 2)
    assert outcome.code == 130
    assert (
        outcome.err == f"tikhon: interrupted; finished results are in {tmp_path}; the same command resumes from there\n"
    )


def test_demo_prints_its_rows_and_page(run, tmp_path, monkeypatch):
    def demo(out, *, progress):
        progress("half way")
        return SimpleNamespace(page=out / "index.html", rows=[{"tuner": "mm", "loss": 0.25}], seconds=1.5)

    monkeypatch.setitem(sys.modules, "tikhon.report.demo", SimpleNamespace(run=demo))
    outcome = run("demo", "--out", tmp_path)
    assert outcome.code == 0
    assert "0.25" in outcome.out
    assert str(tmp_path / "index.html") in outcome.out
    assert run("demo", "--out", tmp_path, "--json").json["rows"] == [{"tuner": "mm", "loss": 0.25}]


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="needs POSIX signals")
def test_control_c_ends_with_130_and_keeps_what_was_found(tmp_path):
    data, model, steps = tmp_path / "slow.csv", tmp_path / "model", tmp_path / "steps"
    values = np.random.default_rng(0).normal(size=(30_000, 4)).round(3)
    labels = (values.sum(axis=1) > 0).astype(int)
    rows = (f"{a},{b},{c},{d},{label}\n" for (a, b, c, d), label in zip(values.tolist(), labels, strict=True))
    data.write_text("a,b,c,d,y\n" + "".join(rows))
    arguments = ["fit", data, "-t", "y", "--tuner", "grid", "--cv", 10, "--model", model, "--checkpoint", steps]
    process = subprocess.Popen(
        [sys.executable, "-m", "tikhon.cli", *map(str, arguments)],
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell's background jobs ignore it
    )
    try:
        deadline = time.monotonic() + 60
        while not steps.exists() and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 130, err
    assert err.splitlines()[-1].startswith("tikhon: interrupted; the best so far is in ")
    assert f"resumes from {steps}" in err
    assert tikhon.load(model).tuning_.status == "interrupted"


GOOD_CELLS = st.sampled_from(["1", "2.5", "-3e4", "0", '"7"'])
BAD_CELLS = st.sampled_from(["x", "", "nan", '"a"', '"', '"1', "1_0", "é", "\x00", " ", "1e400"])
ROWS = st.lists(GOOD_CELLS, min_size=3, max_size=3) | st.lists(GOOD_CELLS | BAD_CELLS, max_size=4)
LINES = st.lists(ROWS.map(",".join), max_size=6).map("\n".join)
CSV_LIKE = LINES.map(lambda body: ("a,b,y\n" + body).encode())


@pytest.mark.slow
@given(content=st.binary(max_size=200) | CSV_LIKE | st.text(max_size=100).map(str.encode))
@settings(max_examples=150, deadline=None)
def test_no_bytes_give_a_traceback(content):
    with tempfile.TemporaryDirectory() as folder:
        data, model = Path(folder) / "train.csv", Path(folder) / "model"
        data.write_bytes(content)
        err = io.StringIO()
        arguments = ["fit", str(data), "--target", "y", "--tuner", "none", "--model", str(model)]
        with redirect_stderr(err), redirect_stdout(io.StringIO()), pytest.raises(SystemExit) as stop:
            main(arguments)
        if stop.value.code == 0:
            assert model.exists()
        else:
            assert stop.value.code == 2, err.getvalue()
            assert err.getvalue().startswith("tikhon: ")
            assert err.getvalue().count("\n") == 1
            assert os.listdir(folder) == ["train.csv"]
