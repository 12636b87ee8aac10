"""Input validation of the estimators: bad input raises an ``InputError`` before any work."""

import contextlib
from collections.abc import Iterator, Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import NotFittedError
from sklearn.utils import check_array, check_random_state
from sklearn.utils.sparsefuncs import mean_variance_axis
from sklearn.utils.validation import validate_data

from tikhon.errors import InputError, TuningWarning
from tikhon.estimators.user_warnings import Warn, warn_user
from tikhon.groups import Groups, NumberedNames
from tikhon.models.linear.design import Design
from tikhon.objective import Vector

LARGEST_VALUE, LARGEST_WEIGHT = 1e100, 1e30
ROUNDING = 1e-12  # share of a column's sum of squares: a column with less around its mean is constant
FAR = 1e3  # in standard deviations: means farther from zero are subtracted
SCALE_RATIO = 1000.0  # a larger ratio of root mean squares within a group gives a warning

ROW_BLOCK = 1024  # rows whose deviations are in memory at a time


def checked_matrix(estimator: Any, X: Any, y: Any = None, *, fitting: bool, **checks: Any) -> tuple[Any, Any]:
    """X as float64, dense or CSR with sorted, distinct entries, and y as scikit-learn checks it (None: X alone).

    Sets or compares ``n_features_in_`` and ``feature_names_in_``. Sparse input stays sparse; nothing is changed in place.
    """
    options = {"accept_sparse": "csr", "dtype": np.float64, "reset": fitting}
    with as_input_error(X, y):
        if fitting:
            X, y = validate_data(estimator, X, y, **options, **checks)
        else:
            X = validate_data(estimator, X, **options, **checks)
    if is_sparse(X):
        X = _canonical(X)
    return X, y


def is_sparse(X: Any) -> bool:
    return bool(sp.issparse(X))  # without the stubs' narrowing to a type that has no data


def _canonical(X: Any) -> Any:
    """CSR whose entries are sorted and distinct, so that squares of stored entries are squares of entries."""
    X = sp.csr_array(X)
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return X


def column_names(estimator: Any) -> Sequence[str]:
    """The names of the columns seen in fit; x0, x1, ... as in scikit-learn if there were none."""
    names = getattr(estimator, "feature_names_in_", None)
    return NumberedNames("x", 0, estimator.n_features_in_) if names is None else list(names)


def checked_weights(sample_weight: Any, n_rows: int) -> Vector:
    """Row weights: ones for None, a number for all rows, or one number, 0 or larger, per row."""
    if sample_weight is None:
        return np.ones(n_rows)
    if isinstance(sample_weight, Real):
        sample_weight = np.full(n_rows, float(sample_weight))
    with as_input_error(sample_weight, None):
        weights: Vector = check_array(
            sample_weight, ensure_2d=False, dtype=np.float64, ensure_min_samples=0, input_name="sample_weight"
        )
    if weights.shape != (n_rows,):
        raise InputError(
            f"sample_weight has shape {weights.shape}, but there are {n_rows} rows: write one weight per row"
        )
    if (weights < 0).any():
        row = int(np.argmax(weights < 0))
        raise InputError(f"sample_weight is {weights[row]} in row {row}: weights must be 0 or larger")
    if not weights.any():
        raise InputError("sample_weight is zero in every row: at least one row needs a positive weight")
    refuse_extreme_weights("sample_weight", weights)
    return weights


def refuse_extreme_weights(name: str, weights: Vector) -> None:
    """Refuse weights whose products with squares of the data would leave the range of double precision."""
    largest = float(weights.max())
    if not 1.0 / LARGEST_WEIGHT <= largest <= LARGEST_WEIGHT:
        raise InputError(
            f"{name} has {largest:.3g} as its largest value: a row of weight k counts as k rows; scale the weights to a mean "
            "of 1"
        )


def checked_parameters(estimator: Any) -> None:
    """Check the parameters that are not checked elsewhere."""
    for name in ("fit_intercept", "standardize", "per_class", "per_target", "scale_target", "warm_start"):
        value = getattr(estimator, name, False)
        if not isinstance(value, bool | np.bool_):
            raise InputError(f"{name}={value!r}: write True or False")
    if estimator.rescale not in ("none", "n"):
        raise InputError(f"rescale={estimator.rescale!r}: write 'none' or 'n'")
    if estimator.tol is not None and not (_is_number(estimator.tol) and 0 < estimator.tol < 1):
        raise InputError(f"tol={estimator.tol!r}: write None or a number between 0 and 1")
    if not _is_count(estimator.max_iter):
        raise InputError(f"max_iter={estimator.max_iter!r}: write a whole number, 1 or larger")
    if estimator.random_state is not None:
        seeded(estimator.random_state)
    jobs = estimator.n_jobs
    if jobs is not None and jobs != -1 and not _is_count(jobs):
        raise InputError(f"n_jobs={jobs!r}: write None or -1 for all cores, or a whole number, 1 or larger")


def refuse_huge(name: str, values: Any, columns: Sequence[str]) -> None:
    """Refuse numbers whose squares come near overflow in double precision."""
    data = values.data if is_sparse(values) else np.asarray(values)
    if data.size == 0 or max(abs(float(data.max())), abs(float(data.min()))) <= LARGEST_VALUE:
        return
    if is_sparse(values):
        values = values.tocoo()
        at = int(np.argmax(np.abs(values.data)))
        row, column, value = int(values.row[at]), int(values.col[at]), values.data[at]
    else:
        flat = int(np.argmax(np.abs(data)))
        row, column = divmod(flat, data.shape[1]) if data.ndim == 2 else (flat, 0)
        value = data.flat[flat]
    place = f"row {row}, column {columns[column]!r}" if columns else f"row {row}"
    raise InputError(
        f"{name} holds {value:.3g} ({place}): its square overflows; rescale it to less than {LARGEST_VALUE:g}"
    )


