"""Parameters described by Optuna's distributions as points of the unit cube, and back.

There are two maps. The *encoding* is for the surrogate: one coordinate per numerical parameter, and for a categorical one a
block with an entry of 1/sqrt(2) for its value and 0 for all others, so that two categories are 1 apart. The *cube* is for
quasi-random points: one coordinate per parameter, of which each value of a discrete parameter has a share.

Logarithmic parameters are uniform in the logarithm. The n values of an integer or of a float with a step have equal shares
1/n of the interval and are encoded as the centres; values v of a logarithmic integer have the share between v - 1/2 and
v + 1/2. Numbers outside the range of a distribution are encoded as points outside the cube; a decoded point never is.
"""

import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from scipy.stats import qmc

from tikhon.errors import InputError
from tikhon.objective import Vector

Params: TypeAlias = dict[str, Any]
Numerical: TypeAlias = FloatDistribution | IntDistribution
Distribution: TypeAlias = Numerical | CategoricalDistribution

OPTIONS = 128  # a parameter of more values is continuous to the surrogate, and rounded when it is decoded
ENUMERATED = 2**20  # points of the largest space that is enumerated
UNIT = math.sqrt(0.5)  # the entry of a category: two categories are then 1 apart


@dataclass(frozen=True, eq=False)
class Encoding:
    """The parameters of a space, in its order."""

    space: Mapping[str, BaseDistribution]

    @cached_property
    def distributions(self) -> dict[str, Distribution]:
        return {name: _known(name, distribution) for name, distribution in self.space.items()}

    @cached_property
    def slots(self) -> tuple[slice, ...]:
        """The coordinates of each parameter."""
        widths = [len(d.choices) if isinstance(d, CategoricalDistribution) else 1 for d in self.distributions.values()]
        return tuple(slice(*ends) for ends in pairwise(np.cumsum([0, *widths]).tolist()))

    @cached_property
    def options(self) -> tuple[NDArray[np.float64] | None, ...]:
        """What the coordinates of each parameter can be, one option a row; None for parameters treated as continuous."""
        return tuple(map(_options, self.distributions.values()))

    @property
    def n_coordinates(self) -> int:
        return self.slots[-1].stop if self.slots else 0

    @cached_property
    def continuous(self) -> NDArray[np.bool_]:
        """Marks the coordinates that can be any number from 0 to 1."""
        return self._marked([options is None for options in self.options])

    @cached_property
    def categorical(self) -> NDArray[np.bool_]:
        """Marks the coordinates of categorical parameters. All others take the values of a grid."""
        return self._marked([isinstance(d, CategoricalDistribution) for d in self.distributions.values()])

    def _marked(self, parameters: list[bool]) -> NDArray[np.bool_]:
        return np.repeat(np.array(parameters, np.bool_), [slot.stop - slot.start for slot in self.slots])

    def encode(self, params: Mapping[str, Any]) -> Vector:
        """The point of these values. Other parameters are ignored; a choice that is not in the space is an error."""
        point = np.zeros(self.n_coordinates)
        for slot, (name, distribution) in zip(self.slots, self.distributions.items(), strict=True):
            if isinstance(distribution, CategoricalDistribution):
                point[slot.start + int(distribution.to_internal_repr(params[name]))] = UNIT
            else:
                point[slot] = _to_unit(distribution, params[name])
        return point

    def decode(self, point: Vector) -> Params:
        """The values at a point, or those closest to it."""
        values: Params = {}
        for slot, (name, distribution) in zip(self.slots, self.distributions.items(), strict=True):
            if isinstance(distribution, CategoricalDistribution):
                values[name] = distribution.choices[int(point[slot].argmax())]
            else:
                values[name] = _from_unit(distribution, float(point[slot.start]))
        return values

    def decode_cube(self, point: Vector) -> Params:
        """The values at a point of the cube."""
        values: Params = {}
        for unit, (name, distribution) in zip(point.tolist(), self.distributions.items(), strict=True):
            if isinstance(distribution, CategoricalDistribution):
                values[name] = distribution.choices[_share(unit, len(distribution.choices))]
            else:
                values[name] = _from_unit(distribution, unit)
        return values

    def from_cube(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        """The encoding of points of the cube, one a row; parameters treated as continuous are not rounded."""
        encoded = np.empty((len(points), self.n_coordinates))
        for slot, distribution, options, units in zip(
            self.slots, self.distributions.values(), self.options, points.T, strict=True
        ):
            if options is None:
                encoded[:, slot.start] = units
            elif isinstance(distribution, CategoricalDistribution):
                encoded[:, slot] = options[np.minimum((units * len(options)).astype(np.intp), len(options) - 1)]
            else:
                encoded[:, slot.start] = [_to_unit(distribution, _from_unit(distribution, u)) for u in units.tolist()]
        return encoded

    def index(self, params: Mapping[str, Any]) -> int | None:
        """The number of a point of a finite space, counted through its values; None for a point that is not in it."""
        number = 0
        for name, distribution in self.distributions.items():
            count = n_values(distribution)
            if count is None:
                return None
            try:
                place = _place(distribution, params[name])
            except ValueError:  # an unknown category
                return None
            if not 0 <= place < count:
                return None
            number = number * count + place
        return number

    def at_index(self, number: int) -> Params:
        """The point of this number in a finite space."""
        values: Params = {}
        for name, distribution in reversed(self.distributions.items()):
            number, place = divmod(number, n_values(distribution) or 1)
            values[name] = _at_place(distribution, place)
        return {name: values[name] for name in self.space}

    def visited(self, points: Iterable[Mapping[str, Any]]) -> set[int]:
        """The numbers of those points that are in the space; none if it is not finite."""
        if n_points(self.space) is None:
            return set()
        return {number for params in points if (number := self.index(params)) is not None}

    def unvisited(self, visited: Collection[int], rng: np.random.Generator) -> Iterator[Params]:
        """Every point of a finite space whose number is not among the visited, in a random order.

        Spaces of more than 2^20 points are not enumerated: points are drawn, and one may come twice.
        """
        count = n_points(self.space)
        if count is None:
            raise InputError("the points of a space with a continuous parameter cannot be enumerated")
        if count <= ENUMERATED:
            left = np.setdiff1d(np.arange(count), np.fromiter(visited, np.int64, len(visited)))
            yield from (self.at_index(number) for number in rng.permutation(left).tolist())
            return
        counts = [(name, d, n_values(d) or 1) for name, d in self.distributions.items()]
        while True:
            drawn = {name: _at_place(d, int(rng.integers(size))) for name, d, size in counts}
            if self.index(drawn) not in visited:
                yield drawn


def n_values(distribution: BaseDistribution) -> int | None:
    """How many values a parameter can take; None if it is continuous."""
    if isinstance(distribution, CategoricalDistribution):
        return len(distribution.choices)
    assert isinstance(distribution, (FloatDistribution, IntDistribution))
    if distribution.low == distribution.high:
        return 1
    if distribution.step is None:
        return None
    return round((distribution.high - distribution.low) / distribution.step) + 1


def n_points(space: Mapping[str, BaseDistribution]) -> int | None:
    """The number of distinct points of a space; None if a parameter is continuous."""
    counts = [n_values(distribution) for distribution in space.values()]
    return None if None in counts else math.prod(count for count in counts if count is not None)


def sobol_points(space: Mapping[str, BaseDistribution], count: int, seed: int) -> list[Params]:
    """The first points of the scrambled Sobol sequence of this seed. They do not depend on the order of the parameters."""
    encoding = Encoding(dict(sorted(space.items())))
    return [encoding.decode_cube(point) for point in sobol(len(space), count, np.random.default_rng(seed))]


def sobol(n_columns: int, count: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Scrambled Sobol points of the cube, one a row. They come in powers of two: the surplus is cut off."""
    if n_columns == 0 or count == 0:
        return np.empty((count, n_columns))
    points = qmc.Sobol(n_columns, scramble=True, seed=rng).random_base2(math.ceil(math.log2(count)))
    return np.asarray(points[:count])


def _known(name: str, distribution: BaseDistribution) -> Distribution:
    if isinstance(distribution, (FloatDistribution, IntDistribution, CategoricalDistribution)):
        return distribution
    raise InputError(
        f"the distribution of {name!r} is {distribution!r}: write Optuna's FloatDistribution, IntDistribution or "
        "CategoricalDistribution"
    )


def _interval(distribution: Numerical) -> tuple[float, float]:
    """What the cube's coordinate covers, in logarithms for a logarithmic parameter."""
    margin = 0.0 if distribution.step is None else 0.5 * distribution.step
    low, high = distribution.low - margin, distribution.high + margin
    return (math.log(low), math.log(high)) if distribution.log else (low, high)


def _to_unit(distribution: Numerical, value: float) -> float:
    if distribution.low == distribution.high:
        return 0.5
    if distribution.step is not None and not distribution.log:
        return (_place(distribution, value) + 0.5) / (n_values(distribution) or 1)
    low, high = _interval(distribution)
    return ((math.log(value) if distribution.log else value) - low) / (high - low)


def _from_unit(distribution: Numerical, unit: float) -> float | int:
    if distribution.step is not None and not distribution.log:
        number: float | int = _at_place(distribution, _share(unit, n_values(distribution) or 1))
        return number
    low, high = _interval(distribution)
    value = low + unit * (high - low)
    value = math.exp(min(value, high)) if distribution.log else value
    value = round(value) if isinstance(distribution, IntDistribution) else value
    return min(max(value, distribution.low), distribution.high)


def _place(distribution: Distribution, value: Any) -> int:
    """The position of a value among those of a discrete parameter; numbers out of range have positions out of range."""
    if isinstance(distribution, CategoricalDistribution):
        return int(distribution.to_internal_repr(value))
    place: int = round((value - distribution.low) / (distribution.step or 1))
    return place


def _at_place(distribution: Distribution, place: int) -> Any:
    if isinstance(distribution, CategoricalDistribution):
        return distribution.choices[place]
    return min(distribution.low + place * (distribution.step or 0), distribution.high)


def _share(unit: float, count: int) -> int:
    """Which of ``count`` equal shares of the interval a number is in."""
    return min(max(math.floor(unit * count), 0), count - 1)


def _options(distribution: Distribution) -> NDArray[np.float64] | None:
    if isinstance(distribution, CategoricalDistribution):
        return UNIT * np.eye(len(distribution.choices))
    count = n_values(distribution)
    if count is None or count > OPTIONS:
        return None
    return np.array([[_to_unit(distribution, _at_place(distribution, place))] for place in range(count)])
