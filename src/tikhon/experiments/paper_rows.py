"""Rows of the tables of Foo, Do, Ng 2009: one for each data set, split, intercept setting and method."""

from collections.abc import Sequence

from tikhon.harness.libsvm_sets import SETS
from tikhon.harness.runner import RowSpec
from tikhon.harness.store import Row
from tikhon.harness.timing import REPEATS


def n_splits(name: str, quick: bool) -> int:
    return 1 if quick else SETS[name].n_splits


def n_repeats(quick: bool) -> int:
    return 1 if quick else REPEATS


def planned(names: Sequence[str], methods: Sequence[str], quick: bool) -> list[RowSpec]:
    return [
        RowSpec(
            key=f"{name}/{seed}/{'intercept' if intercept else 'no intercept'}/{method}",
            batch=name,
            params={
                "dataset": name,
                "seed": seed,
                "intercept": intercept,
                "method": method,
                "repeats": n_repeats(quick),
            },
            cost=SETS[name].cost(method),
        )
        for name in names
        for seed in range(n_splits(name, quick))
        for intercept in (True, False)
        for method in methods
    ]


def by_cell(rows: Sequence[Row]) -> dict[tuple[str, bool, str], list[Row]]:
    """The splits of each data set, intercept setting and method."""
    cells: dict[tuple[str, bool, str], list[Row]] = {}
    for row in rows:
        cells.setdefault((row["dataset"], row["intercept"], row["method"]), []).append(row)
    return cells
