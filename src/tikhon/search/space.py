"""The space of a search: what users write for each parameter, as distributions of Optuna and values of parameters."""

import difflib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import BuiltinFunctionType, FunctionType
from typing import Any, TypeAlias

import numpy as np
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from scipy.stats import rv_discrete

from tikhon.errors import InputError

Params: TypeAlias = dict[str, Any]

SCALARS = (bool, int, float, str, type(None))  # what Optuna's storages keep as choices
TAIL = 1e-4  # quantiles between which other distributions of scipy are searched
SHARES: dict[str, Callable[[float], float]] = {
    "1/n": lambda share: 1.0 / share,
    "1/sqrt(n)": lambda share: 1.0 / math.sqrt(share),
    "sqrt(n)": math.sqrt,
    "n": lambda share: share,
}


@dataclass(frozen=True, eq=False)
class Parameter:
    """How a parameter is stored and searched, and which value the estimator gets."""

    distribution: BaseDistribution
    choices: Mapping[str, Any] | None = None  # values that cannot be stored, by the text that stands for them
    quantiles: Any = None  # a distribution of scipy, searched by its quantiles

    @property
    def examples(self) -> list[Any]:
        """Its choices, or a number."""
        if self.choices is not None:
            return list(self.choices.values())
        return list(self.distribution.choices) if isinstance(self.distribution, CategoricalDistribution) else [1.0]

    def value(self, stored: Any) -> Any:
        if self.choices is not None:
            return self.choices[stored]
        if self.quantiles is None:
            return stored
        value = _plain(self.quantiles.ppf(stored))
        is_discrete = isinstance(getattr(self.quantiles, "dist", self.quantiles), rv_discrete)
        return int(value) if is_discrete else value


@dataclass(frozen=True, eq=False)
class Space:
    """The parameters that are searched, by name, in the order given."""

    parameters: Mapping[str, Parameter]
    rescale: Mapping[str, str]

    @property
    def distributions(self) -> dict[str, BaseDistribution]:
        return {name: parameter.distribution for name, parameter in self.parameters.items()}

    def values(self, stored: Params) -> Params:
        """Values of the estimator's parameters, for all rows."""
        return {name: self.parameters[name].value(stored[name]) for name in self.parameters}

    def values_at(self, stored: Params, share: float) -> Params:
        """The values for training on a share of the rows."""
        values = self.values(stored)
        for name, law in self.rescale.items():
            moved = values[name] * SHARES[law](share)
            values[name] = max(1, round(moved)) if isinstance(values[name], int) else moved
        return values


def space_of(given: Any, known: Iterable[str], rescale: Any = None) -> Space:
    """Check a user's space against the names of the estimator's parameters.

    Values may be lists of choices, frozen distributions of scipy.stats and distributions of Optuna.
    """
    if not isinstance(given, Mapping):
        several = " (conditional spaces, a list of dicts, are not supported: search each on its own)"
        raise InputError(
            f"space is a {type(given).__name__}: write a dict of distributions by parameter"
            + (several if isinstance(given, Sequence) and not isinstance(given, str) else "")
        )
    if not given:
        raise InputError("space is empty: name at least one parameter and its distribution")
    names = list(known)
    for name in given:
        _check_name(name, names)
    parameters = {name: _parameter(name, value) for name, value in given.items()}
    return Space(parameters, _checked_rescale(rescale, parameters))


def _check_name(name: Any, known: list[str]) -> None:
    if name in known:
        return
    near = _near(str(name), known)
    hint = f"did you mean {' or '.join(map(repr, near))}?" if near else f"its parameters are {', '.join(sorted(known))}"
    raise InputError(f"space: the estimator has no parameter {name!r}; {hint}")


def _near(name: str, known: list[str]) -> list[str]:
    """Names that may be meant: of another case, of a step of a pipeline, misspelt."""
    alike = [other for other in known if other.lower() == name.lower() or other.rpartition("__")[2] == name]
    return alike or difflib.get_close_matches(name, known, n=3)


