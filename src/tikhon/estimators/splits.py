"""From ``cv`` to pairs of training and hold-out rows.

Splits are reproducible: ``random_state=None`` means the seed 0, and no global random state is used. Rows of weight 0
are excluded from the splits made here, so that a weight of 0 is equivalent to leaving the row out; splits supplied by
the user refer to the rows as given.
"""

from collections.abc import Callable, Iterable
from numbers import Integral, Real
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import KFold, StratifiedKFold

from tikhon.errors import InputError
from tikhon.estimators.checks import seeded
from tikhon.objective import Pair, Rows, Vector

Indices: TypeAlias = NDArray[np.intp]
Split: TypeAlias = tuple[Indices, Indices]

LONGEST_RUN = 50  # rows of a class that are held out together
LEAST_RUNS = 10  # in a class's hold-out; smaller hold-outs consist of single rows


def make_splits(
    cv: Any,
    *,
    validation_fraction: float,
    random_state: Any,
    X: Any,
    y: Any,
    row_weights: Vector,
    codes: NDArray[np.intp] | None,
) -> tuple[list[Split], tuple[str, ...]]:
    """Pairs of training and hold-out rows, and notes on adjustments. ``codes`` are class numbers, if any.

    - a number: that many folds, shuffled, stratified by class;
    - ``None``: one hold-out of ``validation_fraction`` of the rows, in runs of neighbours, stratified by class;
    - a splitter with ``split(X, y)``, or an iterable of (train, test) pairs of row numbers: used as given.
    """
    rows = np.flatnonzero(row_weights > 0)
    strata = np.zeros(len(rows), np.intp) if codes is None else codes[rows]
    notes: tuple[str, ...] = ()
    if cv is None:
        held_out = _hold_out(strata, validation_fraction, seeded(random_state))
        splits = [(rows[~held_out], rows[held_out])]
    elif isinstance(cv, Integral) and not isinstance(cv, bool):
        splits, notes = _folds(int(cv), rows, strata, codes is not None, seeded(random_state))
    else:
        splits = _given(cv, X, y, len(row_weights))
    for number, split in enumerate(splits):
        _check_split(number, split, row_weights, codes)
    return splits, notes


def make_pairs(splits: list[Split], row_weights: Vector, view: Callable[[Vector], Rows]) -> list[Pair]:
    """Two weighted views of one objective per split; a row named twice in a split counts twice."""
    pairs = []
    for train, test in splits:
        train_weights = row_weights * np.bincount(train, minlength=len(row_weights))
        test_weights = row_weights * np.bincount(test, minlength=len(row_weights))
        pairs.append(
            Pair(view(train_weights), view(test_weights), float(train_weights.sum()), float(test_weights.sum()))
        )
    return pairs


def _folds(
    cv: int, rows: Indices, strata: Indices, stratified: bool, random: np.random.RandomState
) -> tuple[list[Split], tuple[str, ...]]:
    if cv < 2:
        raise InputError(f"cv={cv}: write 2 or more folds, None for a hold-out, a splitter or a list of splits")
    counts = np.bincount(strata)
    alone = np.isin(strata, np.flatnonzero(counts == 1)) if stratified else np.zeros(len(rows), bool)
    shared = np.flatnonzero(~alone)
    if len(shared) < 2:
        raise InputError(
            f"n_samples = {len(rows)}: there is nothing to hold out, since cross-validation needs at least two rows"
            + (" of one class" if stratified else "")
            + "; set tuner=None or a tuner without hold-out data"
        )
    smallest = int(counts[counts > 1].min()) if stratified else len(rows)
    n_folds, notes = min(cv, smallest), []
    if n_folds < cv:
        holder = "the smallest class" if stratified else "the data"
        notes.append(f"cv={cv} was reduced to {n_folds} folds: {holder} has only {smallest} rows")
    if alone.any():
        notes.append(f"{int(alone.sum())} classes with a single row are never held out")
    folds = (StratifiedKFold if stratified else KFold)(n_folds, shuffle=True, random_state=random)
    kept = np.flatnonzero(alone)
    splits = [
        (np.sort(rows[np.concatenate([shared[train], kept])]), rows[shared[test]])
        for train, test in folds.split(np.zeros(len(shared)), strata[shared])
    ]
    return splits, tuple(notes)


