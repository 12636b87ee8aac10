"""Stages of growing shares of the rows: which rows each trains on, in each fold.

Folds are made once, from all rows. A stage trains on its rows without those of the fold and is scored on the whole fold, so
nothing leaks from one stage into the next and the scores of all stages are estimates of the same thing. Rows of a stage contain
those of the stage before.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tikhon.errors import InputError

Indices: TypeAlias = NDArray[np.intp]
Split: TypeAlias = tuple[Indices, Indices]

LEAST_ROWS = 50  # of a stage, where there are as many
LEAST_OF_CLASS = 2  # rows of each class in the training part of every fold, where there are as many


@dataclass(frozen=True, eq=False)
class Stage:
    """A share of the rows, with the splits to train and score on."""

    number: int  # from 1
    place: int  # among the fractions that were asked for
    fraction: float  # as asked for
    splits: Sequence[Split]
    share: float  # of the training rows, on average over the splits
    n_rows: int  # training rows, on average over the splits


def checked_fractions(stages: Any) -> tuple[float, ...]:
    """Growing fractions that end with 1."""
    try:
        fractions = tuple(float(fraction) for fraction in stages)
    except (TypeError, ValueError):
        raise InputError(f"stages={stages!r}: write growing fractions of the rows, such as (0.3, 1.0)") from None
    if not fractions or any(not 0.0 < fraction <= 1.0 for fraction in fractions):
        raise InputError(f"stages={stages!r}: write fractions above 0 and at most 1, such as (0.3, 1.0)")
    if any(later <= earlier for earlier, later in pairwise(fractions)):
        raise InputError(f"stages={stages!r}: each stage needs more rows than the one before")
    if fractions[-1] != 1.0:
        raise InputError(f"stages={stages!r}: the last stage must train on all rows: end with 1.0")
    return fractions


def make_stages(
    fractions: Sequence[float],
    splits: Sequence[Split],
    *,
    n_rows: int,
    codes: NDArray[np.intp] | None,
    groups: Any,
    seed: int,
) -> tuple[list[Stage], list[str]]:
    """The stages, and notes on those that were enlarged or left out.

    Parameters
    ----------
    fractions : sequence of float
        As from ``checked_fractions``.
    splits : sequence of (train, test)
        Of all rows.
    n_rows : int
        All rows.
    codes : array or None
        Class numbers of the rows, to stratify by.
    groups : array or None
        Rows of a group stay together.
    seed : int
        Of the order in which rows join.
    """
    # A single split may well have its validation rows last without any order in time.
    ordered = len(splits) > 1 and groups is None and all(_is_before(train, test) for train, test in splits)
    n_classes = 1 if codes is None else len(np.unique(codes))
    least = min(n_rows, max(LEAST_ROWS, LEAST_OF_CLASS * n_classes)) / n_rows
    ranks = None if ordered else joining_ranks(n_rows, codes, groups, seed)
    stages: list[Stage] = []
    notes: list[str] = []
    for position, fraction in enumerate(fractions):
        used = max(fraction, least)
        following = fractions[position + 1] if position + 1 < len(fractions) else np.inf
        if used >= following:
            notes.append(f"the stage of {fraction:g} of the rows is left out: with {n_rows} rows it would be too small")
            continue
        if used > fraction:
            notes.append(f"the stage of {fraction:g} of the rows uses {used:.3g}: fewer are too few to train on")
        own = [
            (_latest(train, used) if ranks is None else _joined(train, ranks, used, codes, groups), test)
            for train, test in splits
        ]
        share = sum(len(rows) for rows, _ in own) / sum(len(train) for train, _ in splits)
        mean_rows = round(sum(len(rows) for rows, _ in own) / len(own))
        stages.append(Stage(len(stages) + 1, position, used, own, share, mean_rows))
    return stages, notes


def _is_before(train: Indices, test: Indices) -> bool:
    return len(train) > 0 and len(test) > 0 and bool(train.max() < test.min())


def joining_ranks(n_rows: int, codes: NDArray[np.intp] | None, groups: Any, seed: int) -> NDArray[np.float64]:
    """A number in (0, 1] for each row: the share of the rows from which it takes part. Nested, and the same for all folds.

    Classes join in proportion; the rows of a group join together, groups in a random order.
    """
    rng = np.random.default_rng(seed)
    ranks = np.empty(n_rows)
    if groups is not None:
        names, numbers, sizes = np.unique(np.asarray(groups), return_inverse=True, return_counts=True)
        order = rng.permutation(len(names))
        joined = np.empty(len(names))
        joined[order] = np.cumsum(sizes[order]) / n_rows
        ranks[:] = joined[numbers]
        return ranks
    strata = np.zeros(n_rows, np.intp) if codes is None else codes
    for stratum in np.unique(strata):
        rows = np.flatnonzero(strata == stratum)
        ranks[rng.permutation(rows)] = np.arange(1, len(rows) + 1) / len(rows)
    return ranks


def _joined(
    train: Indices, ranks: NDArray[np.float64], fraction: float, codes: NDArray[np.intp] | None, groups: Any
) -> Indices:  # fmt: skip
    """The training rows that have joined, in their order; of each class at least ``LEAST_OF_CLASS``, if it has them."""
    if fraction >= 1.0:
        return train
    of_train = ranks[train]
    taken = of_train <= fraction * (1.0 + 1e-12)
    strata = np.zeros(len(train), np.intp) if codes is None else codes[train]
    for stratum in np.unique(strata):
        places = np.flatnonzero(strata == stratum)
        first = places[np.argsort(of_train[places], kind="stable")[:LEAST_OF_CLASS]]
        taken[first] = True
    if groups is not None:  # those of a class that was short bring their groups
        names = np.asarray(groups)[train]
        taken |= np.isin(names, names[taken])
    return train[taken]


def _latest(train: Indices, fraction: float) -> Indices:
    """The latest rows of an ordered split: earlier ones are the least like those to come."""
    count = max(1, round(fraction * len(train)))
    return np.sort(train)[-count:] if fraction < 1.0 else train
