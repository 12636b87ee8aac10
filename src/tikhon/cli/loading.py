"""Model files and the tables that go with them."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tikhon.cli.options import Format
from tikhon.errors import FileFormatError, InputError

if TYPE_CHECKING:
    from tikhon.data.files import OnBytes
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


def read_for(model: Any, path: Path, file_format: Format, on_bytes: "OnBytes | None" = None) -> "Table":
    """The columns that the model needs: csv by name, svmlight by position."""
    from tikhon.data.svmlight import read_svmlight
    from tikhon.data.tables import header, read_csv

    n_columns = int(model.n_features_in_)
    names = getattr(model, "feature_names_in_", None)
    if file_format.is_svmlight(path):
        return read_svmlight(path, n_features=n_columns, first_index=_first_index(names))
    if names is None:
        names = [f"x{place}" for place in range(n_columns)]
        present = header(path)
        if not set(names) <= set(present):
            if len(present) != n_columns:
                raise InputError(
                    f"{path}: the model was fitted without column names on {n_columns} columns; the file has "
                    f"{len(present)}: leave out the others, or name the columns x0 to x{n_columns - 1}"
                )
            names = present
    return read_csv(path, columns=[str(name) for name in names], on_bytes=on_bytes)


def _first_index(names: Any) -> int | None:
    """The index of the training file's first column, if it was svmlight; None if it was not."""
    if names is None or len(names) == 0 or str(names[0]) not in ("f0", "f1"):
        return None
    first = int(str(names[0])[1:])
    return first if all(str(name) == f"f{place}" for place, name in enumerate(names, first)) else None
