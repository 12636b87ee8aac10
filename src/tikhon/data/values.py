"""Descriptions of single values in the JSON header of a file, of which descriptions of files are composed."""

import types
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, ClassVar, Literal, Protocol, TypeAlias, Union, get_args, get_origin, get_type_hints

Sizes: TypeAlias = dict[str, int]  # sizes of axes by name

MOST = 2**63 - 1  # of whole numbers
_NOTHING: frozenset[type] = frozenset()


class Mismatch(Exception):
    """A field that does not match its description."""

    def __init__(self, field: str, found: str, expected: str) -> None:
        super().__init__(f"{field or 'the header'} is {found}; expected {expected}")


class Value(Protocol):
    """The description of one value; ``str`` gives it in words."""

    @property
    def kinds(self) -> frozenset[type]:
        """The types that it may have."""
        ...

    @property
    def free_kinds(self) -> frozenset[type]:
        """Those of which every value is accepted."""
        ...

    def check(self, value: Any, field: str, sizes: Sizes) -> None: ...


@dataclass(frozen=True)
class Anything:
    """Any JSON value."""

    kinds: ClassVar = frozenset({type(None), bool, int, float, str, list, dict})
    free_kinds: ClassVar = kinds

    def check(self, value: Any, field: str, sizes: Sizes) -> None:
        pass

    def __str__(self) -> str:
        return "any value"


@dataclass(frozen=True)
class Scalar:
    """Text, a number, true, false or null."""

    kinds: ClassVar = frozenset({type(None), bool, int, float, str})
    free_kinds: ClassVar = kinds

    def check(self, value: Any, field: str, sizes: Sizes) -> None:
        _check_kind(self, value, field)

    def __str__(self) -> str:
        return "text, a number, true, false or null"


@dataclass(frozen=True)
class Nothing:
    kinds: ClassVar = frozenset({type(None)})
    free_kinds: ClassVar = kinds

    def check(self, value: Any, field: str, sizes: Sizes) -> None:
        _check_kind(self, value, field)

    def __str__(self) -> str:
        return "null"


@dataclass(frozen=True)
class Flag:
    kinds: ClassVar = frozenset({bool})
    free_kinds: ClassVar = kinds

    def check(self, value: Any, field: str, sizes: Sizes) -> None:
        _check_kind(self, value, field)

    def __str__(self) -> str:
        return "true or false"


@dataclass(frozen=True)
class Whole:
    """A whole number within bounds, ends included; ``names`` is the size that it defines."""

    at_least: int = -MOST
    at_most: int = MOST
    names: str | None = None

    kinds: ClassVar = frozenset({int})
    free_kinds: ClassVar = _NOTHING

    def check(self, value: Any, field: str, sizes: Sizes) -> None:
        _check_kind(self, value, field)
        if not self.at_least <= value <= self.at_most:
            raise Mismatch(field, shown(value), str(self))
        if self.names is not None and sizes.setdefault(self.names, value) != value:
            raise Mismatch(field, shown(value), f"{sizes[self.names]}, as in the rest of the file")

    def __str__(self) -> str:
        return f"a whole number{_range(self.at_least, self.at_most, -MOST, MOST)}"


@dataclass(frozen=True)
class Number:
    """A number within bounds, ends included; NaN with ``or_nan``."""

    at_least: float = -float("inf")
    at_most: float = float("inf")
    or_nan: bool = False

    kinds: ClassVar = frozenset({int, float})
    free_kinds: ClassVar = _NOTHING

    def check(self, value: Any, field: str, sizes: Sizes) -> None:
        _check_kind(self, value, field)
        if type(value) is int and abs(value) > MOST:  # numbers too large for a float break code that prints them
            raise Mismatch(field, shown(value), str(self))
        if not (self.at_least <= value <= self.at_most or (self.or_nan and value != value)):
            raise Mismatch(field, shown(value), str(self))

    def __str__(self) -> str:
        infinite = float("inf")
        return f"a number{_range(self.at_least, self.at_most, -infinite, infinite)}{' or NaN' if self.or_nan else ''}"


