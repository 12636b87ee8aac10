"""What all estimators share: from an objective, groups and parameters to learned strengths and weights."""

import contextlib
import logging
import os
import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import joblib
import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from tikhon.data.description import Description
from tikhon.data.safefile import MODEL_KIND, MODEL_VERSION, write_file
from tikhon.errors import InputError, TuningWarning
from tikhon.estimators.splits import make_pairs, make_splits
from tikhon.estimators.state import Arrays, model_state
from tikhon.estimators.user_warnings import FitWarnings
from tikhon.groups import Groups, GroupSpec
from tikhon.objective import Pair, Rows, Vector, hints_of
from tikhon.results import Step, TuneResult
from tikhon.solvers import Solver, make_solver, prefers_factors, prefers_gradients
from tikhon.solvers.penalised import baseline
from tikhon.tuners import Fixed, Problem, Tuner, make_tuner
from tikhon.tuners.base import Rescale
from tikhon.tuners.refit import convex_bound
from tikhon.tuners.workers import one_blas_thread

if TYPE_CHECKING:
    from tikhon.testing import HypergradientCheck

logger = logging.getLogger(__name__)

FINE, FAIR, LARGE = 1e-16, 1e-6, 1e-3  # relative gaps of fits with tol=None
FOLDS = 5  # with cv="auto"
NO_SPLITS = object()  # in place of cv, where nothing is held out
NOT_CONVEX = "the loss is not convex, since labels or structures are known in part: fits end in one of its minima"
NOT_CONVERGED = "the tuner {result.tuner!r} ended without convergence: {result.status} ({result.reason})"
LIGHT_ROWS = (
    "sample weights sum to {:.3g}: a row of weight k counts as k rows, so these are fewer than one, and say next to nothing "
    "about strengths; scale the weights to a mean of 1"
)
DEFAULT_STRENGTH = 1.0  # with tuner=None and no strengths, as scikit-learn's default alpha and C


