"""Bayesian optimisation as a sampler of Optuna, which also learns from evaluations on parts of the data.

Up to a number of trials, points are those of a scrambled Sobol sequence. Then a Gaussian process (``surrogate``) is fitted to
all trials, and the next point is the one of the largest log expected improvement: the best of quasi-random points and of
perturbations of the best trials, from which continuous coordinates climb by L-BFGS-B and each discrete or categorical
parameter in turn takes its best value. Trials that are running count as if they had given their posterior means, so that
those of a batch are apart.
"""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler
from optuna.search_space import IntersectionSearchSpace
from optuna.study import Study, StudyDirection
from optuna.trial import FrozenTrial, TrialState
from scipy.optimize import Bounds, minimize
from scipy.spatial.distance import cdist

from tikhon.errors import InputError
from tikhon.objective import Vector
from tikhon.search.encoding import Encoding, Params, n_points, sobol, sobol_points
from tikhon.search.surrogate import Surrogate, fit_surrogate, log_improvement

N_STARTUP = 10
CANDIDATES = 1024
# The best trials that are perturbed, how often each, by steps of these standard deviations and with another option how often.
PERTURBED, PERTURBATIONS, STEPS, OTHER_OPTION = 5, 64, (0.1, 0.03, 0.01, 0.003), 0.2
SPREAD_STARTS, NEAR_STARTS = 3, 2  # points that climb, of all over the space and of around the best trials
ITERATIONS, ROUNDS, CHANGES = 50, 3, 10  # of L-BFGS-B, of both ways to climb, of parameters
EXHAUSTIVE = 1024  # points of the largest space that is searched exhaustively
LOOKAHEAD = 64  # Sobol points among which one is looked for that is not taken
FITTED = 160  # points that hyperparameters are fitted to
FAILURE = 1.0  # standard deviations by which a failed trial is worse than the worst


class Evaluated(NamedTuple):
    """A value measured on a share of the data."""

    params: Params
    value: float
    fraction: float


class Data(NamedTuple):
    """What the process is fitted to: values are standardised, larger is better."""

    points: NDArray[np.float64]
    values: Vector
    logs: Vector  # logarithms of the fractions over the own one


