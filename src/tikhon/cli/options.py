"""Conversion of command-line options to parameters of an estimator."""

import json
from collections.abc import Sequence
from dataclasses import fields
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tikhon.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tikhon.data.files import ReadingLimits

MOST_CLASSES = 20  # whole numbers with more distinct values than this are treated as quantities


NoLimits = Annotated[bool, typer.Option("--no-limits", help="Read lines, gzip files and column numbers of any size.")]


def reading_limits(no_limits: bool) -> "ReadingLimits":
    from tikhon.data.files import LIMITS, NO_LIMITS

    return NO_LIMITS if no_limits else LIMITS


class Task(StrEnum):
    auto = "auto"
    classification = "classification"
    regression = "regression"


class Format(StrEnum):
    auto = "auto"
    csv = "csv"
    svmlight = "svmlight"

    def is_svmlight(self, path: Path) -> bool:
        from tikhon.data.tables import is_svmlight

        try:
            return is_svmlight(path) if self is Format.auto else self is Format.svmlight
        except InputError as error:
            raise InputError(f"{error}, or give --format csv or --format svmlight") from None


class TunerName(StrEnum):
    auto = "auto"
    loo = "loo"
    evidence = "evidence"
    grid = "grid"
    mm = "mm"
    direct = "direct"
    gradient = "gradient"
    none = "none"


class SequenceTunerName(StrEnum):
    """Names of the tuners that work for chains and molecules."""

    auto = "auto"
    grid = "grid"
    mm = "mm"
    direct = "direct"
    gradient = "gradient"
    none = "none"


class TrainerName(StrEnum):
    lbfgs = "lbfgs"
    sgd = "sgd"
    perceptron = "perceptron"
    margin = "margin"


def chosen_task(task: Task, target: "NDArray[Any] | None") -> Task:
    """Text and few distinct whole numbers are classes, other numbers are quantities."""
    import numpy as np

    if task is not Task.auto or target is None:
        return task
    if target.dtype == object:
        return Task.classification
    distinct = np.unique(target)
    is_whole = bool(np.array_equal(distinct, np.round(distinct)))
    few = len(distinct) <= min(MOST_CLASSES, max(2, len(target) // 2))
    return Task.classification if is_whole and few else Task.regression


def column_groups(spec: str, columns: Sequence[str]) -> list[str | None] | None:
    """The group of each column by name: none, separate, prefix, or a JSON file."""
    from tikhon.groups import groups_of_columns

    if spec == "none":
        return None
    known = spec in ("separate", "prefix")
    if not known and not spec.endswith(".json"):
        raise InputError(f"--groups {spec!r}: write none, separate, prefix, or the name of a .json file")
    try:
        index, names = groups_of_columns(spec if known else _groups_file(Path(spec)), columns)
    except InputError as error:
        raise error if known or spec in str(error) else InputError(f"{spec}: {error}") from None
    return [None if number < 0 else names[number] for number in index]


def strengths_by_name(written: Sequence[str]) -> dict[str, float] | float | None:
    """``NAME=VALUE`` for some groups, or one ``VALUE`` for all."""
    if not written:
        return None
    if len(written) == 1 and "=" not in written[0]:
        return _number(written[0], written[0])
    strengths: dict[str, float] = {}
    for text in written:
        name, equals, value = text.rpartition("=")
        if not equals or not name:
            raise InputError(f"--strength {text!r}: write NAME=VALUE, or one VALUE for all groups")
        if name in strengths:
            raise InputError(f"--strength names the group {name!r} twice")
        strengths[name] = _number(value, text)
    return strengths


def make_tuner(name: TunerName | SequenceTunerName, checkpoint: Path | None) -> Any:
    """A tuner with its defaults; None for fixed strengths."""
    from tikhon.tuners import TUNERS

    if name == TunerName.none:
        if checkpoint is not None:
            raise InputError("--checkpoint: with --tuner none there are no steps to save")
        return None
    kind: Any = TUNERS[name.value]
    return kind(checkpoint=None if checkpoint is None else str(checkpoint))


def make_trainer(name: TrainerName, checkpoint: Path | None, **options: Any) -> Any:
    """A trainer with those options that are not None; None for fits at learned strengths."""
    from tikhon.trainers import TRAINERS

    given = {option: value for option, value in options.items() if value is not None}
    if name is TrainerName.lbfgs and not given:
        return None
    kind: Any = TRAINERS[name.value]
    if "epochs" in given and name is TrainerName.lbfgs:
        given["iterations"] = given.pop("epochs")
    known = {field.name for field in fields(kind)}
    for option in given:
        if option not in known:
            raise InputError(f"--{option}: the trainer {name.value} has no such setting")
    return kind(**given, checkpoint=None if checkpoint is None else str(checkpoint))


def _groups_file(path: Path) -> Any:
    """An object from group name to columns, or a list with a group name for each column."""
    from tikhon.data.files import reading

    with reading(path) as (content, _):
        raw = content.read()
    try:
        groups = json.loads(raw.decode("utf-8-sig"), object_pairs_hook=_distinct)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: is not JSON ({error})") from None
    if isinstance(groups, dict):
        for name, members in groups.items():
            if not isinstance(members, list) or not all(_is_column(member) for member in members):
                raise InputError(f"{path}: group {name!r} must be a list of column names or positions")
        return groups
    if isinstance(groups, list) and all(name is None or _is_column(name) for name in groups):
        return groups
    raise InputError(f"{path}: write an object from group names to lists of columns, or a list with a name per column")


def _is_column(value: Any) -> bool:
    return isinstance(value, str | int) and not isinstance(value, bool)


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = [name for name, _ in pairs]
    for place, name in enumerate(names):
        if name in names[:place]:
            raise InputError(f"the group {name!r} is defined twice")
    return dict(pairs)


def _number(value: str, text: str) -> float:
    try:
        number = float(value)
    except ValueError:
        raise InputError(f"--strength {text!r}: {value!r} is not a number") from None
    if not 0.0 <= number < float("inf"):
        raise InputError(f"--strength {text!r}: a strength is finite, 0 or larger")
    return number
