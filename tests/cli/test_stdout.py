"""A stdout that is full, closed or no longer read: a message that names it, and an exit code that scripts can act on."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import tikhon

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(tikhon.__file__).parents[1])}
COMMAND = [sys.executable, "-m", "tikhon"]
posix = pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")


def commands(model: Path, train: Path) -> list[list[str]]:
    return [
        ["predict", str(model), str(train)],
        ["predict", str(model), str(train), "--json"],
        ["inspect", str(model)],
        ["inspect", str(model), "--json"],
        ["--help"],
        ["bench"],
    ]


@posix
@pytest.mark.slow
@pytest.mark.parametrize("number", range(6))
def test_stdout_is_named_if_it_cannot_be_written(model, train, number):
    command = [*COMMAND, *commands(model, train)[number]]
    with open("/dev/full", "wb") as full:
        done = subprocess.run(command, env=ENVIRONMENT, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "tikhon: stdout: cannot be written (no space left on device)\n")
    closed = subprocess.run(
        ["/bin/sh", "-c", '"$@" >&-', "sh", *command], env=ENVIRONMENT, stderr=subprocess.PIPE, text=True, check=False
    )
    assert (closed.returncode, closed.stderr) == (2, "tikhon: stdout: cannot be written (it is closed)\n")


@posix
@pytest.mark.slow
def test_a_fit_whose_report_cannot_be_printed_has_written_its_model(train, tmp_path):
    path = tmp_path / "m.safetensors"
    arguments = [*COMMAND, "fit", str(train), "--target", "label", "--tuner", "none", "--model", str(path)]
    with open("/dev/full", "wb") as full:
        done = subprocess.run(arguments, env=ENVIRONMENT, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2
    assert tikhon.load(path).strengths_ == {"all": 1.0}