def _hold_out(strata: Indices, fraction: float, random: np.random.RandomState) -> NDArray[np.bool_]:
    """A mask of held-out rows: about this fraction of each class with two or more rows, at least one and never all.

    Neighbouring rows are often related: reviews of one film, sentences of one document, days of one patient. If rows were
    held out at random, related rows would remain in the training set and the held-out loss would reward memorising them.
    Therefore runs of consecutive rows of a class are held out, from all over the data.
    """
    if not isinstance(fraction, Real) or not 0 < fraction < 1:
        raise InputError(f"validation_fraction={fraction!r}: write a number between 0 and 1")
    held_out = np.zeros(len(strata), bool)
    for label in np.unique(strata):
        members = np.flatnonzero(strata == label)
        if len(members) > 1:
            size = int(np.clip(round(float(fraction) * len(members)), 1, len(members) - 1))
            held_out[_in_runs(members, size, random)[:size]] = True
    if not held_out.any():
        raise InputError(
            f"n_samples = {len(strata)}: there is nothing to hold out, since every class has a single row; set "
            "tuner=None or a tuner without hold-out data"
        )
    return held_out


def _in_runs(members: Indices, size: int, random: np.random.RandomState) -> Indices:
    """The members, reordered so that the first ``size`` are runs of neighbours, one from each of equal stretches."""
    length = int(np.clip(size // LEAST_RUNS, 1, LONGEST_RUN))
    runs = np.arange(len(members)) // length
    n_runs, n_chosen = int(runs[-1]) + 1, -(-size // length)
    stretches = np.linspace(0, n_runs, n_chosen + 1).astype(int)
    place = n_chosen + random.permutation(n_runs)
    place[random.randint(stretches[:-1], stretches[1:])] = random.permutation(n_chosen)
    return members[np.argsort(place[runs], kind="stable")]


def _given(cv: Any, X: Any, y: Any, n_rows: int) -> list[Split]:
    if hasattr(cv, "split") and not isinstance(cv, str | bytes):  # str has a method of that name too
        try:
            pairs: Iterable[Any] = list(cv.split(X, y))
        except (ValueError, TypeError) as error:
            raise InputError(
                f"cv={cv!r} cannot split these data: {error}; if a splitter needs more than X and y, pass its splits: "
                "cv=list(splitter.split(X, y, groups))"
            ) from error
    elif isinstance(cv, Iterable) and not isinstance(cv, str | bytes):
        pairs = list(cv)
    else:
        raise InputError(
            f"cv={cv!r}: write 'auto', a number of folds, None for a hold-out, a splitter or a list of splits"
        )
    splits = []
    for number, pair in enumerate(pairs):
        try:
            train, test = pair
        except (TypeError, ValueError):
            raise InputError(f"cv: split {number} is not a pair of training rows and test rows") from None
        splits.append((_rows(train, n_rows, number), _rows(test, n_rows, number)))
    if not splits:
        raise InputError("cv holds no splits: give at least one")
    return splits


def _rows(chosen: Any, n_rows: int, number: int) -> Indices:
    indices = np.asarray(chosen)
    if indices.dtype == bool and indices.shape == (n_rows,):
        indices = np.flatnonzero(indices)
    if indices.ndim != 1 or (indices.size and indices.dtype.kind not in "iu"):
        raise InputError(
            f"cv: split {number} must consist of one-dimensional arrays of row numbers or masks of {n_rows} rows"
        )
    if indices.size and not 0 <= indices.min() <= indices.max() < n_rows:
        raise InputError(f"cv: split {number} has row numbers outside 0 to {n_rows - 1}")
    return indices.astype(np.intp)


def _check_split(number: int, split: Split, row_weights: Vector, codes: NDArray[np.intp] | None) -> None:
    for part, name in zip(split, ("training", "hold-out"), strict=True):
        if not (row_weights[part] > 0).any():
            raise InputError(f"cv: split {number} has no {name} rows of positive weight")
    if codes is not None:
        train = split[0]
        needed = set(np.unique(codes[row_weights > 0]).tolist())
        missing = needed - set(np.unique(codes[train[row_weights[train] > 0]]).tolist())
        if missing:
            raise InputError(
                f"cv: split {number} has no training rows of class number {min(missing)} (in the order of classes_): every "
                "split must train on all classes"
            )
