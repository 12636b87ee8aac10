"""What a search is: JSON values by name, kept with each of its studies. Only the same search may add trials to them."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from functools import partial
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, cast

import joblib
import numpy as np
from scipy import sparse

from tikhon.errors import InputError

if TYPE_CHECKING:
    import optuna

FORMAT = 1
KEY = "tikhon:search"  # of the identity, among the attributes of a study

_DIGEST = "digest "
_LONGEST = 60  # characters of a value in a message
_KEPT = 15  # of them before the first difference


def check_same(study: "optuna.Study", identity: Mapping[str, Any]) -> None:
    """Give a new study its identity; refuse one of another search, and one that tikhon did not make.

    identity:
        JSON values by name: numbers, texts, lists and dicts of them, and digests. The format is added.
    """
    given = _json({"format": FORMAT, **identity})
    stored = study.user_attrs.get(KEY)
    if stored is None:
        # Without trials it may be ours: a kill can fall between the creation of a study and the next line.
        if study.get_trials(deepcopy=False) or study.user_attrs:
            raise InputError(
                f"the study {study.study_name!r} was not made by tikhon; name another study, or another storage"
            )
        study.set_user_attr(KEY, given)
        return
    if not isinstance(stored, dict) or not isinstance(stored.get("format"), int):
        raise InputError(
            f"the study {study.study_name!r} has no readable identity ({KEY!r}): it was edited; name another study"
        )
    if stored["format"] != given["format"]:
        is_newer = stored["format"] > given["format"]
        raise InputError(
            f"the study {study.study_name!r} has format {stored['format']}, which is {'newer' if is_newer else 'older'} "
            f"than that of this version of tikhon, {given['format']}; "
            + ("update tikhon" if is_newer else "name another study")
        )
    found = list(_differences(given, stored))
    if found:
        raise InputError(
            f"the study {study.study_name!r} has the trials of another search: {'; '.join(found)}. Name another study or "
            "storage to begin a new search, or give what was given before to go on with this one"
        )


def digest(value: Any) -> str:
    """A short text that stands for data, index arrays or an estimator: equal values have the same in every process.

    Arrays are compared by values and types, whatever their layout in memory; frames by columns, without row labels;
    estimators by class and parameters; functions by name and code.
    """
    plain = _plain(value)
    try:
        return _DIGEST + str(joblib.hash(plain))
    except Exception as error:  # what pickling raises depends on the object
        raise InputError(
            f"a {type(value).__name__} cannot be compared between runs ({type(error).__name__}: {error}); leave out the "
            "storage"
        ) from error


def _plain(value: Any) -> Any:
    """The value as tuples, texts and numbers, whose hash by joblib does not depend on versions of Python and libraries."""
    if isinstance(value, (np.ndarray, np.generic)):
        value = np.asarray(value)
        if value.dtype.hasobject:
            return "array", value.shape, tuple(_plain(each) for each in value.ravel().tolist())
        content = np.ascontiguousarray(value).reshape(-1).view(np.uint8)
        return "array", value.dtype.str, value.shape, hashlib.sha256(content.data).hexdigest()
    if sparse.issparse(value):
        rows = sparse.csr_array(cast(Any, value), copy=True)
        rows.sum_duplicates()
        indices = (part.astype(np.int64) for part in (rows.indptr, rows.indices))
        return "sparse", rows.shape, _plain(rows.data), *(_plain(part) for part in indices)
    if isinstance(value, type):
        return _named(value)
    if hasattr(value, "columns") and hasattr(value, "dtypes"):  # pandas, polars
        columns = value.items() if hasattr(value, "items") else zip(value.columns, value, strict=True)
        return "frame", tuple((name, _plain(column)) for name, column in columns)
    if hasattr(value, "to_numpy") and hasattr(value, "dtype"):
        return "column", str(value.dtype), _plain(np.asarray(value.to_numpy()))
    if hasattr(value, "get_params"):
        return _named(type(value)), _plain(value.get_params(deep=False))
    if isinstance(value, Mapping):
        return "dict", tuple((repr(key), _plain(value[key])) for key in sorted(value, key=repr))
    if isinstance(value, (set, frozenset)):
        return "set", tuple(sorted(map(repr, value)))
    if isinstance(value, (list, tuple)):
        return type(value).__name__, tuple(_plain(each) for each in value)
    if isinstance(value, FunctionType):
        cells = tuple(_plain(cell.cell_contents) for cell in value.__closure__ or ())
        return _named(value), _code(value.__code__), _plain(value.__defaults__), cells
    if isinstance(value, partial):
        return "partial", _plain(value.func), _plain(value.args), _plain(value.keywords)
    if type(value).__module__.startswith("sklearn.metrics"):  # scorers: a function and its arguments
        return _named(type(value)), _plain(vars(value))
    return _named(value) if isinstance(value, np.ufunc) else value


def _code(code: CodeType) -> tuple[Any, ...]:
    """What a function does, but not in which line of which file it stands."""
    constants = tuple(
        _code(one) if isinstance(one, CodeType) else sorted(map(repr, one)) if isinstance(one, frozenset) else repr(one)
        for one in code.co_consts
    )
    return code.co_code.hex(), code.co_names, constants


def _named(value: Any) -> str:
    return f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', value.__name__)}"


def _json(values: Mapping[str, Any]) -> dict[str, Any]:
    """As it returns from a storage: tuples as lists, numbers of NumPy as numbers."""
    returned: dict[str, Any] = json.loads(json.dumps(values, default=lambda number: number.item()))
    return returned


def _differences(given: Any, stored: Any, name: str = "") -> Iterator[str]:
    """Each difference in words."""
    if isinstance(given, dict) and isinstance(stored, dict):
        for key in [*given, *(key for key in stored if key not in given)]:
            inner = f"{name} of {key!r}" if name else key
            if key not in stored:
                yield f"{inner}: was not given before"
            elif key not in given:
                yield f"{inner}: was given before"
            else:
                yield from _differences(given[key], stored[key], inner)
    elif json.dumps(given) == json.dumps(stored):  # so that NaN equals NaN, and 1 is not True
        return
    elif isinstance(given, str) and isinstance(stored, str) and given.startswith(_DIGEST):
        yield f"{name}: other values"
    elif name in ("rows", "columns"):
        yield f"the data have {given} {name} instead of {stored}"
    else:
        yield f"{name}: {_shown(given, stored)} instead of {_shown(stored, given)}"


def _shown(value: Any, other: Any) -> str:
    """The value, shortened around its first difference from the other."""
    text, against = repr(value), repr(other)
    if len(text) <= _LONGEST:
        return text
    same = next((i for i, (a, b) in enumerate(zip(text, against, strict=False)) if a != b), len(against))
    start = max(0, min(same - _KEPT, len(text) - _LONGEST))
    end = start + _LONGEST
    return ("…" if start else "") + text[start:end] + ("…" if end < len(text) else "")
