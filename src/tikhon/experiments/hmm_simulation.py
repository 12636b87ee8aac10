"""Do, Foo, Ng 2008, figures 2(b) and 2(c): a CRF on data from a hidden Markov model, strengths tied in three ways.

The paper: one strength and separate ones give about the same error; grouped strengths are consistently better, by up to 6.7
points, which is 16.2 % of the next best.

Strengths are learned with training and hold-out sequences, then the model is refitted to all of them, as in the authors'
program for RNA and in our estimators; fits to the training sequences alone are reported as well. Where the hold-out
sequences are used for strengths only, a strength for each weight does more than overfit: it selects features on them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tikhon.experiments.hmm_data import LENGTH, N_OBSERVED, Draw, drawn, tied
from tikhon.harness.output import heading, number, spread, table, today, versions
from tikhon.harness.runner import Evaluation, Experiment, Plan, RowSpec
from tikhon.harness.store import Row
from tikhon.models.chain.decoder import ChainDecoder
from tikhon.objective import Pair, Vector
from tikhon.report.canvas import COLOURS, new_figure, tidy
from tikhon.solvers import make_solver
from tikhon.tuners import MM, Gradient, Grid, Problem
from tikhon.tuners.base import Tuner

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TITLE = "Do, Foo, Ng 2008, figures 2(b) and 2(c): a CRF on data from a hidden Markov model"
RELEVANT = (2, 5, 10, 20, 30, 40)  # with M training sequences
TRAINING = (5, 10, 20, 50, 100)  # with R relevant observations
M, R = 10, 5
N_HOLDOUT, N_TEST, N_RUNS = 10, 1000, 100
QUICK_RELEVANT, QUICK_TRAINING, QUICK_RUNS, QUICK_TEST = (2, 10), (5, 10), 3, 100
NEARLY_ALL = 30  # relevant observations, from which on a loss within one standard error is tolerated
TOL, MAX_ITER = 1e-9, 500  # relative gap

ONE_STRENGTH = ("grid", "single")
RIVALS = (*ONE_STRENGTH, "separate")
METHODS = {
    "grid": "grid, one strength",
    "single": "gradient, one strength",
    "separate": "gradient, one for each weight",
    "grouped": "gradient, grouped",
    "mm-single": "MM, one strength",
    "mm-separate": "MM, one for each weight",
    "mm-grouped": "MM, grouped",
}
PART = "-part"  # of rows and entries: fitted to the training sequences alone
PAPER = {"absolute": 6.7, "relative": 16.2}

Entries = Sequence[Mapping[str, Any]]


def measure(params: dict[str, Any], folder: Path | None) -> Row:
    """The test error, in %, of every method on one sample of the data; then of fits to the training sequences alone."""
    n_train = params["n_train"]
    draw = drawn(n_train, N_HOLDOUT, params["n_test"], params["n_relevant"], params["run"])
    solver = make_solver("auto", tol=TOL, max_iter=MAX_ITER)
    pair = Pair(draw.train, draw.holdout, float(n_train), float(N_HOLDOUT))
    found: Row = {}
    for method in METHODS:
        uses_pairs, tuner = not method.startswith("mm"), _tuner(method)
        problem = Problem(
            objective=draw.both,
            groups=tied(draw.layout, _scheme(method), params["n_relevant"]),
            solver=solver,
            pairs=(pair,) if uses_pairs else (),
            total_weight=float(n_train + N_HOLDOUT),
        )
        result = tuner.tune(problem)
        if uses_pairs:
            part = solver.minimise(draw.train, problem.groups.expand(np.array(list(result.strengths.values())))).weights
        else:
            part = tuner.tune(replace(problem, objective=draw.train, total_weight=float(n_train))).weights
        found[method] = _error(draw, result.weights)
        found[f"{method}{PART}"] = _error(draw, part)
        found[f"{method}-fits"] = result.n_fits
    return found


def _error(draw: Draw, weights: Vector) -> float:
    marginals, _ = ChainDecoder(draw.layout, weights).marginals(draw.unlabelled_test)
    return 100.0 * float(np.mean(marginals.argmax(axis=1) != draw.test.labels))


def _scheme(method: str) -> str:
    return "single" if method == "grid" else method.removeprefix("mm-")


def _tuner(method: str) -> Tuner:
    if method == "grid":
        return Grid(refine=0)
    return MM() if method.startswith("mm") else Gradient()


def warm_up() -> None:
    measure({"n_train": 2, "n_relevant": 2, "n_test": 2, "run": 0}, None)


def plan(quick: bool) -> Plan:
    settings = [(M, n_relevant) for n_relevant in (QUICK_RELEVANT if quick else RELEVANT)]
    settings += [(n_train, R) for n_train in (QUICK_TRAINING if quick else TRAINING)]
    settings = list(dict.fromkeys(settings))
    n_test, n_runs = (QUICK_TEST, QUICK_RUNS) if quick else (N_TEST, N_RUNS)
    rows = [
        RowSpec(
            key=f"M={n_train} R={n_relevant} run {run}",
            batch=f"run {run}",
            params={"n_train": n_train, "n_relevant": n_relevant, "n_test": n_test, "run": run},
            cost=10 + n_train,
        )
        for run in range(n_runs)
        for n_train, n_relevant in settings
    ]
    config = {
        "settings": settings, "runs": n_runs, "test": n_test, "holdout": N_HOLDOUT, "length": LENGTH,
        "observed": N_OBSERVED,
    }  # fmt: skip
    return Plan(config=config, rows=rows, quick=quick)


def evaluate(made: Plan, rows: list[Row]) -> Evaluation:
    entries = [_of_setting(rows, *setting) for setting in made.config["settings"]]
    parts = [{**entry, **entry["part"]} for entry in entries]
    summary = {**_summary(entries), "training_part_alone": _summary(parts), "paper": PAPER}
    return Evaluation(summary=summary, aggregates=entries, markdown=_render(made, entries, parts, summary))


def _summary(entries: Entries) -> dict[str, Any]:
    best = max(entries, key=lambda entry: entry["relative_gain"])
    over_one = max(entries, key=lambda entry: entry["relative_gain_over_one"])
    return {
        "grouped_is_best": [_name(entry) for entry in entries if entry["grouped_is_best"]],
        "grouped_is_not_best": [_name(entry) for entry in entries if not entry["grouped_is_best"]],
        "best_setting": _name(best),
        "absolute_reduction": best["gain"],
        "relative_reduction": best["relative_gain"],
        "largest_absolute_reduction": max(entry["gain"] for entry in entries),
        "best_setting_over_one": _name(over_one),
        "absolute_reduction_over_one": over_one["gain_over_one"],
        "relative_reduction_over_one": over_one["relative_gain_over_one"],
        "separate_beats_one": [_name(entry) for entry in entries if entry["separate_beats_one"]],
        "mm_share": best["mm_share"],
    }


def _of_setting(rows: Sequence[Row], n_train: int, n_relevant: int) -> dict[str, Any]:
    """Means and standard errors of all methods, and the gain of grouping over the next best."""
    chosen = [row for row in rows if (row["n_train"], row["n_relevant"]) == (n_train, n_relevant)]
    entry = {"n_train": n_train, "n_relevant": n_relevant, "runs": len(chosen), **_gains(chosen, "", n_relevant)}
    return entry | {"part": _gains(chosen, PART, n_relevant)}


def _gains(rows: Sequence[Row], suffix: str, n_relevant: int) -> dict[str, Any]:
    errors = {method: np.array([row[method + suffix] for row in rows]) for method in METHODS}
    means = {method: float(found.mean()) for method, found in errors.items()}
    rival = min(RIVALS, key=lambda method: means[method])
    gap_error = _standard_error(errors[rival] - errors["grouped"]) or 0.0
    gain = means[rival] - means["grouped"]
    one = min(means[method] for method in ONE_STRENGTH)
    over_one = one - means["grouped"]
    return means | {
        **{f"{method}_error": _standard_error(found) for method, found in errors.items()},
        "gain_over_one": over_one,
        "relative_gain_over_one": 100.0 * over_one / one,
        "rival": rival,
        "gain": gain,
        "gain_error": gap_error,
        "relative_gain": 100.0 * gain / means[rival],
        "grouped_is_best": bool(gain >= (-gap_error if n_relevant >= NEARLY_ALL else 0.0)),
        "separate_beats_one": means["separate"] < one,
        "mm_share": 100.0 * (one - means["mm-grouped"]) / over_one if over_one > 0.0 else None,
    }


def _standard_error(values: NDArray[np.float64]) -> float | None:
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else None


def _name(entry: Mapping[str, Any]) -> str:
    return f"M={entry['n_train']}, R={entry['n_relevant']}"


def _render(made: Plan, entries: Entries, parts: Entries, summary: Mapping[str, Any]) -> str:
    config = made.config
    about = (
        f"{N_OBSERVED} binary observations of which R are relevant to the state, M training sequences of length {LENGTH}, "
        f"{config['holdout']} for choosing strengths (grid and gradient), {config['test']} for testing; {config['runs']} runs. "
        "With the strengths found, the model is fitted to training and hold-out sequences, as in the authors' program for RNA; "
        "MM learns from all of them at once. Test error in % of tokens, the most probable state of each token predicted, with "
        "the standard error of its mean."
    )
    paper = (
        "The paper: one strength and separate ones are about equal, grouped ones consistently better, by up to "
        f"{PAPER['absolute']} points or {PAPER['relative']} % of the next best."
    )
    apart = (
        "Fitted to the M training sequences alone, with the same strengths (MM: learned from these alone): the hold-out "
        "sequences are then used for strengths only, and a strength for each weight selects features on them."
    )
    return "\n".join(
        [
            heading(TITLE, [about], quick=made.quick, date=today(), used=versions()),
            _table(entries),
            f"{paper} Here: {_verdict(summary, len(entries))}\n",
            f"{apart}\n",
            _table(parts),
            f"Here {_verdict(summary['training_part_alone'], len(entries))}\n",
        ]
    )


def _table(entries: Entries) -> str:
    header = [
        "M", "R", *METHODS.values(), "gain of grouped over the next best", "in %", "over one strength, in %",
        "share of that reached by MM (%)",
    ]  # fmt: skip
    return table(
        header,
        [
            [
                str(entry["n_train"]),
                str(entry["n_relevant"]),
                *(spread(entry[method], entry[f"{method}_error"]) for method in METHODS),
                spread(entry["gain"], entry["gain_error"]),
                number(entry["relative_gain"], 1),
                number(entry["relative_gain_over_one"], 1),
                number(entry["mm_share"], 0),
            ]
            for entry in entries
        ],
    )


def _verdict(summary: Mapping[str, Any], n_settings: int) -> str:
    others = summary["grouped_is_not_best"]
    exceptions = f" (not at {'; '.join(others)})" if others else ""
    return (
        f"grouped strengths by gradient have the lowest error of the paper's four methods in {n_settings - len(others)} of "
        f"{n_settings} settings{exceptions}; the largest gain over the best of the other three is "
        f"{summary['relative_reduction']:.1f} % or {summary['absolute_reduction']:.1f} points, at {summary['best_setting']}, "
        f"the largest in points {summary['largest_absolute_reduction']:.1f}; over the better of the two with one strength "
        f"{summary['relative_reduction_over_one']:.1f} % or {summary['absolute_reduction_over_one']:.1f} points, at "
        f"{summary['best_setting_over_one']}. Separate strengths are better than one in {len(summary['separate_beats_one'])} "
        "of them."
    )


def draw(evaluation: Evaluation) -> "Figure":
    """Error against the number of relevant observations, and against the number of training sequences."""
    figure = new_figure(11.0, 4.4)
    left, right = figure.subplots(1, 2)
    entries = evaluation.aggregates
    _curves(left, [entry for entry in entries if entry["n_train"] == M], "n_relevant")
    tidy(left, x_label=f"relevant observations R of {N_OBSERVED}, M = {M}", y_label="test error (%)")
    _curves(right, [entry for entry in entries if entry["n_relevant"] == R], "n_train")
    right.set_xscale("log")
    ticks = sorted(entry["n_train"] for entry in entries if entry["n_relevant"] == R)
    right.set_xticks(ticks, [str(tick) for tick in ticks])
    right.minorticks_off()
    tidy(right, x_label=f"training sequences M, R = {R}", y_label="test error (%)")
    left.legend(frameon=False, fontsize=8)
    return figure


def _curves(axes: "Axes", entries: Entries, key: str) -> None:
    ordered = sorted(entries, key=lambda entry: entry[key])
    for (method, words), colour in zip(METHODS.items(), COLOURS, strict=True):
        axes.errorbar(
            [entry[key] for entry in ordered],
            [entry[method] for entry in ordered],
            [entry[f"{method}_error"] or 0.0 for entry in ordered],
            color=colour,
            label=words,
            linestyle="--" if method.startswith("mm") else "-",
            marker="o",
            markersize=3,
            linewidth=2.2 if method == "grouped" else 1.2,
            capsize=2,
        )


EXPERIMENT = Experiment(
    name="hmm-simulation", summary=TITLE, plan=plan, measure=measure, evaluate=evaluate, draw=draw, warm_up=warm_up
)