class GaussianProcessSampler(BaseSampler):
    """Proposes the point of the largest expected improvement.

    The same seed, trials and number of the trial give the same parameters.

    Parameters
    ----------
    seed : int or None
        None: drawn once.
    earlier : sequence of Evaluated
        Evaluations on other shares of the data, in the units and direction of the study. Those whose parameters the space
        of the study does not cover are left out.
    fraction : float
        The share of the data that the trials of the study are evaluated on, in (0, 1].
    n_startup : int
        Evaluations, earlier ones included, before the process is used.
    """

    def __init__(
        self,
        seed: int | None = None,
        *,
        earlier: Sequence[Evaluated] = (),
        fraction: float = 1.0,
        n_startup: int = N_STARTUP,
    ) -> None:
        for share in [fraction, *(evaluated.fraction for evaluated in earlier)]:
            if not 0.0 < share <= 1.0:
                raise InputError(f"fraction={share!r}: write a share of the data above 0 and at most 1")
        if n_startup < 1:
            raise InputError(f"n_startup={n_startup!r}: write a positive integer")
        self._seed = int(np.random.SeedSequence().generate_state(1)[0]) if seed is None else seed
        self._earlier = tuple(Evaluated(*evaluated) for evaluated in earlier)
        self._fraction = fraction
        self._n_startup = n_startup

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """What all complete trials have in common; before the first, the space of the first trial that has one."""
        space = IntersectionSearchSpace().calculate(study)
        if not study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,)):
            others = (other for other in study.get_trials(deepcopy=False) if other.number != trial.number)
            space = next((other.distributions for other in others if other.distributions), {})
        return {name: space[name] for name in sorted(space) if not space[name].single()}

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """The next point."""
        if len(study.directions) != 1:
            raise InputError(f"the study has {len(study.directions)} objectives: this sampler needs one")
        if not search_space:
            return {}
        encoding = Encoding(search_space)
        trials = [
            other
            for other in study.get_trials(deepcopy=False)
            if other.number != trial.number and search_space.keys() <= other.params.keys()
        ]
        taken = encoding.visited([other.params for other in trials])
        data = self._data(encoding, trials, study.direction)
        if data is None:
            return self._startup(encoding, taken, trial.number)
        rng = np.random.default_rng([self._seed, trial.number])
        surrogate = _fitted(encoding, data, rng)
        running = _encoded(encoding, [other.params for other in trials if other.state == TrialState.RUNNING])[0]
        own = np.vstack([data.points[data.logs == 0.0], running])
        best = float(surrogate.posterior(own if len(own) else data.points)[0].max())
        if len(running):
            surrogate = surrogate.extended(running, surrogate.posterior(running)[0])
        leaders = data.points[np.argsort(-data.values, kind="stable")[:PERTURBED]]
        return Search(encoding, surrogate, best, taken, rng).best_params(leaders)

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """A random value: the first trial's, or of a parameter that not all trials have."""
        rng = np.random.default_rng([self._seed, trial.number, zlib.crc32(param_name.encode())])
        return Encoding({param_name: param_distribution}).decode_cube(rng.random(1))[param_name]

    def reseed_rng(self) -> None:
        """Nothing to do: workers draw different points because their trials have different numbers."""

    def _data(self, encoding: Encoding, trials: Sequence[FrozenTrial], direction: StudyDirection) -> Data | None:
        """None if there is too little to fit a process to."""
        complete = [other for other in trials if other.state == TrialState.COMPLETE and other.value is not None]
        known = [*self._earlier, *(Evaluated(other.params, other.value or 0.0, self._fraction) for other in complete)]
        points, covered = _encoded(encoding, [evaluated.params for evaluated in known])
        known = [evaluated for evaluated, inside in zip(known, covered, strict=True) if inside]
        values = np.array([evaluated.value for evaluated in known])
        finite = np.isfinite(values)
        if len(known) < self._n_startup or not finite.any() or np.ptp(values[finite]) == 0.0:
            return None
        logs = np.log([evaluated.fraction / self._fraction for evaluated in known])
        return Data(points, _standardised(values if direction == StudyDirection.MAXIMIZE else -values), logs)

    def _startup(self, encoding: Encoding, taken: set[int], number: int) -> Params:
        """The next Sobol point, in a finite space the next that is not taken."""
        following = sobol_points(encoding.space, number + LOOKAHEAD, self._seed)[number:]
        return next((params for params in following if encoding.index(params) not in taken), following[0])


