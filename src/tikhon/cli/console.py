"""Shared by the commands: one-line errors, JSON output, progress bars."""

import functools
import json
import math
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec

import typer

from tikhon.errors import InputError, MissingExtra, TikhonError

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress
    from rich.progress import TaskID

P = ParamSpec("P")

BAD_INPUT = 2
INTERRUPTED = 130
UNEXPECTED = 1
TRACEBACK_VARIABLE = "TIKHON_TRACEBACK"


class InterruptionError(Exception):
    """Ctrl-C, with a message about what was kept."""


def complain(message: str) -> None:
    """Print a message as one line on stderr, whatever it contains."""
    text = " ".join(message.split()) or "something went wrong"
    print(f"tikhon: {printable(text)}", file=sys.stderr)


def warn(message: str) -> None:
    text = f"tikhon: warning: {printable(' '.join(message.split()))}"
    print(f"\x1b[33m{text}\x1b[0m" if sys.stderr.isatty() and not os.environ.get("NO_COLOR") else text, file=sys.stderr)


def guarded(command: Callable[P, None]) -> Callable[P, None]:
    """The command with every error turned into one line and an exit code."""

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            command(*args, **kwargs)
            sys.stdout.flush()
        except (InterruptionError, KeyboardInterrupt) as error:
            complain(f"interrupted; {str(error) or 'nothing was written'}")
            raise typer.Exit(INTERRUPTED) from None
        except BrokenPipeError:
            # The reader of our output is gone; the interpreter's final flush must not raise again.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(UNEXPECTED) from None
        except (typer.Exit, typer.Abort, typer.BadParameter):
            raise
        except MissingExtra as error:
            complain(str(error))
            raise typer.Exit(UNEXPECTED) from None
        except (TikhonError, OSError) as error:
            _trace()
            complain(_told(error))
            raise typer.Exit(BAD_INPUT) from None
        except MemoryError:
            _trace()
            complain("not enough memory for this data")
            raise typer.Exit(BAD_INPUT) from None
        except Exception as error:
            _trace()
            complain(_unexpected(error))
            raise typer.Exit(UNEXPECTED) from None

    return run


def write_json(value: Mapping[str, Any]) -> None:
    """One JSON object on stdout; numbers that JSON lacks become null."""
    print(json.dumps(_plain(value), allow_nan=False))


def same_file(first: Path, second: Path) -> bool:
    return first.exists() and second.exists() and os.path.samefile(first, second)


def refuse_overwriting(output: Path, sources: Sequence[Path]) -> None:
    for source in sources:
        if same_file(output, source):
            raise InputError(f"{output}: is also an input; give another name for the output")


def claim_outputs(outputs: Sequence[Path], sources: Sequence[Path]) -> None:
    """Check before any work that every output can be written, is not an input and has its own name."""
    from tikhon.data.files import check_writable

    for place, output in enumerate(outputs):
        check_writable(output)
        refuse_overwriting(output, sources)
        if any(output.resolve() == other.resolve() or same_file(output, other) for other in outputs[:place]):
            raise InputError(f"{output}: is given for two outputs: give each its own name")


class Bar:
    """A progress bar, with an ETA if the total is known, or nothing if it would not be seen."""

    def __init__(self, progress: "RichProgress | None") -> None:
        self._progress = progress
        self._task: TaskID | None = None

    def start(self, total: int | None, description: str) -> None:
        if self._progress is not None:
            if self._task is not None:
                self._progress.remove_task(self._task)
            self._task = self._progress.add_task(_escaped(description), total=total, left="left" if total else "")

    def advance(self, n: int, description: str) -> None:
        if self._progress is not None and self._task is not None:
            self._progress.update(self._task, advance=n, description=_escaped(description))

    def to(self, done: int, description: str) -> None:
        if self._progress is not None and self._task is not None:
            self._progress.update(self._task, completed=done, description=_escaped(description))


@contextmanager
def progress_bar() -> Iterator[Bar]:
    """A bar on stderr, if that is a terminal, that disappears when done."""
    if not sys.stderr.isatty():
        yield Bar(None)
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    left = TextColumn("{task.fields[left]}"), TimeRemainingColumn()
    columns = SpinnerColumn(), TextColumn("{task.description}"), BarColumn(30), TimeElapsedColumn(), *left
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        yield Bar(progress)


def _escaped(text: str) -> str:
    from rich.markup import escape

    return escape(printable(text))


def printable(text: str) -> str:
    """Replace characters that would move a terminal's cursor or that its encoding lacks."""
    visible = "".join(character if character.isprintable() else "�" for character in text)
    encoding = getattr(sys.stderr, "encoding", None) or "utf-8"
    return visible.encode(encoding, "replace").decode(encoding)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if hasattr(value, "tolist"):  # arrays and numbers of numpy
        return _plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, str | int | float | bool | None) else str(value)


def _told(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {(error.strerror or str(error)).lower()}"
    return str(error)


def _unexpected(error: Exception) -> str:
    return f"unexpected {type(error).__name__}: {error} (set {TRACEBACK_VARIABLE}=1 to see where)"


def _trace() -> None:
    if os.environ.get(TRACEBACK_VARIABLE):
        import traceback

        traceback.print_exc()
