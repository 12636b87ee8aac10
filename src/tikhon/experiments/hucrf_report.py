"""Tables and plots of ``hucrf.py``."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tikhon.harness.hucrf_tasks import TASKS
from tikhon.harness.output import heading, number, short, spread, table, today, versions
from tikhon.harness.runner import Evaluation, Plan
from tikhon.harness.store import Row
from tikhon.objective import Vector
from tikhon.report.canvas import COLOURS, new_figure, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TRAINERS = {"lbfgs": "L-BFGS, stopped early", "sgd": "SGD", "perceptron": "perceptron", "margin": "large margin"}
LEARNED = {"one": "L-BFGS, one strength of a grid", "mm": "L-BFGS, a strength for each group by MM"}
CONVERGED = {"converged": "L-BFGS, to convergence"}
RESAMPLES = 2_000
SHOWN_UNITS, COLUMNS = 48, 8


def evaluate(title: str, made: Plan, rows: list[Row]) -> Evaluation:
    kinds = [(task, folds) for task in made.config["n_hidden"] for folds in ("random", "shipped", "seed")]
    aggregates, summary = [], {}
    for task, folds in kinds:
        own = [row for row in rows if row["task"] == task and row["folds"] == folds]
        if own:
            aggregates += _aggregates(task, folds, own)
            summary[task if folds != "shipped" else f"{task}-shipped"] = _summary(own)
    units = next((row["units"] for row in rows if row.get("units")), None)
    if units is not None:
        aggregates.append({"units": units})
    return Evaluation(summary=summary, aggregates=aggregates, markdown=_render(title, made, rows, aggregates, summary))


def _aggregates(task: str, folds: str, rows: Sequence[Row]) -> list[Row]:
    """Mean and standard error over folds, of every method."""
    found = []
    for order in (1, 2):
        for model in ("linear", "hidden"):
            for trainer in (*TRAINERS, *CONVERGED, *LEARNED):
                own = _of(rows, model, order, trainer)
                if own:
                    errors = np.array([row["test_error"] for row in own])
                    held_out = [row["held_out_error"] for row in own if row["held_out_error"] is not None]
                    found.append(
                        {
                            "task": task, "folds": folds, "order": order, "model": model, "trainer": trainer, "n": len(own),
                            "error": float(errors.mean()), "standard_error": _standard_error(errors),
                            "held_out_error": float(np.mean(held_out)) if held_out else None,
                            "rounds": float(np.mean([row["rounds"] for row in own])),
                            "cpu_seconds": float(np.mean([row["cpu_seconds"] for row in own])),
                        }
                    )  # fmt: skip
    return found


def _of(rows: Sequence[Row], model: str, order: int, trainer: str) -> list[Row]:
    own = [row for row in rows if (row["model"], row["order"], row["trainer"]) == (model, order, trainer)]
    return sorted(own, key=lambda row: int(row["fold"]))


def _standard_error(values: Vector) -> float | None:
    return float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else None


def _summary(rows: Sequence[Row]) -> dict[str, Any]:
    """The best trainer of each model by its calibration error, and how models differ, fold by fold."""
    found: dict[str, Any] = {}
    for order in (1, 2):
        best = {}
        for model in ("linear", "hidden"):
            by_trainer = {name: own for name in TRAINERS if (own := _of(rows, model, order, name))}
            if by_trainer:
                name = min(
                    by_trainer, key=lambda one: float(np.mean([row["held_out_error"] for row in by_trainer[one]]))
                )
                best[model] = by_trainer[name]
                errors = np.array([row["test_error"] for row in by_trainer[name]])
                found[f"{model}-{order}"] = {
                    "trainer": name, "error": float(errors.mean()), "standard_error": _standard_error(errors),
                    "n": len(errors),
                }  # fmt: skip
        if len(best) == 2:
            found[f"hidden-minus-linear-{order}"] = _difference(best["hidden"], best["linear"])
            converged = _of(rows, "linear", order, "converged")
            if converged:
                found[f"hidden-minus-converged-{order}"] = _difference(best["hidden"], converged)
    for model in ("linear", "hidden"):
        one, mm = (_of(rows, model, 1, how) for how in LEARNED)
        if one and mm:
            found[f"{model}-mm-minus-one"] = _difference(mm, one)
    return found


def _difference(rows: Sequence[Row], others: Sequence[Row]) -> dict[str, Any]:
    """The mean of paired differences over folds; if sentences are stored, with an interval by resampling them."""
    by_fold = {row["fold"]: row for row in others}
    pairs = [(row, by_fold[row["fold"]]) for row in rows if row["fold"] in by_fold]
    differences = np.array([row["test_error"] - other["test_error"] for row, other in pairs])
    found: dict[str, Any] = {"difference": float(differences.mean()) if len(pairs) else None, "n": len(pairs)}
    found["standard_error"] = _standard_error(differences) if len(pairs) else None
    if pairs and all(row.get("wrong") for pair in pairs for row in pair):
        found["interval"] = _interval(pairs)
    return found


def _interval(pairs: Sequence[tuple[Row, Row]]) -> list[float]:
    """95 %, by resampling test sentences; folds that share them are averaged first."""
    same = all(pair[0]["lengths"] == pairs[0][0]["lengths"] for pair in pairs)
    gains = [np.subtract(row["wrong"], other["wrong"]) for row, other in pairs]
    lengths = [np.asarray(row["lengths"]) for row, _ in pairs]
    gain = np.mean(gains, axis=0) if same else np.concatenate(gains)
    length = lengths[0] if same else np.concatenate(lengths)
    rng = np.random.default_rng(0)
    drawn = [rng.integers(0, len(gain), len(gain)) for _ in range(RESAMPLES)]
    values = [100.0 * gain[rows].sum() / length[rows].sum() for rows in drawn]
    return [float(value) for value in np.quantile(values, (0.025, 0.975))]


def _render(
    title: str, made: Plan, rows: Sequence[Row], aggregates: Sequence[Row], summary: dict[str, Any]
) -> str:  # fmt: skip
    config = made.config
    units = ", ".join(f"{TASKS[task].title}: {count}" for task, count in config["n_hidden"].items())
    tried = "; ".join(
        f"{TRAINERS[name]}: " + ", or ".join(_in_words(one) for one in settings)
        for name, settings in config["settings"].items()
    )
    about = [
        f"Errors in percent of labels, mean and standard error over folds. Hidden units: {units} (L-BFGS: at most 100).",
        f"Every setting is tried on the training part of a fold without a calibration part of {100 * config['held_out']:.0f} "
        "% of its sequences, on which the training stops early; the best is trained on the whole training part for as many "
        f"rounds as it took. Tried: {tried}.",
    ]
    if "ocr" in config["n_hidden"]:
        learned = config["learned"]
        about.append(
            f"Learned strengths: the first {learned['folds']} folds, 100 hidden units, fits of at most {learned['iterations']} "
            f"iterations; the grid has {len(learned['grid'])} strengths from {short(learned['grid'][0])} to "
            f"{short(learned['grid'][-1])}, chosen on the calibration part."
        )
    header = ["", "order", "trainer", "folds", "error (%)", "paper (%)", "calibration (%)", "rounds", "CPU s a fold"]
    body = [
        [
            f"{_set_name(one)}, {one['model']}",
            str(one["order"]),
            (TRAINERS | CONVERGED | LEARNED)[one["trainer"]],
            str(one["n"]),
            spread(one["error"], one["standard_error"]),
            number(TASKS[one["task"]].paper.get((one["model"], one["order"]))),
            number(one["held_out_error"]),
            number(one["rounds"], 0),
            number(one["cpu_seconds"], 0),
        ]
        for one in aggregates
        if "units" not in one
    ]
    told = [line for name, found in summary.items() for line in _told(name, found)]
    return "\n".join(
        [heading(title, about, quick=made.quick, date=today(), used=versions()), table(header, body), *told]
    ).rstrip() + "\n"  # fmt: skip


def _set_name(one: Row) -> str:
    return TASKS[one["task"]].title + (", shipped folds" if one["folds"] == "shipped" else "")


def _in_words(settings: dict[str, Any]) -> str:
    return " ".join(f"{name} {short(value)}" for name, value in settings.items())


def _told(name: str, found: dict[str, Any]) -> list[str]:
    lines = []
    for order in (1, 2):
        if f"hidden-minus-linear-{order}" not in found:
            continue
        hidden, linear = found[f"hidden-{order}"], found[f"linear-{order}"]
        difference = found[f"hidden-minus-linear-{order}"]
        interval = difference.get("interval")
        within = (
            "" if interval is None else f", 95 % of resampled test sentences {interval[0]:.2f} to {interval[1]:.2f}"
        )
        lines.append(
            f"{name}, order {order}: the best trainers by calibration are {TRAINERS[hidden['trainer']]} with hidden units, "
            f"{spread(hidden['error'], hidden['standard_error'])} %, and {TRAINERS[linear['trainer']]} without, "
            f"{spread(linear['error'], linear['standard_error'])} %. Paired difference "
            f"{spread(difference['difference'], difference['standard_error'])} points{within}.\n"
        )
        converged = found.get(f"hidden-minus-converged-{order}")
        if converged is not None:
            lines.append(
                f"{name}, order {order}: compared with linear chains trained to convergence, the paired difference is "
                f"{spread(converged['difference'], converged['standard_error'])} points.\n"
            )
    for model in ("linear", "hidden"):
        gain = found.get(f"{model}-mm-minus-one")
        if gain is not None:
            lines.append(
                f"{name}, {model}: a strength for each group, learned by MM, changes the error by "
                f"{spread(gain['difference'], gain['standard_error'])} points compared with one strength of a grid.\n"
            )
    return lines


def draw(evaluation: Evaluation) -> "Figure":
    """Errors by trainer, linear and hidden, for each order, as figures 2 and 3; and what units respond to."""
    units = next((one["units"] for one in evaluation.aggregates if "units" in one), None)
    bars = [one for one in evaluation.aggregates if "units" not in one and one["trainer"] in TRAINERS]
    panels = list(dict.fromkeys((one["task"], one["folds"], one["order"]) for one in bars))
    figure = new_figure(4.2 * max(len(panels), 1) + (4.6 if units else 0.0), 4.4)
    parts: Any = figure.subfigures(1, 2, width_ratios=(4.2 * len(panels), 4.6)) if units else [figure.subfigures(1, 1)]
    for axes, panel in zip(np.atleast_1d(parts[0].subplots(1, max(len(panels), 1))), panels, strict=False):
        _draw_panel(axes, [one for one in bars if (one["task"], one["folds"], one["order"]) == panel])
    if units:
        _draw_units(parts[1], units)
    return figure


def _draw_panel(axes: "Axes", own: Sequence[Row]) -> None:
    names = [name for name in TRAINERS if any(one["trainer"] == name for one in own)]
    for shift, (model, colour) in enumerate((("linear", COLOURS[1]), ("hidden", COLOURS[0]))):
        found = {one["trainer"]: one for one in own if one["model"] == model}
        places = [place + 0.4 * shift - 0.2 for place, name in enumerate(names) if name in found]
        chosen = [found[name] for name in names if name in found]
        axes.bar(
            places, [one["error"] for one in chosen], 0.38, color=colour, label=model,
            yerr=[one["standard_error"] or 0.0 for one in chosen], ecolor="#333333",
        )  # fmt: skip
    told = TASKS[own[0]["task"]].paper.get(("hidden", own[0]["order"]))
    if told is not None:
        axes.axhline(told, color="#333333", linestyle=":", label="the paper, hidden")
    axes.set_xticks(range(len(names)), [TRAINERS[name].split(",")[0] for name in names], rotation=20)
    tidy(axes, x_label="", y_label="error (%)")
    axes.set_title(f"{_set_name(own[0])}, order {own[0]['order']}", fontsize=9)
    axes.set_ylim(0.0, 1.3 * max(1.0, *(one["error"] for one in own)))  # room for the legend above the bars
    axes.legend(frameon=False, fontsize=8, ncols=3, loc="upper center")


def _draw_units(part: Any, units: Sequence[Sequence[float]]) -> None:
    """The pixel weights of units: red raises a unit's input, blue lowers it."""
    part.suptitle("weights of the pixels (16 x 8) of hidden units, largest label weights first", fontsize=9)
    grid = part.subplots(-(-len(units) // COLUMNS), COLUMNS)
    for axes in np.ravel(grid):
        axes.axis("off")
    for axes, weights in zip(np.ravel(grid), units, strict=False):
        image = np.reshape(weights, (16, 8))
        most = float(np.abs(image).max()) or 1.0
        axes.imshow(image, cmap="RdBu_r", vmin=-most, vmax=most, interpolation="nearest")
