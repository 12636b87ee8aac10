"""Journals of Optuna, the file that a search keeps its trials in: opened, locked and repaired after a kill."""

import json
import logging
import os
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import optuna
from optuna.storages import BaseStorage, JournalStorage
from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock

from tikhon.data.files import naming_errors
from tikhon.errors import FileFormatError, InputError
from tikhon.search.claims import claimed, is_at

ABANDONED_SECONDS = 10.0  # a lock of another program that is this old: it is held for one write, milliseconds
LONGEST_WAIT = 60.0  # for a lock that other programs take again and again

_RECORD = b'{"op_code":'  # how Optuna begins every record
_SQLITE = b"SQLite format 3\0"

logger = logging.getLogger(__name__)


@contextmanager
def journal(path: Path) -> Iterator[BaseStorage]:
    """The journal of this path, created if there is none, which this search alone uses until the end."""
    with claimed(path) as (path, claim):
        lock = _JournalLock(path, claim)
        with naming_errors(path, "cannot be opened"):
            path.touch()
            lock.acquire()
            try:
                _repair(path)
            finally:
                lock.release()
        try:
            storage = JournalStorage(_Journal(path, lock))
        except InputError:
            raise
        except Exception as error:  # Optuna trusts its records: wrong ones fail in any way
            raise FileFormatError(
                f"{path}: its records cannot be read ({type(error).__name__}: {error}); they were edited, or written by "
                f"another version of Optuna than {optuna.__version__}: name another file"
            ) from error
        yield storage


class _Journal(JournalFileBackend):
    """A journal whose errors name the file."""

    def __init__(self, path: Path, lock: "_JournalLock") -> None:
        super().__init__(str(path), lock)
        self._path = path

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        with naming_errors(self._path, "cannot be written", "; it holds all trials before, so the search can resume"):
            super().append_logs(logs)

    def read_logs(self, log_number_from: int) -> Generator[dict[str, Any], None, None]:
        try:
            with naming_errors(self._path, "cannot be read"):
                yield from super().read_logs(log_number_from)
        except InputError:
            raise
        except ValueError:
            raise FileFormatError(f"{self._path}: was damaged by another program while it was in use") from None


class _JournalLock(JournalFileOpenLock):
    """The lock that Optuna takes for each record, so that other programs (optuna-dashboard) can write to the journal too.

    It is a hard link to the claim. Only the holder of the claim makes such links: one that exists was left by a process that
    was killed, and is free at once, where Optuna waits for 30 seconds. Locks that Optuna made do not say whose they are;
    since they are held for milliseconds, one that has not changed for ``ABANDONED_SECONDS`` is taken to be abandoned.
    """

    def __init__(self, path: Path, claim: Path) -> None:
        self._journal, self._claim = path, claim
        self._file = path.with_name(f"{path.name}.lock")
        self._process = os.getpid()
        self._size = 0  # of the journal, when the lock was released last
        self._held: os.stat_result | None = None

    def acquire(self) -> bool:
        if os.getpid() != self._process:
            raise InputError(f"{self._journal}: only process {self._process}, which opened it, may write to it")
        self._wait()
        try:
            if self._journal.stat().st_size < self._size:
                raise FileFormatError(f"{self._journal}: was shortened by another program while it was in use")
            if not _ends_whole(self._journal):
                _repair(self._journal)
        except BaseException:
            self._free()
            raise
        return True

    def release(self) -> None:
        with suppress(FileNotFoundError):
            self._size = self._journal.stat().st_size
        self._free()

    def _free(self) -> None:
        with suppress(FileNotFoundError):
            if self._held is not None and is_at(self._file, self._held):
                self._file.unlink()
        self._held = None

    def _wait(self) -> None:
        start = since = time.monotonic()
        seen: os.stat_result | None = None
        while not self._made():
            now = time.monotonic()
            try:
                found = os.lstat(self._file)
            except FileNotFoundError:
                continue
            if is_at(self._claim, found):
                self._remove("left by a search that was killed", logging.DEBUG)
            elif seen is None or not os.path.samestat(seen, found) or seen.st_mtime_ns != found.st_mtime_ns:
                seen, since = found, now
            elif now - since > ABANDONED_SECONDS:
                self._remove("left by another program", logging.WARNING)
            elif now - start > LONGEST_WAIT:
                raise InputError(
                    f"{self._file}: another program has locked the journal for {LONGEST_WAIT:.0f} seconds; end it, and delete "
                    "this file if it remains"
                )
            else:
                time.sleep(0.01)

    def _made(self) -> bool:
        try:
            os.link(self._claim, self._file)
        except FileExistsError:
            return False
        except OSError:  # a file system without hard links
            try:
                os.close(os.open(self._file, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
            except FileExistsError:
                return False
        self._held = os.lstat(self._file)
        return True

    def _remove(self, why: str, level: int) -> None:
        logger.log(level, "%s: removed a lock %s", self._file, why)
        with suppress(FileNotFoundError):
            self._file.unlink()


def _repair(path: Path) -> None:
    """Cut off a last record that was not written completely; refuse files with other damage, and those that are no journal.

    Optuna ignores such a record, but would append the next one to it. Nothing is lost: nobody has ever read its trial.
    """
    with path.open("rb") as file:
        start = file.read(len(_SQLITE))
        if start == _SQLITE:
            raise FileFormatError(f"{path}: is an SQLite database: write sqlite:///{path}")
        if start and not _begins_record(start):
            raise FileFormatError(f"{path}: is not a journal of Optuna; name another file")
        file.seek(0)
        end = 0
        for number, line in enumerate(file, start=1):
            if not (line.endswith(b"\n") and _is_record(line)):
                is_last = not file.read(1)
                # Zeros: a power cut can leave a file that is longer than what was written to it.
                if is_last and (b"\0" in line or _begins_record(line)):
                    break
                raise FileFormatError(
                    f"{path}: line {number} is damaged; restore the file from a copy, or delete the line with its trial"
                )
            end += len(line)
        else:
            return
    with path.open("r+b") as file:
        file.truncate(end)
        os.fsync(file.fileno())
    logger.warning("%s: removed its last record, which was not written completely (line %d)", path, number)


def _begins_record(line: bytes) -> bool:
    start = line.rstrip(b"\0")[: len(_RECORD)]
    return start != b"" and _RECORD.startswith(start)


def _is_record(line: bytes) -> bool:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return False
    return isinstance(record, dict) and isinstance(record.get("op_code"), int)


def _ends_whole(path: Path) -> bool:
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(size - 1, 0))
        return file.read(1) in (b"", b"\n")
