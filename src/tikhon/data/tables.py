"""Tables of numbers with a target, from csv files.

A csv file has a header row; fields are separated by commas, semicolons or tabs (whichever the header uses most) and may
be quoted; the text is utf-8, with or without a byte order mark, plain or gzipped. It is read once, block by block; a
block that does not convert is searched for the offending cell, so that the error names line, column and value.
"""

import csv
import io
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from operator import itemgetter
from pathlib import Path
from typing import IO, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tikhon.data.files import LIFTED, LIMITS, OnBytes, ReadingLimits, reading
from tikhon.errors import InputError

TargetKind: TypeAlias = Literal["auto", "number"]

CSV_SUFFIXES = (".csv", ".tsv")
SVMLIGHT_SUFFIXES = (".svm", ".svmlight", ".libsvm", ".txt")
_DELIMITERS = ",;\t"
_CELLS_PER_BLOCK = 200_000
MOST_COMPARED = 5_000  # column names that a misspelt one is compared with: each takes some microseconds
_LONGEST_FIELD = 2**24  # characters; the csv module's default, 131072, is too short for ignored text columns
_INTEGER = re.compile(r"[+-]?(0|[1-9][0-9]{0,17})")
_DECIMAL_COMMA = re.compile(r"[+-]?[0-9]*,[0-9]+")


@dataclass(frozen=True, eq=False, kw_only=True)
class Table:
    """Features and, if requested, the target of each row."""

    source: str
    X: Any  # float64: an array from csv, scipy.sparse CSR from svmlight
    columns: Sequence[str]
    target: NDArray[Any] | None = None  # float64, int64, or text as an object array of str
    first_index: int | None = None  # svmlight: the number of the first column in the file, 0 or 1

    @property
    def n_rows(self) -> int:
        return int(self.X.shape[0])


def is_svmlight(path: Path) -> bool:
    """Whether the file's suffix is one of svmlight (True) or of csv (False); any other suffix is an error."""
    name = path.name.lower().removesuffix(".gz")
    if name.endswith(SVMLIGHT_SUFFIXES):
        return True
    if name.endswith(CSV_SUFFIXES):
        return False
    known = ", ".join((*CSV_SUFFIXES, *SVMLIGHT_SUFFIXES))
    raise InputError(f"{path}: cannot tell csv from svmlight by the name: use the suffix {known}, each also with .gz")


def read_csv(
    path: Path,
    *,
    target: str | None = None,
    target_kind: TargetKind = "auto",
    columns: Sequence[str] | None = None,
    ignore: Sequence[str] = (),
    on_bytes: OnBytes | None = None,
    limits: ReadingLimits = LIMITS,
) -> Table:
    """Read the given columns, in that order, or all except the target and those to ignore."""
    with reading(path, limits) as (content, raw), _as_text(content, path) as text:
        report = _reporter(raw, path.stat().st_size, on_bytes)
        records = _Records(text, str(path), limits.line_bytes)
        return _read(records, str(path), target, target_kind, columns, ignore, report)


def header(path: Path, limits: ReadingLimits = LIMITS) -> tuple[str, ...]:
    """The column names of a csv file."""
    with reading(path, limits) as (content, _), _as_text(content, path) as text:
        return _Records(text, str(path), limits.line_bytes).names


def write_csv(stream: IO[bytes], columns: Mapping[str, NDArray[Any]]) -> None:
    """Write columns of equal length under their names; numbers keep full precision."""
    text = io.TextIOWrapper(stream, encoding="utf-8", newline="")
    try:
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(zip(*(np.asarray(column).tolist() for column in columns.values()), strict=True))
        text.flush()
    finally:
        text.detach()  # the stream stays open: it belongs to the caller


def shown(names: Sequence[str], most: int = 8) -> str:
    """A list of names, shortened if there are many."""
    listed = ", ".join(repr(name) for name in names[:most])
    return listed if len(names) <= most else f"{listed} and {len(names) - most} more"


