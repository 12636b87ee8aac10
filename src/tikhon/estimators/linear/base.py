"""The common part of the linear estimators: from checked columns and parameters to coefficients."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from tikhon.errors import InputError
from tikhon.estimators.base import TunedEstimator
from tikhon.estimators.checks import (
    centres,
    checked_matrix,
    column_names,
    column_scales,
    divided_columns,
    is_zero,
    refuse_huge,
    warn_of_scales,
)
from tikhon.estimators.memory import warn_if_too_large
from tikhon.estimators.state import Arrays
from tikhon.estimators.user_warnings import FitWarnings, Warn
from tikhon.groups import Groups, weight_groups
from tikhon.objective import Matrix, Rows, Vector, hints_of
from tikhon.solvers import prefers_factors
from tikhon.tuners.fixed import Unneeded

VECTORS, FACTORS = 25, 3  # of the length of the weights, and square matrices, in memory during a tuning
NO_VALUES = "every value of X is 0, so that all coefficients are 0 at any strength"
SMALL = 2_000_000  # entries of X times outputs: below, BLAS threads cost more than they save


@dataclass(frozen=True, eq=False)
class LastFit:
    """The coefficients of an earlier fit, in the original units of the columns, for a warm start."""

    columns: Sequence[str]
    classes: list[Any]
    coefficients: Matrix  # n_outputs x p
    intercepts: Vector

    def weights(self, scales: Vector, means: Vector | None, *, fit_intercept: bool) -> Vector:
        """The weights for columns divided by ``scales`` and then shifted by ``means``."""
        coefficients = self.coefficients * scales
        if not fit_intercept:
            return coefficients.ravel()
        intercepts = self.intercepts if means is None else self.intercepts + coefficients @ means
        return np.concatenate([coefficients.ravel(), intercepts])


class LinearEstimator(TunedEstimator):
    """A matrix of coefficients, one row per output, and intercepts."""

    fit_intercept: bool
    standardize: bool

    n_features_in_: int
    first_index_: int | None = None  # of the columns of the svmlight file that the model was trained on
    coef_: Matrix
    intercept_: Any  # a float for one target of Ridge, else a vector

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

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
        last: "LastFit | None" = None,
    ) -> tuple[Matrix, Vector, Rows]:
        """Tune and fit; set the attributes that both estimators have.

        Parameters
        ----------
        build : callable
            The objective from (scaled) X and row weights.
        likelihood : callable or None
            The same as a negative log-likelihood, if ``build`` does not give one.
        codes : array or None
            Class numbers, for stratification.
        outputs : sequence of str or None
            Names of the outputs if each has its own groups.
        last : LastFit or None
            Initial coefficients of the same outputs, used if the columns are the same.

        Returns
        -------
        coefficients (n_outputs x p, in the original units of the columns), intercepts (n_outputs), the tuned objective
        """
        columns = column_names(self)
        refuse_huge("X", X, columns)
        groups = self._groups(columns, n_outputs, outputs)
        tuner = self._checked_tuner(groups)
        if is_zero(X) and groups.learned.any():
            tuner = Unneeded(reason=NO_VALUES)
        warned, given = FitWarnings(), X
        if self.standardize:
            scales = column_scales(X, row_weights)
            X = divided_columns(X, scales)
        else:
            scales = np.ones(len(columns))
            warn_of_scales(X, groups, columns, warned, centred=self.fit_intercept)
        means = centres(X, row_weights) if self.fit_intercept else None
        if means is not None:
            X = X - means
        view = likelihood if tuner.needs_likelihood and likelihood is not None else build
        objective = view(X, row_weights)
        self._warn_of_memory(objective, len(columns), n_outputs, warned)
        # BLAS threads do not pay off for small products, nor for sums over vectors, which are all that BLAS does where
        # low-accuracy fits use L-BFGS.
        small = X.shape[0] * X.shape[1] * n_outputs < SMALL or hints_of(objective).lbfgs_gap < np.inf
        start = None
        if last is not None and last.columns == columns and last.coefficients.shape == (n_outputs, len(columns)):
            start = last.weights(scales, means, fit_intercept=self.fit_intercept)
        result = self._tune(
            tuner,
            objective,
            groups,
            row_weights,
            X=given,
            y=y,
            codes=codes,
            one_thread=small,
            n_jobs=self.n_jobs,
            start=start,
            warned=warned,
        )
        split = n_outputs * len(columns)
        coefficients = result.weights[:split].reshape(n_outputs, len(columns)) / scales
        intercepts = result.weights[split:] if self.fit_intercept else np.zeros(n_outputs)
        if means is not None:
            intercepts = intercepts - coefficients @ (means * scales)
        return coefficients, intercepts, objective

    def _warn_of_memory(self, objective: Rows, n_columns: int, n_outputs: int, warn: Warn) -> None:
        vectors = FACTORS * objective.n_weights if prefers_factors(objective) else VECTORS
        outputs = "" if n_outputs == 1 else f" for each of {n_outputs} classes or targets"
        warn_if_too_large(
            8.0 * vectors * objective.n_weights,
            f"weights of {n_columns:,} columns{outputs} take",
            "use fewer columns (drop rare ones)",
            warn,
        )

    def _groups(self, columns: Sequence[str], n_outputs: int, outputs: Sequence[str] | None) -> Groups:
        if isinstance(self.groups, str) and self.groups == "prefix" and not hasattr(self, "feature_names_in_"):
            raise InputError(
                "groups='prefix' needs column names, but X has none: pass a data frame (a ColumnTransformer makes one "
                "after set_output(transform='pandas')), or write one group name per column, for a transformer "
                "groups=[name.split('__')[0] for name in transformer.get_feature_names_out()]"
            )
        groups = weight_groups(
            self.groups, columns, n_outputs=n_outputs, fit_intercept=self.fit_intercept, outputs=outputs
        )
        return self._with_strengths(groups)

    def _scores(self, X: Any) -> Matrix:
        """X coef' + intercept, for X as the user gives it."""
        check_is_fitted(self)
        X, _ = checked_matrix(self, X, fitting=False)
        return np.asarray(X @ self.coef_.T + self.intercept_)

    def _own_state(self, arrays: Arrays) -> dict[str, Any]:
        arrays["coef"] = self.coef_
        arrays["intercept"] = np.asarray(self.intercept_)
        header: dict[str, Any] = {"n_features_in": self.n_features_in_}
        if hasattr(self, "feature_names_in_"):
            header["feature_names_in"] = [str(name) for name in self.feature_names_in_]
        if self.first_index_ is not None:
            header["first_index"] = self.first_index_
        return header

    def _restore_own(self, header: Mapping[str, Any], arrays: Arrays) -> None:
        self.coef_ = arrays["coef"]
        intercept = arrays["intercept"]
        self.intercept_ = intercept if intercept.ndim else float(intercept)
        self.n_features_in_ = header["n_features_in"]
        if "feature_names_in" in header:
            self.feature_names_in_ = np.array(header["feature_names_in"], dtype=object)
        if "first_index" in header:
            self.first_index_ = header["first_index"]

    def _column_groups(self) -> list[str | None]:
        """The group of each column, None if never penalised, without the outputs' names that per_class adds."""
        groups, p = self.groups_, self.n_features_in_
        n_outputs = len(self.coef_) if self.coef_.ndim == 2 else 1
        index, names = groups.index[:p], groups.names
        if n_outputs > 1 and (groups.index[p : 2 * p] != index).any():
            names = tuple(name[: name.rindex("[")] for name in names[: len(names) // n_outputs])
        return [None if number < 0 else names[number] for number in index]
