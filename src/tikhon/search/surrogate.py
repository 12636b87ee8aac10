"""A Gaussian process over encoded parameters, with derivatives of its posterior, and expected improvement.

The kernel is c Matern_5/2(x, x') plus noise and a level, which is a random constant. Hyperparameters maximise the likelihood
times log-normal priors: on a cube of d coordinates, typical distances and therefore length scales grow as sqrt(d) (Hvarfner,
Hellsten, Nardi 2024). Without priors, few points can be explained by length scales so short, or so long, that the posterior
says nothing of other points. The median length scale, sqrt(d) / e, was chosen on Hartmann's function of 6 coordinates.

Evaluations on parts of the data add a coordinate, log(fraction / own fraction), with a length scale of its own: f at another
fraction is correlated with f, the less the further the fractions are apart. The level then is a random function of this
coordinate, so that all values of a fraction may be shifted together without any loss of correlation.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve, cholesky, solve_triangular
from scipy.optimize import Bounds, minimize
from scipy.spatial.distance import cdist
from scipy.special import erfcx
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Kernel, Matern, WhiteKernel

from tikhon.objective import Vector

Matrix = NDArray[np.float64]

# Priors of the logarithms: mean and standard deviation. Values are standardised, coordinates are of the unit cube.
LENGTH = (-1.0, 1.0)  # of a length scale over sqrt(number of parameters)
FRACTION_LENGTH = (2.0, 1.5)
SCALE = (0.0, 1.0)
NOISE = (-8.0, 2.5)
LEVEL = 1.0  # variance of the random constant
LEVEL_LENGTH = 1.0  # of the level's dependence on the log fraction
SCALE_BOUNDS, LENGTH_BOUNDS, NOISE_BOUNDS = (1e-3, 1e3), (1e-2, 1e3), (1e-6, 1.0)
ITERATIONS = 30
JITTER = 1e-9
TAIL, HEAD = 50.0, 30.0  # standard deviations below and above which improvement is expanded
LOG_SQRT_2PI = 0.5 * float(np.log(2.0 * np.pi))
SQRT5 = float(np.sqrt(5.0))


@dataclass(frozen=True, eq=False)
class Surrogate:
    """A fitted process and its posterior at the own fraction. Points are encoded parameters, without the fraction."""

    regressor: GaussianProcessRegressor
    scale: float
    lengths: Vector  # of the coordinates, the last that of the fraction if there is one
    level: Vector  # covariances of the level at the own fraction and at the data

    def posterior(self, points: Matrix) -> tuple[Vector, Vector]:
        """Means and standard deviations of the values without noise."""
        apart = cdist(self._scaled(points), self.regressor.X_train_ / self.lengths)
        covariances = self.scale * _matern(apart)[0] + self.level
        half = solve_triangular(self.regressor.L_, covariances.T, lower=True, check_finite=False)
        variances = self.scale + LEVEL - np.square(half).sum(axis=0)
        return covariances @ self.regressor.alpha_, np.sqrt(np.maximum(variances, JITTER))

    def posterior_gradient(self, point: Vector) -> tuple[float, float, Vector, Vector]:
        """Mean and standard deviation at a point, and their gradients."""
        differences = self._scaled(point[np.newaxis]) - self.regressor.X_train_ / self.lengths
        values, slopes = _matern(np.sqrt(np.square(differences).sum(axis=1)))
        covariances = self.scale * values + self.level
        derivatives = (self.scale * slopes[:, np.newaxis] * differences / self.lengths)[:, : len(point)]
        solved = cho_solve((self.regressor.L_, True), covariances, check_finite=False)
        variance = self.scale + LEVEL - float(covariances @ solved)
        deviation = float(np.sqrt(max(variance, JITTER)))
        of_deviation = -(solved @ derivatives) / deviation if variance > JITTER else np.zeros(len(point))
        return float(covariances @ self.regressor.alpha_), deviation, self.regressor.alpha_ @ derivatives, of_deviation

    def _scaled(self, points: Matrix) -> Matrix:
        missing = len(self.lengths) - points.shape[1]  # the fraction, whose coordinate is 0
        return np.pad(points, ((0, 0), (0, missing))) / self.lengths

    def extended(self, points: Matrix, values: Vector) -> "Surrogate":
        """With further values at the own fraction, and the same hyperparameters."""
        missing = len(self.lengths) - points.shape[1]
        X = np.vstack([self.regressor.X_train_, np.pad(points, ((0, 0), (0, missing)))])
        regressor = GaussianProcessRegressor(self.regressor.kernel_, alpha=JITTER, optimizer=None)
        regressor.fit(X, np.append(self.regressor.y_train_, values))
        return Surrogate(regressor, self.scale, self.lengths, np.append(self.level, np.full(len(values), LEVEL)))


def fit_surrogate(
    points: Matrix, values: Vector, logs: Vector | None, tied: NDArray[np.intp], rows: NDArray[np.intp]
) -> Surrogate:
    """The process with the most probable hyperparameters.

    Parameters
    ----------
    points : matrix
        Encoded parameters.
    values : vector
        Standardised.
    logs : vector or None
        Logarithms of the fractions over the own one, if any differs.
    tied : array of int
        The parameter of each coordinate: coordinates of one parameter share a length scale.
    rows : array of int
        Those that hyperparameters are fitted to.
    """
    n_parameters = int(tied.max()) + 1
    length = (LENGTH[0] + 0.5 * np.log(n_parameters), LENGTH[1])
    priors = [SCALE] + [length] * n_parameters
    bounds = [SCALE_BOUNDS] + [LENGTH_BOUNDS] * n_parameters
    X = points
    if logs is not None:
        X = np.column_stack([points, logs])
        tied = np.append(tied, n_parameters)
        priors, bounds = [*priors, FRACTION_LENGTH], [*bounds, LENGTH_BOUNDS]
    centres, spreads = np.array([*priors, NOISE]).T
    # Entry i of the logarithms of scale, length scales and noise is number places[i] of the fitted ones.
    places = np.concatenate([[0], 1 + tied, [len(centres) - 1]])
    level = _level(np.zeros(len(X)) if logs is None else logs)

    def objective(theta: Vector) -> tuple[float, Vector]:
        likelihood, slopes = log_likelihood(theta[places], X[rows], values[rows], level[np.ix_(rows, rows)])
        departures = (theta - centres) / spreads
        gradient = np.bincount(places, slopes, len(theta)) - departures / spreads
        return 0.5 * float(departures @ departures) - likelihood, -gradient

    limits = Bounds(*np.log([*bounds, NOISE_BOUNDS]).T)
    found = minimize(objective, centres, jac=True, method="L-BFGS-B", bounds=limits, options={"maxiter": ITERATIONS})
    kernel = _kernel(len(tied), logs is not None).clone_with_theta(found.x[places])
    regressor = GaussianProcessRegressor(kernel, alpha=JITTER, optimizer=None).fit(X, values)
    at_own = _level(np.append(0.0, np.zeros(len(X)) if logs is None else logs))[0, 1:]
    return Surrogate(regressor, float(np.exp(found.x[0])), np.exp(found.x[1 + tied]), at_own)


def log_likelihood(theta: Vector, X: Matrix, values: Vector, level: Matrix) -> tuple[float, Vector]:
    """The log marginal likelihood and its gradient by the logarithms of scale, length scales and noise.

    It is that of scikit-learn's regressor, whose derivatives of the kernel are n x n numbers for each coordinate. Only their
    products with W = a a' - K^-1, a = K^-1 y, are needed: for weights A = W m'(r) / r and scaled coordinates z, sums of
    A_ij (z_i - z_j)^2 are products of matrices.
    """
    scale, lengths, noise = np.exp(theta[0]), np.exp(theta[1:-1]), np.exp(theta[-1])
    scaled = X / lengths
    correlations, slopes = _matern(cdist(scaled, scaled))
    covariance = scale * correlations + level
    covariance[np.diag_indices_from(covariance)] += noise + JITTER
    factor = cholesky(covariance, lower=True, check_finite=False)
    solved = cho_solve((factor, True), values, check_finite=False)
    inverse = cho_solve((factor, True), np.eye(len(values)), check_finite=False)
    likelihood = -0.5 * float(values @ solved) - float(np.log(np.diag(factor)).sum()) - len(values) * LOG_SQRT_2PI
    weights = np.outer(solved, solved) - inverse
    of_scale = 0.5 * scale * np.vdot(weights, correlations)
    of_noise = 0.5 * noise * np.trace(weights)
    weights *= scale * slopes
    of_lengths = (weights @ scaled * scaled).sum(axis=0) - weights.sum(axis=1) @ np.square(scaled)
    return likelihood, np.concatenate([[of_scale], of_lengths, [of_noise]])


def _level(logs: Vector) -> Matrix:
    """Covariances of the level at these log fractions."""
    return np.asarray(LEVEL * np.exp(-0.5 * np.square((logs[:, np.newaxis] - logs) / LEVEL_LENGTH)))


def _kernel(n_coordinates: int, has_fraction: bool) -> Kernel:
    level = ConstantKernel(LEVEL, "fixed")
    if has_fraction:  # of infinite length scale in all other coordinates
        lengths = np.append(np.full(n_coordinates - 1, 1e9), LEVEL_LENGTH)
        level = level * RBF(lengths, "fixed")
    return ConstantKernel(1.0) * Matern(np.ones(n_coordinates), nu=2.5) + WhiteKernel() + level


def _matern(distances: Matrix) -> tuple[Matrix, Matrix]:
    """Matern 5/2 correlations m(r), and m'(r) / r."""
    scaled = SQRT5 * distances
    decay = np.exp(-scaled)
    return (1.0 + scaled + np.square(scaled) / 3.0) * decay, -5.0 / 3.0 * (1.0 + scaled) * decay