FINITE = 1.7976931348623157e308
ANY_NUMBER = Number(or_nan=True)


@dataclass(frozen=True)
class Text:
    """Text, one of the choices if there are any."""

    choices: tuple[str, ...] = ()

    kinds: ClassVar = frozenset({str})

    @property
    def free_kinds(self) -> frozenset[type]:
        return _NOTHING if self.choices else self.kinds

    def check(self, value: Any, field: str, sizes: Sizes) -> None:
        _check_kind(self, value, field)
        if self.choices and value not in self.choices:
            raise Mismatch(field, shown(value), str(self))

    def __str__(self) -> str:
        return " or ".join(map(repr, self.choices)) or "text"


@dataclass(frozen=True)
class Either:
    """One of several; if only one of them has the type of a value, its error is the one raised."""

    options: tuple[Value, ...]

    def __init__(self, *options: Value) -> None:
        object.__setattr__(self, "options", options)

    @property
    def kinds(self) -> frozenset[type]:
        return _NOTHING.union(*(option.kinds for option in self.options))

    @property
    def free_kinds(self) -> frozenset[type]:
        return _NOTHING.union(*(option.free_kinds for option in self.options))

    def check(self, value: Any, field: str, sizes: Sizes) -> None:
        fitting = [option for option in self.options if type(value) in option.kinds]
        for option in fitting:
            try:
                option.check(value, field, sizes)
            except Mismatch:
                if len(fitting) == 1:
                    raise
            else:
                return
        raise Mismatch(field, shown(value), str(self))

    def __str__(self) -> str:
        return " or ".join(map(str, self.options))


def optional(value: Value) -> Either:
    return Either(Nothing(), value)


@dataclass(frozen=True)
class ListOf:
    """A list of values of one kind; ``names`` is the size that its length defines."""

    item: Value
    at_least: int = 0
    at_most: int = MOST
    names: str | None = None
    distinct: bool = False

    kinds: ClassVar = frozenset({list})
    free_kinds: ClassVar = _NOTHING

    def check(self, value: Any, field: str, sizes: Sizes) -> None:
        _check_kind(self, value, field)
        Whole(self.at_least, self.at_most, self.names).check(len(value), f"the length of {field}", sizes)
        if not set(map(type, value)) <= self.item.free_kinds:  # lists may have a million entries
            for place, item in enumerate(value):
                self.item.check(item, f"{field}[{place}]", sizes)
        if self.distinct and len(set(value)) < len(value):
            repeated = next(item for item in value if value.count(item) > 1)
            raise Mismatch(field, f"a list with {shown(repeated)} twice", "entries that differ")

    def __str__(self) -> str:
        return f"a list of {self.item}"


@dataclass(frozen=True)
class Row:
    """A list with a description for each position."""

    items: tuple[Value, ...]

    kinds: ClassVar = frozenset({list})
    free_kinds: ClassVar = _NOTHING

    def __init__(self, *items: Value) -> None:
        object.__setattr__(self, "items", items)

    def check(self, value: Any, field: str, sizes: Sizes) -> None:
        _check_kind(self, value, field)
        if len(value) != len(self.items):
            raise Mismatch(field, shown(value), str(self))
        for place, (item, part) in enumerate(zip(self.items, value, strict=True)):
            item.check(part, f"{field}[{place}]", sizes)

    def __str__(self) -> str:
        return f"a list [{', '.join(map(str, self.items))}]"


@dataclass(frozen=True)
class DictOf:
    """An object with any names and values of one kind."""

    item: Value

    kinds: ClassVar = frozenset({dict})
    free_kinds: ClassVar = _NOTHING

    def check(self, value: Any, field: str, sizes: Sizes) -> None:
        _check_kind(self, value, field)
        for name, part in value.items():
            self.item.check(part, _inside(field, name), sizes)

    def __str__(self) -> str:
        return f"an object whose values are each {self.item}"


