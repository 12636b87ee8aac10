"""What the linear estimators share: from checked data and parameters to a tuned model and its attributes."""

import contextlib
import logging
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import joblib
import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from tikhon.data.safefile import write_file
from tikhon.errors import InputError, TuningWarning
from tikhon.estimators.checks import (
    centres,
    checked_matrix,
    column_names,
    column_scales,
    divided_columns,
    refuse_huge,
    warn_of_scales,
)
from tikhon.estimators.splits import make_pairs, make_splits
from tikhon.estimators.state import FILE_KIND, FILE_VERSION, model_state
from tikhon.groups import Groups, GroupSpec, weight_groups
from tikhon.objective import Gentle, Matrix, Pair, Rows, Vector
from tikhon.results import Step, TuneResult
from tikhon.solvers import Solver, make_solver, prefers_factors
from tikhon.solvers.penalised import baseline
from tikhon.tuners import Auto, Fixed, Problem, Tuner, make_tuner
from tikhon.tuners.base import Rescale
from tikhon.tuners.finish import convex_bound
from tikhon.tuners.workers import one_blas_thread

if TYPE_CHECKING:
    from tikhon.testing import HypergradientCheck

logger = logging.getLogger(__name__)

SMALL = 2_000_000  # entries of X times outputs: below, threads of BLAS cost more than they save
FINE, ROUGH = 1e-8, 3e-3  # residuals of fits with tol=None
FOLDS = 5  # with cv="auto"
DEFAULT_STRENGTH = 1.0  # with tuner=None and no strengths, as scikit-learn's default alpha and C


