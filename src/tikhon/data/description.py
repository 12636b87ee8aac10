"""Descriptions of files: header entries, arrays with their types and shapes, and constraints between them.

A checksum shows that a file is unchanged; a description shows that the code that reads it can use its contents.
Compiled kernels do not check bounds, so every number that they use as an index or a size is checked here first.

    Description(
        header=Record({"n_columns": Whole(at_least=1, names="n_columns")}),
        arrays=lambda header, arrays: {"coef": Array("float64", ("n_outputs", "n_columns"))},
    ).check(path, header, arrays)

A name in a shape is a size: its first use binds it, and later ones must agree. Undescribed entries and arrays are
refused, as are missing ones: a misspelt name would otherwise count as left out.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tikhon.data.values import Mismatch, Record, Row, Sizes, Value, shown
from tikhon.errors import FileFormatError

Header: TypeAlias = Mapping[str, Any]
Arrays: TypeAlias = Mapping[str, NDArray[Any]]
Size: TypeAlias = int | str | Callable[[Sizes], int]  # a number, a name, or a function of the sizes bound before
Bound: TypeAlias = float | NDArray[np.float64]  # for all entries, or broadcast to them

LARGEST = 1e150  # of stored weights: a sum of products with data of at most 1e100 stays finite
_KINDS = {"float64": "f", "int": "iu", "uint8": "u", "number": "biuf"}
_NOUNS = {"float64": "float64", "int": "whole numbers", "uint8": "uint8", "number": "numbers"}


@dataclass(frozen=True, eq=False)
class Array:
    """An array of numbers, which are finite unless ``or_nan`` and lie within the bounds, ends included.

    ``kind`` is "float64", "int" (of any width), "uint8" or "number" (any type that files can hold). ``below`` is a size
    that all entries are less than: that of an axis that they index. ``other_shapes`` are also accepted.
    """

    kind: str
    shape: tuple[Size, ...]
    at_least: Bound = -LARGEST
    at_most: Bound = LARGEST
    below: Size | None = None
    or_nan: bool = False
    rising: bool = False  # no entry is less than the one before
    distinct: bool = False  # along the first axis
    optional: bool = False
    other_shapes: tuple[tuple[Size, ...], ...] = ()
    entries: tuple[Value, ...] = ()  # a value's description for each entry of a vector

    def check(self, array: NDArray[Any], name: str, sizes: Sizes) -> None:
        if array.dtype.kind not in _KINDS[self.kind] or (
            self.kind in ("float64", "uint8") and array.dtype != self.kind
        ):
            raise Mismatch(name, f"of type {array.dtype}", _NOUNS[self.kind])
        self._check_shape(array, name, sizes)
        if array.size == 0:
            return
        self._check_range(array, name, sizes)
        if self.rising and (array[1:] < array[:-1]).any():
            place = int(np.argmax(array[1:] < array[:-1])) + 1
            raise Mismatch(f"{name}[{place}]", shown(array[place]), f"at least {array[place - 1]}, the entry before")
        if self.distinct and len(np.unique(array, axis=0)) < len(array):
            raise Mismatch(name, "an array with an entry twice", "entries that differ")
        if self.entries:
            Row(*self.entries).check(array.tolist(), name, sizes)

    def _check_shape(self, array: NDArray[Any], name: str, sizes: Sizes) -> None:
        wanted = []
        for shape in (self.shape, *self.other_shapes):
            bound = [size_of(size, sizes) for size in shape]
            if array.ndim == len(bound) and all(
                size in (None, found) for size, found in zip(bound, array.shape, strict=True)
            ):
                sizes.update(
                    {size: found for size, found in zip(shape, array.shape, strict=True) if isinstance(size, str)}
                )
                return
            names = (str(size) if known is None else str(known) for size, known in zip(shape, bound, strict=True))
            wanted.append(f"({', '.join(names)}{',' if len(shape) == 1 else ''})")
        raise Mismatch(name, f"of shape {array.shape}", f"the shape {' or '.join(wanted)}")

    def _check_range(self, array: NDArray[Any], name: str, sizes: Sizes) -> None:
        at_least, at_most = self.at_least, self.at_most
        if self.below is not None:
            at_most = _known(self.below, sizes) - 1
        if np.ndim(at_least) == 0 and np.ndim(at_most) == 0:  # two passes without a temporary array: files may be large
            least, most = (np.fmin, np.fmax) if self.or_nan else (np.minimum, np.maximum)
            low, high = least.reduce(array, axis=None).item(), most.reduce(array, axis=None).item()
            if (low >= at_least and high <= at_most) or (self.or_nan and low != low):
                return
        values = array.astype(np.float64) if array.dtype.kind == "f" else array
        right = (values >= at_least) & (values <= at_most)
        if self.or_nan:
            right |= np.isnan(values)
        if right.all():
            return
        place = np.unravel_index(int(np.argmin(right)), array.shape)
        low, high = (np.broadcast_to(bound, array.shape)[place].item() for bound in (at_least, at_most))
        at = f"[{', '.join(map(str, place))}]" if place else ""
        raise Mismatch(f"{name}{at}", shown(array[place]), f"a number from {low:g} to {high:g}")


def size_of(size: Size, sizes: Sizes) -> int | None:
    """None if the name is not bound yet."""
    if callable(size):
        return size(sizes)
    return sizes.get(size) if isinstance(size, str) else size


def _known(size: Size, sizes: Sizes) -> int:
    found = size_of(size, sizes)
    assert found is not None, f"{size} is used before an array or an entry of the header binds it"
    return found


Agreement: TypeAlias = Callable[[Header, Arrays], None]  # raises a Mismatch


@dataclass(frozen=True, eq=False)
class Description:
    """The required contents of a file: its header, the arrays for such a header, and constraints between arrays."""

    header: Record
    arrays: Callable[[Header, Arrays], Mapping[str, Array]]  # called with a header that was checked
    agreements: Sequence[Agreement] = ()
    sizes: Mapping[str, int] = field(default_factory=dict)  # known in advance

    def check(self, path: str | os.PathLike[str], header: Header, arrays: Arrays) -> None:
        """Raise a ``FileFormatError`` that names the file, the field, the value found and the value expected."""
        try:
            sizes: Sizes = dict(self.sizes)
            self.header.check(header, "", sizes)
            described = self.arrays(header, arrays)
            for name, array in described.items():
                if name in arrays:
                    array.check(arrays[name], name, sizes)
                elif not array.optional:
                    raise Mismatch(name, "missing", "an array")
            for name in arrays:
                if name not in described:
                    raise Mismatch(name, "an array that this kind of file does not have", "no such array")
            for agreement in self.agreements:
                agreement(header, arrays)
        except Mismatch as wrong:
            raise FileFormatError(f"{os.fspath(path)}: {wrong}") from None
