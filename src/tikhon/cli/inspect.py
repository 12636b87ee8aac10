"""``tikhon inspect``: the contents of a model file."""

from pathlib import Path
from typing import Annotated, Any

import typer

from tikhon.cli.console import guarded, printable, write_json

STRONGEST = 5  # features of each label


@guarded
def inspect(
    model: Annotated[Path, typer.Argument(help="A model file of tikhon fit, tag fit, fold fit or model.save.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")] = False,
) -> None:
    """Show a model's groups, strengths, norms of weights and tuning."""
    from tikhon._version import __version__
    from tikhon.cli.loading import column_names_of, load_model
    from tikhon.cli.tables import (
        group_rows,
        print_groups,
        print_rows,
        print_trace,
        print_tuning,
        trace_rows,
        tuning_dict,
    )
    from tikhon.data.safefile import MODEL_KIND, MODEL_VERSION, read_file

    fitted = load_model(model)
    header, _ = read_file(model, kind=MODEL_KIND, max_version=MODEL_VERSION)
    written_by = str(header.get("tikhon", "unknown"))
    groups, trace = group_rows(fitted), trace_rows(fitted.tuning_)
    classes = fitted.classes_.tolist() if hasattr(fitted, "classes_") else None
    columns = list(column_names_of(fitted) or ()) if hasattr(fitted, "n_features_in_") else []
    strongest = _strongest(fitted)
    n_columns, noun = _size(fitted)
    if as_json:
        write_json(
            {
                "model": str(model),
                "estimator": type(fitted).__name__,
                "written_by": written_by,
                "read_by": __version__,
                "n_columns": n_columns,
                "columns": columns or None,
                "classes": classes,
                "intercept": getattr(fitted, "intercept_", None),
                "parameters": header.get("parameters"),
                "groups": groups,
                **({"strongest": strongest} if strongest else {}),
                "tuning": tuning_dict(fitted.tuning_) | {"trace": trace},
            }
        )
        return
    kinds = "" if classes is None else f", {len(classes)} classes"
    print(f"{type(fitted).__name__}: {n_columns} {noun}{kinds}; written by tikhon {written_by}")
    print_groups(groups)
    print_rows([{"label": label, "strongest features": ", ".join(names)} for label, names in strongest.items()])
    print_tuning(fitted.tuning_)
    for message in fitted.tuning_.warnings:
        print(f"warning: {message}")
    print_trace(trace)


def _size(model: Any) -> tuple[int, str]:
    """The size of a model and its unit."""
    if hasattr(model, "strongest_features"):
        return int(model.coef_.shape[1]), "features"
    if hasattr(model, "input_weights_"):
        return len(model.feature_names_), "features"
    if hasattr(model, "weights_"):
        return len(model.weights_), "weights"
    return int(model.n_features_in_), "columns"


def _strongest(model: Any) -> dict[str, list[str]]:
    """For a chain CRF, the features with the largest weights for each label."""
    if not hasattr(model, "strongest_features"):
        return {}
    return {
        str(label): [printable(name) for name, _ in model.strongest_features(label, STRONGEST)]
        for label in model.classes_.tolist()
    }