def _parameter(name: str, given: Any) -> Parameter:
    if isinstance(given, CategoricalDistribution):
        return _choices(name, list(given.choices))
    if isinstance(given, BaseDistribution):
        return Parameter(given)
    if hasattr(given, "rvs") and hasattr(given, "ppf"):
        return _from_scipy(name, given)
    if isinstance(given, (str, Mapping)) or not isinstance(given, Iterable):
        raise InputError(
            f"space[{name!r}]={given!r}: write a list of choices, a distribution of scipy.stats such as "
            "loguniform(1e-3, 1e3), or one of Optuna; a fixed value belongs to the estimator, and values that depend on other "
            "parameters are not supported"
        )
    return _choices(name, list(given))


def _choices(name: str, values: list[Any]) -> Parameter:
    """Values that Optuna can store and tell apart are stored as they are, others as texts that stand for them."""
    values = [_plain(value) for value in values]
    if not values:
        raise InputError(f"space[{name!r}] is an empty list: write at least one value")
    labels = [value if isinstance(value, str) else _label(value) for value in values]
    if len(set(labels)) < len(labels):
        raise InputError(
            f"space[{name!r}] holds a value twice, or two that are written alike: {', '.join(map(repr, labels))}"
        )
    if any(isinstance(value, float) and math.isnan(value) for value in values):
        raise InputError(f"space[{name!r}] holds NaN: {values}")
    is_plain = all(isinstance(value, SCALARS) and value not in (math.inf, -math.inf) for value in values)
    if is_plain and len(set(values)) == len(values):  # 1, 1.0 and True are equal
        return Parameter(CategoricalDistribution(values))
    return Parameter(CategoricalDistribution(labels), choices=dict(zip(labels, values, strict=True)))


def _label(value: Any) -> str:
    """Text that stands for a value, the same in every process."""
    if isinstance(value, (type, FunctionType, BuiltinFunctionType)):
        return f"{value.__module__}.{value.__qualname__}"
    text = " ".join(repr(value).split())
    return f"{type(value).__module__}.{type(value).__qualname__}" if " at 0x" in text else text


def _from_scipy(name: str, given: Any) -> Parameter:
    try:
        low, high = (float(bound) for bound in given.support())
    except TypeError:
        raise InputError(
            f"space[{name!r}]: give the distribution its parameters, such as loguniform(1e-3, 1e3)"
        ) from None
    law = getattr(given, "dist", given)
    family, is_discrete = getattr(law, "name", ""), isinstance(law, rv_discrete)
    if math.isnan(low) or math.isnan(high) or low > high:
        raise InputError(f"space[{name!r}]: the parameters of its distribution ({family}) are not valid")
    if low == high:
        return _choices(name, [int(low) if is_discrete else low])
    if family == "randint":
        return Parameter(IntDistribution(int(low), int(high)))
    if family == "uniform":
        return Parameter(FloatDistribution(low, high))
    if family in ("loguniform", "reciprocal"):
        return Parameter(FloatDistribution(low, high, log=True))
    first = 0.0 if math.isfinite(low) and not is_discrete else TAIL
    last = 1.0 if math.isfinite(high) else 1.0 - TAIL
    return Parameter(FloatDistribution(first, last), quantiles=given)


def _plain(value: Any) -> Any:
    """numpy's scalars as Python's: they can be stored."""
    return (
        value.item() if isinstance(value, np.generic) or (isinstance(value, np.ndarray) and value.ndim == 0) else value
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _checked_rescale(rescale: Any, parameters: Mapping[str, Parameter]) -> dict[str, str]:
    if rescale is None:
        return {}
    if not isinstance(rescale, Mapping):
        raise InputError(f"rescale={rescale!r}: write a dict such as {{'alpha': '1/n'}}")
    for name, law in rescale.items():
        if name not in parameters:
            raise InputError(f"rescale names {name!r}, which is not in the space: {', '.join(parameters)}")
        if law not in SHARES:
            raise InputError(f"rescale[{name!r}]={law!r}: write one of {', '.join(map(repr, SHARES))}")
        if not all(map(_is_number, parameters[name].examples)):
            raise InputError(f"rescale names {name!r}, whose values are not numbers")
    return dict(rescale)
