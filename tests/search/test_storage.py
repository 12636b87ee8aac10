"""Storages: what is opened, what is refused, and one search at a time."""

import errno
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import optuna
import pytest
from optuna.storages import InMemoryStorage, RDBStorage
from tests.search.studies import HOLDER, add, assert_goes_on, numbers, running, study_in, written

from tikhon.errors import InputError
from tikhon.search import storage
from tikhon.search.storage import masked, opened, quiet


@pytest.fixture
def path(tmp_path):
    return tmp_path / "study.log"


def test_nothing_is_memory_and_storages_are_passed_through():
    with opened(None) as made:
        assert isinstance(made, InMemoryStorage)
        with opened(made) as again:
            assert again is made


@pytest.mark.parametrize("kind", [str, Path, lambda path: f"sqlite:///{path}"])
def test_trials_are_found_again_and_no_other_file_is_left(kind, path):
    for count in range(3):
        with opened(kind(path)) as made:
            study = study_in(made)
            assert numbers(study) == list(range(count))
            add(study, count)
    assert list(path.parent.iterdir()) == [path]


def test_databases_in_memory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for address in ("sqlite://", "sqlite:///:memory:"):
        with opened(address) as made, opened(address):
            assert isinstance(made, RDBStorage)
            add(study_in(made), 0)
    assert list(tmp_path.iterdir()) == []


def test_a_path_holds_when_the_process_changes_its_folder(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    with opened("study.log") as made:
        study = study_in(made)
        monkeypatch.chdir("elsewhere")
        add(study, 0)
    assert list((tmp_path / "elsewhere").iterdir()) == []
    assert_goes_on(path, [0])


def test_a_symbolic_link_is_the_file_it_leads_to(path):
    written(path)
    link = path.with_name("link")
    link.symlink_to(path)
    with opened(link), pytest.raises(InputError, match="is used by another search"), opened(path):
        pass
    assert_goes_on(link, [0, 1, 2])
    assert link.is_symlink()


def test_optuna_is_quiet_and_stays_as_the_user_set_it(path, capfd):
    optuna.logging.set_verbosity(optuna.logging.DEBUG)
    try:
        for address in (None, path, f"sqlite:///{path}.db"):
            with opened(address) as made:
                study_in(made)
                assert optuna.logging.get_verbosity() == optuna.logging.DEBUG
        with pytest.raises(ZeroDivisionError), quiet():
            _ = 1 // (optuna.logging.get_verbosity() - optuna.logging.WARNING)
        assert optuna.logging.get_verbosity() == optuna.logging.DEBUG
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        with quiet():
            assert optuna.logging.get_verbosity() == optuna.logging.ERROR
    finally:
        optuna.logging.set_verbosity(optuna.logging.INFO)
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("kind", ["{}", "sqlite:///{}"])
def test_places_that_cannot_be_written(kind, path):
    cases = {
        path.parent / "no such folder" / "f": "there is no directory",
        path.parent: "is a directory; give the name of a file",
        Path("/dev/null"): "is not a file",
        path.parent / ("x" * 300): "file name too long",
    }
    for place, words in cases.items():
        with pytest.raises(InputError, match=words), opened(kind.format(place)):
            pass
    assert list(path.parent.iterdir()) == []


def test_a_place_that_is_read_only(path, monkeypatch):
    def denied(*_, **__):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    with monkeypatch.context() as patch:
        patch.setattr(os, "access", lambda *_: False)
        with pytest.raises(InputError, match=r"cannot be written \(permission denied"), opened(path):
            pass
    with monkeypatch.context() as patch:  # as root sees a file system that is mounted read-only
        patch.setattr(os, "open", denied)
        with pytest.raises(InputError, match=r"cannot be used \(permission denied"), opened(path):
            pass


def test_a_full_disk_leaves_the_trials_before(path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with opened(path) as made:
        study = study_in(made)
        add(study, 0)
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", full)
            with pytest.raises(
                InputError, match=r"study\.log: cannot be written \(no space left on device\); it holds all"
            ):
                study.set_user_attr("a", 1)
    assert_goes_on(path, [0])


@pytest.mark.parametrize("kind", ["{}", "sqlite:///{}"])
def test_a_second_search_in_the_process_is_refused(kind, path):
    address = kind.format(path)
    with opened(address):
        words = rf"study\.log: is used by another search of this process \(process {os.getpid()} on .*, since 2"
        with pytest.raises(InputError, match=words), opened(address):
            pass
        with pytest.raises(InputError, match="name another file"), opened(address):
            pass
    with opened(address):
        pass
    assert list(path.parent.iterdir()) == [path]


def test_a_search_of_another_process_is_named_and_a_killed_one_is_not_in_the_way(path):
    with running(HOLDER, path) as holder:
        words = rf"is used by another search \(process {holder.pid} on {socket.gethostname()}, since .*\); wait until it ends"
        with pytest.raises(InputError, match=words), opened(path):
            pass
        with pytest.raises(InputError, match=words), opened(path):  # the refusal has not freed it
            pass
    start = time.monotonic()
    assert_goes_on(path, [])
    assert time.monotonic() - start < 1.0
    assert list(path.parent.iterdir()) == [path]


def test_a_forked_worker_does_not_hold_the_file_after_its_coordinator(path):
    code = """
import os, sys, time
from tikhon.search.storage import opened
with opened(sys.argv[1]) as storage:
    if os.fork() == 0:
        try:
            storage.create_new_study([], "x")
        except ValueError as error:
            print("ready" if "which opened it, may write to it" in str(error) else error, flush=True)
        time.sleep(600)
        os._exit(0)
    time.sleep(600)
"""
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", code, str(path)],
        stdout=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    try:
        assert process.stdout.readline() == "ready\n"
        with pytest.raises(InputError, match=f"process {process.pid}"), opened(path):
            pass
        process.kill()
        process.wait()
        assert_goes_on(path, [])
    finally:
        os.killpg(process.pid, signal.SIGKILL)  # its worker
        process.stdout.close()


def test_a_claim_that_was_deleted_meanwhile(path):
    with opened(path) as made:
        path.with_name(".study.log.claim").unlink()
        add(study_in(made), 0)
    assert_goes_on(path, [0])
    assert list(path.parent.iterdir()) == [path]


def test_a_claim_does_not_follow_symbolic_links(path):
    victim = path.with_name("victim")
    victim.write_text("precious")
    path.with_name(".study.log.claim").symlink_to(victim)
    with pytest.raises(InputError, match="cannot be used"), opened(path):
        pass
    assert victim.read_text() == "precious"


def test_file_systems_without_hard_links(path, monkeypatch):
    def unsupported(*_, **__):
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "link", unsupported)
    assert_goes_on(written(path), [0, 1, 2])
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("postgresql://ann:secret@localhost/db", "what it needs is not installed"),
        ("mysql://ann:secret@localhost/db", "what it needs is not installed"),
        ("grpc://ann:secret@localhost:1", "what it needs is not installed"),
        ("redis://ann:secret@localhost", "for Redis, give a storage of Optuna"),
        ("nonsense://ann:secret@localhost", "the storage cannot be used .*nonsense"),
        ("://secret", "the storage cannot be used"),
        ("postgresql://ann:secret@localhost/{db}", "cannot be used|not installed"),
    ],
)
def test_addresses_that_cannot_be_used(address, words):
    with pytest.raises(InputError, match=words) as refused, opened(address):
        pass
    assert str(refused.value).startswith(masked(address))
    if "@" in address:
        assert "secret" not in str(refused.value)
    assert refused.value.__cause__ is None
    assert refused.value.__context__ is None or refused.value.__suppress_context__


