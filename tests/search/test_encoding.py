"""Encodings of parameters against Optuna's own ranges, and exact round trips."""

import math
import warnings
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution

from tikhon.errors import InputError
from tikhon.search.encoding import Encoding, n_points, n_values, sobol_points

MIXED: dict[str, BaseDistribution] = {
    "rate": FloatDistribution(1e-4, 1e2, log=True),
    "share": FloatDistribution(0.0, 1.0, step=0.1),
    "units": IntDistribution(1, 1000, log=True),
    "depth": IntDistribution(-3, 9, step=3),
    "loss": CategoricalDistribution(["hinge", "log", None]),
    "fixed": FloatDistribution(2.0, 2.0),
    "shift": FloatDistribution(-5.0, 10.0),
}
FINITE = {name: MIXED[name] for name in ("share", "depth", "loss", "fixed")}

integers = st.builds(
    lambda low, count, step: IntDistribution(low, low + count * step, step=step),
    st.integers(-(10**9), 10**9),
    st.integers(0, 10**5),
    st.integers(1, 1000),
)
log_integers = st.builds(
    lambda low, more: IntDistribution(low, low + more, log=True), st.integers(1, 10**4), st.integers(0, 10**4)
)
floats = st.builds(
    lambda low, width, log: FloatDistribution(low, low + width, log=log),
    st.floats(1e-6, 1e6),
    st.floats(0.0, 1e6),
    st.booleans(),
)
stepped = st.builds(
    # Rounded: Optuna warns of ranges such as -1 to -1 + 0.7 = -0.30000000000000004, which 0.1 does not divide.
    lambda low, count, per_unit: FloatDistribution(low, round(low + count / per_unit, 3), step=1.0 / per_unit),
    st.integers(-100, 100).map(float),
    st.integers(0, 200),
    st.sampled_from([10.0, 4.0, 2.0, 0.5]),
)
categories = st.lists(st.one_of(st.none(), st.text(), st.integers(2, 99)), min_size=1, max_size=6, unique=True)
choices = categories.map(CategoricalDistribution)
anything = st.one_of(integers, log_integers, floats, stepped, choices)


@given(st.one_of(integers, log_integers, stepped, choices), st.floats(0.0, 1.0))
def test_discrete_values_survive_exactly(distribution: BaseDistribution, unit: float) -> None:
    encoding = Encoding({"a": distribution})
    params = encoding.decode_cube(np.array([unit]))
    assert distribution._contains(distribution.to_internal_repr(params["a"]))
    assert encoding.decode(encoding.encode(params)) == params
    number = encoding.index(params)
    assert number is not None
    assert encoding.at_index(number) == params


@given(floats, st.floats(0.0, 1.0))
def test_continuous_values_survive_to_rounding(distribution: FloatDistribution, unit: float) -> None:
    encoding = Encoding({"a": distribution})
    value = encoding.decode(np.array([unit]))["a"]
    assert distribution.low <= value <= distribution.high
    again = encoding.decode(encoding.encode({"a": value}))["a"]
    # Of the interval's length on the linear scale, of the value on the logarithmic: log(1e6) is 14 units of rounding.
    assert math.isclose(again, value, rel_tol=1e-13, abs_tol=1e-15 * distribution.high)


