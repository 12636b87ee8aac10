"""Claims: one search at a time uses a file.

The claim of a file is a small file beside it, which is locked for as long as the search lives. The kernel frees the lock
when the process ends, however it ends, so a search that was killed never keeps the next one waiting.
"""

import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tikhon.data.files import check_writable, naming_errors
from tikhon.errors import InputError

_claims: set[int] = set()  # descriptors of the claims of this process


@contextmanager
def claimed(path: Path) -> Iterator[tuple[Path, Path]]:
    """The real path of a file that this search alone uses, and that of its claim."""
    real = Path(os.path.realpath(path))  # one claim whatever the name, and wherever the process goes
    claim = real.with_name(f".{real.name}.claim")
    with naming_errors(real, "cannot be used"):
        check_writable(real)
        if real.exists() and not real.is_file():
            raise InputError(f"{path}: is not a file; name a file, or leave out the storage")
        descriptor = _lock(claim, real)
    _claims.add(descriptor)
    try:
        yield real, claim
    finally:
        if descriptor in _claims:  # else this is a fork
            _claims.remove(descriptor)
            with suppress(OSError):
                if is_at(claim, os.fstat(descriptor)):
                    claim.unlink()
            os.close(descriptor)


def _lock(claim: Path, path: Path) -> int:
    """The descriptor of the claim, which holds the lock until it is closed."""
    try:
        import fcntl
    except ImportError:
        raise InputError(
            f"{path}: this system has no file locks (fcntl); use a database server, or leave out the storage"
        ) from None
    while True:
        descriptor = os.open(claim, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_current = is_at(claim, os.fstat(descriptor))  # else removed by its last holder before it was locked
            if is_current:
                os.ftruncate(descriptor, 0)
                os.write(descriptor, json.dumps(_holder()).encode())
                return descriptor
        except BlockingIOError:
            holder = os.read(descriptor, 2**12)
            os.close(descriptor)
            raise InputError(_in_use(path, holder)) from None
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _holder() -> dict[str, Any]:
    return {"process": os.getpid(), "host": socket.gethostname(), "since": time.strftime("%Y-%m-%d %H:%M:%S")}


def _in_use(path: Path, claim: bytes) -> str:
    try:
        holder = json.loads(claim)
        who = f"process {holder['process']} on {holder['host']}, since {holder['since']}"
    except (ValueError, KeyError, TypeError):  # not yet written
        return f"{path}: is used by another search; wait until it ends, or name another file"
    if all(holder[part] == _holder()[part] for part in ("process", "host")):
        return f"{path}: is used by another search of this process ({who}); name another file"
    return f"{path}: is used by another search ({who}); wait until it ends, end it, or name another file"


def is_at(path: Path, status: os.stat_result) -> bool:
    try:
        return os.path.samestat(os.lstat(path), status)
    except FileNotFoundError:
        return False


def _forget_claims() -> None:
    """In a forked worker: it must not hold the file after its coordinator was killed."""
    for descriptor in _claims:
        os.close(descriptor)
    _claims.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_claims)
