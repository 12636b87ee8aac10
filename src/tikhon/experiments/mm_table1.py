"""Table 1 of Foo, Do, Ng 2009: linear regression by least squares, grid and MM with the noise integrated out.

The paper's "best C" mixes two units. Our strengths are in those of ridge regression, C sigma^2, where C is the precision
of the prior and sigma^2 the noise variance; both are shown. For grid sigma^2 is RSS / m of its fit.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean, median, stdev
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.linear_model import LinearRegression

from tikhon import Ridge
from tikhon.data.libsvm import Dataset
from tikhon.experiments import paper
from tikhon.experiments.paper_rows import by_cell, n_repeats, n_splits, planned
from tikhon.harness.fitting import GRID, N_FOLDS, folds_of, how_tuned, tuner_of, warm_up
from tikhon.harness.libsvm_sets import file_name, shape_of, split_set
from tikhon.harness.output import heading, short, table, today, versions
from tikhon.harness.runner import Evaluation, Experiment, Plan
from tikhon.harness.store import Row
from tikhon.harness.timing import timed
from tikhon.report.canvas import COLOURS, GREY, TICK_SIZE, new_figure, tidy

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Entries = Sequence[Mapping[str, Any]]
TITLE = "Foo, Do, Ng 2009, Table 1: least squares, grid and MM for linear regression"
TITLES = {"lr": "LR", "grid": "Grid", "mm": "MM", "mm-scaled": "MM, y / sd"}
METHODS = (*paper.TABLE1_COLUMNS, "mm-scaled")  # the last is ours and shows how MM depends on the target scale
QUICK = ("bodyfat", "housing", "pyrim")
SETTINGS = ((True, "with an intercept"), (False, "without an intercept"))
DEVIATIONS_ALLOWED = 2.0
EXCESS_ALLOWED = 1.02  # error of MM over that of the better of least squares and grid
OUTSIDE = "⚠"


def measure(params: dict[str, Any], folder: Path | None) -> Row:
    """Fit one data set, split, intercept setting and method."""
    assert folder is not None
    dataset = split_set(params["dataset"], folder, params["seed"])
    fitted = _least_squares if params["method"] == "lr" else _tuned
    return {**shape_of(dataset), **fitted(dataset, params)}


def _least_squares(dataset: Dataset, params: dict[str, Any]) -> Row:
    unpenalised: Any = LinearRegression
    X, y = dataset.X_train, dataset.y_train
    run = timed(lambda: unpenalised(fit_intercept=params["intercept"]).fit(X, y), params["repeats"])
    determined = run.answer.rank_ == X.shape[1]
    error = _test_error(dataset, run.answer.predict(dataset.X_test)) if determined else None
    return {"mse": error, "status": "converged", **run.figures()}


def _tuned(dataset: Dataset, params: dict[str, Any]) -> Row:
    X, y, folds = dataset.X_train, dataset.y_train, folds_of(dataset, params["seed"])
    tuner = tuner_of(params["method"].removesuffix("-scaled"))
    scaled = params["method"].endswith("-scaled")  # targets in units of their deviation, tikhon's default

    def fit() -> Ridge:
        model = Ridge(tuner=tuner, fit_intercept=params["intercept"], scale_target=scaled, cv=folds, n_jobs=1)
        return model.fit(X, y)

    run = timed(fit, params["repeats"])
    model, found = run.answer, how_tuned(run.answer)
    if model.noise_variance_ is None:  # the strength is C sigma^2; the training residuals estimate sigma^2
        variance = float(np.mean((y - model.predict(X)) ** 2))
        precision = found["strength"] / variance if variance > 0.0 else None
    else:
        variance, (precision,) = model.noise_variance_, model.tuning_.extras["precisions"].values()
    found |= {"noise_variance": variance, "precision": precision}
    return {"mse": _test_error(dataset, model.predict(dataset.X_test)), **found, **run.figures()}


def _test_error(dataset: Dataset, guesses: Any) -> float:
    return float(np.mean((dataset.y_test - guesses) ** 2))


def plan(quick: bool) -> Plan:
    chosen = [name for name in paper.TABLE1 if not quick or name in QUICK]
    splits = {name: n_splits(name, quick) for name in chosen}
    config = {"datasets": chosen, "splits": splits, "grid": list(GRID), "folds": N_FOLDS, "repeats": n_repeats(quick)}
    rows = planned(chosen, METHODS, quick)
    return Plan(config=config, rows=rows, files=[file_name(name) for name in chosen], quick=quick)


def evaluate(made: Plan, rows: list[Row]) -> Evaluation:
    entries = aggregate(rows)
    comparisons = compare(entries)
    summary = {
        "comparisons": comparisons,
        "outside": outside_in_both(comparisons),
        "mm_excess": excess(entries),
    }
    return Evaluation(summary=summary, aggregates=entries, markdown=render(made, entries, summary))


def aggregate(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """One entry per data set, intercept setting and method; no error if any split was rank-deficient."""
    entries = []
    for (name, intercept, method), members in by_cell(rows).items():
        errors = [row["mse"] for row in members if row["mse"] is not None]
        whole = len(errors) == len(members)
        entries.append(
            {
                "dataset": name,
                "intercept": intercept,
                "method": method,
                "n_splits": len(members),
                **{key: members[0][key] for key in ("n_train", "n_test", "n_features")},
                "mse": fmean(errors) if whole else None,
                "mse_sd": stdev(errors) if whole and len(errors) > 1 else None,
                "strength": _median(row.get("strength") for row in members),
                "precision": _median(row.get("precision") for row in members),
                "n_steps": _median(row.get("n_steps") for row in members),
                "cpu_seconds": fmean(row["cpu_seconds"] for row in members),
                "warnings": sorted({text for row in members for text in row["warnings"]}),
            }
        )
    return entries


def compare(entries: Entries) -> list[dict[str, Any]]:
    """The paper's error and ours in both intercept settings: the paper does not state which one it uses."""
    comparisons = []
    for entry in entries:
        figure = paper.TABLE1[entry["dataset"]].get(entry["method"])
        if figure is None or entry["mse"] is None:
            inside: bool | None = None
        elif entry["mse_sd"] is None:
            inside = None
        else:
            inside = abs(entry["mse"] - figure) <= max(DEVIATIONS_ALLOWED * entry["mse_sd"], _rounding(figure))
        keys = ("dataset", "method", "intercept", "mse", "mse_sd")
        comparisons.append({**{key: entry[key] for key in keys}, "paper": figure, "inside": inside})
    return comparisons