def is_zero(X: Any) -> bool:
    return not (X.data if is_sparse(X) else X).any()


def column_scales(X: Any, row_weights: Vector) -> Vector:
    """The weighted standard deviation of each column; 1 where the column is constant."""
    if is_sparse(X):
        mean, variance = mean_variance_axis(X, axis=0, weights=row_weights)
    else:
        total = row_weights.sum()
        mean = row_weights @ X / total
        variance = sum(
            row_weights[some] @ (X[some] - mean) ** 2 / total
            for some in (slice(start, start + ROW_BLOCK) for start in range(0, X.shape[0], ROW_BLOCK))
        )
    deviation = np.sqrt(variance)
    rounding = np.sqrt(X.shape[0]) * np.finfo(float).eps * np.abs(mean)
    return np.where(deviation > rounding, deviation, 1.0)


def centres(X: Any, row_weights: Vector) -> Vector | None:
    """The means to subtract if some dense column has a mean that is large relative to its spread; otherwise None.

    With an intercept, shifting columns changes nothing in exact arithmetic, but large means lose precision. Subtraction
    costs a copy of X, so it is done only in this case.
    """
    if is_sparse(X):
        return None
    mean = row_weights @ X / row_weights.sum()
    far = np.abs(mean) > FAR * column_scales(X, row_weights)
    return mean if far.any() else None


def divided_columns(X: Any, scales: Vector) -> Any:
    """X with each column divided; a sparse X stays sparse and shares its pattern."""
    if is_sparse(X):
        return sp.csr_array((X.data / scales[X.indices], X.indices, X.indptr), shape=X.shape)
    return X / scales


def warn_of_scales(X: Any, groups: Groups, columns: Sequence[str], warn: Warn = warn_user, *, centred: bool) -> None:
    """Warn if columns of very different scale share one strength; ``centred``: an intercept absorbs their means."""
    p = len(columns)
    if is_sparse(X):
        design, ones = Design(X, fit_intercept=False), np.ones(X.shape[0])
        squares, sums = design.squares(ones[:, None]), design.adjoint(ones)
    else:
        squares, sums = np.einsum("ij,ij->j", X, X), X.sum(axis=0)
    if centred:
        spread = squares - np.square(sums) / X.shape[0]
        squares = np.where(spread > ROUNDING * squares, spread, 0.0)  # constant columns are ignored
    size = np.sqrt(squares / X.shape[0])
    of_column = groups.index[:p]  # the first output's; the others share its columns
    judged = np.flatnonzero((of_column >= 0) & (size > 0))
    if len(judged) == 0 or size[judged].max() <= SCALE_RATIO * size[judged].min():
        return
    smallest, largest = np.full(groups.count, np.inf), np.zeros(groups.count)
    np.minimum.at(smallest, of_column[judged], size[judged])
    np.maximum.at(largest, of_column[judged], size[judged])
    apart = np.flatnonzero(largest > SCALE_RATIO * smallest)
    if len(apart) == 0:
        return
    members = judged[of_column[judged] == apart[0]]
    small, large = members[np.argmin(size[members])], members[np.argmax(size[members])]
    measure = "standard deviation" if centred else "root mean square"
    warn(
        f"group {groups.names[apart[0]]!r} has columns of very different scale: the {measure} of "
        f"{columns[large]!r} is {size[large]:.3g}, that of {columns[small]!r} is {size[small]:.3g}, but they share one "
        "strength; set standardize=True, scale the columns, or put them into separate groups"
        + (f" ({len(apart) - 1} more groups are like this)" if len(apart) > 1 else ""),
        TuningWarning,
    )


@contextlib.contextmanager
def as_input_error(X: Any, y: Any) -> Iterator[None]:
    """Turn scikit-learn's ``ValueError`` into an ``InputError``, with the position of the first NaN or infinity."""
    try:
        yield
    except NotFittedError:
        raise
    except ValueError as error:
        message = str(error)
        if "contains NaN" in message or "contains infinity" in message:
            first_line = message.splitlines()[0].rstrip(".")
            values = y if first_line.startswith("Input y") else X
            message = f"{first_line}{_first_place(values)}: remove or impute such values"
        raise InputError(message) from error
    except TypeError as error:
        if "not supported between instances" not in str(error):
            raise
        raise InputError(f"y mixes types of labels that cannot be sorted ({error}): write all as text") from error


def _first_place(values: Any) -> str:
    """The position of the first non-finite entry, or nothing if it cannot be determined."""
    names = [str(name) for name in getattr(values, "columns", ())]
    if is_sparse(values):
        found = sp.find(values)
        places = np.column_stack([found[0], found[1]])[~np.isfinite(found[2])]
    else:
        try:
            places = np.argwhere(~np.isfinite(np.asarray(values, dtype=np.float64)))
        except (TypeError, ValueError):
            return ""
    if len(places) == 0:
        return ""
    row, *column = min(map(tuple, places.tolist()))
    where = f" (first in row {row}"
    if column:
        where += f", column {names[column[0]]!r}" if names else f", column {column[0]}"
    return where + ", counted from 0)"


def _is_count(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= 1


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def seeded(random_state: Any) -> np.random.RandomState:
    """A generator from a seed, 0 for None, or the generator itself."""
    try:
        generator: np.random.RandomState = check_random_state(0 if random_state is None else random_state)
    except ValueError:
        raise InputError(f"random_state={random_state!r}: write None, a whole number or a RandomState") from None
    return generator