@dataclass(frozen=True)
class Record:
    """An object with these entries and no others, unless it is ``open``; those ``optional`` may be left out."""

    entries: Mapping[str, Value]
    optional: Mapping[str, Value] = field(default_factory=dict)
    open: bool = False

    kinds: ClassVar = frozenset({dict})
    free_kinds: ClassVar = _NOTHING

    def check(self, value: Any, field: str, sizes: Sizes) -> None:
        _check_kind(self, value, field)
        for name, entry in self.entries.items():
            if name not in value:
                raise Mismatch(_inside(field, name), "missing", str(entry))
            entry.check(value[name], _inside(field, name), sizes)
        for name, part in value.items():
            if name in self.optional:
                self.optional[name].check(part, _inside(field, name), sizes)
            elif name not in self.entries and not self.open:
                known = ", ".join([*self.entries, *self.optional])
                raise Mismatch(_inside(field, shown(name)[1:-1]), "an entry that is not known", f"one of {known}")

    def __str__(self) -> str:
        return f"an object with {', '.join(self.entries) or 'named entries'}"


@dataclass(frozen=True)
class Later:
    """A description that is built on use, since its dependencies may take long to import."""

    make: Callable[[Any], Value]
    kinds: frozenset[type]

    free_kinds: ClassVar = _NOTHING

    def check(self, value: Any, field: str, sizes: Sizes) -> None:
        _check_kind(self, value, field)
        self.make(value).check(value, field, sizes)

    def __str__(self) -> str:
        return " or ".join(sorted(kind.__name__ for kind in self.kinds))


# From types.


def record_of(
    kind: type[Any], *, without: tuple[str, ...] = (), optional: tuple[str, ...] | None = None, **described: Value
) -> Record:
    """A record with the fields of a dataclass, by their types or as ``described``.

    Fields named in ``optional`` may be left out; if that is None, those with defaults.
    """
    hints = get_type_hints(kind)
    entries: dict[str, Value] = {}
    optional_ones: dict[str, Value] = {}
    for one in fields(kind):
        if one.name in without or not one.init:
            continue
        needed = one.default is MISSING and one.default_factory is MISSING
        if optional is not None:
            needed = one.name not in optional
        (entries if needed else optional_ones)[one.name] = described.get(one.name) or value_of(hints[one.name])
    return Record(entries, optional_ones)


_PLAIN: dict[Any, Value] = {
    int: Whole(), float: ANY_NUMBER, str: Text(), bool: Flag(), type(None): Nothing(), None: Nothing(), Any: Anything()
}  # fmt: skip


def value_of(hint: Any) -> Value:
    """The description of the values of a type, as represented in JSON."""
    if hint in _PLAIN:
        return _PLAIN[hint]
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Literal:
        return Text(tuple(parts))
    if origin in (Union, types.UnionType):
        return Either(*map(value_of, parts))
    if origin in (tuple, list):
        return ListOf(value_of(parts[0])) if origin is list or parts[1:] == (...,) else Row(*map(value_of, parts))
    if origin is not None and issubclass(origin, Mapping):
        return DictOf(value_of(parts[1]))
    raise TypeError(f"no description for values of the type {hint}")


# Text for messages.


def shown(value: Any) -> str:
    """A value for a message, shortened to one line."""
    try:
        text = repr(value.item() if hasattr(value, "item") else value)
    except ValueError:  # a whole number of thousands of digits
        text = "a huge number"
    text = text.encode("ascii", "backslashreplace").decode()
    return text if len(text) <= 60 else f"{text[:57]}..."


def _check_kind(described: Value, value: Any, field: str) -> None:
    if type(value) not in described.kinds:
        raise Mismatch(field, shown(value), str(described))


def _inside(field: str, name: str) -> str:
    return f"{field}.{name}" if field else name


def _range(low: float, high: float, least: float, most: float) -> str:
    if low > least and high < most:
        return f" from {low:g} to {high:g}" if low < high else f", {low:g}"
    return f", {low:g} or larger" if low > least else f", {high:g} or less" if high < most else ""
