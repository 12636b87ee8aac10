"""The tuners against scikit-learn's LogisticRegressionCV on the data sets of Tables 2 and 3(a) of Foo, Do, Ng 2009.

The same rows, the same five folds, the same 21 strengths (C = 1 / strength), one thread, an intercept. The rival is the
faster of its solvers lbfgs and, up to 3,000 weights, newton-cholesky. Seconds are CPU seconds of the whole tuning and
fit: on one thread they are what a clock shows on an idle machine, and what it does not show on a busy one.
"""

import inspect
import math
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.linear_model import LogisticRegressionCV

from tikhon import LogisticRegression
from tikhon.experiments import paper
from tikhon.experiments.fitting import (
    GRID,
    N_FOLDS,
    REPEATS,
    SHORT,
    TRAIN_ROWS,
    Folds,
    folds_of,
    how_tuned,
    scores_on_test,
    shape_of,
    split_set,
    timed,
    tuner_of,
)
from tikhon.experiments.fitting import warm_up as warm_up_tuners
from tikhon.experiments.output import heading, number, short, table, today, versions
from tikhon.experiments.runner import Evaluation, Experiment, Plan, RowSpec
from tikhon.experiments.sets import SETS
from tikhon.experiments.store import Row
from tikhon.report.canvas import COLOURS, GREY, TICK_SIZE, new_figure, tidy

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "The tuners beside scikit-learn's LogisticRegressionCV: seconds, test accuracy, test log loss"
NAMES = (*paper.TABLE2, *paper.TABLE3A)
QUICK = ("heart", "iris")
TUNERS = ("mm", "gradient", "grid", "direct")
PEER = "LogisticRegressionCV"
MOST_FOR_CHOLESKY = 3_000  # weights
MAX_ITER = 1_000
PATIENCE = 2.0  # times what lbfgs took: newton-cholesky is stopped there, since only the faster counts
STOPPED = "stopped"
COST_OF_PEER = "gradient"  # a guess for the ETA: about as long as this tuner, times ten

_seconds_of_lbfgs: dict[str, float] = {}  # by data set, as measured in this process just before newton-cholesky

Entries = Sequence[Mapping[str, Any]]


def peer(solver: str, folds: Folds) -> Any:
    """The rival, set so that neither its old nor its new versions warn of changes to come."""
    quiet = {"l1_ratios": (0.0,), "use_legacy_attributes": False}
    parameters = inspect.signature(LogisticRegressionCV).parameters
    settings = {
        name: value for name, value in quiet.items() if name in parameters and parameters[name].default == "warn"
    }
    rival: Any = LogisticRegressionCV
    return rival(Cs=np.array(GRID), cv=folds, scoring="neg_log_loss", solver=solver, max_iter=MAX_ITER, **settings)


def measure(params: dict[str, Any], folder: Path | None) -> Row:
    """Tune and fit one data set by one contestant."""
    assert folder is not None
    dataset = split_set(params["dataset"], folder, 0)
    folds = folds_of(dataset, 0)
    contestant: str = params["contestant"]

    def fit() -> Any:
        if contestant in TUNERS:
            return LogisticRegression(tuner=tuner_of(contestant), cv=folds, n_jobs=1).fit(
                dataset.X_train, dataset.y_train
            )
        return peer(contestant, folds).fit(dataset.X_train, dataset.y_train)

    most = None if contestant != "newton-cholesky" else _seconds_of_lbfgs.get(params["dataset"])
    # Short work is repeated, and the limit holds for all of it.
    limit = None if most is None else PATIENCE * most * (params["repeats"] if most < SHORT else 1)
    try:
        with cpu_limit(limit):
            run = timed(fit, params["repeats"])
    except OutOfTimeError:
        return {**shape_of(dataset), "status": STOPPED, "cpu_seconds": limit, "warnings": []}
    if contestant == "lbfgs":
        _seconds_of_lbfgs[params["dataset"]] = run.cpu_seconds
    row = {**shape_of(dataset), **scores_on_test(run.answer, dataset), **run.figures()}
    if contestant in TUNERS:
        return {**row, **how_tuned(run.answer)}
    return {**row, "strength": 1.0 / float(np.ravel(run.answer.C_)[0]), "status": _status(run.warnings)}