def test_a_database_that_fails_while_in_use_is_named(path):
    def search():
        with opened(f"sqlite:///{path}") as made:
            with made.engine.begin() as connection:
                connection.exec_driver_sql("DROP TABLE studies")
            study_in(made)

    with pytest.raises(InputError, match=r"study\.log: the storage cannot be used \(no such table: studies\)"):
        search()


def test_errors_of_others_pass_through_a_database():
    error = FileNotFoundError("of the user")
    with pytest.raises(FileNotFoundError) as raised, opened("sqlite://"):
        raise error
    assert raised.value is error


def test_grpc(monkeypatch):
    class RpcError(Exception):
        pass

    class Proxy(InMemoryStorage):
        closed, ready = False, True

        def __init__(self, *, host, port):
            super().__init__()
            self.place = (host, port)

        def wait_server_ready(self, timeout):
            if not Proxy.ready:
                raise ConnectionError("GRPC connection timeout")

        def close(self):
            Proxy.closed = True

    monkeypatch.setitem(sys.modules, "grpc", type("grpc", (), {"RpcError": RpcError}))
    monkeypatch.setattr(storage, "GrpcStorageProxy", Proxy)
    with opened("grpc://server:1234") as made:
        assert made.place == ("server", 1234)
    assert Proxy.closed
    with opened("grpc://server") as made:
        assert made.place == ("server", 13000)
    with (
        pytest.raises(InputError, match=r"grpc://server: the storage cannot be used \(lost\)"),
        opened("grpc://server"),
    ):
        raise RpcError("lost")
    Proxy.ready = False
    with pytest.raises(InputError, match="grpc://server: no server answers"), opened("grpc://server"):
        pass


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("postgresql://ann:secret@host:5432/db", "postgresql://ann:***@host:5432/db"),
        ("postgresql+psycopg://ann:se@c/r:et@host/db", "postgresql+psycopg://ann:***@host/db"),
        ("redis://:secret@host", "redis://:***@host"),
        ("mysql://host/db?user=ann&password=secret&x=1", "mysql://host/db?user=ann&password=***&x=1"),
        ("sqlite:////data/a:b@c.db", "sqlite:////data/a:b@c.db"),
        ("grpc://host:13000", "grpc://host:13000"),
    ],
)
def test_passwords_are_masked(address, shown):
    assert masked(address) == shown


def test_other_kinds_of_storage_are_refused():
    with pytest.raises(InputError, match="storage is a int: write None"), opened(3):
        pass
