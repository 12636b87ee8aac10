"""Files of search spaces, and estimators named by import path. Nothing in either can run code of its own."""

import importlib
import inspect
import json
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tikhon.errors import InputError

PACKAGES = ("sklearn", "tikhon", "lightgbm", "xgboost", "catboost")
KEYS = {"low", "high", "log", "step"}


def read_space(path: Path) -> dict[str, Any]:
    """Distributions by parameter from a TOML file.

    ``C = {low = 1e-3, high = 1e3, log = true}``, ``depth = {low = 2, high = 8}`` (whole numbers), ``kernel = ["rbf", "poly"]``.
    """
    from tikhon.data.files import reading

    with reading(path) as (content, _):
        raw = content.read()
    try:
        given = tomllib.loads(raw.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: is not TOML ({error})") from None
    if not given:
        raise InputError(
            f"{path}: names no parameter; write lines such as C = {{low = 0.001, high = 1000.0, log = true}}"
        )
    return {name: _distribution(path, name, entry) for name, entry in given.items()}


def _distribution(path: Path, name: str, entry: Any) -> Any:
    from optuna.distributions import FloatDistribution, IntDistribution

    if isinstance(entry, list):
        return entry
    if not isinstance(entry, Mapping) or not entry.keys() <= KEYS or not {"low", "high"} <= entry.keys():
        raise InputError(
            f"{path}: {name} is {entry!r}: write a list of values, or a table of low and high, and perhaps log = true or step"
        )
    low, high, step = entry["low"], entry["high"], entry.get("step")
    numbers = [low, high] if step is None else [low, high, step]
    if any(isinstance(number, bool) or not isinstance(number, (int, float)) for number in numbers):
        raise InputError(f"{path}: {name}: low, high and step must be numbers")
    if not isinstance(entry.get("log", False), bool):
        raise InputError(f"{path}: {name}: log is true or false")
    is_whole = all(isinstance(number, int) for number in numbers)
    options = {"log": entry.get("log", False)} | ({} if step is None else {"step": step})
    try:
        return (
            IntDistribution(low, high, **options) if is_whole else FloatDistribution(float(low), float(high), **options)
        )
    except ValueError as error:
        raise InputError(f"{path}: {name}: {error}") from None


def make_estimator(name: str, settings: Sequence[str]) -> Any:
    """An estimator by its import path, such as sklearn.svm.LinearSVC, with ``NAME=VALUE`` settings."""
    module_name, _, class_name = name.rpartition(".")
    parts = name.split(".")
    if (
        not module_name
        or parts[0] not in PACKAGES
        or any(not part.isidentifier() or part.startswith("_") for part in parts)
    ):
        raise InputError(
            f"--estimator {name!r}: write the import path of an estimator of {', '.join(PACKAGES)}, such as "
            "sklearn.svm.LinearSVC"
        )
    try:
        found = getattr(importlib.import_module(module_name), class_name)
    except (ImportError, AttributeError) as error:
        raise InputError(f"--estimator {name!r}: {error}") from None
    if not inspect.isclass(found) or not hasattr(found, "fit") or not hasattr(found, "get_params"):
        raise InputError(f"--estimator {name!r}: is not an estimator")
    given = dict(_setting(text) for text in settings)
    try:
        return found(**given)
    except TypeError as error:
        raise InputError(f"--estimator {name!r}: {error}") from None


def _setting(text: str) -> tuple[str, Any]:
    name, equals, written = text.partition("=")
    if not equals or not name:
        raise InputError(f"--set {text!r}: write NAME=VALUE")
    try:
        return name, json.loads(written)
    except ValueError:
        return name, {"None": None, "True": True, "False": False}.get(written, written)
