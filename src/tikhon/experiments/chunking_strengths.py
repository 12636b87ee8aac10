"""Strengths for each template of features beside the best single one: chunking (CoNLL-2000) and named entities (WNUT-17).

Do, Foo, Ng 2008 put the price of learning strengths at about 20 fits. Here a fit is one from zero weights, with the strengths
that were found and to the same tolerance.
"""

import time
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tikhon import ChainCRF, Grid
from tikhon.data.chunk_scores import chunk_scores
from tikhon.data.tagged import load_tagged
from tikhon.data.token_windows import window_features
from tikhon.experiments.output import heading, number, short, table, today, versions
from tikhon.experiments.runner import Evaluation, Experiment, Plan, RowSpec
from tikhon.experiments.store import Row
from tikhon.report.canvas import COLOURS, new_figure, tidy

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "Learned strengths for each template of features: CoNLL-2000 and WNUT-17"
SETS = {"conll2000": "CoNLL-2000 chunks", "wnut17": "WNUT-17 entities"}
METHODS = {
    "grid": "best single strength of a grid",
    "one": "one strength, learned",
    "templates": "a strength for each template, learned",
}
HELD_OUT = 0.2
VALUES = tuple(2.0**k for k in range(-6, 7))
QUICK_SHARE = 40  # one in so many sentences
PAPER_FITS = 20


def measure(params: dict[str, Any], folder: Path | None) -> Row:
    """Learn, test, and time one fit with the strengths found."""
    assert folder is not None
    data = load_tagged(params["data"], folder)
    share = params["one_in"]
    train, test = data.train[::share], data.test[::share]
    n_columns = len(train[0].columns) - 1
    maker = window_features(n_columns, spelling=n_columns == 1)
    X, X_test = ([maker.features(sentence) for sentence in part] for part in (train, test))
    y, y_test = ([list(sentence.columns[-1]) for sentence in part] for part in (train, test))
    method = params["method"]
    model = ChainCRF(
        groups="template" if method == "templates" else None,
        tuner=Grid(values=VALUES, refine=1) if method == "grid" else "auto",
        cv=None,
        validation_fraction=HELD_OUT,
        n_jobs=params["threads"],
    )
    start = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, y)
    tuned = time.perf_counter()
    plain = ChainCRF(groups=model.groups, tuner=None, strengths=model.strengths_, n_jobs=params["threads"]).fit(X, y)
    fitted = time.perf_counter()
    scores = chunk_scores(y_test, model.predict(X_test))
    return {
        "f1": 100.0 * scores.all.f1,
        "accuracy": 100.0 * scores.accuracy,
        "log_loss": -model.log_likelihood(X_test, y_test) / scores.n_tokens if _all_known(model, y_test) else None,
        "held_out_loss": model.tuning_.criterion,
        "seconds": tuned - start,
        "fit_seconds": fitted - tuned,
        "fits": (tuned - start) / (fitted - tuned),
        "fit_iterations": plain.n_iter_,
        "n_steps": len(model.tuning_.trace),
        "status": model.tuning_.status,
        "warnings": [str(one.message) for one in caught],
        "strengths": model.strengths_,
        "n_weights": sum(map(len, model.weights_by_group().values())),
    }


def _all_known(model: ChainCRF, y: Sequence[Sequence[str]]) -> bool:
    return {label for labels in y for label in labels} <= set(model.classes_.tolist())


def warm_up() -> None:
    X, y = [[["a=1"], ["a=2"]], [["a=2"]]] * 4, [["B-x", "O"], ["O"]] * 4
    ChainCRF(tuner=Grid(values=(1.0,), widen=False, refine=0), cv=2, n_jobs=1).fit(X, y).predict(X)


def plan(quick: bool) -> Plan:
    rows = [
        RowSpec(
            key=f"{name}/{method}",
            batch=name,
            params={
                "data": name,
                "method": method,
                "one_in": QUICK_SHARE if quick else 1,
                "threads": 1 if quick else 2,
            },
            cost=4 if method == "grid" else 2,
        )
        for name in SETS
        for method in METHODS
    ]
    config = {"held_out": HELD_OUT, "grid": list(VALUES), "one_in": QUICK_SHARE if quick else 1}
    return Plan(config=config, rows=rows, tagged=list(SETS), quick=quick)


def evaluate(made: Plan, rows: list[Row]) -> Evaluation:
    by_set = {name: {row["method"]: row for row in rows if row["data"] == name} for name in SETS}
    summary = {
        name: {
            "f1_gain": found["templates"]["f1"] - found["grid"]["f1"],
            "fits": found["templates"]["fits"],
            "grid_fits": found["grid"]["fits"],
        }
        for name, found in by_set.items()
        if len(found) == len(METHODS)
    }
    return Evaluation(summary=summary, aggregates=rows, markdown=_render(made, rows, summary))


def _render(made: Plan, rows: Sequence[Row], summary: Mapping[str, Any]) -> str:
    about = (
        "Chain CRFs of order 1; windows of words and, for chunking, parts of speech (19 templates), for entities also "
        f"spelling (17). Strengths are chosen by the log loss of the same {100 * HELD_OUT:.0f} % of the training sentences; "
        "then all are fitted. The price is in fits from zero weights, with the strengths found, to the same tolerance; two "
        "threads."
    )
    header = ["data", "", "F1 (%)", "accuracy (%)", "held-out loss", "seconds", "fits", "steps"]
    body = [
        [
            SETS[row["data"]],
            METHODS[row["method"]],
            number(row["f1"]),
            number(row["accuracy"]),
            short(row["held_out_loss"], 5),
            number(row["seconds"], 1),
            number(row["fits"], 1),
            str(row["n_steps"]),
        ]
        for row in rows
    ]
    told = [
        f"{SETS[name]}: F1 {found['f1_gain']:+.2f} points for the price of {found['fits']:.1f} fits "
        f"(the grid: {found['grid_fits']:.1f}; the paper: about {PAPER_FITS})."
        for name, found in summary.items()
    ]
    return "\n".join(
        [
            heading(TITLE, [about], quick=made.quick, date=today(), used=versions()),
            table(header, body),
            " ".join(told) + "\n",
        ]
    )


def draw(evaluation: Evaluation) -> "Figure":
    """The strengths of the templates beside the best single one."""
    figure = new_figure(11.0, 5.2)
    panels = figure.subplots(1, len(SETS))
    for axes, (name, words) in zip(panels, SETS.items(), strict=True):
        found = {row["method"]: row for row in evaluation.aggregates if row["data"] == name}
        if len(found) < len(METHODS):
            continue
        strengths = found["templates"]["strengths"]
        order = sorted(strengths, key=lambda group: strengths[group])
        axes.barh(range(len(order)), [strengths[group] for group in order], color=COLOURS[0], left=0.0)
        axes.set_xscale("log")
        (single,) = found["grid"]["strengths"].values()
        axes.axvline(single, color=COLOURS[1], label=f"best single: {single:.3g}")
        axes.set_yticks(range(len(order)), order)
        tidy(axes, x_label="strength", y_label="")
        axes.set_title(words)
        axes.legend(frameon=False)
    return figure


EXPERIMENT = Experiment(
    name="chunking-strengths", summary=TITLE, plan=plan, measure=measure, evaluate=evaluate, draw=draw, warm_up=warm_up
)