@dataclass(frozen=True, eq=False)
class Search:
    """Maximises log expected improvement over a space."""

    encoding: Encoding
    surrogate: Surrogate
    best: float
    taken: set[int]  # numbers of points that are not to be proposed again
    rng: np.random.Generator

    def best_params(self, leaders: NDArray[np.float64]) -> Params:
        count = n_points(self.encoding.space)
        if count is not None and count <= EXHAUSTIVE:
            left = list(self.encoding.unvisited(self.taken, self.rng)) or list(self.encoding.unvisited((), self.rng))
            return left[int(self.improvement(np.array([self.encoding.encode(params) for params in left])).argmax())]
        spread = self.encoding.from_cube(sobol(len(self.encoding.space), CANDIDATES, self.rng))
        near = self.perturbed(leaders)
        starts = [self.chosen(spread, SPREAD_STARTS), self.chosen(near, NEAR_STARTS)]
        climbed = [self.encoding.decode(self.climbed(point)) for point in np.vstack(starts)]
        free = [params for params in climbed if self.is_free(params)]
        if not free:  # only in a finite space
            ordered = self.chosen(np.vstack([spread, near]), len(spread) + len(near))
            free = [params for params in map(self.encoding.decode, ordered) if self.is_free(params)][:1]
            free = free or [next(self.encoding.unvisited(self.taken, self.rng), climbed[0])]
        return free[int(self.improvement(np.array([self.encoding.encode(params) for params in free])).argmax())]

    def improvement(self, points: NDArray[np.float64]) -> Vector:
        return log_improvement(*self.surrogate.posterior(points), self.best)[0]

    def is_free(self, params: Params) -> bool:
        return not self.taken or self.encoding.index(params) not in self.taken

    def chosen(self, points: NDArray[np.float64], count: int) -> NDArray[np.float64]:
        """Those of the largest improvement, in order."""
        return points[np.argsort(-self.improvement(points), kind="stable")[:count]]

    def perturbed(self, leaders: NDArray[np.float64]) -> NDArray[np.float64]:
        """Points around the best trials: normal steps, and now and then another option."""
        centres = np.repeat(leaders, PERTURBATIONS, axis=0)
        spreads = np.resize(STEPS, len(centres))[:, np.newaxis]
        points = np.clip(centres + spreads * self.rng.standard_normal(centres.shape), 0.0, 1.0)
        for slot, options in zip(self.encoding.slots, self.encoding.options, strict=True):
            if options is not None:
                nearest = cdist(centres[:, slot], options).argmin(axis=1)
                drawn = self.rng.integers(len(options), size=len(points))
                changed = self.rng.random(len(points)) < OTHER_OPTION
                points[:, slot] = options[np.where(changed, drawn, nearest)]
        return points

    def climbed(self, point: Vector) -> Vector:
        """A local maximum, by turns over the continuous coordinates and the others."""
        discrete = not self.encoding.continuous.all()
        for _ in range(ROUNDS if discrete else 1):
            point = self.continuous_climb(point)
            if not discrete:
                return point
            previous, point = point, self.discrete_climb(point)
            if np.array_equal(point, previous):
                break
        return point

    def continuous_climb(self, point: Vector) -> Vector:
        free = self.encoding.continuous
        if not free.any():
            return point
        moved = point.copy()

        def objective(coordinates: Vector) -> tuple[float, Vector]:
            moved[free] = coordinates
            mean, deviation, of_mean, of_deviation = self.surrogate.posterior_gradient(moved)
            value, by_mean, by_deviation = log_improvement(np.array([mean]), np.array([deviation]), self.best)
            return -float(value[0]), -(by_mean * of_mean + by_deviation * of_deviation)[free]

        cube = Bounds(np.zeros(free.sum()), np.ones(free.sum()))
        found = minimize(
            objective, point[free], jac=True, method="L-BFGS-B", bounds=cube, options={"maxiter": ITERATIONS}
        )
        moved[free] = found.x
        return moved

    def discrete_climb(self, point: Vector) -> Vector:
        """Change one parameter at a time to the option that gains most, until none does."""
        slots = [pair for pair in zip(self.encoding.slots, self.encoding.options, strict=True) if pair[1] is not None]
        changed = [(slot, option) for slot, options in slots for option in options]  # type: ignore[union-attr]
        for _ in range(CHANGES):
            points = np.tile(point, (len(changed) + 1, 1))
            for row, (slot, option) in zip(points[1:], changed, strict=True):
                row[slot] = option
            gains = self.improvement(points)
            if self.taken:
                free = [self.is_free(self.encoding.decode(row)) for row in points]
                gains[~np.array(free)] = -np.inf
            if gains.max() <= gains[0]:
                break
            point = points[gains.argmax()]
        return point


def _fitted(encoding: Encoding, data: Data, rng: np.random.Generator) -> Surrogate:
    rows = np.argsort(-data.values, kind="stable")
    if len(rows) > FITTED:  # the better half of those are the best, the others any
        rows = np.append(rows[: FITTED // 2], rng.permutation(rows[FITTED // 2 :])[: FITTED - FITTED // 2])
    tied = np.repeat(np.arange(len(encoding.slots)), [slot.stop - slot.start for slot in encoding.slots])
    return fit_surrogate(data.points, data.values, data.logs if data.logs.any() else None, tied, np.sort(rows))


def _standardised(values: Vector) -> Vector:
    """Mean 0 and standard deviation 1; failed evaluations count as somewhat worse than the worst."""
    finite = values[np.isfinite(values)]
    floor = finite.min() - FAILURE * finite.std()
    values = np.where(np.isfinite(values), values, floor)
    return np.asarray((values - values.mean()) / values.std())


def _encoded(encoding: Encoding, given: Sequence[Params]) -> tuple[NDArray[np.float64], list[bool]]:
    """Points of those that have values for all parameters of the space, and which do."""
    points, covered = [], []
    for params in given:
        try:
            points.append(encoding.encode(params))
        except (KeyError, ValueError, TypeError):  # no such parameter, or a value that was not in this space
            covered.append(False)
        else:
            covered.append(True)
    return np.array(points).reshape(-1, encoding.n_coordinates), covered