def log_improvement(means: Vector, deviations: Vector, best: float) -> tuple[Vector, Vector, Vector]:
    """Logarithms of the expected improvement over ``best``, and their derivatives by means and standard deviations.

    The improvement is sd h(z) with z = (mean - best) / sd and h = phi + z Phi. It is accurate where h underflows: relative to
    phi, h is 1 + z M with Mills' ratio M = Phi / phi = sqrt(pi / 2) erfcx(-z / sqrt(2)). Far in the lower tail this cancels,
    and is summed as 1/z^2 - 3/z^4 + 15/z^6 - 105/z^8; far above, h is z.
    """
    z = (means - best) / deviations
    middle = np.clip(z, -TAIL, HEAD)
    mills = np.sqrt(0.5 * np.pi) * erfcx(-np.sqrt(0.5) * np.minimum(z, HEAD))
    inverse = 1.0 / np.square(np.minimum(z, -TAIL))
    far = np.log(inverse) + np.log1p(inverse * (-3.0 + inverse * (15.0 - 105.0 * inverse)))
    log_ratio = np.where(z < -TAIL, far, np.log1p(middle * np.where(z < -TAIL, 0.0, mills)))
    above = z > HEAD
    log_h = np.where(above, np.log(np.maximum(z, HEAD)), log_ratio - 0.5 * np.square(z) - LOG_SQRT_2PI)
    by_deviation = np.where(above, 0.0, np.exp(-log_ratio))
    by_mean = np.where(above, 1.0 / np.maximum(z, HEAD), mills * by_deviation)
    return np.log(deviations) + log_h, by_mean / deviations, by_deviation / deviations
