"""The report of the benchmark ``glm``: ratios to the rival, tables, a plot."""

import math
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any

from tikhon.bench.peers import BBAI, LIBLINEAR, LOGISTIC_CV, MAX_ITER, PACKAGES, peer_versions
from tikhon.harness.output import heading, number, short, table, today, versions
from tikhon.harness.runner import Evaluation, Plan
from tikhon.harness.store import Row
from tikhon.report.canvas import COLOURS, GREY, TICK_SIZE, new_figure, tidy

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "The tuners compared with scikit-learn's LogisticRegressionCV: seconds, test accuracy, test log loss"
AUTO = "auto"
OWN_SPLITS = (AUTO, "loo", "evidence")  # without splits, or with splits that they choose themselves
TUNERS = (*OWN_SPLITS, "mm", "gradient", "grid", "direct")
TUNERS_ON_TWO = (AUTO,)
LBFGS, CHOLESKY = "lbfgs", "newton-cholesky"
PEER = LOGISTIC_CV
PEERS = (LIBLINEAR, BBAI)  # shown, but not used in the ratios
MOST_FOR_CHOLESKY = 3_000  # weights
STOPPED = "stopped"
LEAST_LOSS = 0.01  # smaller log losses count as this: ratios of tiny losses are meaningless
ASKED = {"speedup": 25.0, "least_speedup": 3.0, "logloss_ratio": 1.005, "accuracy_difference": -0.1}

Entries = Mapping[str, Mapping[str, Any]]


def summarise(rows: Sequence[Row]) -> dict[str, Any]:
    """The figures by data set, and for each tuner t over all sets:

    speedup_t and least_speedup_t, the geometric mean and the minimum of the rival's seconds over the tuner's;
    logloss_ratio_t, the geometric mean of the tuner's test log loss over the rival's; accuracy_difference_t, the mean
    of its accuracy minus the rival's, in points. ``two_threads`` has the same for two threads.
    """
    one = _entries(rows, threads=1)
    two = _entries(rows, threads=2)
    summary: dict[str, Any] = {"clock": "CPU seconds, one thread", "datasets": one}
    for tuner in TUNERS:
        summary.update(_against_rival(one, tuner))
    slower = [name for name in _shared(one, "grid") if one[name]["grid"]["seconds"] > one[name][PEER]["seconds"]]
    summary["slower_grid"] = slower
    summary["two_threads"] = {"clock": "wall-clock seconds, two threads", "datasets": two}
    for tuner in TUNERS_ON_TWO:
        summary["two_threads"].update(_against_rival(two, tuner))
    found = {name: summary[f"{name}_{AUTO}"] for name in ASKED}
    summary["asked"] = ASKED
    summary["met"] = all(value is not None for value in found.values()) and (
        found["speedup"] >= ASKED["speedup"]
        and found["least_speedup"] >= ASKED["least_speedup"]
        and found["logloss_ratio"] <= ASKED["logloss_ratio"]
        and found["accuracy_difference"] >= ASKED["accuracy_difference"]
    )
    return summary


def _entries(rows: Sequence[Row], *, threads: int) -> dict[str, dict[str, Any]]:
    """By data set: its shape, the rival with its faster solver, the tuners, the other peers."""
    cells: dict[str, dict[str, Row]] = {}
    for row in rows:
        if row["threads"] == threads:
            cells.setdefault(row["dataset"], {})[row["contestant"]] = row
    clock = "cpu_seconds" if threads == 1 else "wall_seconds"
    entries = {}
    for name, found in cells.items():
        rivals = [found[solver] for solver in (LBFGS, CHOLESKY) if solver in found]
        rivals = [row for row in rivals if row["status"] != STOPPED]
        any_row = next(iter(found.values()))
        entry: dict[str, Any] = {key: any_row[key] for key in ("n_train", "n_test", "n_features", "n_classes")}
        entry.update({one: _figures(found[one], clock) for one in (*TUNERS, *PEERS) if one in found})
        if rivals:
            fastest = min(rivals, key=lambda row: row[clock])
            entry[PEER] = {**_figures(fastest, clock), "solver": fastest["contestant"]}
        entries[name] = entry
    return entries


def _figures(row: Row, clock: str) -> dict[str, Any]:
    """The seconds of a stopped row are its limit, a lower bound."""
    if row["status"] == STOPPED:
        clock = "cpu_seconds"
    keys = ("wall_seconds", "accuracy", "log_loss", "strength", "status", "warnings")
    return {"seconds": row[clock], **{key: row.get(key) for key in keys}}


def _shared(entries: Entries, tuner: str) -> list[str]:
    """The data sets with figures of both the rival and the tuner."""
    return [name for name, entry in entries.items() if PEER in entry and tuner in entry]


def _against_rival(entries: Entries, tuner: str) -> dict[str, Any]:
    pairs = [(entries[name][tuner], entries[name][PEER]) for name in _shared(entries, tuner)]
    times = [rival["seconds"] / ours["seconds"] for ours, rival in pairs]
    losses = [_counted(ours["log_loss"]) / _counted(rival["log_loss"]) for ours, rival in pairs]
    points = [ours["accuracy"] - rival["accuracy"] for ours, rival in pairs]
    return {
        f"speedup_{tuner}": _geometric_mean(times),
        f"least_speedup_{tuner}": min(times, default=None),
        f"logloss_ratio_{tuner}": _geometric_mean(losses),
        f"accuracy_difference_{tuner}": fmean(points) if points else None,
    }


def _counted(loss: float) -> float:
    return max(loss, LEAST_LOSS)


