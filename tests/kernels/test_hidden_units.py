"""Terms of hidden units, one by one, against arithmetic of more digits."""

from decimal import Decimal, localcontext

import numpy as np
import pytest

from tikhon.kernels.chain.hidden_units import WIDEST, exponentials
from tikhon.models.chain.units import FarUnits, NearUnits, units_at

FOUR = 4  # labels to a register


def exact(u, v):
    """softplus(u + v) and its derivative, with 60 digits."""
    with localcontext() as context:
        context.prec = 60
        rising = (Decimal(u) + Decimal(v)).exp()
        return float((1 + rising).ln()), float(rising / (1 + rising))


def cases(rng):
    """Pairs u, v: moderate, on both sides of the switch between the two ways, extreme."""
    u = np.concatenate(
        [rng.normal(size=20), rng.uniform(-1e4, 1e4, 20), rng.uniform(-160, 160, 40), [0.0, 1e4, -1e4, 709.0]]
    )
    for largest in (1.0, np.nextafter(WIDEST, 0.0), WIDEST, np.nextafter(WIDEST, np.inf), 200.0, 800.0):
        v = rng.uniform(-largest, largest, len(u))
        v[:4] = -largest, largest, 0.0, -largest / 2
        yield u, np.tile(v, (1, 1)), largest


def test_each_term_and_its_derivative(rng):
    for u, v, largest in cases(rng):
        labels = np.zeros((FOUR, 1))
        for one_u, one_v in zip(u, v[0], strict=True):
            labels[0, 0] = one_v
            labels[1, 0] = largest  # decides which way is taken
            units = units_at(np.array([[one_u]]), labels)
            assert isinstance(units, NearUnits if largest <= WIDEST else FarUnits)
            softplus, sigma = exact(one_u, one_v)
            found = units.score()[0, 0] + max(one_u, 0.0)
            assert abs(found - softplus) <= 1e-13 * max(1.0, abs(one_u), abs(one_v))
            by_label, by_score = np.zeros((FOUR, 1)), np.array([[1.0, 0.0, 0.0, 0.0]])
            by_input = units.derive(by_score, by_label)
            assert abs(by_input[0, 0] - sigma) <= 1e-12
            assert abs(by_label[0, 0] - sigma) <= 1e-12


@pytest.mark.parametrize("size", [0.1, 3.0, 40.0, 140.0])
def test_sums_of_many_units_stay_within_range(size, rng):
    inputs, labels = rng.normal(0.0, 3.0 * size, (5, 700)), np.clip(rng.normal(0.0, size, (8, 700)), -WIDEST, WIDEST)
    near, far = units_at(inputs, labels), FarUnits(inputs, labels)
    assert isinstance(near, NearUnits)
    np.testing.assert_allclose(near.score(), far.score(), rtol=1e-13, atol=1e-11)
    by_score, sums, expected = rng.normal(size=(5, 8)), np.zeros((8, 700)), np.zeros((8, 700))
    np.testing.assert_allclose(near.derive(by_score, sums), far.derive(by_score, expected), atol=1e-12)
    np.testing.assert_allclose(sums, expected, atol=1e-12)


def test_exponentials_are_as_exact_as_the_libraries(rng):
    exponents = rng.uniform(-700.0, 700.0, (3, 5001))
    np.testing.assert_allclose(exponentials(exponents), np.exp(exponents), rtol=5e-16)