def outside_in_both(comparisons: Entries) -> list[str]:
    """The paper's figures that are outside the band in both intercept settings."""
    verdicts: dict[str, list[bool]] = {}
    for entry in comparisons:
        if entry["inside"] is not None:
            verdicts.setdefault(f"{entry['dataset']} {entry['method']}", []).append(entry["inside"])
    return [name for name, inside in verdicts.items() if not any(inside)]


def excess(entries: Entries) -> list[dict[str, Any]]:
    """Mean error of MM over that of the better of least squares and grid, on the same splits."""
    found = {(entry["dataset"], entry["intercept"], entry["method"]): entry for entry in entries}
    ratios = []
    for (name, intercept, method), entry in found.items():
        rivals = [found[name, intercept, rival] for rival in ("lr", "grid") if (name, intercept, rival) in found]
        errors = [rival["mse"] for rival in rivals if rival["mse"] is not None]
        if method == "mm" and entry["mse"] is not None and errors:
            ratio = entry["mse"] / min(errors)
            scaled = (found.get((name, intercept, "mm-scaled")) or {}).get("mse")
            ratios.append(
                {
                    "dataset": name,
                    "intercept": intercept,
                    "ratio": ratio,
                    "inside": ratio <= EXCESS_ALLOWED,
                    "scaled_ratio": None if scaled is None else scaled / min(errors),
                    "scaled_inside": None if scaled is None else scaled / min(errors) <= EXCESS_ALLOWED,
                    "precision": entry["precision"],
                    "largest_precision": entry["n_features"] / 2.0,  # (p/2 + alpha) / beta, reached at zero weights
                    "grid_precision": found.get((name, intercept, "grid"), {}).get("precision"),
                }
            )
    return ratios


