"""Files that commands write: none is an input or another output, and what goes wrong is told by the right name."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import tikhon
from tikhon.cli.console import claim_outputs
from tikhon.cli.folding import Plots
from tikhon.cli.molecules import Given
from tikhon.data.files import check_writable
from tikhon.data.rna import Record
from tikhon.errors import InputError

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(tikhon.__file__).parents[1])}
COMMAND = [sys.executable, "-c", "from tikhon.cli import main; main()"]


def test_outputs_are_compared_as_files_not_as_texts(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here").mkdir()
    for other in (tmp_path / "m", Path("here/../m")):  # before there is such a file
        with pytest.raises(InputError, match="given for two outputs"):
            claim_outputs([Path("m"), other], [])
    (tmp_path / "m").write_text("")
    os.link(tmp_path / "m", tmp_path / "linked")
    with pytest.raises(InputError, match="given for two outputs"):
        claim_outputs([Path("m"), Path("linked")], [])
    with pytest.raises(InputError, match="is also an input"):
        claim_outputs([Path("linked")], [Path("m")])
    claim_outputs([Path("m"), Path("n")], [Path("here")])


@pytest.mark.parametrize("command", ["predict", "fit"])
def test_no_file_of_a_directory_that_is_read_is_written(run, tmp_path, command):
    content = ">a\nGGGAAAUCCC\n(((....)))\n"
    (tmp_path / "a.fa").write_text(content)
    option = "-o" if command == "predict" else "-m"
    run("fold", command, tmp_path, option, tmp_path / "a.fa").assert_refused("a.fa", "is also an input")
    assert (tmp_path / "a.fa").read_text() == content


def test_every_drawing_has_a_file_of_its_own(tmp_path):
    names = ["x", "x-2", "x", "y" * 150 + "1", "y" * 150 + "2"]
    molecules = [Given("", Record(name, "", "A", None)) for name in names]
    paths = Plots("--plot", tmp_path / "o.svg", molecules).paths
    assert [path.name for path in paths[:3]] == ["o-x.svg", "o-x-2.svg", "o-x-3.svg"]
    assert len(set(paths)) == len(names)


@pytest.mark.skipif(os.name != "posix", reason="needs pipes that break")
def test_a_reader_that_has_gone_is_not_blamed_on_another_file(tmp_path):
    source = tmp_path / "many.fa"
    source.write_text("".join(f">{n}\n{'GGGAAAUCCC' * 8}\n" for n in range(300)))
    table = tmp_path / "pairs.tsv"
    arguments = [*COMMAND, "fold", "predict", str(source), "--probabilities", str(table)]
    with subprocess.Popen(arguments, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        said = process.stderr.read()
    assert process.returncode == 1
    assert said == b""
    assert list(tmp_path.iterdir()) == [source]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is full")
def test_a_full_stdout_is_named(tmp_path):
    source = tmp_path / "one.fa"
    source.write_text(">a\nGGGAAAUCCC\n")
    arguments = [*COMMAND, "fold", "predict", str(source), "--probabilities", str(tmp_path / "pairs.tsv")]
    with open("/dev/full", "wb") as full:
        done = subprocess.run(arguments, env=ENVIRONMENT, stdout=full, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 2
    assert done.stderr == b"tikhon: stdout: cannot be written (no space left on device)\n"
    assert list(tmp_path.iterdir()) == [source]


@pytest.mark.skipif(not Path("/dev/null").exists(), reason="needs a device")
def test_devices_need_no_folder_that_can_be_written(monkeypatch):
    allowed = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != Path("/dev") and allowed(path, mode))
    check_writable(Path("/dev/null"))
    with pytest.raises(InputError, match="permission denied"):
        check_writable(Path("/dev/new"))
