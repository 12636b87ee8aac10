"""Tables in svmlight (LIBSVM) format: ``target index:value index:value ...`` per line, with increasing indices, no zeros.

Files count columns from 1, or from 0 if written by some programs: a file that uses the index 0 counts from 0. Columns
are named after their number in the file, "f1", "f2" ..., so that a model records how its training file counts them.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from tikhon.data.files import LIFTED, LIMITS, ReadingLimits, reading
from tikhon.data.tables import Table
from tikhon.errors import InputError
from tikhon.groups import NumberedNames

_MOST_DIGITS = 10  # of an index below 2^31


def read_svmlight(
    path: Path, *, n_features: int | None = None, first_index: int | None = None, limits: ReadingLimits = LIMITS
) -> Table:
    """Read a file; at prediction time the model gives the number of columns and the number of the first one."""
    from scipy import sparse
    from sklearn.datasets import load_svmlight_file

    with reading(path, limits) as (content, _):
        try:
            X, y = load_svmlight_file(content, dtype=np.float64, zero_based=True)
        except InputError:  # of the limits
            raise
        except (ValueError, OverflowError, MemoryError, UnicodeDecodeError) as error:
            raise _explained(path, error) from None
    if X.shape[0] == 0:
        raise InputError(f"{path}: the file has no rows; write lines of 'target index:value ...'")
    _check_finite(path, X, y)
    lowest = int(X.indices.min()) if X.nnz else 1
    highest = int(X.indices.max()) if X.nnz else 0
    first = first_index if first_index is not None else int(lowest > 0)
    if lowest < first:
        raise InputError(f"{_place_of_index(path, X, 0)}: the index 0, but the model's training file counted from 1")
    width = highest + 1 - first
    if n_features is not None and width > n_features:
        raise InputError(
            f"{_place_of_index(path, X, highest)}: the index {highest}, but the model has {n_features} columns, "
            f"{first} to {n_features - 1 + first}"
        )
    if n_features is None and width > limits.columns:
        raise InputError(
            f"{_place_of_index(path, X, highest)}: the index {highest}, but at most {limits.columns:,.0f} columns are allowed: "
            f"weights for all of them are made, used or not; {LIFTED}"
        )
    if n_features is None and width < 1:
        raise InputError(f"{path}: has no index:value pairs; write the features of each row as index:value")
    width = width if n_features is None else n_features
    shifted = sparse.csr_matrix((X.data, X.indices - first, X.indptr), shape=(X.shape[0], width))
    columns = NumberedNames("f", first, width)
    return Table(source=str(path), X=shifted, columns=columns, target=_whole(y), first_index=first)


def _whole(y: NDArray[np.float64]) -> NDArray[Any]:
    is_whole = np.abs(y).max(initial=0.0) < 2**53 and np.array_equal(y, np.round(y))
    return y.astype(np.int64) if is_whole else y


def _check_finite(path: Path, X: Any, y: NDArray[np.float64]) -> None:
    if not np.isfinite(y).all():
        row = int(np.argmin(np.isfinite(y)))
        raise InputError(f"{path}, line {_line_of(path, row)}: the target is {y[row]}; write a finite number")
    if not np.isfinite(X.data).all():
        entry = int(np.argmin(np.isfinite(X.data)))
        row = int(np.searchsorted(X.indptr, entry, side="right")) - 1
        raise InputError(
            f"{path}, line {_line_of(path, row)}: the value of column {X.indices[entry]} is {X.data[entry]}; write a "
            "finite number"
        )


def _place_of_index(path: Path, X: Any, index: int) -> str:
    entry = int(np.argmax(X.indices == index))
    row = int(np.searchsorted(X.indptr, entry, side="right")) - 1
    return f"{path}, line {_line_of(path, row)}"


def _rows(content: IO[bytes]) -> Iterator[tuple[int, list[bytes]]]:
    """The line number and the fields of each row, without comments and empty lines."""
    for number, line in enumerate(content, 1):
        fields = line.split(b"#", 1)[0].split()
        if fields:
            yield number, fields


def _line_of(path: Path, row: int) -> int:
    with reading(path) as (content, _):
        return next((line for place, (line, _) in enumerate(_rows(content)) if place == row), row + 1)


def _explained(path: Path, error: Exception) -> InputError:
    """The error for the first line that is not in svmlight format."""
    with reading(path) as (content, _):
        for number, fields in _rows(content):
            fault = _fault_of(fields)
            if fault is not None:
                return InputError(f"{path}, line {number}: {fault}")
    first = (str(error).splitlines() or [type(error).__name__])[0]
    return InputError(f"{path}: cannot be read as svmlight ({first})")


def _fault_of(fields: Sequence[bytes]) -> str | None:
    if not _is_number(fields[0]):
        return f"{_text(fields[0])} is text, but the target must be a number"
    last = -1
    for field in fields[1:]:
        name, colon, value = field.partition(b":")
        if not colon:
            return f"{_text(field)} is not of the form index:value"
        if name == b"qid":
            continue
        if not name.isdigit():
            return f"{_text(field)}: the index is not a whole number, 0 or larger"
        digits = name.lstrip(b"0") or b"0"  # Python refuses to convert thousands of digits, zeros included
        if len(digits) > _MOST_DIGITS or int(digits) >= 2**31:
            return f"{_text(field)}: the index is too large"
        if not _is_number(value):
            return f"{_text(field)}: the value is text, but a number is needed"
        if int(digits) <= last:
            return f"{_text(field)}: indices must increase, but {last} comes before it"
        last = int(digits)
    return None


def _is_number(field: bytes) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True


def _text(field: bytes, most: int = 40) -> str:
    return repr(field[:most].decode("utf-8", "replace") + ("…" if len(field) > most else ""))
