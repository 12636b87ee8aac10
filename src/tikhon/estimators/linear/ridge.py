"""Ridge regression with learned strengths."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import RegressorMixin

from tikhon.errors import InputError
from tikhon.estimators.checks import (
    ROUNDING,
    as_input_error,
    checked_matrix,
    checked_parameters,
    checked_weights,
    refuse_huge,
)
from tikhon.estimators.linear.base import LinearEstimator
from tikhon.estimators.linear.description import RIDGE_FILE
from tikhon.estimators.state import Arrays
from tikhon.groups import GroupSpec
from tikhon.models import LeastSquares, NoiseIntegrated
from tikhon.objective import Rows, Vector
from tikhon.results import TuneResult
from tikhon.solvers import Solver
from tikhon.tuners import Tuner
from tikhon.tuners.base import Rescale


class Ridge(RegressorMixin, LinearEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Least squares that learns one L2 strength for each group of columns, for one target or many.

    It minimises ``1/2 sum_i a_i ||x_i W' + b - y_i||^2 + 1/2 sum_g strength_g ||W_g||^2`` over the coefficients W and
    intercepts b, where a are the sample weights; a strength is what scikit-learn's Ridge calls ``alpha``. The tuner
    chooses the strengths.

    Parameters
    ----------
    groups : None, "separate", "prefix", array-like, dict or callable, default=None
        Which columns share a strength. None: all; "separate": none; "prefix": those with the same name before "__", as
        ColumnTransformer writes them; an array with one entry per column: those with equal entries; a dict from group
        name to columns: those listed together (the others form "rest"); a function of the name: those with equal values.
        Array entries -1 and None, and None from a function, mark columns that are never penalised.
    tuner : {"auto", "loo", "evidence", "gradient", "mm", "direct", "grid"}, tuner object or None, default="auto"
        How the strengths are learned. "loo" minimises the leave-one-out loss, "gradient" the cross-validated loss; "auto"
        chooses one of these two by the size of the data. "evidence", "mm" and "direct" are Bayesian and need no hold-out
        data; "grid" tries values of one common strength. None: no tuning.
    strengths : float, dict from group name to float, or None, default=None
        Fixed strengths of all groups (a number) or of some (a dict); the tuner learns the others, and only fits if there
        are none. With ``tuner=None`` a dict must name every group, and None means 1.0 for all. See the notes for "mm" and
        "direct".
    per_target : bool, default=False
        With several targets, learn separate strengths for each target; its groups are named "group[target]".
    scale_target : bool, default=True
        For "mm" and "direct": state the prior of the weights in units of each target's standard deviation, so that the
        result does not depend on the units of y. False: in the units of y itself, as in the 2009 paper. For other tuners
        only with several targets, so that the one with the largest scale does not dominate the others.
    fit_intercept : bool, default=True
        Whether to fit intercepts; they are never penalised.
    standardize : bool, default=False
        Divide each column by its weighted standard deviation over all rows before tuning (without centring, so that
        sparse data stay sparse). ``coef_`` is in the original units, ``strengths_`` is for the divided columns.
    cv : "auto", int, splitter, iterable of (train, test) or None, default="auto"
        Splits for tuners that need hold-out data. A number: shuffled folds, no more than there are rows. None: a single
        hold-out. "auto": five folds, but ``tuner="auto"`` uses leave-one-out or a single hold-out where that is more
        efficient; explicit splits are always used.
    validation_fraction : float, default=0.2
        Fraction of the rows to hold out with ``cv=None``; runs of neighbouring rows are held out together.
    rescale : {"none", "n"}, default="none"
        With "n", strengths learned on part of the data are multiplied by the ratio of the sums of weights for the final
        fit on all data.
    solver : {"auto", "newton", "newton-cg", "lbfgs"} or solver object, default="auto"
        The solver for given strengths.
    tol : float or None, default=None
        Convergence tolerance of a fit: the relative gap between its penalised objective and the optimum
        (docs/conventions.md). None: 1e-16 where fits factorise the Hessian, else 1e-6, or 1e-3 where L-BFGS is used.
    max_iter : int, default=1000
        Maximum number of iterations of one fit.
    random_state : int, RandomState or None, default=None
        Seed of the splits. None means the seed 0, so that results are reproducible.
    n_jobs : int or None, default=None
        Threads over folds; None and -1 mean all cores. With more than one, BLAS uses a single thread.
    verbose : int, default=0
        1: log every step of the tuner to ``logging.getLogger("tikhon.estimators.base")`` at level INFO.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,) or (n_targets, n_features)
    intercept_ : float or ndarray of shape (n_targets,)
    strengths_ : dict from group name to float
    noise_variance_ : float, ndarray of shape (n_targets,) or None
        The noise variance, if the tuner estimates it ("mm" and "direct").
    tuning_ : TuneResult
        Result of the tuning: status and its reason, losses, residuals, a trace of the steps.
    groups_ : Groups
        The group of each weight.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Only if X was a data frame with column names.
    n_iter_ : int
        Total number of solver iterations of the tuning.

    Notes
    -----
    "mm" and "direct" need a likelihood: the noise variance v, in units of the scaled targets and common to all of them,
    is integrated out along with the strengths. For these tuners a strength is the prior precision of the weights; the
    corresponding ridge penalty is this precision times v. ``strengths_`` and ``tuning_`` are in ridge units, so that
    ``Ridge(tuner=None, strengths=model.strengths_)`` finds the same coefficients; ``tuning_.extras["precisions"]`` has
    the precisions. If ``strengths`` fixes some groups while these tuners learn the others, its values are precisions,
    since v is not known in advance. If all groups are fixed, nothing is learned and they are ridge strengths.

    Examples
    --------
    >>> import numpy as np
    >>> from tikhon import Ridge
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(100, 30))
    >>> y = X[:, :3] @ [2.0, -1.0, 1.0] + rng.normal(size=100)
    >>> model = Ridge(groups={"signal": [0, 1, 2]}, tuner="mm").fit(X, y)
    >>> list(model.strengths_)
    ['signal', 'rest']
    >>> model.strengths_["rest"] > 10 * model.strengths_["signal"]
    True
    """

    _file_description = RIDGE_FILE

    def __init__(
        self,
        groups: GroupSpec = None,
        tuner: str | Tuner | None = "auto",
        strengths: Mapping[str, float] | float | None = None,
        *,
        per_target: bool = False,
        scale_target: bool = True,
        fit_intercept: bool = True,
        standardize: bool = False,
        cv: Any = "auto",
        validation_fraction: float = 0.2,
        rescale: Rescale = "none",
        solver: str | Solver = "auto",
        tol: float | None = None,
        max_iter: int = 1000,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.groups = groups
        self.tuner = tuner
        self.strengths = strengths
        self.per_target = per_target
        self.scale_target = scale_target
        self.fit_intercept = fit_intercept
        self.standardize = standardize
        self.cv = cv
        self.validation_fraction = validation_fraction
        self.rescale = rescale
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn the strengths and the coefficients.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
        sample_weight : array-like of shape (n_samples,), float or None, default=None
            A row of weight k counts as k rows, one of weight 0 as none. Tuners hold out whole rows, whatever their weight.

        Returns
        -------
        self
        """
        checked_parameters(self)
        names = [str(name) for name in getattr(y, "columns", ())]
        X, y = checked_matrix(self, X, y, fitting=True, multi_output=True, y_numeric=True)
        if sp.issparse(y) or np.ndim(y) > 2 or np.size(y) == 0:
            raise InputError("y must be a dense vector, or a dense matrix with one column per target")
        with as_input_error(X, y):
            targets = np.asarray(y, dtype=np.float64)
        row_weights = checked_weights(sample_weight, X.shape[0])
        refuse_huge("y", targets, names)
        n_targets = 1 if targets.ndim == 1 else targets.shape[1]

        unit = self._target_unit(targets, row_weights)
        # An intercept absorbs the mean; subtracting it here avoids a loss of precision.
        centre = np.average(targets, axis=0, weights=row_weights) if self.fit_intercept else 0.0
        targets = targets - centre

        # A single target keeps its unit, so that losses are in that unit; several are scaled so that none dominates.
        shared_unit = 1.0 if n_targets == 1 else unit

        def build(X: Any, row_weights: Vector) -> LeastSquares:
            return LeastSquares(X, targets / shared_unit, fit_intercept=self.fit_intercept, row_weights=row_weights)

        def likelihood(X: Any, row_weights: Vector) -> Rows:
            scaled = LeastSquares(X, targets / unit, fit_intercept=self.fit_intercept, row_weights=row_weights)
            return NoiseIntegrated(scaled)

        outputs = None
        if self.per_target and n_targets > 1:
            outputs = names if len(names) == n_targets else [f"y{k}" for k in range(n_targets)]
        coefficients, intercepts, objective = self._learn(
            X,
            row_weights,
            build=build,
            likelihood=likelihood,
            y=y,
            codes=None,
            n_outputs=n_targets,
            outputs=outputs,
        )
        self.noise_variance_: Any = None
        scale = unit if isinstance(objective, NoiseIntegrated) else shared_unit
        coefficients, intercepts = coefficients * np.reshape(scale, (-1, 1)), intercepts * scale + centre
        if isinstance(objective, NoiseIntegrated):
            # The variance that the last fit used, if the tuner reports it: then the ridge strengths are exact.
            factor = self.tuning_.extras.get("loss_factor")
            variance = float(objective.noise_variance(self.tuning_.weights) if factor is None else 1.0 / factor)
            self.noise_variance_ = variance * unit**2
            self.tuning_ = _in_ridge_units(self.tuning_, variance)
            self.strengths_ = dict(self.tuning_.strengths)
        if targets.ndim == 1:
            self.coef_, self.intercept_ = coefficients[0], float(intercepts[0])
        else:
            self.coef_, self.intercept_ = coefficients, intercepts
        self._stop_if_interrupted()
        return self

    def _target_unit(self, targets: NDArray[np.float64], row_weights: Vector) -> Any:
        """The scale by which targets are divided for a likelihood: a number, or one per target if there are several."""
        if not self.scale_target:
            return 1.0 if targets.ndim == 1 else np.ones(targets.shape[1])
        centre = np.average(targets, axis=0, weights=row_weights)
        unit = np.sqrt(np.average((targets - centre) ** 2, axis=0, weights=row_weights))
        unit = np.where(unit > ROUNDING * np.abs(centre), unit, 1.0)  # a constant target has none
        return float(unit) if targets.ndim == 1 else unit

    def predict(self, X: Any) -> NDArray[np.float64]:
        """X coef' + intercept, of the shape that y had in ``fit``."""
        return self._scores(X)

    def _own_state(self, arrays: Arrays) -> dict[str, Any]:
        variance = self.noise_variance_
        return super()._own_state(arrays) | {
            "noise_variance": variance.tolist() if isinstance(variance, np.ndarray) else variance
        }

    def _restore_own(self, header: Mapping[str, Any], arrays: Arrays) -> None:
        super()._restore_own(header, arrays)
        variance = header["noise_variance"]
        self.noise_variance_ = np.array(variance) if isinstance(variance, list) else variance


def _in_ridge_units(result: TuneResult, variance: float) -> TuneResult:
    """Multiply precisions by the final noise variance, also along the trace; the precisions are kept as an extra."""
    return replace(
        result,
        strengths={name: precision * variance for name, precision in result.strengths.items()},
        trace=tuple(replace(step, strengths=step.strengths * variance) for step in result.trace),
        extras=result.extras | {"precisions": dict(result.strengths)},
    )
