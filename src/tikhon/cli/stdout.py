"""Standard output whose errors name it: a full disk, a closed stream."""

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tikhon.data.files import naming_errors
from tikhon.errors import InputError


class _Stdout(io.RawIOBase):
    """The bytes of standard output; None if it was closed before the command began."""

    def __init__(self, descriptor: int | None) -> None:
        self._descriptor = descriptor
        self._is_broken = False

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return self._descriptor is not None and os.isatty(self._descriptor)

    def fileno(self) -> int:
        if self._descriptor is None:
            raise io.UnsupportedOperation("stdout is closed")
        return self._descriptor

    def write(self, data: Any) -> int:
        if self._is_broken:  # an error was raised: what is still buffered must not raise it again
            return len(data)
        self._is_broken = True
        if self._descriptor is None:
            raise InputError("stdout: cannot be written (it is closed)")
        with naming_errors("stdout", "cannot be written"):
            written = os.write(self._descriptor, data)
        self._is_broken = False
        return written


@contextmanager
def named_stdout() -> Iterator[None]:
    """Within this context errors of standard output are named, unless a caller has put something else in its place."""
    replaced = sys.stdout
    if replaced is not None and replaced is not sys.__stdout__:
        yield
        return
    if replaced is not None:
        replaced.flush()
    raw = _Stdout(None if replaced is None else replaced.fileno())
    encoding, errors = ("utf-8", "strict") if replaced is None else (replaced.encoding, replaced.errors)
    sys.stdout = io.TextIOWrapper(io.BufferedWriter(raw), encoding=encoding, errors=errors, line_buffering=raw.isatty())
    try:
        yield
    finally:
        sys.stdout = replaced
