"""Model files and the tables that go with them."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tikhon.cli.options import Format
from tikhon.errors import FileFormatError, InputError
from tikhon.groups import NumberedNames

if TYPE_CHECKING:
    from tikhon.data.files import OnBytes, ReadingLimits
    from tikhon.data.tables import Table


def load_model(path: Path) -> Any:
    """The model; every error names the file."""
    from tikhon import load

    if path.is_dir():
        raise InputError(f"{path}: is a directory; give the name of a model file")
    try:
        return load(path)
    except InputError as error:
        raise error if str(path) in str(error) else FileFormatError(f"{path}: {error}") from None


def column_names_of(model: Any) -> Sequence[str] | None:
    """The names of the columns that a linear model was trained on; None if they had none."""
    if model.first_index_ is not None:
        return NumberedNames("f", model.first_index_, model.n_features_in_)
    names = getattr(model, "feature_names_in_", None)
    return None if names is None else [str(name) for name in names]


def read_for(
    model: Any, path: Path, file_format: Format, on_bytes: "OnBytes | None" = None, *, limits: "ReadingLimits"
) -> "Table":
    """The columns that the model needs: csv by name, svmlight by position."""
    from tikhon.data.svmlight import read_svmlight
    from tikhon.data.tables import header, read_csv

    n_columns = int(model.n_features_in_)
    names = column_names_of(model)
    if file_format.is_svmlight(path):
        return read_svmlight(path, n_features=n_columns, first_index=_first_index(model, names), limits=limits)
    if names is None:
        names = [f"x{place}" for place in range(n_columns)]
        present = header(path, limits)
        if not set(names) <= set(present):
            if len(present) != n_columns:
                raise InputError(
                    f"{path}: the model was fitted without column names on {n_columns} columns; the file has "
                    f"{len(present)}: leave out the others, or name the columns x0 to x{n_columns - 1}"
                )
            names = present
    return read_csv(path, columns=names, on_bytes=on_bytes, limits=limits)


def _first_index(model: Any, names: Sequence[str] | None) -> int | None:
    """The index of the training file's first column, if it was svmlight; None if it was not."""
    if model.first_index_ is not None:
        return int(model.first_index_)
    # Files of early versions have the names f0, f1 ... or f1, f2 ...
    if not names or names[0] not in ("f0", "f1"):
        return None
    first = int(names[0][1:])
    return first if list(names) == list(NumberedNames("f", first, len(names))) else None