def _geometric_mean(values: Sequence[float]) -> float | None:
    return math.exp(fmean(math.log(value) for value in values)) if values else None


def render(made: Plan, summary: Mapping[str, Any]) -> str:
    """The report in Markdown."""
    about = (
        f"{PEER}: C = 2^-10 … 2^10, 5 folds, scoring log loss, max_iter {MAX_ITER}, default tol, the faster of lbfgs "
        f"and, up to {MOST_FOR_CHOLESKY:,} weights, newton-cholesky (stopped if it takes far longer than lbfgs). "
        "All on the same training rows, one thread, with an intercept; CPU seconds, the median of up to five runs "
        f"if one is short. {', '.join(OWN_SPLITS)} have their default settings, the other tuners the rival's "
        "folds. The tuner grid uses the same 21 values, neither widened nor refined."
    )
    notes = [
        f"{name}: {rows:,} training rows, a stratified sample with seed 0."
        for name, rows in made.config["train_rows"].items()
    ]
    missing = [package for package in PACKAGES.values() if package not in peer_versions()]
    if missing:
        notes.append(f"Not installed here, therefore omitted: {', '.join(missing)} (`pip install 'tikhon[peers]'`).")
    datasets, on_two = summary["datasets"], summary["two_threads"]["datasets"]
    unconverged = [name for name, entry in datasets.items() if PEER in entry and entry[PEER]["status"] != "converged"]
    columns = (*TUNERS, *(peer for peer in PEERS if any(peer in entry for entry in datasets.values())))
    parts = [
        heading(TITLE, [about, *notes], quick=made.quick, date=today(), used={**versions(), **peer_versions()}),
        f"## Compared with {PEER}\n",
        _overview(summary, TUNERS),
        f"Log losses below {LEAST_LOSS} count as {LEAST_LOSS}. Targets for {AUTO}: {ASKED['speedup']:g} times as fast on "
        f"average and {ASKED['least_speedup']:g} times on every set, log loss at most {ASKED['logloss_ratio']} of the "
        f"rival's, accuracy at most {-ASKED['accuracy_difference']} points lower. "
        f"{'Met' if summary['met'] else '**Not met** ⚠'}.\n",
        f"grid is slower than {PEER} on: {', '.join(summary['slower_grid']) or 'none'}.\n",
        "## Seconds\n",
        _by_contestant(datasets, columns, _seconds),
        "## Test accuracy (%)\n",
        _by_contestant(datasets, columns, lambda figures: number(figures["accuracy"])),
        "## Test log loss\n",
        _by_contestant(datasets, columns, lambda figures: number(figures["log_loss"], 4)),
        "## Strength found\n",
        _by_contestant(datasets, columns, lambda figures: short(figures["strength"])),
        "## Two threads: wall-clock seconds\n",
        f"{PEER} with n_jobs=2 and the solver that is faster on one thread; ours with n_jobs=2.\n",
        _overview(summary["two_threads"], TUNERS_ON_TWO),
        _by_contestant(on_two, TUNERS_ON_TWO, _seconds),
    ]
    if unconverged:
        parts.append(f"{PEER} warned that it did not converge on: {', '.join(unconverged)}.\n")
    return "\n".join(parts)


def _overview(summary: Mapping[str, Any], tuners: Sequence[str]) -> str:
    header = ["tuner", "times as fast", "least", "log loss over the rival's", "accuracy minus the rival's"]
    rows = [
        [
            tuner,
            short(summary[f"speedup_{tuner}"]),
            short(summary[f"least_speedup_{tuner}"]),
            number(summary[f"logloss_ratio_{tuner}"], 4),
            number(summary[f"accuracy_difference_{tuner}"]),
        ]
        for tuner in tuners
    ]
    return table(header, rows)


def _seconds(figures: Mapping[str, Any]) -> str:
    return f"> {short(figures['seconds'])}" if figures["status"] == STOPPED else short(figures["seconds"])


def _by_contestant(datasets: Entries, columns: Sequence[str], cell: Callable[[Mapping[str, Any]], str]) -> str:
    header = ["data set", "rows", "features", "classes", PEER, "its solver", *columns]
    rows = []
    for name, entry in datasets.items():
        cells = [name, *(str(entry[key]) for key in ("n_train", "n_features", "n_classes"))]
        cells += [cell(entry[PEER]), entry[PEER]["solver"]] if PEER in entry else ["n/a", ""]
        rows.append(cells + [cell(entry[one]) if one in entry else "n/a" for one in columns])
    return table(header, rows)


def draw(evaluation: Evaluation) -> "Figure":
    """How many times as fast as the rival each tuner is, by data set."""
    datasets = evaluation.summary["datasets"]
    names = list(datasets)[::-1]
    figure = new_figure(8.2, 1.6 + 0.3 * len(names))
    axes = figure.add_subplot()
    for tuner, colour in zip(TUNERS, COLOURS, strict=True):
        shown = _shared(datasets, tuner)
        axes.scatter(
            [datasets[name][PEER]["seconds"] / datasets[name][tuner]["seconds"] for name in shown],
            [names.index(name) for name in shown],
            s=60 if tuner == AUTO else 24,
            color=colour,
            label=tuner,
        )
    axes.axvline(1.0, color=GREY, linewidth=1.0)
    axes.set_xscale("log")
    axes.set_yticks(range(len(names)), names)
    tidy(axes, x_label=f"times as fast as {PEER}", y_label="")
    figure.legend(loc="outside upper left", ncols=len(TUNERS), fontsize=TICK_SIZE, frameon=False)
    return figure
