"""Which weights share a strength.

``Groups`` maps each weight to a named group; index -1 marks weights that are never penalised (intercepts). Groups may
have a *fixed* strength; the others are learned. ``expand`` (per group to per weight) and ``collect`` (back) are adjoint.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, overload

import numpy as np
from numpy.typing import NDArray

from tikhon.errors import InputError
from tikhon.objective import Vector

REST = "rest"
ALL = "all"
GroupSpec: TypeAlias = (
    str | Mapping[str, Sequence[Any]] | Callable[[str], str | None] | Sequence[Any] | NDArray[Any] | None
)


@dataclass(frozen=True)
class NumberedNames(Sequence[str]):
    """Names such as x0, x1, x2 ..., made when needed: a wide sparse table may have millions of columns.

    >>> names = NumberedNames("f", 1, 3)
    >>> list(names), names[-1], "f3" in names, "f03" in names
    (['f1', 'f2', 'f3'], 'f3', True, False)
    """

    prefix: str
    first: int
    size: int

    def __len__(self) -> int:
        return self.size

    @overload
    def __getitem__(self, place: int) -> str: ...

    @overload
    def __getitem__(self, place: slice) -> list[str]: ...

    def __getitem__(self, place: int | slice) -> str | list[str]:
        numbers = range(self.first, self.first + self.size)[place]
        return f"{self.prefix}{numbers}" if isinstance(numbers, int) else [f"{self.prefix}{n}" for n in numbers]

    def __contains__(self, name: object) -> bool:
        digits = name.removeprefix(self.prefix) if isinstance(name, str) else ""
        if not digits.isascii() or not digits.isdigit() or len(digits) > len(str(self.first + self.size)):
            return False
        return self.first <= int(digits) < self.first + self.size and name == f"{self.prefix}{int(digits)}"


@dataclass(frozen=True, eq=False)
class Groups:
    """The group of each weight, the groups' names, and the strengths that are fixed (NaN if learned)."""

    index: NDArray[np.intp]
    names: tuple[str, ...]
    fixed: Vector

    @property
    def count(self) -> int:
        return len(self.names)

    @property
    def learned(self) -> NDArray[np.bool_]:
        """True for each group whose strength is learned."""
        return np.isnan(self.fixed)

    @property
    def sizes(self) -> NDArray[np.intp]:
        """The number of weights in each group."""
        return np.bincount(self.index + 1, minlength=self.count + 1)[1:]

    def expand(self, per_group: Vector) -> Vector:
        """One value per weight from one value per group; 0 for weights that are never penalised."""
        return np.append(per_group, 0.0)[self.index]  # -1 reads the appended 0

    def collect(self, per_weight: Vector) -> Vector:
        """Sum within each group: the adjoint of ``expand``."""
        return np.bincount(self.index + 1, per_weight, self.count + 1)[1:].astype(np.float64, copy=False)

    def strengths(self, theta: Vector) -> Vector:
        """All strengths, one per group, from the logarithms of the learned ones (or of the single one they share)."""
        full = self.fixed.copy()
        full[self.learned] = np.exp(theta)
        return full

    def with_common(self, strength: float) -> Vector:
        """All strengths, one per group; all learned ones equal ``strength``."""
        return np.where(self.learned, strength, self.fixed)

    def merged(self) -> "Groups":
        """The same groups with all learned ones merged into one, named "all", to learn a common strength."""
        first = int(np.argmax(self.learned))
        kept = np.flatnonzero(~self.learned | (np.arange(self.count) == first))
        renumbered = np.full(self.count + 1, -1, np.intp)  # the last entry is for weights that are never penalised
        renumbered[kept] = np.arange(len(kept))
        renumbered[:-1][self.learned] = renumbered[first]
        names = tuple(ALL if number == first else self.names[number] for number in kept)
        return Groups(renumbered[self.index], names, self.fixed[kept])

    def named(self, strengths: Vector) -> dict[str, float]:
        return dict(zip(self.names, map(float, strengths), strict=True))

    def with_fixed(self, strengths: Mapping[str, float] | float | None) -> "Groups":
        """The same groups with some (a mapping by name) or all (a number) strengths fixed."""
        if strengths is None:
            return self
        if not isinstance(strengths, Mapping):
            strengths = dict.fromkeys(self.names, strengths)
        strengths = {str(name): value for name, value in strengths.items()}  # groups numbered 0, 1 are named "0", "1"
        known = set(self.names)
        unknown = [name for name in strengths if name not in known]
        if unknown:
            raise InputError(f"strengths has the unknown group {unknown[0]!r}; the groups are {_shown(self.names)}")
        fixed = self.fixed.copy()
        for position, name in enumerate(self.names):
            if name in strengths:
                fixed[position] = _checked_strength(strengths[name], name)
        return Groups(self.index, self.names, fixed)


def groups_of_columns(spec: GroupSpec, columns: Sequence[str]) -> tuple[NDArray[np.intp], tuple[str, ...]]:
    """The group index of each column and the groups' names, from any of the forms that users may write.

    - ``None``: one group, "all";
    - ``"separate"``: one group per column, named after it;
    - ``"prefix"``: the part of the name before the first "__" (as ColumnTransformer writes them), "rest" if there is none;
    - an array with one entry per column: a group's name or number; -1, None and NaN are never penalised;
    - a mapping from group name to columns (names, positions, a slice or a mask): all other columns form "rest";
    - a callable from column name to group name, or None for columns that are never penalised.
    """
    n_columns = len(columns)
    if spec is None:
        return np.zeros(n_columns, np.intp), (ALL,)
    if isinstance(spec, str):
        if spec == "separate":
            return _numbered([str(name) for name in _distinct(columns)])
        if spec == "prefix":
            return _numbered(_prefixes(columns))
        raise InputError(
            f"groups={spec!r} is not known: write None, 'separate', 'prefix', an array, a dict or a function"
        )
    if isinstance(spec, Mapping):
        return _numbered(_from_mapping(spec, columns))
    if callable(spec):
        return _numbered([_label(spec(name)) for name in columns])
    labels = np.asarray(spec, dtype=object)
    if labels.shape != (n_columns,):
        raise InputError(
            f"groups has shape {labels.shape} but there are {n_columns} columns: write one group name or number per column"
        )
    return _numbered(_labels(labels.tolist()))


