"""Tables and plots of ``multistage.py``."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tikhon.harness.output import heading, number, short, spread, table, today, versions
from tikhon.harness.runner import Evaluation, Plan
from tikhon.harness.search_tasks import TASKS
from tikhon.harness.store import Row
from tikhon.objective import Vector
from tikhon.report.canvas import COLOURS, GREY, new_figure, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

METHODS = {
    "subset": "Bayesian, 30 % of the rows",
    "all": "Bayesian, all rows",
    "stages": "multi-stage, as in the paper",
    "shared": "multi-stage, fraction as an input",
}
PEERS = {
    "tpe": "Optuna TPE",
    "smac": "SMAC3, multi-fidelity",
    "halving": "HalvingRandomSearchCV",
    "random": "random search",
}
STAGED = ("stages", "shared")
SCORES = {"text": "accuracy (%)", "ranking": "precision at 1 (%)"}
# Tables 2 and 3: test score (%) and minutes per trial, on Yelp's 1 to 5 stars and on a commercial set of questions.
PAPER = {
    "text": {"subset": (53.0, 0.4), "all": (54.3, 1.2), "stages": (54.2, 0.6)},
    "ranking": {"subset": (63.3, 3.2), "all": (63.9, 7.8), "stages": (64.1, 6.0)},
}
PAPER_SAVED = {"text": 0.50, "ranking": 0.23}
RESAMPLES, POINTS = 4_000, 200

Runs = Mapping[str, Mapping[int, Row]]  # by method and seed


def evaluate(kind: str, title: str, made: Plan, rows: list[Row]) -> Evaluation:
    aggregates: list[Row] = []
    summary: dict[str, Any] = {}
    for name in made.config["datasets"]:
        runs = _runs(rows, name)
        if runs:
            aggregates += _aggregates(name, runs)
            summary[name] = _compared(runs)
    summary[kind] = _overall([summary[name] for name in made.config["datasets"] if name in summary])
    page = _render(kind, title, made, rows, aggregates, summary)
    return Evaluation(summary=summary, aggregates=aggregates, markdown=page)


def _runs(rows: Sequence[Row], name: str) -> dict[str, dict[int, Row]]:
    found: dict[str, dict[int, Row]] = {}
    for row in rows:
        if row["dataset"] == name:
            found.setdefault(row["method"], {})[int(row["fold"])] = row
    return found


def step_curve(steps: Sequence[Row], times: Vector) -> Vector:
    """The test score in percent of the best settings at each time; NaN before the first trial was finished."""
    ends = np.array([step["elapsed"] for step in steps])
    scores = np.array([np.nan, *(100.0 * step["test_score"] for step in steps)])
    return np.asarray(scores[np.searchsorted(ends, times, side="right")])


def mean_of_curve(steps: Sequence[Row], start: float, end: float) -> float:
    """The average over time of the test score in percent, from ``start`` to ``end``."""
    changes = [step["elapsed"] for step in steps if start < step["elapsed"] < end]
    edges = np.array([start, *changes, end])
    values = step_curve(steps, edges[:-1])
    if end <= start:
        return float(values[-1])
    return float(np.sum(values * np.diff(edges)) / (end - start))


def axis_of(runs: Runs, seed: int) -> tuple[float, float]:
    """The time axis that the Bayesian searches of a seed share: until the longest ends, when all have a first trial."""
    own = [runs[method][seed] for method in METHODS if seed in runs.get(method, {})]
    return max(row["steps"][0]["elapsed"] for row in own), max(row["seconds"] for row in own)


def _per_trial(row: Row) -> float:
    return float(row["seconds"] / len(row["trials"]))


def _aggregates(name: str, runs: Runs) -> list[Row]:
    """Means and standard errors over seeds of every method, and the mean curve."""
    seeds = sorted({seed for own in runs.values() for seed in own})
    end = max(row["seconds"] for own in runs.values() for row in own.values())
    times = np.linspace(0.0, end, POINTS)
    found = []
    for method in (*METHODS, *PEERS):
        own = [runs[method][seed] for seed in seeds if seed in runs.get(method, {})]
        if not own:
            continue
        curves = np.array([step_curve(row["steps"], times) for row in own])
        is_whole = np.isfinite(curves).all(axis=0)
        over_time = [
            mean_of_curve(row["steps"], *axis_of(runs, row["fold"]))
            for row in own
            if method in METHODS and any(row["fold"] in runs.get(one, {}) for one in METHODS)
        ]
        found.append(
            {
                "dataset": name, "method": method, "n": len(own),
                "trials": float(np.mean([len(row["trials"]) for row in own])),
                "seconds": float(np.mean([row["seconds"] for row in own])),
                "seconds_per_trial": float(np.mean([_per_trial(row) for row in own])),
                "seconds_per_trial_se": standard_error([_per_trial(row) for row in own]),
                "mean_over_time": float(np.mean(over_time)) if over_time else None,
                "mean_over_time_se": standard_error(over_time),
                "final": 100.0 * float(np.mean([row["final"] for row in own])),
                "final_se": standard_error([100.0 * row["final"] for row in own]),
                "time": times[is_whole].tolist(),
                "curve": curves[:, is_whole].mean(axis=0).tolist(),
                "band": (curves[:, is_whole].std(axis=0, ddof=1) / np.sqrt(len(own))).tolist() if len(own) > 1 else None,
            }
        )  # fmt: skip
    return found


def standard_error(values: Sequence[float]) -> float | None:
    return float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else None


def _compared(runs: Runs) -> dict[str, Any]:
    """Multi-stage searches compared with searches in one stage, and the default one with its peers, paired by seed."""
    found: dict[str, Any] = {}
    for method in STAGED:
        if method not in runs:
            continue
        own: dict[str, Any] = {}
        if "all" in runs:
            both = [seed for seed in runs[method] if seed in runs["all"]]
            saved = [1.0 - _per_trial(runs[method][seed]) / _per_trial(runs["all"][seed]) for seed in both]
            own["time_saved"] = float(np.mean(saved)) if saved else None
            own["time_saved_se"] = standard_error(saved)
        for other in ("all", "subset", *(PEERS if method == "shared" else ())):
            if other in runs:
                own |= _difference(runs, method, other)
        own |= _share_of_axis(runs, method)
        found[method] = own
    return found


def _difference(runs: Runs, method: str, other: str) -> dict[str, Any]:
    """In points: the mean over seeds of the final test score's paired difference; for questions a 95 % interval."""
    seeds = [seed for seed in runs[method] if seed in runs[other]]
    pairs = [(runs[method][seed], runs[other][seed]) for seed in seeds]
    final = [100.0 * (row["final"] - base["final"]) for row, base in pairs]
    key = f"final_minus_{other}"
    found: dict[str, Any] = {key: float(np.mean(final)) if final else None, f"{key}_se": standard_error(final)}
    if other in METHODS and pairs:
        axes = [axis_of(runs, seed) for seed in seeds]
        over_time = [
            mean_of_curve(row["steps"], *axis) - mean_of_curve(base["steps"], *axis)
            for (row, base), axis in zip(pairs, axes, strict=True)
        ]
        found[f"mean_minus_{other}"] = float(np.mean(over_time))
        found[f"mean_minus_{other}_se"] = standard_error(over_time)
    if pairs and all(row["hits"] for pair in pairs for row in pair):
        found[f"{key}_interval"] = interval([row["hits"] for row, _ in pairs], [base["hits"] for _, base in pairs])
    return found


