"""Tables on stdout, and summaries of fitted models."""

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tikhon.cli.console import printable

MOST_GROUPS = 30
MOST_STEPS = 40


def print_rows(rows: Sequence[Mapping[str, Any]], digits: Mapping[str, int] | None = None) -> None:
    """Print rows with the same keys as a table, numbers right-aligned; ``digits`` by key (default 4)."""
    from rich.box import SIMPLE
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    if not rows:
        return
    table = Table(box=SIMPLE, pad_edge=False)
    for name in rows[0]:
        is_number = any(isinstance(row[name], int | float) and not isinstance(row[name], bool) for row in rows)
        table.add_column(
            escape(printable(str(name))), justify="right" if is_number else "left", no_wrap=is_number, overflow="fold"
        )
    for row in rows:
        table.add_row(*(escape(printable(cell_text(row[name], (digits or {}).get(name, 4)))) for name in rows[0]))
    # In a pipe, a table must not be wrapped at the 80 columns that are assumed without a terminal.
    console = Console() if sys.stdout.isatty() else Console(width=1000)
    console.print(table)


def cell_text(value: Any, digits: int = 4) -> str:
    if value is None:
        return ""
    return f"{value:.{digits}g}" if isinstance(value, float) else str(value)


def group_rows(model: Any) -> list[dict[str, Any]]:
    """For each group: number of columns and weights, strength, Euclidean norm and root mean square of its weights."""
    if hasattr(model, "weights_by_group"):
        return _weight_rows(model)
    groups = model.groups_
    coefficients = np.asarray(model.coef_, dtype=np.float64).ravel()
    index = groups.index[: coefficients.size]  # the intercepts come after the coefficients
    n_columns = int(model.n_features_in_)
    pairs = np.unique(np.stack([index, np.arange(index.size) % n_columns]), axis=1)
    columns = np.bincount(pairs[0] + 1, minlength=groups.count + 1)[1:]
    weights = np.bincount(index + 1, minlength=groups.count + 1)[1:]
    squares = np.bincount(index + 1, coefficients**2, groups.count + 1)[1:]
    fixed = ~np.asarray(groups.learned)
    return [
        {
            "group": name,
            "columns": int(columns[place]),
            "weights": int(weights[place]),
            "strength": float(model.strengths_[name]),
            "learned": not bool(fixed[place]),
            "norm": float(np.sqrt(squares[place])),
            "rms": float(np.sqrt(squares[place] / max(weights[place], 1))),
        }
        for place, name in enumerate(groups.names)
    ]


def _weight_rows(model: Any) -> list[dict[str, Any]]:
    learned = dict(zip(model.groups_.names, model.groups_.learned.tolist(), strict=True))
    return [
        {
            "group": name,
            "weights": len(weights),
            "strength": float(model.strengths_[name]),
            "learned": learned[name],
            "norm": float(np.linalg.norm(weights)),
            "rms": float(np.linalg.norm(weights) / np.sqrt(max(len(weights), 1))),
        }
        for name, weights in model.weights_by_group().items()
    ]


def print_groups(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print the groups; if there are many, only those with the largest weights."""
    kept = list(rows) if len(rows) <= MOST_GROUPS else sorted(rows, key=lambda row: -row["rms"])[:MOST_GROUPS]
    print_rows(
        _without_empty(
            [
                {
                    "group": row["group"],
                    "columns": row.get("columns"),
                    "weights": None if "columns" in row else row["weights"],
                    "strength": row["strength"],
                    "": None if row["learned"] else "given",
                    "norm of weights": row["norm"],
                    "rms weight": row["rms"],
                }
                for row in kept
            ]
        )
    )
    if len(kept) < len(rows):
        print(f"showing the {len(kept)} of {len(rows)} groups with the largest weights; --json shows all")


def tuning_dict(tuning: Any) -> dict[str, Any]:
    """A ``TuneResult`` without the weights."""
    return {
        "tuner": tuning.tuner,
        "status": tuning.status,
        "reason": tuning.reason,
        "criterion_name": tuning.criterion_name,
        "criterion": tuning.criterion,
        "train_loss": tuning.train_loss,
        "worst_residual": tuning.worst_residual,
        "relative_gap": tuning.relative_gap,
        "gap_is_bound": tuning.gap_is_bound,
        "n_fits": tuning.n_fits,
        "n_steps": len(tuning.trace),
        "seconds": tuning.seconds,
        "notes": list(tuning.notes),
        "warnings": list(tuning.warnings),
    }


def trace_rows(tuning: Any) -> list[dict[str, Any]]:
    return [
        {
            "step": step.number,
            "criterion": float(step.criterion),
            "gradient": None if step.gradient_norm is None else float(step.gradient_norm),
            "residual": float(step.residual),
            "iterations": int(step.n_iter),
            "passes": int(step.n_passes),
            "products": int(step.n_products),
            "seconds": float(step.seconds),
            "accepted": bool(step.accepted),
            "note": step.note,
        }
        for step in tuning.trace
    ]


def print_trace(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print the steps; if there are many, only the first and the last ones."""
    half = MOST_STEPS // 2
    kept = list(rows) if len(rows) <= MOST_STEPS else [*rows[:half], *rows[-half:]]
    told = [{**row, "accepted": "yes" if row["accepted"] else "no"} for row in kept]
    print_rows(_without_empty(told), digits={"criterion": 9})
    if len(kept) < len(rows):
        print(f"showing the first and the last {half} of {len(rows)} steps; --json shows all")


def _without_empty(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows without the columns that hold nothing."""
    kept = [name for name in (rows[0] if rows else ()) if any(row[name] not in (None, "") for row in rows)]
    return [{name: row[name] for name in kept} for row in rows]


def print_tuning(tuning: Any) -> None:
    criterion = "" if tuning.criterion is None else f", {tuning.criterion_name} {tuning.criterion:.6g}"
    learned = "trained" if "training" in tuning.extras else "tuned"
    print(f"{learned} by {tuning.tuner}: {tuning.status} ({tuning.reason}){criterion}")
    print(f"{tuning.work()}, {tuning.seconds:.2f} s")
    for note in tuning.notes:
        print(f"note: {note}")