class LinearEstimator(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """The base of the estimators; it has no parameters of its own."""

    # What the estimators take; declared here, stored untouched by their own __init__.
    groups: GroupSpec
    tuner: str | Tuner | None
    strengths: Mapping[str, float] | float | None
    fit_intercept: bool
    standardize: bool
    cv: Any
    validation_fraction: float
    rescale: Rescale
    solver: str | Solver
    tol: float | None
    max_iter: int
    random_state: Any
    n_jobs: int | None
    verbose: int

    n_features_in_: int
    coef_: Matrix
    intercept_: Any  # a float for one target of Ridge, else a vector

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

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
        write_file(path, kind=FILE_KIND, version=FILE_VERSION, header=header, arrays=arrays)

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
        from tikhon.estimators.probe import HypergradientProbe  # here: a fit does not need the conformance suites

        probe = HypergradientProbe(seed=seed, tol=tol)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TuningWarning)  # they speak of a fit that nobody asked for
            clone(self).set_params(tuner=probe).fit(X, y, sample_weight)
        if not probe.reports:
            raise InputError("all strengths are fixed: there is no hypergradient to check")
        return probe.reports[0]

    def _learn(
        self,
        X: Any,
        row_weights: Vector,
        *,
        build: Callable[[Any, Vector], Rows],
        likelihood: Callable[[Any, Vector], Rows] | None = None,
        y: NDArray[Any],
        codes: NDArray[np.intp] | None,
        n_outputs: int,
        outputs: Sequence[str] | None,
    ) -> tuple[Matrix, Vector, Rows]:
        """Tune and fit; sets the attributes that both estimators have.

        Parameters
        ----------
        build : callable
            The objective from (scaled) X and row weights.
        likelihood : callable or None
            The same as a negative log-likelihood, where ``build`` does not give one.
        codes : array or None
            Class numbers, to stratify by.
        outputs : sequence of str or None
            Names of the outputs where each has its own groups.

        Returns
        -------
        coefficients (n_outputs x p, in units of the columns as given), intercepts (n_outputs), the tuned objective
        """
        columns = column_names(self)
        refuse_huge("X", X, columns)
        groups = self._groups(columns, n_outputs, outputs)
        tuner = make_tuner(self.tuner)
        if not groups.learned.any():
            tuner = Fixed()
        if self.standardize:
            scales = column_scales(X, row_weights)
            X = divided_columns(X, scales)
        else:
            scales = np.ones(len(columns))
            warn_of_scales(X, groups, columns, centred=self.fit_intercept)
        means = centres(X, row_weights) if self.fit_intercept else None
        if means is not None:
            X = X - means
        view = likelihood if tuner.needs_likelihood and likelihood is not None else build
        objective = view(X, row_weights)
        pairs: list[Pair] = []
        notes: tuple[str, ...] = ()
        cv = self._splits_of(tuner, objective)
        if not (isinstance(cv, str) and cv == "none"):
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
        n_jobs = max(1, min(_cores(self.n_jobs), len(pairs)))
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
        )
        # Threads over folds and threads inside BLAS would fight for the same cores, and small products are not worth them;
        # nor are sums over vectors, which is all that is left to BLAS where rough fits go by gradients.
        small = X.shape[0] * X.shape[1] * n_outputs < SMALL or (isinstance(objective, Gentle) and objective.is_gentle)
        with one_blas_thread() if n_jobs > 1 or small else contextlib.nullcontext():
            result = tuner.tune(problem)
        _warn(result)
        self.tuning_: TuneResult = result
        self.groups_: Groups = groups
        self.strengths_: dict[str, float] = dict(result.strengths)
        self.n_iter_ = max(1, sum(step.n_iter for step in result.trace) + int(result.extras.get("n_iter", 0)))
        split = n_outputs * len(columns)
        coefficients = result.weights[:split].reshape(n_outputs, len(columns)) / scales
        intercepts = result.weights[split:] if self.fit_intercept else np.zeros(n_outputs)
        if means is not None:
            intercepts = intercepts - coefficients @ (means * scales)
        return coefficients, intercepts, objective

    def _tolerance(self, objective: Rows) -> float:
        """Digits are cheap where the Hessian is factorised; with conjugate gradients each costs passes over the data."""
        if self.tol is not None:
            return self.tol
        return FINE if prefers_factors(convex_bound(objective, baseline(objective))) else ROUGH

    def _splits_of(self, tuner: Tuner, objective: Rows) -> Any:
        """What to split by: "none", or a value of ``cv`` that is not "auto"."""
        automatic = isinstance(self.cv, str) and self.cv == "auto"
        if isinstance(tuner, Auto) and automatic:
            return {"none": "none", "folds": FOLDS, "holdout": None}[tuner.splits_for(objective)]
        if not tuner.needs_pairs and not isinstance(tuner, Auto):
            return "none"
        return FOLDS if automatic else self.cv

    def _groups(self, columns: Sequence[str], n_outputs: int, outputs: Sequence[str] | None) -> Groups:
        if isinstance(self.groups, str) and self.groups == "prefix" and not hasattr(self, "feature_names_in_"):
            raise InputError(
                "groups='prefix' needs column names and X has none: pass a data frame (a ColumnTransformer makes one "
                "after set_output(transform='pandas')), or write one group name per column, with a transformer "
                "groups=[name.split('__')[0] for name in transformer.get_feature_names_out()]"
            )
        groups = weight_groups(
            self.groups, columns, n_outputs=n_outputs, fit_intercept=self.fit_intercept, outputs=outputs
        )
        strengths = self.strengths
        if self.tuner is None and strengths is None:
            strengths = DEFAULT_STRENGTH
        groups = groups.with_fixed(strengths)
        if self.tuner is None and groups.learned.any():
            missing = groups.names[int(np.argmax(groups.learned))]
            given = sorted(strengths) if isinstance(strengths, Mapping) else strengths
            raise InputError(f"tuner=None needs a strength for every group: {missing!r} has none among {given}")
        return groups

    def _stop_if_interrupted(self) -> None:
        """Ctrl-C reaches the caller, as it should; the estimator keeps the best that was found until then."""
        if self.tuning_.status == "interrupted":
            raise KeyboardInterrupt(self.tuning_.reason)

    def _scores(self, X: Any) -> Matrix:
        """X coef' + intercept, for X as the user gives it."""
        check_is_fitted(self)
        X, _ = checked_matrix(self, X, fitting=False)
        return np.asarray(X @ self.coef_.T + self.intercept_)


def _cores(n_jobs: int | None) -> int:
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


def _warn(result: TuneResult) -> None:
    for message in result.warnings:
        warnings.warn(message, TuningWarning, stacklevel=4)
    if not result.converged:
        warnings.warn(
            f"the tuner {result.tuner!r} ended without convergence: {result.status} ({result.reason})",
            ConvergenceWarning,
            stacklevel=4,
        )