def weight_groups(
    spec: GroupSpec,
    columns: Sequence[str],
    *,
    n_outputs: int,
    fit_intercept: bool,
    outputs: Sequence[str] | None = None,
) -> Groups:
    """Groups of the weights of a linear model with ``n_outputs`` rows of coefficients, then their intercepts.

    A group holds its columns' weights for all outputs; with ``outputs`` (their names) each output has its own groups,
    named "group[output]".
    """
    index, names = groups_of_columns(spec, columns)
    if outputs is None:
        per_weight = np.tile(index, n_outputs)
    else:
        per_weight = np.concatenate([np.where(index < 0, -1, index + k * len(names)) for k in range(n_outputs)])
        names = tuple(f"{name}[{output}]" for output in outputs for name in names)
    if fit_intercept:
        per_weight = np.append(per_weight, np.full(n_outputs, -1, np.intp))
    return Groups(per_weight.astype(np.intp), names, np.full(len(names), np.nan))


def _numbered(labels: Sequence[str | None]) -> tuple[NDArray[np.intp], tuple[str, ...]]:
    """Groups numbered in order of first appearance."""
    numbers: dict[str, int] = {}
    index = [-1 if label is None else numbers.setdefault(label, len(numbers)) for label in labels]
    return np.array(index, np.intp), tuple(numbers)


def _labels(labels: Sequence[Any]) -> list[str | None]:
    """Convert each distinct label once: there may be a hundred thousand columns in ten groups."""
    read: dict[Any, str | None] = {}
    kinds = [(type(label), label) for label in labels]  # since 1 == True == 1.0
    for kind in kinds:
        if kind not in read:
            read[kind] = _label(kind[1])
    return [read[kind] for kind in kinds]


def _label(label: Any) -> str | None:
    if label is None or (isinstance(label, float | np.floating) and np.isnan(label)):
        return None
    if isinstance(label, int | np.integer) and not isinstance(label, bool | np.bool_):
        if label < -1:
            raise InputError(
                f"groups contains the number {label}: group numbers are 0, 1, 2 ..., or -1 for never penalised"
            )
        return None if label == -1 else str(label)
    if isinstance(label, float | np.floating) and float(label).is_integer():
        return _label(int(label))
    return str(label)


def _prefixes(columns: Sequence[str]) -> list[str]:
    return [str(name).split("__", 1)[0] if "__" in str(name) else REST for name in columns]


def _distinct(columns: Sequence[str]) -> Sequence[str]:
    if len(set(columns)) < len(columns):
        repeated = next(name for name, count in Counter(columns).items() if count > 1)
        raise InputError(f"column name {repeated!r} occurs twice: groups='separate' needs distinct names")
    return columns


def _from_mapping(spec: Mapping[str, Sequence[Any]], columns: Sequence[str]) -> list[str]:
    position = {name: place for place, name in enumerate(columns)}
    labels: list[str | None] = [None] * len(columns)
    for group, members in spec.items():
        members = _listed(members, len(columns))
        if not members:
            raise InputError(f"group {group!r} has no columns: remove it or list some")
        for member in members:
            place = _place(member, position, len(columns), group)
            if labels[place] is not None:
                where = f"both {labels[place]!r} and {group!r}" if labels[place] != str(group) else f"{group!r} twice"
                raise InputError(f"column {member!r} is in {where}: a column belongs to one group")
            labels[place] = str(group)
    return [REST if label is None else label for label in labels]


def _listed(members: Any, n_columns: int) -> list[Any]:
    """A list of columns from one column, several, a slice of positions or a mask."""
    if isinstance(members, str | int | np.integer):
        return [members]
    if isinstance(members, slice):
        return list(range(n_columns)[members])
    listed = list(members)
    if len(listed) == n_columns and all(isinstance(member, bool | np.bool_) for member in listed):
        return np.flatnonzero(listed).tolist()
    return listed


def _place(member: Any, position: Mapping[str, int], n_columns: int, group: str) -> int:
    if isinstance(member, str):
        if member not in position:
            raise InputError(
                f"group {group!r} contains the unknown column {member!r}; columns are {_shown(list(position))}"
            )
        return position[member]
    if isinstance(member, int | np.integer) and not isinstance(member, bool | np.bool_) and 0 <= member < n_columns:
        return int(member)
    raise InputError(
        f"group {group!r} contains the column {member!r}: write a name, or a position from 0 to {n_columns - 1}"
    )


def _checked_strength(value: Any, name: str) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise InputError(f"the strength of group {name!r} is {value!r}: write a number, 0 or larger") from None
    if not 0.0 <= number < np.inf:
        raise InputError(f"the strength of group {name!r} is {number}: it must be finite, 0 or larger")
    return number


def _shown(names: Sequence[str], most: int = 8) -> str:
    listed = ", ".join(repr(name) for name in names[:most])
    return listed if len(names) <= most else f"{listed} and {len(names) - most} more"
