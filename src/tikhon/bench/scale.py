"""Time and peak memory of a tuned fit as rows, columns and non-zeros grow, with fitted exponents.

Simulated data, two classes, one strength for all columns: dense and sparse, one size varied at a time. Each point runs in
its own process, so that peak memory is that of this fit, beyond the process and the data before it.
An exponent is the slope of a line through the logarithms at the larger sizes: at the smaller, fixed costs matter.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from tikhon import LogisticRegression
from tikhon.bench.limits import in_fresh_process
from tikhon.bench.memory import forget_peak, peak, resident
from tikhon.bench.peers import fit_next_to_nothing
from tikhon.harness.output import heading, number, short, table, today, versions
from tikhon.harness.runner import Evaluation, Experiment, Plan, RowSpec
from tikhon.harness.store import Row
from tikhon.harness.timing import timed
from tikhon.report.canvas import COLOURS, TICK_SIZE, new_figure, tidy

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "Time and peak memory of a tuned logistic regression by the size of the data"
TUNER = "auto"
FITTED = 30.0  # an exponent is fitted to sizes from the largest down to the largest over this
SPREAD = 2.0  # standard deviation of the true scores
SEED = 0
REPEATS = 3
ALLOWED = 1.1  # exponent of time in non-zeros: linear, plus the error of a fit to a few noisy points


@dataclass(frozen=True)
class Size:
    """Rows, columns and, for sparse data, non-zeros per row; 0: dense."""

    rows: int
    columns: int
    per_row: int = 0

    @property
    def nonzeros(self) -> int:
        return self.rows * (self.per_row or self.columns)


def steps(low: float, high: float) -> tuple[int, ...]:
    """1, 3, 10, 30 … times a power of ten, from low to high."""
    found = sorted(first * 10**power for power in range(9) for first in (1, 3))
    return tuple(value for value in found if low <= value <= high)


# By name: which size varies ("rows", "columns", "nonzeros") and the sizes.
SWEEPS: dict[str, tuple[str, tuple[Size, ...]]] = {
    "dense_n": ("rows", tuple(Size(rows, 50) for rows in steps(1e3, 1e6))),
    "dense_p": ("columns", tuple(Size(5_000, columns) for columns in steps(10, 3e3))),
    "sparse_n": ("rows", tuple(Size(rows, 20_000, 20) for rows in steps(1e3, 1e6))),
    "sparse_p": ("columns", tuple(Size(30_000, columns, 20) for columns in steps(1e3, 1e6))),
    "sparse_nonzeros": ("nonzeros", tuple(Size(30_000, 20_000, per_row) for per_row in steps(3, 300))),
}
QUICK_SWEEPS: dict[str, tuple[str, tuple[Size, ...]]] = {
    "dense_n": ("rows", (Size(1_000, 20), Size(10_000, 20))),
    "sparse_n": ("rows", (Size(1_000, 500, 5), Size(10_000, 500, 5))),
}


def made_data(size: Size) -> tuple[Any, Any]:
    """Normal entries (at random columns of sparse rows), and labels from a logistic model whose scores have standard
    deviation SPREAD for every size."""
    rng = np.random.default_rng(SEED)
    truth = rng.normal(size=size.columns) * SPREAD / np.sqrt(size.per_row or size.columns)
    X: Any
    if size.per_row:
        places = rng.integers(0, size.columns, size=size.nonzeros, dtype=np.int32)
        starts = np.arange(0, size.nonzeros + 1, size.per_row, dtype=np.int64)
        X = sparse.csr_matrix((rng.normal(size=size.nonzeros), places, starts), shape=(size.rows, size.columns))
        X.sum_duplicates()
    else:
        X = rng.normal(size=(size.rows, size.columns))
    return X, X @ truth + rng.logistic(size=size.rows) > 0


def measure(params: dict[str, Any], folder: Path | None) -> Row:
    """One point, in its own process unless the run is a quick one."""
    size, repeats = Size(params["rows"], params["columns"], params["per_row"]), params["repeats"]
    row: Row = in_fresh_process(_measured, size, repeats) if params["alone"] else _measured(size, repeats)
    return row


def _measured(size: Size, repeats: int) -> Row:
    fit_next_to_nothing(lambda X, y, folds: _fit(sparse.csr_matrix(X) if size.per_row else X, y))
    baseline = resident()
    X, y = made_data(size)
    before = resident()
    forget_peak()
    run = timed(lambda: _fit(X, y), repeats)
    tuning = run.answer.tuning_
    return {
        **run.figures(),
        "nonzeros": X.nnz if size.per_row else X.size,
        "baseline_mb": baseline,
        "data_mb": _megabytes(X),
        "memory_mb": max(0.0, peak() - before),
        "status": tuning.status,
        "n_steps": len(tuning.trace),
        "n_fits": tuning.n_fits,
        "notes": tuning.notes,
    }


def _fit(X: Any, y: Any) -> Any:
    return LogisticRegression(tuner=TUNER, n_jobs=1).fit(X, y)


def _megabytes(X: Any) -> float:
    arrays = (X,) if isinstance(X, np.ndarray) else (X.data, X.indices, X.indptr)
    return float(sum(array.nbytes for array in arrays)) / 2**20


def plan(quick: bool) -> Plan:
    sweeps = QUICK_SWEEPS if quick else SWEEPS
    repeats = 1 if quick else REPEATS
    rows = [
        RowSpec(
            key=f"{name}/{size.rows}x{size.columns}x{size.per_row}",
            batch=name,
            params={"sweep": name, **asdict(size), "repeats": repeats, "alone": not quick},
            cost=1 + size.nonzeros // 100_000,
        )
        for name, (_, sizes) in sweeps.items()
        for size in sizes
    ]
    config = {
        "sweeps": {name: [varied, [asdict(size) for size in sizes]] for name, (varied, sizes) in sweeps.items()},
        "tuner": TUNER,
        "repeats": repeats,
        "seed": SEED,
    }
    return Plan(config=config, rows=rows, quick=quick)


def exponent(sizes: Sequence[float], values: Sequence[float]) -> float | None:
    """The slope of log value against log size at the larger sizes; None with fewer than two points."""
    known = [(size, value) for size, value in zip(sizes, values, strict=True) if value > 0.0]
    largest = max((size for size, _ in known), default=0.0)
    x, y = (np.log([pair[place] for pair in known if pair[0] >= largest / FITTED]) for place in (0, 1))
    if len(x) < 2 or x.min() == x.max():
        return None
    return float(np.polyfit(x, y, 1)[0])


def evaluate(made: Plan, rows: list[Row]) -> Evaluation:
    sweeps = made.config["sweeps"]
    summary: dict[str, Any] = {"clock": "CPU seconds, one thread"}
    curves: dict[str, dict[str, Any]] = {}
    for name, (varied, _) in sweeps.items():
        found = [row for row in rows if row["sweep"] == name]
        sizes = [float(row[varied]) for row in found]
        curve = {
            "varied": varied,
            "sizes": sizes,
            "seconds": [row["cpu_seconds"] for row in found],
            "memory_mb": [row["memory_mb"] for row in found],
            "data_mb": [row["data_mb"] for row in found],
        }
        curves[name] = curve
        summary[f"exponent_time_{name}"] = exponent(sizes, curve["seconds"])
        summary[f"exponent_memory_{name}"] = exponent(sizes, curve["memory_mb"])
    slopes = [summary.get(f"exponent_time_{name}") for name in ("sparse_n", "sparse_nonzeros")]
    summary["allowed"] = ALLOWED
    summary["met"] = all(slope is not None and slope <= ALLOWED for slope in slopes)
    summary["curves"] = curves
    return Evaluation(summary=summary, markdown=render(made, summary, rows))


def render(made: Plan, summary: Mapping[str, Any], rows: Sequence[Row]) -> str:
    """The report in Markdown."""
    about = (
        f"LogisticRegression(tuner={TUNER!r}), one strength for all columns, two classes, simulated data; CPU seconds, one "
        "thread, the median of up to three runs if one is short. Memory is the peak during the fit beyond that of the "
        "process and the data before it. Exponents are fitted to the sizes from the largest down to a "
        f"{FITTED:.0f}th of it."
    )
    slopes = [
        [name, curve["varied"], *(number(summary[f"exponent_{what}_{name}"]) for what in ("time", "memory"))]
        for name, curve in summary["curves"].items()
    ]
    points = [
        [
            row["sweep"],
            f"{row['rows']:,}",
            f"{row['columns']:,}",
            f"{row['nonzeros']:,}",
            short(row["cpu_seconds"]),
            short(row["memory_mb"]),
            short(row["data_mb"]),
            str(row["n_steps"]),
            row["status"],
        ]
        for row in rows
    ]
    header = ["sweep", "rows", "columns", "non-zeros", "seconds", "memory (MB)", "data (MB)", "steps", "status"]
    verdict = (
        f"Target: time at most linear in the non-zeros of sparse data, here an exponent of at most {ALLOWED} "
        f"for sparse_n and sparse_nonzeros. {'Met' if summary['met'] else '**Not met** ⚠'}.\n"
    )
    return "\n".join(
        [
            heading(TITLE, [about], quick=made.quick, date=today(), used=versions()),
            "## Exponents\n",
            table(["sweep", "varied", "time", "memory"], slopes),
            *([] if made.quick else [verdict]),
            "## Points\n",
            table(header, points),
        ]
    )


def draw(evaluation: Evaluation) -> "Figure":
    """Seconds and megabytes against the varied size, on logarithmic axes; dashed: proportional to it."""
    curves = evaluation.summary["curves"]
    figure = new_figure(9.6, 4.2)
    panels = figure.subplots(1, 2)
    for axes, what, label in zip(panels, ("seconds", "memory_mb"), ("CPU seconds", "peak memory (MB)"), strict=True):
        for (name, curve), colour in zip(curves.items(), COLOURS, strict=False):
            shown = [(size, value) for size, value in zip(curve["sizes"], curve[what], strict=True) if value > 0.0]
            if not shown:
                continue
            sizes, values = (np.array(part) for part in zip(*shown, strict=True))
            axes.plot(sizes, values, "o-", color=colour, markersize=4, label=name if what == "seconds" else None)
            axes.plot(sizes, values[-1] * sizes / sizes[-1], "--", color=colour, linewidth=0.8, alpha=0.5)
        axes.set_xscale("log")
        axes.set_yscale("log")
        tidy(axes, x_label="rows, columns or non-zeros", y_label=label)
    figure.legend(loc="outside upper center", ncols=len(curves), fontsize=TICK_SIZE, frameon=False)
    return figure


def warm_up() -> None:
    """Nothing: every point warms up in its own process."""


BENCH = Experiment(
    name="scale", summary=TITLE, plan=plan, measure=measure, evaluate=evaluate, draw=draw, warm_up=warm_up
)