class OutOfTimeError(Exception):
    """A contestant took more time than it was given."""


@contextmanager
def cpu_limit(seconds: float | None) -> Iterator[None]:
    """Raise OutOfTimeError in the block once the process has used so many CPU seconds; None: no limit."""
    if seconds is None:
        yield
        return

    def stop(*_: object) -> None:
        raise OutOfTimeError

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, before)


def _status(messages: Sequence[str]) -> str:
    return "max_iter" if any(message.startswith("ConvergenceWarning") for message in messages) else "converged"


def contestants(name: str) -> list[str]:
    facts = SETS[name]
    n_weights = (facts.features + 1) * (facts.classes if facts.classes > 2 else 1)
    rivals = ["lbfgs", "newton-cholesky"] if n_weights <= MOST_FOR_CHOLESKY else ["lbfgs"]
    return [*TUNERS, *rivals]


def plan(quick: bool) -> Plan:
    chosen = [name for name in NAMES if not quick or name in QUICK]
    repeats = 1 if quick else REPEATS
    rows = [
        RowSpec(
            key=f"{name}/{contestant}",
            batch=name,
            params={"dataset": name, "contestant": contestant, "repeats": repeats},
            cost=SETS[name].cost(contestant) if contestant in TUNERS else 10 * SETS[name].cost(COST_OF_PEER),
        )
        for name in chosen
        for contestant in contestants(name)
    ]
    config = {
        "datasets": chosen,
        "train_rows": {name: rows for name, rows in TRAIN_ROWS.items() if name in chosen},
        "grid": list(GRID),
        "folds": N_FOLDS,
        "repeats": repeats,
        "max_iter": MAX_ITER,
    }
    return Plan(config=config, rows=rows, files=[paper.file_name(name) for name in chosen], quick=quick)


def evaluate(made: Plan, rows: list[Row]) -> Evaluation:
    summary = summarise(rows)
    return Evaluation(summary=summary, aggregates=[], markdown=render(made, summary))


def summarise(rows: Sequence[Row]) -> dict[str, Any]:
    """Per data set the figures of the rival and of each tuner; the geometric means of the ratios of times."""
    cells: dict[str, dict[str, Row]] = {}
    for row in rows:
        cells.setdefault(row["dataset"], {})[row["contestant"]] = row
    datasets = {}
    for name, found in cells.items():
        rivals = [found[solver] for solver in ("lbfgs", "newton-cholesky") if solver in found]
        rivals = [row for row in rivals if row["status"] != STOPPED]
        entry: dict[str, Any] = {tuner: _figures(found[tuner]) for tuner in TUNERS if tuner in found}
        if rivals:
            fastest = min(rivals, key=lambda row: row["cpu_seconds"])
            entry[PEER] = {**_figures(fastest), "solver": fastest["contestant"]}
        any_row = next(iter(found.values()))
        datasets[name] = {**{key: any_row[key] for key in ("n_train", "n_test", "n_features", "n_classes")}, **entry}
    summary: dict[str, Any] = {"clock": "CPU seconds, one thread", "datasets": datasets}
    for tuner in TUNERS:
        ratios = {
            name: entry[PEER]["seconds"] / entry[tuner]["seconds"]
            for name, entry in datasets.items()
            if _both(entry, tuner)
        }
        summary[f"speedup_{tuner}"] = _geometric_mean(list(ratios.values()))
        summary[f"least_speedup_{tuner}"] = min(ratios.values(), default=None)
    summary["slower_grid"] = [
        name
        for name, entry in datasets.items()
        if _both(entry, "grid") and entry["grid"]["seconds"] > entry[PEER]["seconds"]
    ]
    return summary


def _both(entry: Mapping[str, Any], tuner: str) -> bool:
    return PEER in entry and tuner in entry


def _figures(row: Row) -> dict[str, Any]:
    keys = ("wall_seconds", "accuracy", "log_loss", "strength", "status", "warnings")
    return {"seconds": row["cpu_seconds"], **{key: row[key] for key in keys}}


def _geometric_mean(values: Sequence[float]) -> float | None:
    return math.exp(fmean(math.log(value) for value in values)) if values else None