class TunedEstimator(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """The base of the estimators; it has no parameters of its own."""

    # What the estimators take; declared here, stored untouched by their own __init__.
    groups: GroupSpec
    tuner: str | Tuner | None
    strengths: Mapping[str, float] | float | None
    cv: Any
    validation_fraction: float
    rescale: Rescale
    solver: str | Solver
    tol: float | None
    max_iter: int
    random_state: Any
    n_jobs: int | None
    verbose: int

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to a safetensors file that ``tikhon.load`` reads; never pickle.

        The file is written beside and renamed, so that an old one is replaced as a whole or not at all. Parameters
        that JSON cannot hold (a splitter, a tuner or solver of your own, a RandomState) come back as their defaults; a
        function given as ``groups`` comes back as the groups it made.

        Parameters
        ----------
        path : str or path-like
            Where to write, by custom with the ending ``.safetensors``.
        """
        check_is_fitted(self)
        header, arrays = model_state(self)
        write_file(path, kind=MODEL_KIND, version=MODEL_VERSION, header=header, arrays=arrays)

    def check_hypergradient(
        self, X: Any, y: Any, sample_weight: Any = None, *, seed: int = 0, tol: float = 1e-5
    ) -> "HypergradientCheck":
        """Compare the gradient that ``tuner="gradient"`` would follow on these data with differences of refits.

        At random strengths and in random directions, to the limit of precision; costs some ten fits of every fold. The
        estimator itself is not changed.

        Parameters
        ----------
        X, y, sample_weight
            As in ``fit``.
        seed : int, default=0
            Chooses the strengths and directions.
        tol : float, default=1e-5
            The relative difference that is accepted.

        Returns
        -------
        HypergradientCheck
            Slopes found both ways and the relative ``error`` between them.

        Raises
        ------
        AssertionError
            Where they differ by more than ``tol``, with the figures.
        """
        from tikhon.estimators.hypergradient_check import (
            HypergradientChecker,  # here: a fit does not need the conformance suites
        )

        checker = HypergradientChecker(seed=seed, tol=tol)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TuningWarning)  # they speak of a fit that nobody asked for
            clone(self).set_params(tuner=checker).fit(X, y, sample_weight)
        if not checker.reports:
            raise InputError("all strengths are fixed: there is no hypergradient to check")
        return checker.reports[0]

    def _checked_tuner(self, groups: Groups) -> Tuner:
        tuner = make_tuner(self.tuner)
        return tuner if groups.learned.any() else Fixed()

    def _tune(
        self,
        tuner: Tuner,
        objective: Rows,
        groups: Groups,
        row_weights: Vector,
        *,
        X: Any,
        y: Any,
        codes: NDArray[np.intp] | None,
        one_thread: bool,
        n_jobs: int,
        start: Vector | None = None,
        warned: FitWarnings,
    ) -> TuneResult:
        """Split, tune and fit; sets the attributes that all estimators have.

        Parameters
        ----------
        X, y : arrays
            For a splitter of the user's; nothing else reads them.
        codes : array or None
            Class numbers of the rows, to stratify by.
        one_thread : bool
            Whether threads of BLAS would cost more than they save.
        n_jobs : int
            Threads over folds, at most.
        start : array or None
            Weights to begin with.
        warned : FitWarnings
            The warnings raised so far; the result has these and those of the tuning.
        """
        if row_weights.sum() < 1.0 and groups.learned.any():
            warned(LIGHT_ROWS.format(float(row_weights.sum())), TuningWarning)
        pairs: list[Pair] = []
        notes: tuple[str, ...] = ()
        cv = self._splits_of(tuner, objective, int(np.count_nonzero(row_weights)))
        if cv is not NO_SPLITS:
            splits, notes = make_splits(
                cv,
                validation_fraction=self.validation_fraction,
                random_state=self.random_state,
                X=X,
                y=y,
                row_weights=row_weights,
                codes=codes,
            )
            pairs = make_pairs(splits, row_weights, objective.reweighted)
        if not objective.is_convex and hints_of(objective).majoriser is None:
            notes = (*notes, NOT_CONVEX)
        n_jobs = max(1, min(n_jobs, len(pairs)))
        problem = Problem(
            objective=objective,
            groups=groups,
            solver=make_solver(self.solver, tol=self._tolerance(objective), max_iter=self.max_iter),
            pairs=pairs,
            total_weight=float(row_weights.sum()),
            rescale=self.rescale,
            n_jobs=n_jobs,
            on_step=getattr(self, "_on_step", None) or (_log_step if self.verbose else None),
            notes=notes,
            start=start,
            start_strengths=None if start is None else self._last_strengths(groups),
        )
        # Threads over folds and threads inside BLAS would fight for the same cores.
        with one_blas_thread() if n_jobs > 1 or one_thread else contextlib.nullcontext():
            result = tuner.tune(problem)
        for message in result.warnings:
            warned(message, TuningWarning)
        if not result.converged:
            warned(NOT_CONVERGED.format(result=result), ConvergenceWarning)
        result = replace(result, warnings=tuple(warned.messages))
        self.tuning_: TuneResult = result
        self.groups_: Groups = groups
        self.strengths_: dict[str, float] = dict(result.strengths)
        self.n_iter_ = max(1, sum(step.n_iter for step in result.trace) + int(result.extras.get("n_iter", 0)))
        return result

    def _last_strengths(self, groups: Groups) -> Vector | None:
        """Those of the last fit, for a warm start; None where the groups, or which of them are learned, have changed."""
        last = getattr(self, "strengths_", {})
        if tuple(last) != groups.names or not all(last[groups.names[i]] > 0.0 for i in np.flatnonzero(groups.learned)):
            return None
        return np.array(list(last.values()))

    def _tolerance(self, objective: Rows) -> float:
        """The relative gap at which fits end.

        Digits are cheap where the Hessian is factorised; elsewhere each costs passes over the data, most of all with
        L-BFGS, which large sparse models use. With a sketch of the Hessian two digits more cost a tenth.
        """
        if self.tol is not None:
            return self.tol
        if prefers_factors(convex_bound(objective, baseline(objective))):
            return FINE
        return LARGE if prefers_gradients(objective) and hints_of(objective).hessian_sketch is None else FAIR

    def _splits_of(self, tuner: Tuner, objective: Rows, n_rows: int) -> Any:
        """What to split by: NO_SPLITS, or a value of ``cv`` that is not "auto"."""
        if not tuner.uses_pairs:
            return NO_SPLITS
        if not (isinstance(self.cv, str) and self.cv == "auto"):
            return self.cv
        return {"none": NO_SPLITS, "folds": FOLDS, "holdout": None}[tuner.splits_for(objective, n_rows)]

    def _with_strengths(self, groups: Groups) -> Groups:
        """The groups with the strengths that the user fixes."""
        strengths = self.strengths
        if self.tuner is None and strengths is None:
            strengths = DEFAULT_STRENGTH
        groups = groups.with_fixed(strengths)
        if self.tuner is None and groups.learned.any():
            missing = groups.names[int(np.argmax(groups.learned))]
            given = sorted(strengths) if isinstance(strengths, Mapping) else strengths
            raise InputError(f"tuner=None needs a strength for every group: {missing!r} has none among {given}")
        return groups

    # What a model file holds besides: described, written into arrays and a header, and read back.

    _file_description: ClassVar[Description]

    def _own_state(self, arrays: Arrays) -> dict[str, Any]:
        raise NotImplementedError

    def _restore_own(self, header: Mapping[str, Any], arrays: Arrays) -> None:
        raise NotImplementedError

    def _column_groups(self) -> list[str | None]:
        """The group of each column or feature, None where never penalised: what a function as ``groups`` made."""
        raise NotImplementedError

    def _stop_if_interrupted(self) -> None:
        """Ctrl-C reaches the caller, as it should; the estimator keeps the best that was found until then."""
        if self.tuning_.status == "interrupted":
            raise KeyboardInterrupt(self.tuning_.reason)


class WeightsByGroup:
    """For models whose weights are more than a table of coefficients: they are told by group."""

    warm_start: bool
    groups_: Groups
    _weights: Vector

    @property
    def _is_warm_started(self) -> bool:
        return bool(self.warm_start) and hasattr(self, "_weights")

    def weights_by_group(self) -> dict[str, Vector]:
        """The weights of each group, by its name."""
        check_is_fitted(self)
        return {name: self._weights[self.groups_.index == number] for number, name in enumerate(self.groups_.names)}


def cores(n_jobs: int | None) -> int:
    if n_jobs is not None and (n_jobs < -1 or n_jobs == 0):
        raise InputError(f"n_jobs={n_jobs}: write a number of threads, or None or -1 for all cores")
    return int(joblib.cpu_count()) if n_jobs is None or n_jobs == -1 else n_jobs


def _log_step(step: Step) -> None:
    """The step as a line of the log, and as the record's ``step`` for handlers that want the numbers."""
    logger.info(
        "step %d: criterion %.8g, residual %.1e, %.2f s%s",
        step.number,
        step.criterion,
        step.residual,
        step.seconds,
        f" ({step.note})" if step.note else "",
        extra={"step": step},
    )
