"""``tikhon fit``: from a table to a model file."""

import re
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tikhon.cli.console import Bar, InterruptionError, guarded, progress_bar, refuse_overwriting, warn, write_json
from tikhon.cli.options import Format, Task, TunerName, chosen_task, column_groups, make_tuner, strengths_by_name
from tikhon.errors import InputError

if TYPE_CHECKING:
    from tikhon.data.tables import Table
    from tikhon.results import Step


@guarded
def fit(
    train: Annotated[Path, typer.Argument(help="csv with a header row, or svmlight; also gzipped.")],
    model: Annotated[Path, typer.Option("--model", "-m", help="The model file to write, by custom .safetensors.")],
    target: Annotated[str | None, typer.Option("--target", "-t", help="csv: the column to predict.")] = None,
    task: Annotated[Task, typer.Option(help="auto: text and few whole numbers are classes.")] = Task.auto,
    groups: Annotated[
        str, typer.Option(help="none, separate, prefix (before '__'), or a .json file of groups.", metavar="GROUPS")
    ] = "none",
    tuner: Annotated[TunerName, typer.Option(help="How the strengths are learned.")] = TunerName.auto,
    strength: Annotated[
        list[str] | None, typer.Option(help="Fix a group's strength; repeatable.", metavar="NAME=VALUE")
    ] = None,
    ignore: Annotated[
        list[str] | None, typer.Option(help="csv: a column to leave out; repeatable.", metavar="COLUMN")
    ] = None,
    file_format: Annotated[
        Format, typer.Option("--format", help="What TRAIN holds; auto: as its name ends.")
    ] = Format.auto,
    standardize: Annotated[bool, typer.Option("--standardize", help="Scale each column to unit variance.")] = False,
    no_intercept: Annotated[bool, typer.Option("--no-intercept", help="Fit without an intercept.")] = False,
    cv: Annotated[
        int | None, typer.Option(min=2, help="Folds of the cross-validation; chosen by the tuner unless told.")
    ] = None,
    validation_fraction: Annotated[
        float | None, typer.Option(help="Hold out this share of the rows instead of cross-validation.")
    ] = None,
    rescale: Annotated[
        bool, typer.Option("--rescale", help="Scale the strengths by the number of rows for the last fit.")
    ] = False,
    checkpoint: Annotated[
        Path | None, typer.Option(help="Keep each step in this file; a killed run goes on from it.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Seed of the splits.")] = 0,
    jobs: Annotated[int | None, typer.Option(min=1, help="Folds at once; all cores unless told.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")] = False,
) -> None:
    """Learn the strengths and the weights of a linear or logistic regression, and write a model file."""
    from tikhon.data.files import check_writable

    if cv is not None and validation_fraction is not None:
        raise InputError("--cv and --validation-fraction exclude each other: give one")
    check_writable(model)
    refuse_overwriting(model, [train])
    if checkpoint is not None:
        check_writable(checkpoint)
        refuse_overwriting(checkpoint, [train, model])
    tuner_object = make_tuner(tuner, checkpoint)
    strengths = strengths_by_name(strength or [])
    with progress_bar() as bar:
        table = _read(train, file_format, target, task, ignore or [], bar)
        chosen = chosen_task(task, table.target)
        estimator = _estimator(chosen)(
            groups=column_groups(groups, table.columns),
            tuner=tuner_object,
            strengths=strengths,
            fit_intercept=not no_intercept,
            standardize=standardize,
            cv=None if validation_fraction is not None else cv or "auto",
            validation_fraction=0.2 if validation_fraction is None else validation_fraction,
            rescale="n" if rescale else "none",
            random_state=seed,
            n_jobs=jobs,
        )
        messages = _fitted(estimator, table, chosen, checkpoint, bar)
    estimator.save(model)
    for message in messages:
        warn(message)
    _report(estimator, table, chosen, model, messages, as_json)
    if estimator.tuning_.status == "interrupted":
        raise InterruptionError(f"the best so far is in {model}{_how_to_go_on(checkpoint)}")