def render(made: Plan, entries: Entries, summary: Mapping[str, Any]) -> str:
    """The report in Markdown."""
    about = (
        "L2-regularised least squares with one strength. LR: scikit-learn's LinearRegression, n/a where the training "
        "rows of a split do not determine it. Grid: 21 values 2^-10 … 2^10, 5 folds. MM: the noise integrated out, "
        "alpha = 0, beta = 1. 30 % held out; ± is the standard deviation over the splits; strengths and steps are "
        "medians."
    )
    units = (
        "The paper's best C is in places a precision C and in places C sigma^2, the unit of ridge regression: both are "
        "shown. It does not state whether there was an intercept: both settings are shown."
    )
    parts = [heading(TITLE, [about, units], quick=made.quick, date=today(), used=versions())]
    for intercept, words in SETTINGS:
        parts += [f"## Test MSE, {words}\n", _errors(summary["comparisons"], intercept)]
    outside = summary["outside"]
    parts.append(
        f"{OUTSIDE} marks where the paper's figure is more than {DEVIATIONS_ALLOWED:g} standard deviations of our "
        f"splits away. In both settings: {', '.join(outside) if outside else 'nowhere'}.\n"
    )
    for intercept, words in SETTINGS:
        parts += [f"## Strength found, {words}\n", _strengths(entries, intercept)]
    parts += ["## MM compared with the better of LR and grid\n", _excess_table(summary["mm_excess"])]
    notes = [f"- {e['dataset']}, {TITLES[e['method']]}: {text}" for e in entries for text in e["warnings"]]
    if notes:
        parts += ["## Warnings\n", "\n".join(dict.fromkeys(notes)) + "\n"]
    return "\n".join(parts)


def _errors(comparisons: Entries, intercept: bool) -> str:
    found = {(c["dataset"], c["method"]): c for c in comparisons if c["intercept"] == intercept}
    header = ["data set", *(f"{TITLES[m]}: {whose}" for m in paper.TABLE1_COLUMNS for whose in ("paper", "ours"))]
    rows = []
    for name in dict.fromkeys(c["dataset"] for c in comparisons):
        cells = [name]
        for method in paper.TABLE1_COLUMNS:
            entry = found.get((name, method))
            if entry is None:
                cells += ["", "n/a"]
                continue
            ours = short(entry["mse"], 4) + ("" if entry["mse_sd"] is None else f" ± {entry['mse_sd']:.2g}")
            cells += [short(entry["paper"], 5), ours + (f" {OUTSIDE}" if entry["inside"] is False else "")]
        rows.append(cells)
    return table(header, rows)


def _strengths(entries: Entries, intercept: bool) -> str:
    found = {(e["dataset"], e["method"]): e for e in entries if e["intercept"] == intercept}
    header = ["data set", "Grid: paper", "C", "C sigma^2", "MM: paper", "C", "C sigma^2", "MM steps"]
    rows = []
    for name in dict.fromkeys(e["dataset"] for e in entries):
        cells = [name]
        for method in ("grid", "mm"):
            entry = found.get((name, method), {})
            printed = paper.TABLE1[name][f"{method}_C"]
            cells += [short(printed, 4), short(entry.get("precision")), short(entry.get("strength"))]
        cells.append(short(found.get((name, "mm"), {}).get("n_steps")))
        rows.append(cells)
    return table(header, rows)