def render(made: Plan, summary: Mapping[str, Any]) -> str:
    """The report in Markdown."""
    about = (
        f"{PEER}: C = 2^-10 … 2^10, 5 folds, scoring log loss, max_iter {MAX_ITER}, default tol, the faster of lbfgs "
        f"and, up to {MOST_FOR_CHOLESKY:,} weights, newton-cholesky (stopped where it takes far longer than lbfgs). "
        "All on the same training rows and folds, one "
        "thread, with an intercept; CPU seconds, the median of up to five runs where one is short. The tuner grid is "
        "the plain one: the same 21 values, nothing widened or refined."
    )
    drawn = made.config["train_rows"]
    notes = [
        f"{name}: {rows:,} training rows, drawn with seed 0 in the classes' proportions."
        for name, rows in drawn.items()
    ]
    datasets = summary["datasets"]
    speedups = [
        [tuner, short(summary[f"speedup_{tuner}"]), short(summary[f"least_speedup_{tuner}"])] for tuner in TUNERS
    ]
    stopped = [name for name, entry in datasets.items() if PEER in entry and entry[PEER]["status"] != "converged"]
    parts = [
        heading(TITLE, [about, *notes], quick=made.quick, date=today(), used=versions()),
        f"## Times as fast as {PEER}\n",
        table(["tuner", "geometric mean", "least"], speedups),
        f"grid is slower than {PEER} on: {', '.join(summary['slower_grid']) or 'none'}.\n",
        "## Seconds\n",
        _by_contestant(datasets, lambda figures: short(figures["seconds"])),
        "## Test accuracy (%)\n",
        _by_contestant(datasets, lambda figures: number(figures["accuracy"])),
        "## Test log loss\n",
        _by_contestant(datasets, lambda figures: number(figures["log_loss"], 4)),
        "## Strength found\n",
        _by_contestant(datasets, lambda figures: short(figures["strength"])),
    ]
    if stopped:
        parts.append(f"{PEER} warned that it did not converge on: {', '.join(stopped)}.\n")
    return "\n".join(parts)


def _by_contestant(datasets: Mapping[str, Any], cell: Any) -> str:
    header = ["data set", "rows", "features", "classes", PEER, "its solver", *TUNERS]
    rows = []
    for name, entry in datasets.items():
        cells = [name, *(str(entry[key]) for key in ("n_train", "n_features", "n_classes"))]
        cells += [cell(entry[PEER]), entry[PEER]["solver"]] if PEER in entry else ["n/a", ""]
        rows.append(cells + [cell(entry[tuner]) if tuner in entry else "n/a" for tuner in TUNERS])
    return table(header, rows)


def draw(evaluation: Evaluation) -> "Figure":
    """How many times as fast as the rival each tuner is, by data set."""
    datasets = evaluation.summary["datasets"]
    names = list(datasets)[::-1]
    figure = new_figure(8.2, 1.6 + 0.3 * len(names))
    axes = figure.add_subplot()
    for tuner in TUNERS:
        shown = [name for name in names if _both(datasets[name], tuner)]
        axes.scatter(
            [datasets[name][PEER]["seconds"] / datasets[name][tuner]["seconds"] for name in shown],
            [names.index(name) for name in shown],
            s=36,
            color=COLOURS[paper.METHODS.index(tuner)],
            label=tuner,
        )
    axes.axvline(1.0, color=GREY, linewidth=1.0)
    axes.set_xscale("log")
    axes.set_yticks(range(len(names)), names)
    tidy(axes, x_label=f"times as fast as {PEER}", y_label="")
    figure.legend(loc="outside upper left", ncols=len(TUNERS), fontsize=TICK_SIZE, frameon=False)
    return figure


def warm_up() -> None:
    """The tuners, and the rival on next to nothing."""
    warm_up_tuners()
    X = np.random.default_rng(0).normal(size=(60, 3))
    for solver in ("lbfgs", "newton-cholesky"):
        for y in ((X[:, 0] > 0).astype(int), np.digitize(X[:, 0], [-0.5, 0.5])):
            folds = [(np.arange(30), np.arange(30, 60))]
            peer(solver, folds).fit(X, y)


BENCH = Experiment(name="glm", summary=TITLE, plan=plan, measure=measure, evaluate=evaluate, draw=draw, warm_up=warm_up)
