"""``tikhon predict``: from a model file and a table to predictions."""

import sys
import warnings
from pathlib import Path
from typing import Annotated, Any

import typer

from tikhon.cli.console import guarded, progress_bar, refuse_overwriting, write_json
from tikhon.cli.options import Format, NoLimits, reading_limits
from tikhon.errors import InputError


@guarded
def predict(
    model: Annotated[Path, typer.Argument(help="A model file of tikhon fit or of model.save.")],
    data: Annotated[Path, typer.Argument(help="csv, columns matched by name, or svmlight; also gzipped.")],
    proba: Annotated[bool, typer.Option("--proba", help="Also write the probability of each class.")] = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The csv file to write; - or nothing for stdout.")
    ] = None,
    file_format: Annotated[Format, typer.Option("--format", help="Format of DATA; auto: by its suffix.")] = Format.auto,
    no_limits: NoLimits = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of csv or text.")] = False,
) -> None:
    """Predict each row of a table; columns unknown to the model are ignored."""
    from tikhon.cli.loading import load_model, read_for
    from tikhon.data.files import check_writable, replacing
    from tikhon.data.tables import write_csv

    destination = None if output is None or str(output) == "-" else output
    if destination is not None:
        check_writable(destination)
        refuse_overwriting(destination, [model, data])
    fitted = load_model(model)
    if not hasattr(fitted, "n_features_in_"):
        command = "tag" if hasattr(fitted, "classes_") else "fold"
        raise InputError(
            f"{model}: is a {type(fitted).__name__} model, which does not predict rows of a table: use tikhon {command} predict"
        )
    if proba and not hasattr(fitted, "classes_"):
        raise InputError(f"{model}: is a regression model; --proba needs a classifier")
    with progress_bar() as bar:
        bar.start(data.stat().st_size if data.is_file() else None, f"reading {data.name}")
        table = read_for(
            fitted,
            data,
            file_format,
            lambda done, _: bar.to(done, f"reading {data.name}"),
            limits=reading_limits(no_limits),
        )
    columns = _predictions(fitted, table.X, proba)
    if destination is not None:
        with replacing(destination) as file:
            write_csv(file, columns)
    if as_json:
        summary = {"model": str(model), "data": str(data), "rows": table.n_rows}
        write_json(summary | ({"predictions": columns} if destination is None else {"output": str(destination)}))
    elif destination is None:
        sys.stdout.flush()
        write_csv(sys.stdout.buffer, columns)
    else:
        print(f"{table.n_rows} predictions: {destination}")


def _predictions(model: Any, X: Any, proba: bool) -> dict[str, Any]:
    import numpy as np

    with warnings.catch_warnings():
        # The columns were matched by name on reading; the array no longer has names.
        warnings.filterwarnings("ignore", message="X does not have valid feature names")
        predicted = np.asarray(model.predict(X))
        if predicted.ndim == 2:
            return {f"prediction_{place}": column for place, column in enumerate(predicted.T)}
        columns = {"prediction": predicted}
        if proba:
            shares = model.predict_proba(X)
            columns |= {f"probability_{label}": shares[:, place] for place, label in enumerate(model.classes_.tolist())}
    return columns
