"""The process against scikit-learn and finite differences, improvement against quadrature and its expansion."""

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from tikhon.search.surrogate import Surrogate, fit_surrogate, log_improvement, log_likelihood


def some_surrogate(rng: np.random.Generator, with_fraction: bool) -> Surrogate:
    points = rng.random((25, 4))
    values = np.sin(5.0 * points[:, 0]) + points[:, 1] ** 2 + 0.05 * rng.standard_normal(25)
    logs = np.log(rng.choice([0.1, 0.3, 1.0], 25)) if with_fraction else None
    values = (values - values.mean()) / values.std()
    return fit_surrogate(points, values, logs, np.array([0, 1, 2, 2]), np.arange(25))


@pytest.mark.parametrize("with_fraction", [False, True])
def test_posterior_is_that_of_scikit_learn(rng: np.random.Generator, with_fraction: bool) -> None:
    surrogate = some_surrogate(rng, with_fraction)
    points = rng.random((10, 4))
    means, deviations = surrogate.posterior(points)
    inputs = np.column_stack([points, np.zeros(10)]) if with_fraction else points
    expected, noisy = surrogate.regressor.predict(inputs, return_std=True)
    noise = surrogate.regressor.kernel_.get_params()["k1__k2__noise_level"]
    np.testing.assert_allclose(means, expected, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(np.square(deviations) + noise, np.square(noisy), rtol=1e-8)


@pytest.mark.parametrize("with_fraction", [False, True])
def test_likelihood_and_its_gradient_are_those_of_scikit_learn(rng: np.random.Generator, with_fraction: bool) -> None:
    regressor = some_surrogate(rng, with_fraction).regressor
    X = regressor.X_train_
    level = regressor.kernel_.get_params()["k2"](X)
    for _ in range(5):
        theta = regressor.kernel_.theta + 0.5 * rng.standard_normal(len(regressor.kernel_.theta))
        expected, slopes = regressor.log_marginal_likelihood(theta, eval_gradient=True)
        found, gradient = log_likelihood(theta, X, regressor.y_train_, level)
        assert math.isclose(found, expected, rel_tol=1e-9, abs_tol=1e-8)
        np.testing.assert_allclose(gradient, slopes, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("with_fraction", [False, True])
def test_posterior_gradient_matches_finite_differences(rng: np.random.Generator, with_fraction: bool) -> None:
    surrogate = some_surrogate(rng, with_fraction)
    for _ in range(10):
        point, direction = rng.random(4), rng.standard_normal(4)
        mean, deviation, of_mean, of_deviation = surrogate.posterior_gradient(point)
        means, deviations = surrogate.posterior(point + np.outer([0.0, -1e-5, 1e-5], direction))
        np.testing.assert_allclose([mean, deviation], [means[0], deviations[0]], rtol=1e-9, atol=1e-10)
        # Central differences: an error of the order of 1e-10 from truncation, and 1e-15 / 1e-5 from rounding.
        np.testing.assert_allclose(of_mean @ direction, (means[2] - means[1]) / 2e-5, rtol=1e-5, atol=1e-7)
        np.testing.assert_allclose(
            of_deviation @ direction, (deviations[2] - deviations[1]) / 2e-5, rtol=1e-5, atol=1e-7
        )


def test_gradient_is_finite_at_the_data(rng: np.random.Generator) -> None:
    surrogate = some_surrogate(rng, False)
    for point in surrogate.regressor.X_train_:
        assert all(np.isfinite(part).all() for part in surrogate.posterior_gradient(point))


@pytest.mark.parametrize("with_fraction", [False, True])
def test_posterior_means_as_data_change_no_mean_and_lower_deviations(
    rng: np.random.Generator, with_fraction: bool
) -> None:
    surrogate = some_surrogate(rng, with_fraction)
    points = rng.random((3, 4))
    means, deviations = surrogate.posterior(points)
    extended = surrogate.extended(points, means)
    elsewhere = rng.random((20, 4))
    np.testing.assert_allclose(extended.posterior(elsewhere)[0], surrogate.posterior(elsewhere)[0], atol=1e-7)
    assert (extended.posterior(elsewhere)[1] <= surrogate.posterior(elsewhere)[1] + 1e-9).all()
    assert (extended.posterior(points)[1] < deviations).all()


def test_irrelevant_coordinates_get_long_length_scales(rng: np.random.Generator) -> None:
    points = rng.random((60, 4))
    values = np.sin(6.0 * points[:, 0])
    surrogate = fit_surrogate(points, (values - values.mean()) / values.std(), None, np.arange(4), np.arange(60))
    assert surrogate.lengths[1:].min() > 3.0 * surrogate.lengths[0]


def test_a_shift_of_all_values_of_a_fraction_costs_little_correlation(rng: np.random.Generator) -> None:
    """Half of the points at a fraction of 0.3, all values 3 standard deviations lower: still informative."""
    points = rng.random((40, 2))
    values = np.sin(6.0 * points[:, 0]) + points[:, 1]
    logs = np.where(np.arange(40) < 34, np.log(0.3), 0.0)
    shifted = values - 3.0 * values.std() * (logs < 0.0)
    surrogate = fit_surrogate(points, (shifted - shifted.mean()) / shifted.std(), logs, np.arange(2), np.arange(40))
    elsewhere = rng.random((200, 2))
    truth = (np.sin(6.0 * elsewhere[:, 0]) + elsewhere[:, 1] - shifted.mean()) / shifted.std()
    errors = surrogate.posterior(elsewhere)[0] - truth
    assert errors.std() < 0.15 * truth.std()
    assert abs(errors.mean()) < 0.3 * truth.std()


@pytest.mark.parametrize("z", [-6.0, -2.0, -0.9, 0.0, 0.5, 3.0, 10.0])
def test_improvement_is_the_integral(z: float) -> None:
    best, deviation = 1.3, 0.7
    mean = best + z * deviation
    expected, _ = quad(lambda t: t * norm.pdf(t - z), 0.0, max(z, 0.0) + 12.0, epsabs=0.0, epsrel=1e-11)
    found = log_improvement(np.array([mean]), np.array([deviation]), best)[0][0]
    assert math.isclose(found, math.log(deviation * expected), rel_tol=1e-9, abs_tol=1e-9)


@pytest.mark.parametrize("z", [-40.0, -49.99, -50.01, -1e3, -1e6])
def test_improvement_in_the_tail_is_its_continued_fraction(z: float) -> None:
    """Repeated integrals of the normal density: h = phi * J with J = 1 / (a^2 + 3 - ...), from Laplace's fraction."""
    a = -z
    ratio = 0.0
    for level in range(400, 0, -1):  # Mills' ratio is 1 / (a + 1 / (a + 2 / (a + 3 / ...)))
        ratio = level / (a + ratio)
    # 1 - a M with M = 1 / (a + ratio) is ratio / (a + ratio): no cancellation.
    expected = math.log(ratio / (a + ratio)) - 0.5 * a * a - 0.5 * math.log(2.0 * math.pi)
    found = log_improvement(np.array([z]), np.array([1.0]), 0.0)[0][0]
    assert math.isclose(found, expected, rel_tol=1e-12)


@pytest.mark.parametrize("z", [-1e4, -60.0, -50.0, -10.0, -1.0, 0.0, 2.0, 29.9, 30.1, 100.0])
def test_improvement_gradient_matches_finite_differences(z: float) -> None:
    mean, deviation, best, step = 0.4 + 0.5 * z, 0.5, 0.4, 1e-6
    means = np.array([mean, mean + step, mean - step, mean, mean])
    deviations = deviation + np.array([0.0, 0.0, 0.0, step, -step])
    values, by_mean, by_deviation = log_improvement(means, deviations, best)
    assert np.isfinite(values).all()
    # Values near z^2 / 2 are rounded, which limits the accuracy of the differences.
    tolerance = 1e-6 + 1e-16 * z * z / step
    np.testing.assert_allclose(by_mean[0], (values[1] - values[2]) / (2.0 * step), rtol=1e-6, atol=tolerance)
    np.testing.assert_allclose(by_deviation[0], (values[3] - values[4]) / (2.0 * step), rtol=1e-6, atol=tolerance)
