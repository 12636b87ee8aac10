"""Logistic and multinomial regression with learned strengths."""

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_expit, log_softmax, softmax
from sklearn.base import ClassifierMixin
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets

from tikhon.errors import InputError
from tikhon.estimators.checks import (
    as_input_error,
    checked_matrix,
    checked_parameters,
    checked_weights,
    column_names,
    refuse_extreme_weights,
)
from tikhon.estimators.linear.base import LastFit, LinearEstimator
from tikhon.estimators.linear.description import LOGISTIC_FILE
from tikhon.groups import GroupSpec
from tikhon.models import Logistic, Softmax
from tikhon.objective import Matrix, Rows, Vector
from tikhon.solvers import Solver
from tikhon.tuners import Tuner
from tikhon.tuners.base import Rescale


class LogisticRegression(ClassifierMixin, LinearEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Logistic regression, binary or multinomial, that learns one L2 strength for each group of columns.

    It minimises ``sum_i a_i loss_i(W, b) + 1/2 sum_g strength_g ||W_g||^2`` over the coefficients W and intercepts b,
    where a are the sample weights; a strength s is what scikit-learn calls ``C = 1 / s``. The tuner chooses the
    strengths.

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
        are none. With ``tuner=None`` a dict must name every group, and None means 1.0 for all.
    per_class : bool, default=False
        With three or more classes, learn separate strengths for each class; its groups are named "group[class]".
    fit_intercept : bool, default=True
        Whether to fit intercepts; they are never penalised.
    standardize : bool, default=False
        Divide each column by its weighted standard deviation over all rows before tuning (without centring, so that
        sparse data stay sparse). ``coef_`` is in the original units, ``strengths_`` is for the divided columns.
    class_weight : dict, "balanced" or None, default=None
        Class weights, by which sample weights are multiplied. "balanced": inversely proportional to the classes' sums of
        sample weights.
    cv : "auto", int, splitter, iterable of (train, test) or None, default="auto"
        Splits for tuners that need hold-out data. A number: shuffled, stratified folds, fewer if the smallest class has
        fewer rows; classes with a single row are never held out. None: a single hold-out. "auto": five folds, but
        ``tuner="auto"`` uses leave-one-out or a single hold-out where that is more efficient; explicit splits are
        always used.
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
    warm_start : bool, default=False
        Start from the coefficients of the last fit, if it had the same columns and classes. The strengths are learned
        again.
    random_state : int, RandomState or None, default=None
        Seed of the splits. None means the seed 0, so that results are reproducible.
    n_jobs : int or None, default=None
        Threads over folds; None and -1 mean all cores. With more than one, BLAS uses a single thread.
    verbose : int, default=0
        1: log every step of the tuner to ``logging.getLogger("tikhon.estimators.base")`` at level INFO.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
    intercept_ : ndarray of shape (1,) or (n_classes,)
    strengths_ : dict from group name to float
    tuning_ : TuneResult
        Result of the tuning: status and its reason, losses, residuals, a trace of the steps.
    groups_ : Groups
        The group of each weight.
    classes_ : ndarray of shape (n_classes,)
        The labels of the rows with positive weight.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Only if X was a data frame with column names.
    n_iter_ : int
        Total number of solver iterations of the tuning.

    Examples
    --------
    >>> import numpy as np
    >>> from tikhon import LogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 62))
    >>> y = np.where(X[:, 0] - X[:, 1] + rng.logistic(size=300) > 0, "yes", "no")
    >>> model = LogisticRegression(groups={"signal": [0, 1], "noise": range(2, 62)}).fit(X, y)
    >>> model.strengths_["noise"] > 10 * model.strengths_["signal"]
    True
    >>> model.predict(np.eye(2, 62)).tolist()
    ['yes', 'no']
    """

    _file_description = LOGISTIC_FILE

    def __init__(
        self,
        groups: GroupSpec = None,
        tuner: str | Tuner | None = "auto",
        strengths: Mapping[str, float] | float | None = None,
        *,
        per_class: bool = False,
        fit_intercept: bool = True,
        standardize: bool = False,
        class_weight: Mapping[Any, float] | str | None = None,
        cv: Any = "auto",
        validation_fraction: float = 0.2,
        rescale: Rescale = "none",
        solver: str | Solver = "auto",
        tol: float | None = None,
        max_iter: int = 1000,
        warm_start: bool = False,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.groups = groups
        self.tuner = tuner
        self.strengths = strengths
        self.per_class = per_class
        self.fit_intercept = fit_intercept
        self.standardize = standardize
        self.class_weight = class_weight
        self.cv = cv
        self.validation_fraction = validation_fraction
        self.rescale = rescale
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.warm_start = warm_start
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn the strengths and the coefficients.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Labels: numbers, text or booleans.
        sample_weight : array-like of shape (n_samples,), float or None, default=None
            A row of weight k counts as k rows, one of weight 0 as none. Tuners hold out whole rows, whatever their weight.

        Returns
        -------
        self
        """
        checked_parameters(self)
        last = self._last_fit()
        X, y = checked_matrix(self, X, y, fitting=True)
        if y.dtype.kind not in "iub":  # whole numbers are classes; scikit-learn checks the others
            with as_input_error(X, y):
                check_classification_targets(y)
        row_weights = checked_weights(sample_weight, X.shape[0])
        counted = row_weights > 0
        with as_input_error(X, y):
            classes, inverse = np.unique(y[counted], return_inverse=True)
        if len(classes) < 2:
            raise InputError(
                f"y holds only one class, {classes.tolist()[0]!r}, in the rows of positive weight: at least two "
                "classes are needed"
            )
        codes = np.zeros(X.shape[0], np.intp)
        codes[counted] = inverse
        row_weights = row_weights * self._class_weights(classes, codes, row_weights)[codes]
        if last is not None and last.classes != classes.tolist():
            last = None
        self.classes_ = classes
        n_outputs = 1 if len(classes) == 2 else len(classes)

        def build(X: Any, row_weights: Vector) -> Rows:
            if n_outputs == 1:
                return Logistic(X, codes.astype(float), fit_intercept=self.fit_intercept, row_weights=row_weights)
            return Softmax(X, codes, n_classes=n_outputs, fit_intercept=self.fit_intercept, row_weights=row_weights)

        outputs = [str(label) for label in classes] if self.per_class and n_outputs > 1 else None
        self.coef_, self.intercept_, _ = self._learn(
            X, row_weights, build=build, y=y, codes=codes, n_outputs=n_outputs, outputs=outputs, last=last
        )
        self._stop_if_interrupted()
        return self

    def _last_fit(self) -> LastFit | None:
        if not (self.warm_start and hasattr(self, "coef_")):
            return None
        return LastFit(column_names(self), self.classes_.tolist(), self.coef_, self.intercept_)

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """The scores X coef' + intercept: one column per class; of two classes, one score for ``classes_[1]``."""
        scores = self._scores(X)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict(self, X: Any) -> NDArray[Any]:
        """The most probable label of each row."""
        scores = self.decision_function(X)
        codes = (scores > 0).astype(np.intp) if scores.ndim == 1 else scores.argmax(axis=1)
        labels: NDArray[Any] = self.classes_[codes]
        return labels

    def predict_proba(self, X: Any) -> Matrix:
        """Probabilities, one column per class in the order of ``classes_``."""
        scores = self.decision_function(X)
        return np.column_stack([expit(-scores), expit(scores)]) if scores.ndim == 1 else softmax(scores, axis=1)

    def predict_log_proba(self, X: Any) -> Matrix:
        """Logarithms of the probabilities, accurate where these are tiny."""
        scores = self.decision_function(X)
        if scores.ndim == 1:
            return np.column_stack([log_expit(-scores), log_expit(scores)])
        return log_softmax(scores, axis=1)

    def _class_weights(self, classes: NDArray[Any], codes: NDArray[np.intp], row_weights: Vector) -> Vector:
        if self.class_weight is None:
            return np.ones(len(classes))
        if isinstance(self.class_weight, str) and self.class_weight == "balanced":
            sums = np.bincount(codes, row_weights, len(classes))
            weights: Vector = row_weights.sum() / (len(classes) * sums)
            return weights
        with as_input_error(None, None):
            weights = np.asarray(compute_class_weight(self.class_weight, classes=classes, y=classes), dtype=float)
        if not ((weights > 0) & np.isfinite(weights)).all():
            label = classes[np.argmin((weights > 0) & np.isfinite(weights))]
            raise InputError(f"class_weight of class {label!r} must be a finite number larger than 0")
        refuse_extreme_weights("class_weight", weights)
        return weights