@given(st.dictionaries(st.sampled_from("abcde"), anything, min_size=1), st.integers(0, 2**31))
@settings(max_examples=50)
def test_sobol_points_are_in_their_space(space: dict[str, BaseDistribution], seed: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        points = sobol_points(space, 5, seed)
    assert len(points) == 5
    for params in points:
        assert params.keys() == space.keys()
        assert all(d._contains(d.to_internal_repr(params[name])) for name, d in space.items())


@given(anything, st.floats(-3.0, 4.0))
def test_every_point_decodes_into_the_space(distribution: BaseDistribution, coordinate: float) -> None:
    encoding = Encoding({"a": distribution})
    value = encoding.decode(np.full(encoding.n_coordinates, coordinate))["a"]
    assert distribution._contains(distribution.to_internal_repr(value))


def test_values_have_equal_shares() -> None:
    space = {"n": IntDistribution(2, 14, step=3), "c": CategoricalDistribution("xyz")}
    drawn = sobol_points(space, 1024, 3)
    counts = Counter(params["n"] for params in drawn)
    assert set(counts) == {2, 5, 8, 11, 14}
    assert max(counts.values()) - min(counts.values()) <= 10  # 204.8 each
    assert all(abs(count - 1024 / 3) <= 10 for count in Counter(params["c"] for params in drawn).values())


def test_logarithmic_parameters_are_uniform_in_the_logarithm() -> None:
    encoding = Encoding({"a": FloatDistribution(1e-3, 1e3, log=True), "n": IntDistribution(1, 100, log=True)})
    np.testing.assert_allclose(encoding.encode({"a": 1.0, "n": 10}), [0.5, math.log(20) / math.log(201)], rtol=1e-14)


def test_categories_are_one_apart() -> None:
    encoding = Encoding(MIXED)
    base = {"rate": 1.0, "share": 0.2, "units": 7, "depth": 0, "loss": "log", "fixed": 2.0, "shift": 1.0}
    apart = encoding.encode(base) - encoding.encode({**base, "loss": None})
    np.testing.assert_allclose(np.linalg.norm(apart), 1.0, rtol=1e-15)
    assert np.flatnonzero(encoding.categorical).tolist() == [4, 5, 6]
    assert np.flatnonzero(encoding.continuous).tolist() == [0, 2, 8]  # 1,000 integers are treated as continuous


def test_encoded_points_of_the_cube_are_those_of_their_values(rng: np.random.Generator) -> None:
    encoding = Encoding({name: d for name, d in MIXED.items() if name != "units"})  # that is rounded only when decoded
    cube = rng.random((50, len(encoding.space)))
    for point, encoded in zip(cube, encoding.from_cube(cube), strict=True):
        np.testing.assert_allclose(encoded, encoding.encode(encoding.decode_cube(point)), atol=1e-14)


def test_numbers_out_of_range_are_out_of_the_cube() -> None:
    encoding = Encoding({"a": FloatDistribution(1.0, 10.0, log=True), "n": IntDistribution(0, 4)})
    np.testing.assert_allclose(encoding.encode({"a": 100.0, "n": -1}), [2.0, -0.1])
    with pytest.raises(ValueError, match="not in"):
        Encoding(MIXED).encode({**Encoding(MIXED).decode(np.zeros(9)), "loss": "other"})


def test_sobol_points_of_a_seed_are_a_sequence_whatever_the_order_of_names() -> None:
    first = sobol_points(MIXED, 5, 1)
    assert sobol_points(dict(reversed(MIXED.items())), 33, 1)[:5] == first
    assert sobol_points(MIXED, 5, 2) != first
    assert sobol_points(MIXED, 0, 1) == []
    assert len(sobol_points(MIXED, 1, 1)) == 1


def test_points_of_finite_spaces_are_counted_and_enumerated() -> None:
    assert n_points(MIXED) is None
    assert n_values(MIXED["share"]) == 11
    count = n_points(FINITE)
    assert count == 11 * 5 * 3
    encoding = Encoding(FINITE)
    points = [encoding.at_index(number) for number in range(count)]
    assert [encoding.index(params) for params in points] == list(range(count))
    left = list(encoding.unvisited(encoding.visited(points[:100]), np.random.default_rng(0)))
    assert sorted(encoding.visited(left)) == list(range(100, count))
    assert len(left) == count - 100
    assert encoding.index({**points[0], "depth": 12}) is None
    assert encoding.index({**points[0], "loss": "other"}) is None


def test_points_of_large_finite_spaces_are_drawn() -> None:
    encoding = Encoding({name: IntDistribution(0, 999) for name in "abcdef"})
    drawn = encoding.unvisited(set(), np.random.default_rng(0))
    assert len(encoding.visited([next(drawn) for _ in range(20)])) == 20


def test_other_distributions_and_continuous_spaces_are_refused() -> None:
    with pytest.raises(InputError, match="the distribution of 'a'"):
        Encoding({"a": BaseDistribution}).encode({"a": 1})  # type: ignore[dict-item]
    with pytest.raises(InputError, match="cannot be enumerated"):
        next(Encoding(MIXED).unvisited(set(), np.random.default_rng(0)))
    assert Encoding(MIXED).visited([{}]) == set()