class _Records:
    """The records of a csv text with the line at which each starts."""

    def __init__(self, text: IO[str], source: str, longest: float) -> None:
        self.source, self._longest = source, longest
        self._length = 0  # of the current record, as far as it was read
        self.underscores = False  # seen since last reset: unlike int() and float(), we do not read 1_000 as a number
        first, self._blank = text.readline(), 0
        while first and not first.strip():  # blank lines before the header
            first, self._blank = text.readline(), self._blank + 1
        if not first:
            raise InputError(f"{source}: the file is empty; write a header row and rows of numbers")
        self.delimiter = _delimiter(first)
        self._reader = csv.reader(self._lines(first, text), delimiter=self.delimiter, strict=True)
        self.names = self._header()

    def _lines(self, first: str, text: IO[str]) -> Iterator[str]:
        yield first
        for line in text:
            self._length += len(line)
            if self._length > self._longest:  # in quotes a record may span lines
                raise InputError(
                    f"{self.source}, line {self._line}: a row has more than {self._longest:,.0f} characters; {LIFTED}"
                )
            if "_" in line:
                self.underscores = True
            yield line

    def _header(self) -> tuple[str, ...]:
        names = [name.strip() for name in self._next() or []]
        places: dict[str, int] = {}
        for place, name in enumerate(names):
            if not name:
                raise InputError(
                    f"{self.source}, line {self._blank + 1}: column {place + 1} of {len(names)} has no name; name it or "
                    "leave it out (pandas: to_csv(..., index=False))"
                )
            if places.setdefault(name, place) != place:
                raise InputError(
                    f"{self.source}, line {self._blank + 1}: the name {name!r} is used for columns {places[name] + 1} and "
                    f"{place + 1}; names must differ"
                )
        return tuple(names)

    @property
    def _line(self) -> int:
        """The number, in the file, of the last line read."""
        return self._blank + self._reader.line_num

    def _next(self) -> list[str] | None:
        try:
            return next(self._reader, None)
        except csv.Error as error:
            raise InputError(f"{self.source}, line {self._line}: {_in_words(error)}") from None

    def blocks(self) -> Iterator[tuple[list[list[str]], list[int]]]:
        """Lists of rows, all of the header's width, and of the lines where they start."""
        width, reader = len(self.names), self._reader
        most = max(1, _CELLS_PER_BLOCK // width)
        rows: list[list[str]] = []
        lines: list[int] = []
        start = self._line + 1
        try:
            for row in reader:
                self._length = 0
                if len(row) == width:
                    rows.append(row)
                    lines.append(start)
                elif row:
                    raise InputError(
                        f"{self.source}, line {start}: {len(row)} fields, but the header has {width}; every row needs one "
                        "field per column"
                    )
                start = self._line + 1
                if len(rows) == most:
                    yield rows, lines
                    rows, lines, self.underscores = [], [], False
        except csv.Error as error:
            raise InputError(f"{self.source}, line {start}: {_in_words(error)}") from None
        if rows:
            yield rows, lines


def _in_words(error: csv.Error) -> str:
    return "a quoted value is not closed" if "end of data" in str(error) else str(error)


def _read(
    records: _Records,
    source: str,
    target: str | None,
    target_kind: TargetKind,
    columns: Sequence[str] | None,
    ignore: Sequence[str],
    report: Callable[[], None],
) -> Table:
    place = {name: position for position, name in enumerate(records.names)}
    if target is not None and target not in place:
        raise _missing(source, "target column", [target], records.names)
    unknown = [name for name in ignore if name not in place]
    if unknown:
        raise _missing(source, "column to ignore", unknown, records.names)
    left_out = {*ignore, target}
    wanted = tuple(name for name in records.names if name not in left_out) if columns is None else tuple(columns)
    missing = [name for name in wanted if name not in place]
    if missing:
        raise _missing(source, "column", missing, records.names)
    if not wanted:
        raise InputError(
            f"{source}: no feature columns are left besides the target; columns are {shown(records.names)}"
        )
    positions = [place[name] for name in wanted]
    pick = _picker(positions, len(records.names))
    target_place = None if target is None else place[target]
    parts: list[NDArray[np.float64]] = []
    cells: list[str] = []
    target_lines: list[int] = []
    for rows, lines in records.blocks():
        parts.append(_numbers(pick(rows), lines, wanted, source, records.underscores))
        if target_place is not None:
            cells += [row[target_place].strip() for row in rows]
            target_lines += lines
        report()
    if not parts:
        raise InputError(f"{source}: there are no rows below the header")
    values = None if target is None else _target_values(cells, target_lines, target, target_kind, source)
    return Table(source=source, X=np.concatenate(parts), columns=wanted, target=values)


def _picker(positions: Sequence[int], width: int) -> Callable[[list[list[str]]], Sequence[Sequence[str]]]:
    if list(positions) == list(range(width)):
        return lambda rows: rows
    if len(positions) == 1:
        only = positions[0]
        return lambda rows: [(row[only],) for row in rows]
    several = itemgetter(*positions)
    return lambda rows: [several(row) for row in rows]


def _numbers(
    rows: Sequence[Sequence[str]], lines: Sequence[int], columns: Sequence[str], source: str, underscores: bool
) -> NDArray[np.float64]:
    try:
        block = np.array(rows, dtype=np.float64)
    except ValueError:
        raise _bad_cell(rows, lines, columns, source) from None
    if not np.isfinite(block).all() or (underscores and any("_" in cell for row in rows for cell in row)):
        raise _bad_cell(rows, lines, columns, source)
    return block


def _bad_cell(rows: Sequence[Sequence[str]], lines: Sequence[int], columns: Sequence[str], source: str) -> InputError:
    """The error for the first cell that is not a finite number; it says so if the whole column looks like text."""
    for row, line in zip(rows, lines, strict=True):
        for place, cell in enumerate(row):
            fault = _fault(cell)
            if fault is None:
                continue
            where = f"{source}, line {line}, column {columns[place]!r}"
            column = [other[place] for other in rows[:1000]]
            if fault == "text" and 2 * sum(_fault(other) == "text" for other in column) > len(column):
                return InputError(
                    f"{where}: the column holds text ({_clipped(cell)}); encode it as numbers, for example one 0/1 "
                    "column for each category, or leave the column out"
                )
            return InputError(f"{where}: {_complaint(cell, fault)}")
    return InputError(f"{source}, lines {lines[0]} to {lines[-1]}: a field is not a finite number")


def _fault(cell: str) -> Literal["empty", "text", "infinite"] | None:
    if not cell.strip():
        return "empty"
    try:
        number = float(cell)
    except ValueError:
        return "text"
    if "_" in cell:
        return "text"
    return None if np.isfinite(number) else "infinite"


def _complaint(cell: str, fault: str) -> str:
    if fault == "empty":
        return "the field is empty; fill in a number or leave the row or the column out"
    if fault == "infinite":
        return f"the value is {_clipped(cell)}; fill in a finite number or leave the row or the column out"
    hint = "; write decimals with a point" if _DECIMAL_COMMA.fullmatch(cell.strip()) else ""
    return f"{_clipped(cell)} is text, but a number is needed{hint}"


def _target_values(
    cells: Sequence[str], lines: Sequence[int], target: str, kind: TargetKind, source: str
) -> NDArray[Any]:
    """Whole numbers as int64, numbers as float64, else text, which "number" refuses."""
    for cell, line in zip(cells, lines, strict=True):
        if not cell:
            raise InputError(
                f"{source}, line {line}, column {target!r}: the target is empty; fill it in or leave the row out"
            )
    if kind != "number" and all(_INTEGER.fullmatch(cell) for cell in cells):
        return np.array([int(cell) for cell in cells], dtype=np.int64)
    faults = ((_fault(cell), cell, line) for cell, line in zip(cells, lines, strict=True))
    first = next(((fault, cell, line) for fault, cell, line in faults if fault is not None), None)
    if first is None:
        return np.array(cells, dtype=np.float64)
    fault, cell, line = first
    if kind == "number" or all(_fault(other) != "text" for other in cells):
        raise InputError(f"{source}, line {line}, column {target!r}: {_complaint(cell, fault or '')}")
    return np.array(cells, dtype=object)


def _missing(source: str, what: str, names: Sequence[str], present: Sequence[str]) -> InputError:
    close = [name for name in present if name.lower() == names[0].lower()]
    if not close and len(present) <= MOST_COMPARED:
        close = get_close_matches(names[0], present, n=1)
    hint = f"; did you mean {close[0]!r}?" if close and len(names) == 1 else ""
    if all(_fault(name) is None for name in present):
        hint = "; the first row holds numbers only: is the header row missing?"
    plural = "s" if len(names) > 1 else ""
    return InputError(f"{source}: there is no {what}{plural} {shown(names)}; columns are {shown(present)}{hint}")


def _delimiter(line: str) -> str:
    bare = re.sub(r'"[^"]*"', "", line)
    return max(_DELIMITERS, key=bare.count)  # the first, a comma, where there is none


def _clipped(cell: str, most: int = 40) -> str:
    return repr(cell if len(cell) <= most else cell[:most] + "…")


@contextmanager
def _as_text(content: IO[bytes], path: Path) -> Iterator[IO[str]]:
    text = io.TextIOWrapper(content, encoding="utf-8-sig", newline="")
    limit = csv.field_size_limit(_LONGEST_FIELD)
    try:
        yield text
    except UnicodeDecodeError:
        raise InputError(f"{path}, {_undecodable(path)}: the file is not utf-8 text; convert it first") from None
    finally:
        csv.field_size_limit(limit)
        text.detach()  # the underlying file is closed where it was opened


def _undecodable(path: Path) -> str:
    with reading(path) as (content, _):
        for number, line in enumerate(content, 1):
            try:
                line.decode("utf-8")
            except UnicodeDecodeError as error:
                return f"line {number}, byte {error.start + 1}"
    return "line 1"


def _reporter(raw: IO[bytes], total: int, on_bytes: OnBytes | None) -> Callable[[], None]:
    if on_bytes is None:
        return lambda: None
    notify = on_bytes
    return lambda: notify(raw.tell(), total)