def interval(hits: Sequence[Sequence[float]], others: Sequence[Sequence[float]]) -> list[float]:
    """95 % of the mean difference in points, by resampling test questions; seeds, which share them, are averaged first."""
    gains = 100.0 * np.mean(np.subtract(hits, others), axis=0)
    drawn = np.random.default_rng(0).integers(0, len(gains), (RESAMPLES, len(gains)))
    low, high = np.quantile(gains[drawn].mean(axis=1), [0.025, 0.975])
    return [float(low), float(high)]


def _share_of_axis(runs: Runs, method: str) -> dict[str, float]:
    """The share of the time axis where the mean curve is at or above that of the searches in one stage."""
    seeds = [seed for seed in runs[method] if all(seed in runs.get(other, {}) for other in ("all", "subset"))]
    if not seeds:
        return {}
    axes = [axis_of(runs, seed) for seed in seeds]
    times = np.linspace(max(start for start, _ in axes), max(end for _, end in axes), POINTS)
    curve, *others = (
        np.mean([step_curve(runs[one][seed]["steps"], times) for seed in seeds], axis=0)
        for one in (method, "all", "subset")
    )
    at_or_above = [curve >= other - 1e-9 for other in others]
    return {
        "axis_at_or_above_all": float(np.mean(at_or_above[0])),
        "axis_at_or_above_subset": float(np.mean(at_or_above[1])),
        "axis_at_or_above_both": float(np.mean(np.logical_and(*at_or_above))),
    }


