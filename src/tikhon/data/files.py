"""Opening and replacing files: gzip is detected by its first bytes, and each kind of failure has a clear error."""

import gzip
import os
import secrets
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TypeAlias, cast

from tikhon.errors import FileFormatError, InputError

OnBytes: TypeAlias = Callable[[int, int], None]  # bytes read so far, bytes in the file

_GZIP_MAGIC = b"\x1f\x8b"


@contextmanager
def reading(path: Path) -> Iterator[tuple[IO[bytes], IO[bytes]]]:
    """The file's content, decompressed if gzipped, and the file itself (its position shows the progress of reading)."""
    try:
        if not path.exists():
            raise InputError(f"{path}: there is no such file")
        if not path.is_file():
            raise InputError(f"{path}: is not a file")
        with path.open("rb") as raw:
            zipped = raw.read(2) == _GZIP_MAGIC
            raw.seek(0)
            yield (cast(IO[bytes], gzip.GzipFile(fileobj=raw)) if zipped else raw), raw
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise FileFormatError(f"{path}: the gzip file is truncated or damaged ({_first_line(error)})") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({_cause(error)})") from None


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
        with _named(path, "cannot be written"), path.open("wb") as device:
            yield device
        return
    path = Path(os.path.realpath(path))  # through a symbolic link, not in its place
    beside = path.with_name(f".{path.name}.{secrets.token_hex(6)}.part")
    try:
        with _named(path, "cannot be written", "; any existing file is unchanged"):
            with beside.open("wb") as raw:
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


class Stdout:
    """Standard output in bytes; errors name it as stdout."""

    def write(self, data: bytes) -> int:
        with self._checked():
            sys.stdout.flush()
            return sys.stdout.buffer.write(data)

    def flush(self) -> None:
        with self._checked():
            sys.stdout.buffer.flush()

    @contextmanager
    def _checked(self) -> Iterator[None]:
        try:
            with _named("stdout", "cannot be written"):
                yield
        except InputError:
            # Discard what is still buffered: the interpreter's final flush must not raise again.
            with suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise


@contextmanager
def _named(what: Path | str, wrong: str, more: str = "") -> Iterator[None]:
    """Turn system errors into ``InputError`` with the file's name, except broken pipes, which the printing code handles."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise InputError(f"{what}: {wrong} ({_cause(error)}){more}") from None


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
