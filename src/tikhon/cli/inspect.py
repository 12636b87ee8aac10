"""``tikhon inspect``: what a model file holds."""

from pathlib import Path
from typing import Annotated

import typer

from tikhon.cli.console import guarded, write_json


@guarded
def inspect(
    model: Annotated[Path, typer.Argument(help="A model file of tikhon fit or of model.save.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")] = False,
) -> None:
    """Show a model's groups, strengths and sizes of weights, and how it was tuned."""
    from tikhon._version import __version__
    from tikhon.cli.loading import load_model
    from tikhon.cli.tables import group_rows, print_groups, print_trace, print_tuning, trace_rows, tuning_dict
    from tikhon.data.safefile import read_file
    from tikhon.estimators.state import FILE_KIND, FILE_VERSION

    fitted = load_model(model)
    header, _ = read_file(model, kind=FILE_KIND, max_version=FILE_VERSION)
    written_by = str(header.get("tikhon", "unknown"))
    groups, trace = group_rows(fitted), trace_rows(fitted.tuning_)
    classes = fitted.classes_.tolist() if hasattr(fitted, "classes_") else None
    columns = [str(name) for name in getattr(fitted, "feature_names_in_", ())]
    if as_json:
        write_json(
            {
                "model": str(model),
                "estimator": type(fitted).__name__,
                "written_by": written_by,
                "read_by": __version__,
                "n_columns": int(fitted.n_features_in_),
                "columns": columns or None,
                "classes": classes,
                "intercept": fitted.intercept_,
                "parameters": header.get("parameters"),
                "groups": groups,
                "tuning": tuning_dict(fitted.tuning_) | {"trace": trace},
            }
        )
        return
    kinds = "" if classes is None else f", {len(classes)} classes"
    print(f"{type(fitted).__name__}: {fitted.n_features_in_} columns{kinds}; written by tikhon {written_by}")
    print_groups(groups)
    print_tuning(fitted.tuning_)
    for message in fitted.tuning_.warnings:
        print(f"warning: {message}")
    print_trace(trace)
