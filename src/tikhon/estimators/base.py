"""The common part of all estimators: from an objective, groups and parameters to learned strengths and weights."""

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
NO_SPLITS = object()  # in place of cv, if nothing is held out
NOT_CONVEX = "the loss is not convex, since {}: fits converge to a local minimum"
NOT_CONVERGED = "the tuner {result.tuner!r} did not converge: {result.status} ({result.reason})"
LIGHT_ROWS = (
    "sample weights sum to {:.3g}: a row of weight k counts as k rows, so these are fewer than one, too few to learn "
    "strengths from; scale the weights to a mean of 1"
)
DEFAULT_STRENGTH = 1.0  # with tuner=None and no strengths, as scikit-learn's default alpha and C


class TunedEstimator(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """The base of the estimators; it has no parameters of its own."""

    _reason_not_convex: ClassVar[str] = "some labels or structures are unknown"

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

        The file is written under a temporary name and then renamed, so that an existing file is replaced completely or
        not at all. Parameters that JSON cannot represent (a splitter, a custom tuner or solver, a RandomState) are
        restored as their defaults; a function given as ``groups`` is restored as the groups that it made.

        Parameters
        ----------
        path : str or path-like
            The file to write, conventionally ``.safetensors``.
        """
        check_is_fitted(self)
        header, arrays = model_state(self)
        write_file(path, kind=MODEL_KIND, version=MODEL_VERSION, header=header, arrays=arrays)

    def check_hypergradient(
        self, X: Any, y: Any, sample_weight: Any = None, *, seed: int = 0, tol: float = 1e-5
    ) -> "HypergradientCheck":
        """Compare the hypergradient of ``tuner="gradient"`` on these data with finite differences of refits.

        It is compared at random strengths and in random directions, to the limit of precision, at a cost of about ten
        fits per fold. The estimator itself is not changed.

        Parameters
        ----------
        X, y, sample_weight
            As in ``fit``.
        seed : int, default=0
            Seed of the strengths and directions.
        tol : float, default=1e-5
            The largest accepted relative difference.

        Returns
        -------
        HypergradientCheck
            The slopes by both methods and the relative ``error`` between them.

        Raises
        ------
        AssertionError
            If they differ by more than ``tol``; the message has the numbers.
        """
        from tikhon.estimators.hypergradient_check import (
            HypergradientChecker,  # imported here: a fit does not need the conformance suites
        )

        checker = HypergradientChecker(seed=seed, tol=tol)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TuningWarning)  # they concern a fit that the user did not ask for
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
        n_jobs: int | None,
        start: Vector | None = None,
        warned: FitWarnings,
    ) -> TuneResult:
        """Split, tune and fit; set the attributes that all estimators have.

        Parameters
        ----------
        X, y : arrays
            Used only by a user's splitter.
        codes : array or None
            Class numbers of the rows, for stratification.
        one_thread : bool
            Whether BLAS threads would cost more than they save.
        n_jobs : int or None
            Maximum number of threads over folds, as for the estimator.
        start : array or None
            Initial weights.
        warned : FitWarnings
            The warnings raised so far; the result has these and those of the tuning.
        """
        check_jobs(n_jobs)
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
            notes = (*notes, NOT_CONVEX.format(self._reason_not_convex))
        n_threads = min(cores(n_jobs), len(pairs)) if len(pairs) > 1 else 1
        problem = Problem(
            objective=objective,
            groups=groups,
            solver=make_solver(self.solver, tol=self._tolerance(objective), max_iter=self.max_iter),
            pairs=pairs,
            total_weight=float(row_weights.sum()),
            rescale=self.rescale,
            n_jobs=n_threads,
            on_step=getattr(self, "_on_step", None) or (_log_step if self.verbose else None),
            notes=notes,
            start=start,
            start_strengths=None if start is None else self._last_strengths(groups),
        )
        # Threads over folds and BLAS threads would compete for the same cores.
        with one_blas_thread() if n_threads > 1 or one_thread else contextlib.nullcontext():
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
        """The last fit's strengths, for a warm start; None if the groups, or which of them are learned, have changed."""
        last = getattr(self, "strengths_", {})
        if tuple(last) != groups.names or not all(last[groups.names[i]] > 0.0 for i in np.flatnonzero(groups.learned)):
            return None
        return np.array(list(last.values()))

    def _tolerance(self, objective: Rows) -> float:
        """The relative gap at which fits stop.

        Accuracy is cheap if the Hessian is factorised; otherwise each digit costs passes over the data, most of all with
        L-BFGS, which large sparse models use. With a sketch of the Hessian, two more digits cost a tenth more.
        """
        if self.tol is not None:
            return self.tol
        if prefers_factors(convex_bound(objective, baseline(objective))):
            return FINE
        return LARGE if prefers_gradients(objective) and hints_of(objective).hessian_sketch is None else FAIR

    def _splits_of(self, tuner: Tuner, objective: Rows, n_rows: int) -> Any:
        """How to split: NO_SPLITS, or a value of ``cv`` other than "auto"."""
        if not tuner.uses_pairs:
            return NO_SPLITS
        if not (isinstance(self.cv, str) and self.cv == "auto"):
            return self.cv
        return {"none": NO_SPLITS, "folds": FOLDS, "holdout": None}[tuner.splits_for(objective, n_rows)]

    def _with_strengths(self, groups: Groups) -> Groups:
        """The groups with the strengths fixed by the user."""
        strengths = self.strengths
        if self.tuner is None and strengths is None:
            strengths = DEFAULT_STRENGTH
        groups = groups.with_fixed(strengths)
        if self.tuner is None and groups.learned.any():
            missing = groups.names[int(np.argmax(groups.learned))]
            given = sorted(strengths) if isinstance(strengths, Mapping) else strengths
            raise InputError(f"tuner=None needs a strength for every group: {missing!r} has none among {given}")
        return groups

    # The part of a model file that is specific to an estimator: its description, writing and reading.

    _file_description: ClassVar[Description]

    def _own_state(self, arrays: Arrays) -> dict[str, Any]:
        raise NotImplementedError

    def _restore_own(self, header: Mapping[str, Any], arrays: Arrays) -> None:
        raise NotImplementedError

    def _column_groups(self) -> list[str | None]:
        """The group of each column or feature, None if never penalised; stored in place of a function as ``groups``."""
        raise NotImplementedError

    def _stop_if_interrupted(self) -> None:
        """Pass Ctrl-C on to the caller; the estimator keeps the best result found so far."""
        if self.tuning_.status == "interrupted":
            raise KeyboardInterrupt(self.tuning_.reason)


class WeightsByGroup:
    """Mixin for models whose weights are more than a table of coefficients: access to them by group."""

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


def check_jobs(n_jobs: int | None) -> None:
    if n_jobs is not None and (n_jobs < -1 or n_jobs == 0):
        raise InputError(f"n_jobs={n_jobs}: write a number of threads, or None or -1 for all cores")


def cores(n_jobs: int | None) -> int:
    """The number of threads; looking at the limits of a container takes a tenth of a small fit."""
    check_jobs(n_jobs)
    return int(joblib.cpu_count()) if n_jobs is None or n_jobs == -1 else n_jobs


def _log_step(step: Step) -> None:
    """Log the step, also as the record's ``step`` attribute for handlers that need the numbers."""
    logger.info(
        "step %d: criterion %.8g, residual %.1e, %.2f s%s",
        step.number,
        step.criterion,
        step.residual,
        step.seconds,
        f" ({step.note})" if step.note else "",
        extra={"step": step},
    )