def _read(train: Path, file_format: Format, target: str | None, task: Task, ignore: Sequence[str], bar: Bar) -> "Table":
    from tikhon.data.svmlight import read_svmlight
    from tikhon.data.tables import header, read_csv, shown

    bar.start(None, f"reading {train.name}")
    if file_format.is_svmlight(train):
        if target is not None or ignore:
            raise InputError(f"{train}: svmlight files have no column names: leave --target and --ignore out")
        return read_svmlight(train)
    if target is None:
        raise InputError(f"{train}: name the column to predict with --target; columns are {shown(header(train))}")
    bar.start(train.stat().st_size if train.is_file() else None, f"reading {train.name}")
    return read_csv(
        train,
        target=target,
        target_kind="number" if task is Task.regression else "auto",
        ignore=ignore,
        on_bytes=lambda done, _: bar.to(done, f"reading {train.name}"),
    )


def _estimator(task: Task) -> Any:
    from tikhon import LogisticRegression, Ridge

    return Ridge if task is Task.regression else LogisticRegression


def _fitted(estimator: Any, table: "Table", task: Task, checkpoint: Path | None, bar: Bar) -> list[str]:
    """Fit in place; the warnings, each once."""
    import numpy as np

    target = np.asarray(table.target, dtype=np.float64) if task is Task.regression else table.target
    estimator._on_step = show_step(bar, estimator.tuner)
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            estimator.fit(table.X, target)
    except KeyboardInterrupt:
        if not hasattr(estimator, "coef_"):  # interrupted before there was anything to keep
            raise InterruptionError(f"no model was written{_how_to_go_on(checkpoint)}") from None
    except ValueError as error:
        raise InputError(f"{table.source}: {_with_names(str(error), table.columns)}") from error
    finally:
        del estimator._on_step
    # The estimator sees an array: names would need a data frame, and with it pandas or polars.
    estimator.feature_names_in_ = np.array(table.columns, dtype=object)
    return list(dict.fromkeys(_with_names(str(warning.message), table.columns) for warning in caught))


def show_step(bar: Bar, tuner: Any) -> Callable[["Step"], None]:
    most = getattr(tuner, "max_steps", None) or len(getattr(tuner, "values", ())) or None
    name = "fitting" if tuner is None else f"tuning ({tuner.name})"
    bar.start(most, name)

    def show(step: "Step") -> None:
        bar.advance(1, f"{name}: step {step.number}, criterion {step.criterion:.6g}")

    return show


def _with_names(message: str, columns: Sequence[str]) -> str:
    """The message with the file's column names for the positions x0, x1 ... that an array's columns go by."""

    def named(match: re.Match[str]) -> str:
        place = int(match[1])
        return match[0] if match[0][1:-1] in columns or place >= len(columns) else repr(columns[place])

    return re.sub(r"'x([0-9]{1,9})'", named, message)


def _how_to_go_on(checkpoint: Path | None) -> str:
    return "" if checkpoint is None else f"; the same command goes on from {checkpoint}"


def _report(estimator: Any, table: "Table", task: Task, model: Path, messages: list[str], as_json: bool) -> None:
    from tikhon.cli.tables import group_rows, print_groups, print_tuning, tuning_dict

    rows = group_rows(estimator)
    classes = estimator.classes_.tolist() if task is Task.classification else None
    if as_json:
        write_json(
            {
                "model": str(model),
                "task": task.value,
                "rows": table.n_rows,
                "columns": len(table.columns),
                "classes": classes,
                "groups": rows,
                "tuning": tuning_dict(estimator.tuning_),
                "warnings": messages,
            }
        )
        return
    kinds = "" if classes is None else f", {len(classes)} classes"
    print(f"{task.value}: {table.n_rows} rows, {len(table.columns)} columns{kinds}")
    print_groups(rows)
    print_tuning(estimator.tuning_)
    print(f"model: {model}")
