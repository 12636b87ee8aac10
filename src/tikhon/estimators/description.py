"""The contents common to all model files: parameters, groups, tuning, classes.

Each kind of model describes its own entries; ``model_description`` adds the common ones. Nothing here imports scikit-learn
or a tuner, because ``tikhon fold predict`` checks its model too.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tikhon.data.description import LARGEST, Agreement, Array, Arrays, Description, Header, Size
from tikhon.data.result_values import COUNT, TUNING
from tikhon.data.values import (
    ANY_NUMBER,
    FINITE,
    MOST,
    Anything,
    DictOf,
    Either,
    Flag,
    Later,
    ListOf,
    Mismatch,
    Nothing,
    Number,
    Record,
    Row,
    Scalar,
    Text,
    Value,
    Whole,
    optional,
    record_of,
    shown,
)

MOST_PADDING = 10_000_000  # characters of all classes after numpy's padding; more only if the classes are that long
STRENGTH = Number(at_least=0.0, at_most=FINITE)
TRUTH = Either(Flag(), Whole(0, 1))  # parameters of which fits use the truth value, whatever the type


def mapping(values: Value) -> Record:
    """A dict whose keys keep their type."""
    return Record({"mapping": ListOf(Row(Scalar(), values))})


def _tuner_options(stored: Mapping[str, Any]) -> Value:
    from tikhon.tuners import TUNERS

    return _options(stored, TUNERS)


def _trainer_options(stored: Mapping[str, Any]) -> Value:
    from tikhon.trainers import TRAINERS

    return _options(stored, TRAINERS)


def _options(stored: Mapping[str, Any], kinds: Mapping[str, type[Any]]) -> Value:
    name = stored.get("name")
    options: Value = DictOf(Anything())
    if isinstance(name, str) and name in kinds:
        options = record_of(kinds[name], without=("checkpoint",))
    return Record({"name": Text(tuple(kinds)), "options": options})


TRAINER = Either(Text(), Later(_trainer_options, frozenset({dict})))


GROUP_SPEC = Either(Nothing(), Text(), ListOf(Scalar()), mapping(Either(Scalar(), ListOf(Scalar()))))
CLASS_WEIGHT = Either(Nothing(), Text(("balanced",)), mapping(Number(5e-324, FINITE)))
PARAMETERS: dict[str, Value] = {
    "groups": GROUP_SPEC,
    "tuner": Either(Nothing(), Text(), Later(_tuner_options, frozenset({dict}))),
    "strengths": Either(Nothing(), STRENGTH, mapping(STRENGTH)),
    "cv": optional(Whole(at_least=2)),
    "validation_fraction": ANY_NUMBER,  # used, and checked, only with cv=None
    "rescale": Text(("none", "n")),
    "solver": Text(),
    "tol": optional(Number(5e-324, 1.0 - 2.0**-53)),
    "max_iter": Whole(at_least=1),
    "random_state": optional(Whole(0, 2**32 - 1)),
    "n_jobs": Either(Nothing(), Whole(-1, -1), Whole(at_least=1)),
    "verbose": Either(Nothing(), Flag(), ANY_NUMBER),
}


def model_description(
    *,
    parameters: Mapping[str, Value],
    header: Mapping[str, Value],
    arrays: Callable[[Header, Arrays], Mapping[str, Array]],
    n_weights: Size,
    optional_header: Mapping[str, Value] | None = None,
    has_classes: bool = False,
    agreements: Sequence[Agreement] = (),
) -> Description:
    """The description of a model file, from the estimator's own ``parameters``, header entries and arrays.

    ``n_weights`` may be a function of the sizes bound by the arrays. With ``has_classes`` the size "n_classes" is known.
    """
    entries: dict[str, Value] = {
        "estimator": Text(),
        "tikhon": Text(),
        # Omitted parameters take their defaults: files do not hold splitters or users' solvers.
        "parameters": Record({}, {**PARAMETERS, **parameters}),
        "n_iter": COUNT,
        "groups": ListOf(Text(), names="n_groups", distinct=True),
        "tuning": TUNING,
        **({"classes": CLASSES} if has_classes else {}),
        **header,
    }

    def all_arrays(header: Header, given: Arrays) -> dict[str, Array]:
        return {**(_class_arrays(header) if has_classes else {}), **arrays(header, given), **_shared_arrays(n_weights)}

    every = (_check_classes, *agreements) if has_classes else agreements
    return Description(Record(entries, optional_header or {}), all_arrays, every)


def _shared_arrays(n_weights: Size) -> dict[str, Array]:
    strengths = Array("float64", ("n_groups",), at_least=0.0, at_most=FINITE)
    return {
        "groups.index": Array("int", (n_weights,), at_least=-1, below="n_groups"),
        "groups.fixed": Array("float64", ("n_groups",), at_least=0.0, at_most=FINITE, or_nan=True),  # NaN: learned
        "strengths": strengths,
        "tuning.strengths": strengths,
        "tuning.weights": Array("float64", (n_weights,)),
        "tuning.trace.strengths": Array("float64", ("n_steps", "n_groups"), at_least=0.0, at_most=FINITE),
    }


# Class labels: numbers are stored as an array, text and mixtures in the header.

LABEL = Either(Text(), Flag(), Whole(), Number(-LARGEST, LARGEST))
CLASSES = Record({"dtype": Text()}, {"values": ListOf(LABEL, at_least=2, names="n_classes", distinct=True)})


def _class_arrays(header: Header) -> dict[str, Array]:
    if "values" in header["classes"]:
        return {}
    return {"classes": Array("number", ("n_classes",), distinct=True)}


def _check_classes(header: Header, arrays: Arrays) -> None:
    stored = header["classes"]
    dtype: str = stored["dtype"]
    if "values" not in stored:
        found = arrays["classes"]
        if len(found) < 2:
            raise Mismatch("classes", f"of shape {found.shape}", "two classes or more")
        if dtype[:1] not in ("<", ">", "|", "=") or dtype[1:] != found.dtype.str[1:]:
            raise Mismatch("classes.dtype", shown(dtype), f"{found.dtype.str!r}, the type of the array")
        return
    if dtype == "object":
        return
    values: list[Any] = stored["values"]
    width = int(dtype[2:]) if dtype[:2] in ("<U", ">U") and dtype[2:].isdecimal() and len(dtype) < 12 else -1
    longest = max(len(value) if isinstance(value, str) else MOST for value in values)
    if width < longest or (width > longest and width * len(values) > MOST_PADDING):
        raise Mismatch("classes.dtype", shown(dtype), f"'object', or text as long as the classes, {shown(values[:3])}")
