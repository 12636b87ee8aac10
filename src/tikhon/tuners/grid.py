"""Grid search over one strength, widened at its border and refined around its optimum."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from tikhon.errors import InputError
from tikhon.objective import Objective, Vector
from tikhon.results import FitResult, Step, TuneResult, TuneStatus
from tikhon.solvers import prefers_gradients
from tikhon.solvers.penalised import baseline
from tikhon.tuners.base import Problem, Tuner
from tikhon.tuners.checkpoints import State, grid_state
from tikhon.tuners.journal import Journal
from tikhon.tuners.refit import bound_warnings, carried_over, refit
from tikhon.tuners.settings import check_bounds, check_pairs
from tikhon.tuners.workers import Mapper, workers

FINE_GAP, LARGE_GAP = 1e-8, 1e-4  # relative gaps of fits with inner_tol=None


def _default_values() -> tuple[float, ...]:
    return tuple(float(v) for v in 2.0 ** np.arange(-10, 11))


@dataclass(frozen=True, kw_only=True)
class Grid(Tuner):
    """Tries strengths, one for all learned groups, and keeps the one with the lowest held-out loss.

    Values are tried from the strongest to the weakest; each fit starts from an extrapolation of the two before it. While the
    best value is at the border, the grid is widened beyond it, within ``bounds``. Then the gaps on both sides of the best
    value are halved ``refine`` times (on the log scale). With ``one_standard_error``, the strongest value whose mean loss
    over the folds is within one standard error of the best is chosen.

    Parameters
    ----------
    values : tuple of float, default=2^-10 ... 2^10
        The strengths to try.
    widen : bool, default=True
    refine : int, default=2
    bounds : pair of float, default=(2^-20, 2^20)
        Limits on widening.
    one_standard_error : bool, default=False
    extrapolate : bool, default=True
        Extrapolate the last two fits to start the next; False: start from the nearest one.
    inner_tol : float or None, default=None
        Relative gap of the fits that are compared; the final fit uses the solver's accuracy. None: 1e-4 if fits use L-BFGS,
        else 1e-8.
    checkpoint : str or None, default=None
        A file written after every value, from which an interrupted tuning resumes.

    Examples
    --------
    >>> import numpy as np
    >>> from tikhon import Grid, LogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 12))
    >>> y = X[:, :2].sum(axis=1) + rng.normal(size=200) > 0
    >>> best, cautious = (Grid(one_standard_error=rule) for rule in (False, True))
    >>> best, cautious = (LogisticRegression(tuner=tuner).fit(X, y).strengths_["all"] for tuner in (best, cautious))
    >>> cautious >= best
    True
    """

    name: ClassVar[str] = "grid"
    uses_pairs: ClassVar[bool] = True
    needs_likelihood: ClassVar[bool] = False

    values: tuple[float, ...] = field(default_factory=_default_values)
    widen: bool = True
    refine: int = 2
    bounds: tuple[float, float] = (2.0**-20, 2.0**20)
    one_standard_error: bool = False
    extrapolate: bool = True  # start from an extrapolation of the last two fits; False: from the nearest one
    inner_tol: float | None = None
    checkpoint: str | None = None

    def tune(self, problem: Problem) -> TuneResult:
        check_pairs(problem, self.name)
        values = self._checked(problem)
        journal = Journal.of(self, problem)
        search = _Search(problem, journal, self)
        search.restore(grid_state(values, self.bounds, self.refine))
        status: TuneStatus = "converged"
        with workers(problem.n_jobs, len(problem.pairs)) as mapper:
            try:
                if search.rounds == 0:
                    search.evaluate(mapper, np.sort(values)[::-1], "")
                    if self.widen:
                        self._widen(search, mapper)
                search.refine(mapper, self.refine)
            except KeyboardInterrupt:
                status = "interrupted"
                if not search.tried:
                    raise
        chosen = search.chosen(self.one_standard_error)
        strengths, carried = carried_over(problem, problem.groups.with_common(chosen))
        n_widened = sum(step.note == "widened" for step in journal.trace)
        notes = (f"the grid was widened by {n_widened} values",) if n_widened else ()
        mean, error = search.curve()
        order = np.argsort(search.tried)
        warnings: tuple[str, ...] = ()
        if self.widen:
            lower, upper = (np.full(problem.groups.count, bound) for bound in self.bounds)
            warnings = bound_warnings(problem.groups, problem.groups.with_common(chosen), (lower, upper))
        if not self.widen and chosen in (min(search.tried), max(search.tried)) and len(search.tried) > 1:
            warnings = (
                f"the best strength, {chosen:.3g}, is at the border of the grid: set widen=True or give more values",
            )
        tried = np.array(search.tried)
        return refit(
            self.name, problem, journal, strengths, problem.start, criterion_name="held-out loss per unit of weight",
            criterion=float(mean[search.tried.index(chosen)]), status=status,
            reason=f"{len(tried)} strengths from {tried.min():.3g} to {tried.max():.3g} tried on {len(problem.pairs)} splits",
            notes=notes + carried, warnings=warnings,
            extras={"grid": {
                "strengths": tried[order].tolist(), "losses": mean[order].tolist(),
                "standard_errors": error[order].tolist(), "chosen": chosen,
            }},
        )  # fmt: skip

    def _checked(self, problem: Problem) -> NDArray[np.float64]:
        values = np.unique(np.asarray(self.values, dtype=float))
        if values.size == 0 or not (np.isfinite(values) & (values > 0)).all():
            raise InputError(f"values={self.values!r}: write one or more finite strengths larger than 0")
        if not isinstance(self.refine, int | np.integer) or self.refine < 0:
            raise InputError(f"refine={self.refine!r}: write a whole number, 0 or larger")
        check_bounds(self.bounds)
        if self.one_standard_error and len(problem.pairs) < 2:
            raise InputError("one_standard_error=True needs two or more folds: set cv")
        return values

    def _widen(self, search: "_Search", mapper: Mapper) -> None:
        """Widen the grid by its own last ratio while the best value is at the border."""
        for side, bound in ((1, self.bounds[1]), (-1, self.bounds[0])):
            while (
                len(search.tried) > 1
                and search.best() == search.border(side)
                and side * (bound - search.border(side)) > 0
            ):
                beyond = search.border(side) * search.ratio(side)
                search.evaluate(mapper, np.array([min(beyond, bound) if side > 0 else max(beyond, bound)]), "widened")


class _Search:
    """The values tried so far: a loss per value and pair, and the weights near the best, to start from."""

    def __init__(self, problem: Problem, journal: Journal, grid: Grid) -> None:
        self.tried: list[float] = []
        self.losses: list[Vector] = []  # mean held-out loss, one per pair
        self.rounds = 0  # rounds of refinement started
        self._pending: list[float] = []  # values of the current round still to be tried
        self._weights: dict[float, list[Vector]] = {}
        self._problem, self._journal = problem, journal
        self._extrapolate = grid.extrapolate
        self._inner_tol = grid.inner_tol or (LARGE_GAP if prefers_gradients(problem.pairs[0].train) else FINE_GAP)

    def restore(self, state: State) -> None:
        saved = self._journal.resume(state)
        if saved is not None:
            arrays, numbers = saved
            self.rounds, self._pending = numbers["rounds"], numbers["pending"]
            self.tried, self.losses = arrays["tried"].tolist(), list(arrays["losses"])
            kept = zip(arrays["kept"], arrays["weights"], strict=True)
            self._weights = {float(v): [row.copy() for row in rows] for v, rows in kept}

    def evaluate(self, mapper: Mapper, values: Vector, note: str) -> None:
        problem = self._problem
        for value in values:
            if float(value) in self.tried:
                continue
            strengths = problem.groups.with_common(float(value))
            strength = problem.groups.expand(strengths)
            starts = self._predicted(float(value)) or self._first_starts(strength)

            def fit(
                k: int, strength: Vector = strength, starts: Sequence[Vector | None] = starts
            ) -> tuple[float, FitResult]:
                pair = problem.pairs[k]
                result = problem.solver.minimise(pair.train, strength, starts[k], tol=self._inner_tol)
                loss = pair.holdout.loss_gradient(result.weights)[0] / pair.holdout_weight
                return float(loss), result

            fits = mapper(fit, range(len(problem.pairs)))
            self._journal.count_fits(*(fit.residual for _, fit in fits))
            self._journal.count_unconverged((fit for _, fit in fits), self._inner_tol)
            self.tried.append(float(value))
            self.losses.append(np.array([loss for loss, _ in fits]))
            self._weights[float(value)] = [fit.weights for _, fit in fits]
            self._forget()
            step = Step(
                number=len(self._journal.trace) + 1, strengths=strengths, criterion=float(self.curve()[0][-1]),
                residual=max(fit.residual for _, fit in fits), n_iter=sum(fit.n_iter for _, fit in fits),
                n_passes=sum(fit.n_passes for _, fit in fits), n_products=sum(fit.n_products for _, fit in fits),
                seconds=self._journal.seconds, note=note,
            )  # fmt: skip
            self._journal.record(step, self._arrays, {"rounds": self.rounds, "pending": self._pending})

    def _arrays(self) -> dict[str, NDArray[np.float64]]:
        return {
            "tried": np.array(self.tried),
            "losses": np.array(self.losses),
            "kept": np.array(list(self._weights)),
            "weights": np.array(list(self._weights.values())),
        }

    def refine(self, mapper: Mapper, rounds: int) -> None:
        """Halve the gaps around the best value, ``rounds`` times; an interrupted round is finished first."""
        while self._pending or self.rounds < rounds:
            if not self._pending:
                self.rounds, self._pending = self.rounds + 1, self.gaps().tolist()
                if not self._pending:  # a single value has no gaps
                    return
            value = self._pending.pop(0)
            self.evaluate(mapper, np.array([value]), "refined")

    def curve(self) -> tuple[Vector, Vector]:
        """Mean held-out loss of each value tried, weighted by the data, and its standard error over the pairs."""
        share = np.array([pair.holdout_weight for pair in self._problem.pairs])
        losses = np.array(self.losses)
        mean = losses @ (share / share.sum())
        if losses.shape[1] < 2:
            return mean, np.zeros_like(mean)
        return mean, losses.std(axis=1, ddof=1) / np.sqrt(losses.shape[1])

    def best(self) -> float:
        """The value with the lowest loss; among ties the strongest."""
        mean, _ = self.curve()
        return max(v for v, loss in zip(self.tried, mean, strict=True) if loss == mean.min())

    def chosen(self, one_standard_error: bool) -> float:
        if not one_standard_error:
            return self.best()
        mean, error = self.curve()
        limit = mean.min() + error[self.tried.index(self.best())]
        return max(v for v, loss in zip(self.tried, mean, strict=True) if loss <= limit)

    def border(self, side: int) -> float:
        return max(self.tried) if side > 0 else min(self.tried)

    def ratio(self, side: int) -> float:
        """The ratio of the last two values on one side, pointing outwards."""
        ordered = sorted(self.tried)
        return ordered[-1] / ordered[-2] if side > 0 else ordered[0] / ordered[1]

    def gaps(self) -> Vector:
        """The geometric midpoints of the gaps around the best value, the stronger one first."""
        ordered = sorted(self.tried)
        at = ordered.index(self.best())
        around = ordered[max(at - 1, 0) : at + 2]
        return np.array([np.sqrt(a * b) for a, b in itertools.pairwise(around)])[::-1]

    def _predicted(self, value: float) -> list[Vector] | None:
        """Starting weights: extrapolated, linearly in log strength, from the weights of the two nearest values."""
        near = sorted(self._weights, key=lambda v: abs(np.log(v / value)))[:2]
        if len(near) < 2 or not self._extrapolate:
            return self._weights[near[0]] if near else None
        share = float(np.clip(np.log(value / near[0]) / np.log(near[1] / near[0]), -1.0, 1.0))
        return [a + share * (b - a) for a, b in zip(self._weights[near[0]], self._weights[near[1]], strict=True)]

    def _first_starts(self, strength: Vector) -> list[Vector | None]:
        """The weights of a warm start for each pair; None if the best constant prediction has a lower penalised loss.

        The strongest value comes first, and its weights may be closer to 0 than to those of the last fit.
        """
        start = self._problem.start
        if start is None:
            return [None] * len(self._problem.pairs)

        def value(train: Objective, weights: Vector) -> float:
            return float(train.loss_gradient(weights)[0] + 0.5 * strength @ weights**2)

        trains = [pair.train for pair in self._problem.pairs]
        return [start if value(train, start) < value(train, baseline(train)) else None for train in trains]

    def _forget(self) -> None:
        """Keep only the weights of the last values, of the borders and around the best: they may be large."""
        ordered = sorted(self.tried)
        at = ordered.index(self.best())
        keep = {*self.tried[-2:], ordered[0], ordered[-1], *ordered[max(at - 1, 0) : at + 2]}
        self._weights = {v: w for v, w in self._weights.items() if v in keep}
