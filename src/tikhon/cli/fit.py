"""``tikhon fit``: from a table to a model file."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tikhon.cli.console import Bar, claim_outputs, guarded, progress_bar
from tikhon.cli.fitting import (
    Checkpoint,
    Folds,
    HeldOut,
    Json,
    ModelFile,
    Seed,
    Strength,
    Tuner,
    end_interrupted,
    fitted,
    report,
    tuning_parameters,
)
from tikhon.cli.options import Format, NoLimits, Task, TunerName, chosen_task, column_groups, reading_limits
from tikhon.errors import InputError

if TYPE_CHECKING:
    from tikhon.data.files import ReadingLimits
    from tikhon.data.tables import Table


@guarded
def fit(
    train: Annotated[Path, typer.Argument(help="csv with a header row, or svmlight; also gzipped.")],
    model: ModelFile,
    target: Annotated[str | None, typer.Option("--target", "-t", help="csv: the column to predict.")] = None,
    task: Annotated[Task, typer.Option(help="auto: text and few whole numbers mean classes.")] = Task.auto,
    groups: Annotated[
        str, typer.Option(help="none, separate, prefix (before '__'), or a .json file of groups.", metavar="GROUPS")
    ] = "none",
    tuner: Tuner = TunerName.auto,
    strength: Strength = None,
    ignore: Annotated[
        list[str] | None, typer.Option(help="csv: a column to leave out; repeatable.", metavar="COLUMN")
    ] = None,
    file_format: Annotated[
        Format, typer.Option("--format", help="Format of TRAIN; auto: by its suffix.")
    ] = Format.auto,
    standardize: Annotated[bool, typer.Option("--standardize", help="Scale each column to unit variance.")] = False,
    no_intercept: Annotated[bool, typer.Option("--no-intercept", help="Fit without an intercept.")] = False,
    cv: Folds = None,
    validation_fraction: HeldOut = None,
    rescale: Annotated[
        bool, typer.Option("--rescale", help="Rescale the strengths by the number of rows for the final fit.")
    ] = False,
    checkpoint: Checkpoint = None,
    seed: Seed = 0,
    jobs: Annotated[int | None, typer.Option(min=1, help="Folds in parallel; default: all cores.")] = None,
    no_limits: NoLimits = False,
    as_json: Json = False,
) -> None:
    """Learn the strengths and the weights of a linear or logistic regression, and write a model file."""
    tuning = tuning_parameters(
        tuner=tuner, strength=strength, folds=cv, held_out=validation_fraction, checkpoint=checkpoint, seed=seed, jobs=jobs
    )  # fmt: skip
    claim_outputs([model] if checkpoint is None else [model, checkpoint], [train])
    with progress_bar() as bar:
        table = read_training_table(train, file_format, target, task, ignore or [], bar, reading_limits(no_limits))
        chosen = chosen_task(task, table.target)
        estimator = _estimator(chosen)(
            groups=column_groups(groups, table.columns),
            fit_intercept=not no_intercept,
            standardize=standardize,
            rescale="n" if rescale else "none",
            **tuning,
        )
        messages = _fitted(estimator, table, chosen, checkpoint, bar)
    estimator.save(model)
    _report(estimator, table, chosen, model, messages, as_json)
    end_interrupted(estimator, model, checkpoint)


def read_training_table(
    train: Path, file_format: Format, target: str | None, task: Task, ignore: Sequence[str], bar: Bar,
    limits: "ReadingLimits",
) -> "Table":  # fmt: skip
    """The columns and the target of a file."""
    from tikhon.data.svmlight import read_svmlight
    from tikhon.data.tables import header, read_csv, shown

    bar.start(None, f"reading {train.name}")
    if file_format.is_svmlight(train):
        if target is not None or ignore:
            raise InputError(f"{train}: svmlight files have no column names: leave out --target and --ignore")
        return read_svmlight(train, limits=limits)
    if target is None:
        raise InputError(
            f"{train}: name the column to predict with --target; columns are {shown(header(train, limits))}"
        )
    bar.start(train.stat().st_size if train.is_file() else None, f"reading {train.name}")
    return read_csv(
        train,
        target=target,
        target_kind="number" if task is Task.regression else "auto",
        ignore=ignore,
        on_bytes=lambda done, _: bar.to(done, f"reading {train.name}"),
        limits=limits,
    )


def _estimator(task: Task) -> Any:
    from tikhon import LogisticRegression, Ridge

    return Ridge if task is Task.regression else LogisticRegression


def _fitted(estimator: Any, table: "Table", task: Task, checkpoint: Path | None, bar: Bar) -> list[str]:
    """Fit in place and return the distinct warnings."""
    import numpy as np

    target = np.asarray(table.target, dtype=np.float64) if task is Task.regression else table.target
    messages = fitted(
        estimator, table.X, target, table.source, checkpoint, bar, lambda message: _with_names(message, table.columns)
    )
    if table.first_index is not None:
        estimator.first_index_ = table.first_index
    else:  # the estimator is given an array, since names would need a data frame and so pandas or polars
        estimator.feature_names_in_ = np.array(table.columns, dtype=object)
    return messages


def _with_names(message: str, columns: Sequence[str]) -> str:
    """The message with the file's column names in place of x0, x1 ..., the default names of an array's columns."""

    def named(match: re.Match[str]) -> str:
        place = int(match[1])
        return match[0] if match[0][1:-1] in columns or place >= len(columns) else repr(columns[place])

    return re.sub(r"'x([0-9]{1,9})'", named, message)


def _report(estimator: Any, table: "Table", task: Task, model: Path, messages: list[str], as_json: bool) -> None:
    classes = estimator.classes_.tolist() if task is Task.classification else None
    kinds = "" if classes is None else f", {len(classes)} classes"
    report(
        estimator,
        title=f"{task.value}: {table.n_rows} rows, {len(table.columns)} columns{kinds}",
        about={"task": task.value, "rows": table.n_rows, "columns": len(table.columns), "classes": classes},
        files={"model": model},
        messages=messages,
        as_json=as_json,
    )
