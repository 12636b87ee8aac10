"""What users give, in the form that a search needs."""

from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier
from sklearn.utils.multiclass import type_of_target

from tikhon.errors import InputError
from tikhon.search.identity import digest
from tikhon.search.space import SCALARS


def seed_of(random_state: Any) -> int:
    if random_state is None:
        return 0
    if isinstance(random_state, Integral):
        return int(random_state)
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31))
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**31))
    raise InputError(f"random_state={random_state!r}: write a whole number, a generator of numpy or None")


def row_numbers(rows: Any) -> NDArray[np.intp]:
    rows = np.asarray(rows)
    numbers: NDArray[np.intp] = np.flatnonzero(rows) if rows.dtype == bool else rows
    return numbers


def named_scores(scoring: Any) -> Any:
    """Scores by name, or what tells one function from another."""
    if isinstance(scoring, dict):
        return {name: named_scores(one) for name, one in scoring.items()}
    if scoring is None or isinstance(scoring, str):
        return scoring
    return sorted(scoring) if isinstance(scoring, (list, tuple, set)) else digest(scoring)


def settings_of(estimator: Any) -> dict[str, str]:
    """The class and the parameters of an estimator, those of its parts included."""
    parts = {"": estimator} | estimator.get_params(deep=True)
    return {
        name or "class": f"{type(value).__module__}.{type(value).__qualname__}"
        if hasattr(value, "get_params")
        else repr(value)
        if isinstance(value, SCALARS)
        else digest(value)
        for name, value in parts.items()
    }


def classes_of(estimator: Any, y: Any) -> NDArray[np.intp] | None:
    """Class numbers of the rows, to keep the classes of every stage in proportion; None without single classes."""
    if not is_classifier(estimator) or y is None:
        return None
    if type_of_target(y) not in ("binary", "multiclass"):
        return None
    codes: NDArray[np.intp] = np.unique(np.asarray(y), return_inverse=True)[1]
    return codes