def _excess_table(ratios: Entries) -> str:
    rows = [
        [
            r["dataset"],
            "yes" if r["intercept"] else "no",
            _marked(r["scaled_ratio"], r["scaled_inside"]),
            _marked(r["ratio"], r["inside"]),
            *(short(r[key]) for key in ("precision", "largest_precision", "grid_precision")),
        ]
        for r in ratios
    ]
    header = ["data set", "intercept", "MM, y / sd", "MM, as in the paper", "its C", "largest possible", "grid's C"]
    text = (
        'Mean test MSE over the smaller of the two. `Ridge(tuner="mm")` divides the targets by their standard deviation '
        "(y / sd); the paper did not.\n\n"
        + table(header, rows)
        + f"\nTarget: at most {EXCESS_ALLOWED}. {OUTSIDE} marks larger values.\n"
    )
    capped = [r for r in ratios if not r["inside"] and (r["grid_precision"] or 0.0) > r["largest_precision"]]
    if capped:
        names = ", ".join(dict.fromkeys(r["dataset"] for r in capped))
        text += (
            "\nThe prior with alpha = 0 and beta = 1 caps MM's C at p/2, whatever the data: C = (p/2) / (||w||²/2 + 1). "
            f"On {names} grid's C is above that cap: on the scale of these targets MM cannot regularise as strongly as it "
            "should. Dividing the targets by their standard deviation lifts the cap.\n"
        )
    return text


def _marked(ratio: float | None, inside: bool | None) -> str:
    return "n/a" if ratio is None else f"{ratio:.4f}" + ("" if inside else f" {OUTSIDE}")


def draw(evaluation: Evaluation) -> "Figure":
    """Test errors relative to grid, ours and the paper's, for both intercept settings."""
    entries = evaluation.aggregates
    names = list(dict.fromkeys(entry["dataset"] for entry in entries))[::-1]
    figure = new_figure(8.6, 1.6 + 0.4 * len(names))
    axes = figure.add_subplot()
    grid = {(e["dataset"], e["intercept"]): e["mse"] for e in entries if e["method"] == "grid"}
    colours = {"lr": COLOURS[-1], "mm-scaled": COLOURS[0], "mm": COLOURS[paper.METHODS.index("mm")]}
    for method, colour in colours.items():
        for intercept, words in SETTINGS:
            chosen = [
                e for e in entries if e["method"] == method and e["intercept"] == intercept and e["mse"] is not None
            ]
            axes.scatter(
                [e["mse"] / grid[e["dataset"], intercept] for e in chosen],
                [names.index(e["dataset"]) + (0.16 if intercept else -0.16) for e in chosen],
                s=36,
                facecolors=colour if intercept else "none",
                edgecolors=colour,
                label=f"{TITLES[method]}, {words}",
            )
        if method not in paper.TABLE1_COLUMNS:
            continue
        printed = [(name, paper.TABLE1[name][method], paper.TABLE1[name]["grid"]) for name in names]
        shown = [(name, top / bottom) for name, top, bottom in printed if top and bottom]
        axes.scatter(
            [ratio for _, ratio in shown],
            [names.index(name) for name, _ in shown],
            s=44,
            marker="D",
            facecolors="none",
            edgecolors=colour,
            label=f"{TITLES[method]}, the paper",
        )
    axes.axvline(1.0, color=GREY, linewidth=1.0)
    axes.set_yticks(range(len(names)), names)
    tidy(axes, x_label="test MSE over that of grid", y_label="")
    figure.legend(loc="outside upper left", ncols=3, fontsize=TICK_SIZE, frameon=False)
    return figure


def _median(values: Any) -> float | None:
    known = [value for value in values if value is not None]
    return float(median(known)) if known else None


def _rounding(figure: float) -> float:
    """Half a unit of the last digit printed; the paper prints three to five decimals."""
    return 0.0005 if figure == 0.0 or figure >= 0.1 else 0.00005


EXPERIMENT = Experiment(
    name="mm-table1", summary=TITLE, plan=plan, measure=measure, evaluate=evaluate, draw=draw, warm_up=warm_up
)