def _overall(of_sets: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Means over data sets of the default multi-stage search; the data sets' errors are independent."""
    found: dict[str, Any] = {}
    own = [one["shared"] for one in of_sets if "shared" in one]
    for key in ("time_saved", *(f"final_minus_{other}" for other in ("all", "subset", *PEERS))):
        values = [one[key] for one in own if one.get(key) is not None]
        errors = [one[f"{key}_se"] for one in own if one.get(f"{key}_se") is not None]
        found[key] = float(np.mean(values)) if values else None
        found[f"{key}_se"] = float(np.sqrt(np.sum(np.square(errors))) / len(errors)) if errors else None
    return found


def _render(
    kind: str, title: str, made: Plan, rows: Sequence[Row], aggregates: Sequence[Row], summary: Mapping[str, Any]
) -> str:
    names = [name for name in made.config["datasets"] if name in summary]
    lines = [heading(title, _about(kind, made, rows), quick=made.quick, date=today(), used=versions())]
    lines += [f"## Tables 2 and 3: test {SCORES[kind]}, and seconds per trial\n", _tables(kind, aggregates)]
    told = "Yelp, half a million reviews" if kind == "text" else "a commercial set of questions, 900,000 answers"
    lines.append(
        f"The paper's figures are for {told}; it has no scores at the end of the search. *Over time* is the average over the "
        "time axis of the test score of the best settings so far, from when each Bayesian search has a first trial until "
        "the longest ends. ± is one standard error over seeds, which share the test part.\n"
    )
    lines += ["## Multi-stage compared with one stage\n", _staged_table(names, summary)]
    lines.append(f"The paper saves {100 * PAPER_SAVED[kind]:.0f} % of the time per trial.\n")
    lines += [
        _verdict(name, summary[name])
        for name in names
        if summary[name].get("shared", {}).get("final_minus_all_se") is not None
    ]
    lines += ["## In the time of multi-stage search\n", _peer_table(names, aggregates, summary)]
    lines.append(
        "Differences are those of *multi-stage, fraction as an input* from each peer, in points of the final test score, "
        "paired by seed. HalvingRandomSearchCV has no time limit: its number of candidates is chosen so that it should take as "
        "long, all of its trials count, and its samples of the rows cut validation parts and questions.\n"
    )
    return "\n".join(lines)


def _about(kind: str, made: Plan, rows: Sequence[Row]) -> list[str]:
    effort = made.config["effort"]
    total = effort["early"] + effort["late"]
    found = [
        f"{effort['early']} trials on {100 * effort['fraction']:.0f} % of the training rows, then {effort['late']} on all, of "
        f"which the first {effort['n_best']} are the best of stage one; searches in one stage have {total}. All begin with "
        f"the same {effort['n_initial']} Sobol points. The plan was fixed beforehand. Each change of the best settings is "
        "fitted again to all training rows, outside of the measured time, and tested: also for the search on 30 % of the rows.",
    ]
    if kind == "text":
        found.append(
            "scikit-learn's LinearSVC, squared hinge loss: C, intercept_scaling, l1 or l2; binary stems of words, without stop "
            f"words, of at least two training reviews. At most {made.config['most_iterations']} passes, so that large C ends "
            "in time (a choice by time alone); fits that do not converge count as they are."
        )
    else:
        found.append(
            "LightGBM's LambdaMART, the model of the paper's reference (Ganjisaffar et al. 2011): learns the order within a "
            "question. Of rows with equal scores at the top, the relevant share counts. Questions without a right answer "
            "count as wrong in MQ2008."
        )
    for name in made.config["datasets"]:
        own = next((row for row in rows if row["dataset"] == name), None)
        if own is not None:
            sizes = f"{own['n_train']:,} / {own['n_validation']:,} / {own['n_test']:,} rows"
            asked = " ({} / {} / {} questions)".format(*own["questions"]) if own["questions"] else ""
            task = TASKS[name]
            found.append(f"**{task.title}**: {sizes}{asked} to train / validate / test, {own['n_features']:,} features. "
                         f"Parts: {task.split}.")  # fmt: skip
    return found


def _tables(kind: str, aggregates: Sequence[Row]) -> str:
    header = ["data set", "search", "trials", "over time", "at the end", "s per trial", "paper: score", "paper: min"]
    rows = []
    for one in aggregates:
        if one["method"] in METHODS:
            told = PAPER[kind].get(one["method"], (None, None))
            rows.append(
                [
                    _set_name(one["dataset"]), METHODS[one["method"]], short(one["trials"]),
                    spread(one["mean_over_time"], one["mean_over_time_se"]), spread(one["final"], one["final_se"]),
                    spread(one["seconds_per_trial"], one["seconds_per_trial_se"]),
                    "" if told[0] is None else number(told[0], 1), "" if told[1] is None else number(told[1], 1),
                ]
            )  # fmt: skip
    return table(header, rows)


def _staged_table(names: Sequence[str], summary: Mapping[str, Any]) -> str:
    header = ["data set", "search", "time per trial saved (%)", "final − all", "final − subset", "over time − all",
              "over time − subset", "time axis at or above both (%)"]  # fmt: skip
    rows = []
    for name in names:
        for method in STAGED:
            own = summary[name].get(method)
            if own is None:
                continue
            saved, error = own.get("time_saved"), own.get("time_saved_se")
            rows.append(
                [
                    _set_name(name), METHODS[method],
                    spread(None if saved is None else 100 * saved, None if error is None else 100 * error, 0),
                    _told(own, "final_minus_all"), _told(own, "final_minus_subset"),
                    _told(own, "mean_minus_all"), _told(own, "mean_minus_subset"),
                    number(100 * own["axis_at_or_above_both"], 0) if "axis_at_or_above_both" in own else "n/a",
                ]
            )  # fmt: skip
    return table(header, rows)


def _told(own: Mapping[str, Any], key: str) -> str:
    """A difference, its standard error, and the interval over questions where there is one."""
    between = own.get(f"{key}_interval")
    value = own.get(key)
    told = spread(None if value is None else round(value, 9) + 0.0, own.get(f"{key}_se"))  # no "-0.00"
    return told if between is None else f"{told} ({between[0]:.1f} to {between[1]:.1f})"


def _verdict(name: str, compared: Mapping[str, Any]) -> str:
    own = compared["shared"]
    below = []
    for other in ("all", "subset", *PEERS):
        value, error = own.get(f"final_minus_{other}"), own.get(f"final_minus_{other}_se")
        if value is not None and error is not None and value < -error:
            below.append({**METHODS, **PEERS}[other])
    told = f"below {', '.join(below)} by more than one" if below else "not below any other search by more than one"
    return (
        f"{_set_name(name)}: the final score of *multi-stage, fraction as an input* is {told} paired standard error.\n"
    )


def _peer_table(names: Sequence[str], aggregates: Sequence[Row], summary: Mapping[str, Any]) -> str:
    header = ["data set", "search", "seconds", "trials", "at the end", "multi-stage − it"]
    rows = []
    for name in names:
        for one in aggregates:
            if one["dataset"] == name and one["method"] in ("shared", *PEERS):
                difference = _told(summary[name].get("shared", {}), f"final_minus_{one['method']}")
                rows.append(
                    [
                        _set_name(name), {**METHODS, **PEERS}[one["method"]], number(one["seconds"], 1), short(one["trials"]),
                        spread(one["final"], one["final_se"]), "" if one["method"] == "shared" else difference,
                    ]
                )  # fmt: skip
    return table(header, rows)


def _set_name(name: str) -> str:
    return TASKS[name].title.split(",")[0]


def draw(evaluation: Evaluation) -> "Figure":
    """Test score against search time, as figures 1 and 2: one panel for each data set."""
    names = list(dict.fromkeys(one["dataset"] for one in evaluation.aggregates))
    figure = new_figure(6.2 * max(len(names), 1), 4.8)
    panels = figure.subplots(1, max(len(names), 1), squeeze=False)[0]
    for axes, name in zip(panels, names, strict=False):
        _draw_panel(axes, [one for one in evaluation.aggregates if one["dataset"] == name])
        axes.set_title(TASKS[name].title, fontsize=9)
        tidy(axes, x_label="seconds of search", y_label=f"test {SCORES[TASKS[name].kind]}")
    if names:
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, frameon=False, fontsize=8, loc="outside lower center", ncols=4)
    return figure


def _draw_panel(axes: "Axes", own: Sequence[Row]) -> None:
    longest = max(one["seconds"] for one in own if one["method"] in METHODS) if own else 1.0
    lines = ["--", "-.", ":", (0, (5, 1, 1, 1, 1, 1))]
    for one in own:
        times, curve = np.array(one["time"]), np.array(one["curve"])
        if one["method"] in PEERS:
            style: Any = lines[list(PEERS).index(one["method"])]
            axes.plot(
                times, curve, color=GREY, linewidth=0.9, linestyle=style, label=PEERS[one["method"]], drawstyle="steps-post"
            )  # fmt: skip
            continue
        colour = COLOURS[list(METHODS).index(one["method"])]
        axes.plot(times, curve, color=colour, linewidth=1.8, label=METHODS[one["method"]], drawstyle="steps-post")
        end = min(int(np.searchsorted(times, one["seconds"])), len(times) - 1)
        axes.plot(times[end], curve[end], color=colour, marker="o", markersize=5)  # the mean end; flat from there
        if one["band"] is not None:
            band = np.array(one["band"])
            axes.fill_between(times, curve - band, curve + band, color=colour, alpha=0.15, linewidth=0, step="post")
    axes.set_xlim(0.0, 1.03 * longest)
