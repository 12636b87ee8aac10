"""Journals: repaired after a kill, refused when damaged, shared with other programs, and whole whatever happens."""

import itertools
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import optuna
import pytest
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend, JournalFileSymlinkLock
from tests.search.studies import HOLDER, NAME, add, assert_goes_on, numbers, running, study_in, written

from tikhon.errors import FileFormatError, InputError
from tikhon.search import journals
from tikhon.search.storage import opened


@pytest.fixture
def path(tmp_path):
    return tmp_path / "study.log"


@pytest.fixture
def no_flush(monkeypatch):
    """Flushing to the disk is slow, and only a power cut shows the difference."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


def test_an_empty_file_is_an_empty_journal(path):
    path.touch()
    assert_goes_on(path, [])


def test_others_can_read_and_write_meanwhile(path):
    with opened(path) as made:
        study = study_in(made)
        add(study, 0)
        other = optuna.load_study(study_name=NAME, storage=JournalStorage(JournalFileBackend(str(path))))
        assert numbers(other) == [0]
        other.set_user_attr("note", "from a dashboard")
        add(study, 1)
        assert study.user_attrs["note"] == "from a dashboard"
        assert numbers(other) == [0, 1]


@pytest.mark.slow
def test_a_last_record_torn_at_any_byte_is_removed(path, caplog, no_flush):
    whole = written(path).read_bytes()
    start = whole[:-1].rindex(b"\n") + 1
    for length in range(1, len(whole) - start):
        path.write_bytes(whole[: start + length])
        with opened(path) as made:
            assert numbers(optuna.load_study(study_name=NAME, storage=made)) == [0, 1]
        assert path.read_bytes() == whole[:start]
    assert "removed its last record, which was not written completely (line 4)" in caplog.text
    assert_goes_on(path, [0, 1])


def test_a_first_record_torn_at_any_byte_is_removed(path, no_flush):
    with opened(path) as made:
        study_in(made)
    first = path.read_bytes()
    assert first.count(b"\n") == 1
    for length in range(len(first)):
        path.write_bytes(first[:length])
        with opened(path) as made:
            assert optuna.get_all_study_names(made) == []
    assert_goes_on(path, [])


@pytest.mark.parametrize("n_zeros", [1, 100, 5000])
@pytest.mark.parametrize("kept", [0, 1, 50])
@pytest.mark.parametrize("end", [b"", b"\n", b'"x"}\n'])
def test_zeros_of_a_power_cut_are_removed(path, n_zeros, kept, end, no_flush):
    whole = written(path).read_bytes()
    start = whole[:-1].rindex(b"\n") + 1
    path.write_bytes(whole[: start + kept] + bytes(n_zeros) + end)
    assert_goes_on(path, [0, 1])


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda line: line[:20], id="torn and appended to"),
        pytest.param(lambda line: b"\n", id="an empty line"),
        pytest.param(lambda line: bytes(len(line)) + b"\n", id="zeros"),
        pytest.param(lambda line: b"[1]\n", id="no record"),
        pytest.param(lambda line: b'{"a": 1}\n', id="another record"),
        pytest.param(lambda line: b"[" * 100_000 + b"\n", id="too deep"),
        pytest.param(lambda line: b"\xff" + line[1:], id="not text"),
    ],
)
def test_damage_in_the_middle_is_refused_and_the_file_is_left_alone(path, damage):
    lines = written(path, n_trials=4).read_bytes().splitlines(keepends=True)
    lines[2] = damage(lines[2])
    path.write_bytes(b"".join(lines))
    with pytest.raises(FileFormatError, match=r"study\.log: line 3 is damaged; restore the file"), opened(path):
        pass
    assert path.read_bytes() == b"".join(lines)
    assert list(path.parent.iterdir()) == [path]


def test_a_last_line_that_no_append_left_is_refused(path):
    written(path)
    with path.open("ab") as file:
        file.write(b"a remark\n")
    with pytest.raises(FileFormatError, match="line 5 is damaged"), opened(path):
        pass
    assert path.read_bytes().endswith(b"a remark\n")


@pytest.mark.parametrize(
    "record",
    [
        {"op_code": 4},
        {"op_code": 77, "worker_id": "a"},
        {"op_code": 2, "study_id": 0, "worker_id": "a"},
        {
            "op_code": 4,
            "study_id": 0,
            "worker_id": "a",
            "datetime_start": None,
            "params": {"x": 1},
            "distributions": {},
        },
        {"op_code": 4, "study_id": 0, "worker_id": "a", "datetime_start": "yesterday"},
    ],
)
def test_records_that_optuna_cannot_apply_are_refused(path, record):
    written(path)
    with path.open("a") as file:
        file.write(json.dumps(record, separators=(",", ":")) + "\n")
    with (
        pytest.raises(FileFormatError, match=r"study\.log: its records cannot be read .* name another file"),
        opened(path),
    ):
        pass


@pytest.mark.parametrize(
    "content",
    [
        b"Dear reader,\nthis is a letter.\n",
        b"x",
        b"\n",
        b'{"cells": []}\n',
        bytes(1000),
        b"\x7fELF\x02\x01" + random.Random(0).randbytes(5000),
        b"\x1f\x8b\x08" + random.Random(1).randbytes(100),
    ],
    ids=["letter", "letter x", "empty line", "JSON", "zeros", "program", "gzip"],
)
def test_files_that_are_no_journal_are_refused_and_left_alone(path, content):
    path.write_bytes(content)
    with pytest.raises(FileFormatError, match=r"study\.log: is not a journal of Optuna"), opened(path):
        pass
    assert path.read_bytes() == content


def test_journals_and_databases_are_not_mixed_up(path):
    with opened(f"sqlite:///{path}") as made:
        study_in(made)
    with pytest.raises(FileFormatError, match=r"is an SQLite database: write sqlite:///.*study\.log"), opened(path):
        pass
    path.unlink()
    written(path)
    with (
        pytest.raises(InputError, match=r"sqlite:///.*study\.log: .*file is not a database"),
        opened(f"sqlite:///{path}"),
    ):
        pass
    assert_goes_on(path, [0, 1, 2])


def test_a_journal_that_is_damaged_while_in_use(path):
    with opened(path) as made:
        study = study_in(made)
        add(study, 0)
        with path.open("ab") as file:
            file.write(b'{"op_code":4,"wor')  # another program was killed: what follows is whole nevertheless
        add(study, 1)
        assert numbers(study) == [0, 1]
        with path.open("ab") as file:
            file.write(b"nonsense\nnonsense\n")
        with pytest.raises(FileFormatError, match="was damaged by another program while it was in use"):
            add(study, 2)


def test_a_journal_that_vanishes_or_shrinks_while_in_use(path):
    with opened(path) as made:
        study = study_in(made)
        add(study, 0)
        add(study, 1)
        lines = path.read_bytes().splitlines(keepends=True)
        path.write_bytes(b"".join(lines[:2]))
        for _ in range(2):
            with pytest.raises(FileFormatError, match="was shortened by another program"):
                add(study, 2)
        path.unlink()
        with pytest.raises(InputError, match=r"study\.log: cannot be written \(no such file or directory\)"):
            add(study, 2)


@pytest.mark.skipif(sys.platform == "win32", reason="needs limits of file sizes")
def test_a_record_that_is_only_partly_written_is_removed_before_the_next(path):
    code = """
