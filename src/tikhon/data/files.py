"""Opening and replacing files: gzip is detected by its first bytes, and each kind of failure has a clear error."""

import glob
import gzip
import io
import math
import os
import re
import secrets
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TypeAlias, cast

from tikhon.errors import FileFormatError, InputError

OnBytes: TypeAlias = Callable[[int, int], None]  # bytes read so far, bytes in the file

_GZIP_MAGIC = b"\x1f\x8b"
_BUFFER = 2**16
_PART = re.compile(r"[0-9a-f]{12}\.part")


@dataclass(frozen=True)
class ReadingLimits:
    """How much memory a file may ask for, so that a damaged or hostile one is refused while it is read."""

    line_bytes: float = 2**26
    expansion: float = 100.0  # unpacked bytes per packed byte; text is seldom packed more than twentyfold
    always_unpacked: float = 2**28  # bytes that are unpacked whatever the ratio
    columns: float = 2**24


LIMITS, NO_LIMITS = ReadingLimits(), ReadingLimits(math.inf, math.inf, math.inf, math.inf)
LIFTED = "if the file is right, lift the limit with --no-limits"


@contextmanager
def reading(path: Path, limits: ReadingLimits = LIMITS) -> Iterator[tuple[IO[bytes], IO[bytes]]]:
    """The file's content, decompressed if gzipped, and the file itself (its position shows the progress of reading)."""
    try:
        if not path.exists():
            raise InputError(f"{path}: there is no such file")
        if not path.is_file():
            raise InputError(f"{path}: is not a file")
        with path.open("rb") as raw:
            zipped = raw.read(2) == _GZIP_MAGIC
            raw.seek(0)
            yield limited(raw, str(path), zipped=zipped, size=os.fstat(raw.fileno()).st_size, limits=limits), raw
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise FileFormatError(f"{path}: the gzip file is truncated or damaged ({_first_line(error)})") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({_cause(error)})") from None


def limited(raw: IO[bytes], source: str, *, zipped: bool, size: float, limits: ReadingLimits) -> IO[bytes]:
    """The content of a stream of ``size`` bytes; it raises an InputError where the content exceeds the limits."""
    content = cast(IO[bytes], gzip.GzipFile(fileobj=raw)) if zipped else raw
    unpacked = max(limits.always_unpacked, limits.expansion * size) if zipped else math.inf
    return cast(IO[bytes], io.BufferedReader(_Limited(content, source, unpacked, limits.line_bytes), _BUFFER))


class _Limited(io.RawIOBase):
    """Counts bytes and the length of lines as they are read."""

    def __init__(self, content: IO[bytes], source: str, most_bytes: float, most_of_line: float) -> None:
        self._content, self._source, self._most, self._most_of_line = content, source, most_bytes, most_of_line
        self._read, self._of_line, self._line = 0, 0, 1

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        block: bytes = self._content.read1(len(buffer))  # type: ignore[attr-defined]  # does not wait for more
        buffer[: len(block)] = block
        self._read += len(block)
        if self._read > self._most:
            raise InputError(f"{self._source}: the gzip file unpacks to more than {self._most:,.0f} bytes; {LIFTED}")
        end = max(block.rfind(b"\n"), block.rfind(b"\r"))
        first = min((place for place in (block.find(b"\n"), block.find(b"\r")) if place >= 0), default=len(block))
        if self._of_line + first > self._most_of_line:
            line = f"line {self._line}" if self._line else "a line"
            raise InputError(f"{self._source}: {line} has more than {self._most_of_line:,.0f} bytes; {LIFTED}")
        self._of_line = len(block) - end - 1 if end >= 0 else self._of_line + len(block)
        self._line += block.count(b"\n")
        return len(block)


def check_writable(path: Path) -> None:
    """Refuse early what would otherwise fail after the work is done."""
    folder = path.parent
    if path.is_dir():
        raise InputError(f"{path}: is a directory; give the name of a file")
    if not folder.is_dir():
        raise InputError(f"{path}: there is no directory {folder}")
    keeps_place = path.exists() and not path.is_file()  # a pipe or a device: no temporary file is needed
    if not (keeps_place or os.access(folder, os.W_OK)) or (path.exists() and not os.access(path, os.W_OK)):
        raise InputError(f"{path}: cannot be written (permission denied)")


@contextmanager
def replacing(path: str | Path, *, zipped: bool = True) -> Iterator[IO[bytes]]:
    """A file to write that is renamed to its name when complete; with ``zipped``, gzipped if the name ends in .gz.

    After an error or an interrupt an old file is unchanged and no temporary file is left.
    """
    path = Path(path)
    check_writable(path)
    if path.exists() and not path.is_file():
        with naming_errors(path, "cannot be written"), path.open("wb") as device:
            yield device
        return
    path = Path(os.path.realpath(path))  # through a symbolic link, not in its place
    _remove_abandoned(path)
    beside = path.with_name(f".{path.name}.{secrets.token_hex(6)}.part")
    try:
        with naming_errors(path, "cannot be written", "; any existing file is unchanged"):
            with _opened(beside) as raw:
                if zipped and path.suffix == ".gz":
                    with gzip.GzipFile(filename="", fileobj=raw, mode="wb", mtime=0) as packed:
                        yield cast(IO[bytes], packed)
                else:
                    yield raw
                raw.flush()
                os.fsync(raw.fileno())
            beside.replace(path)
            _flush_folder(path.parent)
    finally:
        with suppress(OSError):
            beside.unlink()


@contextmanager
def naming_errors(what: Path | str, wrong: str, more: str = "") -> Iterator[None]:
    """Turn system errors into ``InputError`` with the file's name, except broken pipes, which the printing code handles."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise InputError(f"{what}: {wrong} ({_cause(error)}){more}") from None


def _opened(beside: Path) -> IO[bytes]:
    """A new file that is locked for as long as it is open, so that no other process takes it for abandoned."""
    while True:
        file = beside.open("wb")
        if not _lock(file) or os.fstat(file.fileno()).st_nlink > 0:
            return file
        file.close()  # removed by another process before it was locked


def _remove_abandoned(path: Path) -> None:
    """Remove the unfinished files that killed processes have left beside a file: those that nobody locks."""
    for abandoned in path.parent.glob(f".{glob.escape(path.name)}.*.part"):
        with suppress(OSError), abandoned.open("rb") as file:
            if _PART.fullmatch(abandoned.name.removeprefix(f".{path.name}.")) and _lock(file):
                abandoned.unlink()


def _lock(file: IO[bytes]) -> bool:
    """Whether this process now holds the lock of the file; never where the system has no such locks."""
    try:
        import fcntl
    except ImportError:
        return False
    try:
        fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _flush_folder(folder: Path) -> None:
    """Make the rename survive a power cut, if the system can flush folders."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _cause(error: OSError) -> str:
    return (error.strerror or _first_line(error)).lower()


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
