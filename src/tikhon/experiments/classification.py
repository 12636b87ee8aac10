"""Tables 2 and 3(a) of Foo, Do, Ng 2009: accuracy and time of grid, gradient, direct optimisation and MM."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean, median, stdev
from typing import Any

from tikhon import LogisticRegression
from tikhon.experiments import paper
from tikhon.experiments.paper_rows import by_cell, n_repeats, n_splits, planned
from tikhon.harness.fitting import GRID, N_FOLDS, folds_of, how_tuned, scores_on_test, tuner_of
from tikhon.harness.libsvm_sets import SETS, TRAIN_ROWS, file_name, shape_of, split_set
from tikhon.harness.runner import Plan
from tikhon.harness.store import Row
from tikhon.harness.timing import timed

POINTS_ALLOWED = 1.5  # for rows with a supplied test set
DEVIATIONS_ALLOWED = 2.0  # for rows over random splits
ROUNDING = 0.01  # of the printed figures, in points
LARGE = 1_000  # rows from which on times are compared
METHOD_AS_RUN = {"grid": "plain-grid"}  # as in the paper: every fit is warm-started from the last
RATIO_MEAN, RATIO_EACH = 10.0, 5.0  # CPU time of grid over mm


def measure(params: dict[str, Any], folder: Path | None) -> Row:
    """Fit one data set, split, intercept setting and method."""
    assert folder is not None
    dataset = split_set(params["dataset"], folder, params["seed"])
    folds = folds_of(dataset, params["seed"])

    def fit() -> LogisticRegression:
        model = LogisticRegression(
            tuner=tuner_of(METHOD_AS_RUN.get(params["method"], params["method"])),
            fit_intercept=params["intercept"],
            cv=folds,
            solver="auto",
            n_jobs=1,
        )
        return model.fit(dataset.X_train, dataset.y_train)

    run = timed(fit, params["repeats"])
    return {**shape_of(dataset), **scores_on_test(run.answer, dataset), **how_tuned(run.answer), **run.figures()}


def plan(names: Sequence[str], quick_names: Sequence[str], quick: bool) -> Plan:
    chosen = [name for name in names if not quick or name in quick_names]
    config = {
        "datasets": chosen,
        "splits": {name: n_splits(name, quick) for name in chosen},
        "train_rows": {name: rows for name, rows in TRAIN_ROWS.items() if name in chosen},
        "grid": list(GRID),
        "folds": N_FOLDS,
        "repeats": n_repeats(quick),
    }
    rows = planned(chosen, paper.METHODS, quick)
    return Plan(config=config, rows=rows, files=[file_name(name) for name in chosen], quick=quick)


def aggregate(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """One entry per data set, intercept setting and method, aggregated over the splits."""
    cells = by_cell(rows)
    entries = []
    for (name, intercept, method), members in cells.items():
        accuracies = [row["accuracy"] for row in members]
        entries.append(
            {
                "dataset": name,
                "intercept": intercept,
                "method": method,
                "n_splits": len(members),
                "supplied_test": SETS[name].supplied_test,
                **{key: members[0][key] for key in ("n_train", "n_test", "n_features", "n_classes")},
                "accuracy": fmean(accuracies),
                "accuracy_sd": stdev(accuracies) if len(members) > 1 else None,
                "accuracy_min": min(accuracies),
                "accuracy_max": max(accuracies),
                "log_loss": fmean(row["log_loss"] for row in members),
                "log_loss_sd": stdev(row["log_loss"] for row in members) if len(members) > 1 else None,
                "strength": median(row["strength"] for row in members),
                "n_steps": median(row["n_steps"] for row in members),
                "cpu_seconds": fmean(row["cpu_seconds"] for row in members),
                "wall_seconds": fmean(row["wall_seconds"] for row in members),
                "times_as_fast_as_grid": _ratio_to(cells.get((name, intercept, "grid"), []), members),
                "not_converged": sum(row["status"] != "converged" for row in members),
                "warnings": sorted({_kind(text) for row in members for text in row["warnings"]}),
            }
        )
    return entries


def compare(entries: Sequence[Mapping[str, Any]], printed: Mapping[str, Mapping[str, float]]) -> list[dict[str, Any]]:
    """The paper's figure and ours at the paper's intercept setting, and whether they agree within the accepted band."""
    comparisons = []
    for entry in entries:
        if entry["intercept"] != paper.INTERCEPT[entry["method"]]:
            continue
        figure = printed[entry["dataset"]][entry["method"]]
        deviation = entry["accuracy_sd"]
        if entry["supplied_test"]:
            band = POINTS_ALLOWED
        elif deviation is None:
            band = None  # no spread from one split
        else:
            band = max(DEVIATIONS_ALLOWED * deviation, ROUNDING)
        difference = entry["accuracy"] - figure
        comparisons.append(
            {
                **{key: entry[key] for key in ("dataset", "method", "intercept", "supplied_test", "accuracy")},
                "accuracy_sd": deviation,
                "accuracy_min": entry["accuracy_min"],
                "accuracy_max": entry["accuracy_max"],
                "n_test": entry["n_test"],
                "n_splits": entry["n_splits"],
                "paper": figure,
                "difference": difference,
                "band": band,
                "inside": None if band is None else abs(difference) <= band,
            }
        )
    return comparisons


def speed(entries: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """CPU time of the plain grid over that of MM, on the data sets with at least a thousand rows."""
    each = {
        f"{entry['dataset']}, {'intercept' if entry['intercept'] else 'no intercept'}": entry["times_as_fast_as_grid"]
        for entry in entries
        if entry["method"] == "mm"
        and entry["n_train"] + entry["n_test"] >= LARGE
        and entry["times_as_fast_as_grid"] is not None
    }
    if not each:
        return {"each": {}, "geometric_mean": None, "least": None, "met": None}
    mean, least = geometric_mean(list(each.values())), min(each.values())
    return {"each": each, "geometric_mean": mean, "least": least, "met": mean >= RATIO_MEAN and least >= RATIO_EACH}


def agreement(entries: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """The largest difference between accuracies of direct optimisation and MM with the same intercept setting."""
    found = {(entry["dataset"], entry["intercept"], entry["method"]): entry["accuracy"] for entry in entries}
    apart: dict[str, float] = {}
    for (name, intercept, method), accuracy in found.items():
        other = found.get((name, intercept, "direct"))
        if method == "mm" and other is not None:
            apart[name] = max(apart.get(name, 0.0), abs(accuracy - other))
    return apart


def geometric_mean(values: Sequence[float]) -> float:
    return math.exp(fmean(math.log(value) for value in values))


def _ratio_to(grid: Sequence[Row], members: Sequence[Row]) -> float | None:
    """Total CPU time of grid over that of the method, on the splits that both have."""
    times = {row["seed"]: row["cpu_seconds"] for row in members}
    both = [row for row in grid if row["seed"] in times]
    if not both:
        return None
    return float(sum(row["cpu_seconds"] for row in both) / sum(times[row["seed"]] for row in both))


def _kind(message: str) -> str:
    """A warning without its numbers, so that one raised on ten splits is listed once."""
    words = message.split()
    return " ".join("…" if any(sign.isdigit() for sign in word) else word for word in words)