import os, resource, signal, sys
from tests.search.studies import add, opened, study_in

with opened(sys.argv[1]) as made:
    study = study_in(made)
    add(study, 0)
    add(study, 1)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (os.path.getsize(sys.argv[1]) + 500, resource.RLIM_INFINITY))
    try:
        add(study, 2, "x" * 5000)
    except ValueError as error:
        print(error)
    print(open(sys.argv[1], "rb").read()[-1:])
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    add(study, 2)
"""
    ran = subprocess.run(
        [sys.executable, "-c", code, str(path)],
        cwd=Path(__file__).parents[2], capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "cannot be written (file too large); it holds all trials before" in ran.stdout
    assert "b'x'" in ran.stdout
    assert_goes_on(path, [0, 1, 2])


def test_the_lock_of_a_killed_search_is_taken_at_once(path):
    code = HOLDER.replace("opened(sys.argv[1]):", "opened(sys.argv[1]) as s:\n    s._backend._lock.acquire()")
    with running(code, written(path)):
        assert path.with_name("study.log.lock").exists()
    assert path.with_name("study.log.lock").exists()
    start = time.monotonic()
    assert_goes_on(path, [0, 1, 2])
    assert time.monotonic() - start < 1.0
    assert list(path.parent.iterdir()) == [path]


def test_a_lock_in_use_by_another_program_is_waited_for(path, monkeypatch):
    written(path)
    monkeypatch.setattr(journals, "LONGEST_WAIT", 0.5)
    lock = JournalFileSymlinkLock(str(path))
    lock.acquire()
    with pytest.raises(InputError, match=r"study\.log\.lock: another program has locked the journal"), opened(path):
        pass
    assert os.path.lexists(path.with_name("study.log.lock"))
    lock.release()
    assert_goes_on(path, [0, 1, 2])


@pytest.mark.parametrize("kind", ["symlink", "relative symlink", "file"])
def test_a_lock_that_another_program_left_is_removed_when_it_is_old(kind, path, monkeypatch, caplog):
    written(path)
    monkeypatch.setattr(journals, "ABANDONED_SECONDS", 0.3)
    lock = path.with_name("study.log.lock")
    if kind == "file":
        lock.touch()
    else:
        lock.symlink_to(path if kind == "symlink" else "sub/study.log")
    start = time.monotonic()
    assert_goes_on(path, [0, 1, 2])
    assert 0.3 < time.monotonic() - start < 2.0
    assert "removed a lock left by another program" in caplog.text


def test_optuna_respects_our_lock_and_does_not_lose_its_own(path):
    with opened(written(path)) as made:
        ours = made._backend._lock
        ours.acquire()
        theirs = JournalFileSymlinkLock(str(path))
        with pytest.raises(FileExistsError):
            os.symlink(theirs._lock_target_file, theirs._lock_file)
        ours.release()
        theirs.acquire()
        ours.release()  # a second time: theirs is left alone
        assert os.path.lexists(theirs._lock_file)
        theirs.release()


def kill_writers(address, n_kills):
    """Kill processes that add trials as fast as they can: each trial is there once and whole, and appending goes on."""
    chance = random.Random(0)
    n_trials = 0
    for _ in range(n_kills):
        reading, writing = os.pipe()
        writer = os.fork()
        if writer == 0:
            with opened(address) as made:
                study = study_in(made)
                for number in itertools.count(n_trials):
                    add(study, number, "x" * padding(number))
                    os.write(writing, b".")
        os.close(writing)
        confirmed = n_trials + len(os.read(reading, 1))
        time.sleep(chance.uniform(0.0, 0.1))
        os.kill(writer, signal.SIGKILL)
        os.waitpid(writer, 0)
        confirmed += len(os.read(reading, 10**6))
        os.close(reading)
        with opened(address) as made:
            found = [trial.user_attrs for trial in study_in(made).trials]
        assert n_trials < confirmed <= len(found) <= confirmed + 1
        n_trials = len(found)
        assert [(own["number"], len(own["padding"])) for own in found] == [(n, padding(n)) for n in range(n_trials)]


def padding(number):
    return 3701 * number % 90_000  # many records of several pages


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "n_kills"), [("{}", 15), ("sqlite:///{}", 3)])
def test_kills_at_random_moments(kind, n_kills, path):
    """In a process of its own, since that of pytest may have threads."""
    call = f"from tests.search.test_journals import kill_writers; kill_writers({kind.format(path)!r}, {n_kills})"
    subprocess.run([sys.executable, "-c", call], cwd=Path(__file__).parents[2], check=True)
    assert {file.name for file in path.parent.iterdir()} <= {path.name, f"{path.name}-journal"}
