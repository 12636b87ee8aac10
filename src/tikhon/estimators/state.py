"""Conversion of a fitted model to the JSON header and arrays of a model file, and back.

``description.py`` describes the same contents; a file is checked against it before anything is restored.
"""

import dataclasses
import json
import os
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tikhon._version import __version__
from tikhon.data.description import Description
from tikhon.data.values import Mismatch
from tikhon.errors import FileFormatError, InputError
from tikhon.groups import Groups
from tikhon.results import Step, TuneResult
from tikhon.tuners import TUNERS

Arrays = dict[str, NDArray[Any]]


def model_state(model: Any) -> tuple[dict[str, Any], Arrays]:
    """The header and the arrays of a fitted estimator."""
    groups: Groups = model.groups_
    arrays: Arrays = {
        "groups.index": groups.index,
        "groups.fixed": groups.fixed,
        "strengths": np.array(list(model.strengths_.values())),
    }
    header: dict[str, Any] = {
        "estimator": type(model).__name__,
        "tikhon": __version__,
        "parameters": _parameters(model),
        "n_iter": model.n_iter_,
        "groups": list(groups.names),
        "tuning": _tuning_state(model.tuning_, arrays),
        **model._own_state(arrays),
    }
    if hasattr(model, "classes_"):
        header["classes"] = _labels_state(model.classes_, arrays)
    return header, arrays


def restore(model_class: type[Any], header: dict[str, Any], arrays: Arrays, path: str | os.PathLike[str]) -> Any:
    """The fitted estimator from the header and arrays of a file, which are first checked against its description."""
    description: Description = model_class._file_description
    description.check(path, header, arrays)
    model = model_class(**_restored_parameters(header["parameters"]))
    names = tuple(header["groups"])
    model.groups_ = Groups(arrays["groups.index"].astype(np.intp), names, arrays["groups.fixed"])
    model.strengths_ = dict(zip(names, arrays["strengths"].tolist(), strict=True))
    model.tuning_ = _restored_tuning(header["tuning"], names, arrays)
    model.n_iter_ = header["n_iter"]
    if "classes" in header:
        model.classes_ = _restored_labels(header["classes"], arrays)
    try:
        model._restore_own(header, arrays)
    except Mismatch as wrong:
        raise FileFormatError(f"{os.fspath(path)}: {wrong}") from None
    return model


def _parameters(model: Any) -> dict[str, Any]:
    """The parameters that can be stored; those left out take their defaults when the model is loaded."""
    stored = {}
    for name, value in model.get_params(deep=False).items():
        if name == "groups":
            value = model._column_groups() if callable(value) or _has_slices(value) else value
        if name in ("tuner", "trainer"):
            value = _object_state(value, _kinds(name))
        elif name == "cv" and not (value is None or isinstance(value, int | np.integer)):
            continue  # splits refer to rows, which are not in the file
        elif isinstance(value, Mapping):
            value = {"mapping": [[key, part] for key, part in value.items()]}  # keys keep their type
        try:
            stored[name] = json.loads(json.dumps(value, default=_as_list))
        except TypeError:
            continue
    return stored


def _kinds(parameter: str) -> Mapping[str, type[Any]]:
    """The classes that a parameter may be an object of, by name."""
    if parameter == "tuner":
        return TUNERS
    from tikhon.trainers import TRAINERS  # which bring compiled code

    return TRAINERS


def _has_slices(groups: Any) -> bool:
    return isinstance(groups, Mapping) and any(isinstance(members, slice) for members in groups.values())


def _restored_parameters(stored: dict[str, Any]) -> dict[str, Any]:
    parameters = {}
    for name, value in stored.items():
        if isinstance(value, dict) and "mapping" in value:
            value = dict(value["mapping"])
        elif name in ("tuner", "trainer") and isinstance(value, dict):
            options: Any = {
                key: tuple(part) if isinstance(part, list) else part for key, part in value["options"].items()
            }
            value = _kinds(name)[value["name"]](**options)
        parameters[name] = value
    return parameters


def _as_list(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, Iterable):  # ranges, sets, series
        return list(value)
    raise TypeError(f"{type(value).__name__} is not JSON")


def _object_state(value: Any, kinds: Mapping[str, type[Any]]) -> Any:
    """A name, or the name and options of a built-in kind; others are returned unchanged, which JSON refuses."""
    if value is None or isinstance(value, str):
        return value
    name = getattr(value, "name", None)
    if kinds.get(str(name)) is not type(value) or not dataclasses.is_dataclass(value):
        return value
    options = {field.name: getattr(value, field.name) for field in dataclasses.fields(value) if field.init}
    return {"name": name, "options": {key: value for key, value in options.items() if key != "checkpoint"}}


def _labels_state(labels: NDArray[Any], arrays: Arrays) -> dict[str, Any]:
    """Class labels with their type: numbers as an array, text and mixtures as JSON."""
    if labels.dtype.kind in "biuf":
        arrays["classes"] = labels
        return {"dtype": labels.dtype.str}
    values = [label.item() if isinstance(label, np.generic) else label for label in labels.tolist()]
    if labels.dtype.kind not in "UO" or not all(isinstance(value, str | int | float) for value in values):
        raise InputError(f"classes of type {labels.dtype} cannot be saved: use text, whole numbers, floats or booleans")
    return {"dtype": "object" if labels.dtype.kind == "O" else labels.dtype.str, "values": values}


def _restored_labels(stored: dict[str, Any], arrays: Arrays) -> NDArray[Any]:
    if "values" not in stored:
        return arrays["classes"].astype(np.dtype(stored["dtype"]))
    if stored["dtype"] == "object":
        labels = np.empty(len(stored["values"]), dtype=object)
        labels[:] = stored["values"]
        return labels
    return np.array(stored["values"], dtype=stored["dtype"])


_STEP_FIELDS = [field.name for field in dataclasses.fields(Step) if field.name != "strengths"]
_TUNING_FIELDS = [
    field.name for field in dataclasses.fields(TuneResult) if field.name not in ("strengths", "weights", "trace")
]


def _tuning_state(result: TuneResult, arrays: Arrays) -> dict[str, Any]:
    arrays["tuning.weights"] = result.weights
    arrays["tuning.strengths"] = np.array(list(result.strengths.values()))
    by_step = np.zeros((len(result.trace), len(result.strengths)))
    for row, step in zip(by_step, result.trace, strict=True):
        row[:] = step.strengths
    arrays["tuning.trace.strengths"] = by_step
    state = {name: getattr(result, name) for name in _TUNING_FIELDS}
    state["trace"] = [{name: getattr(step, name) for name in _STEP_FIELDS} for step in result.trace]
    return state


def _restored_tuning(state: dict[str, Any], names: tuple[str, ...], arrays: Arrays) -> TuneResult:
    trace = tuple(
        Step(strengths=strengths, **step)
        for step, strengths in zip(state["trace"], arrays["tuning.trace.strengths"], strict=True)
    )
    state = {"relative_gap": float("nan"), "gap_is_bound": False} | state  # missing in files of version 0.1
    fields = {name: state[name] for name in _TUNING_FIELDS}
    fields.update(notes=tuple(fields["notes"]), warnings=tuple(fields["warnings"]))
    strengths = dict(zip(names, arrays["tuning.strengths"].tolist(), strict=True))
    return TuneResult(strengths=strengths, weights=arrays["tuning.weights"], trace=trace, **fields)
