"""A learned strength for each feature template, compared with one strength for all and with CRFsuite.

Chunking (CoNLL-2000) and named entities (WNUT-17, CoNLL-2002 Spanish). All methods choose strengths on the same hold-out: ours
by log loss, CRFsuite by F1, as its users do. Do, Foo, Ng 2008 report a cost of about 20 fits for learning the strengths.
Here the cost is the CPU time of the tuning divided by that of one fit from zero weights with the strengths found.
"""

import warnings
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tikhon import ChainCRF, Grid
from tikhon.data.chunk_scores import chunk_scores
from tikhon.data.tagged import Tagged, as_lists, load_tagged
from tikhon.errors import MissingExtra
from tikhon.estimators.splits import Split, make_splits
from tikhon.harness import crfsuite
from tikhon.harness.output import heading, number, short, table, today, versions
from tikhon.harness.runner import Evaluation, Experiment, Plan, RowSpec
from tikhon.harness.store import Row
from tikhon.harness.timing import Clock
from tikhon.report.canvas import COLOURS, new_figure, tidy

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "Learned strengths for each feature template: chunks and named entities"
SETS = {
    "conll2000": "CoNLL-2000 chunks",
    "wnut17": "WNUT-17 entities",
    "conll2002-es": "CoNLL-2002 Spanish entities",
}
METHODS = {
    "grid": "best single strength of a grid",
    "one": "one strength, learned",
    "templates": "a strength for each template, learned",
    "crfsuite": "CRFsuite, best c2 of five",
}
HELD_OUT = 0.2
VALUES = tuple(2.0**k for k in range(-6, 7))
C2_VALUES, QUICK_C2_VALUES = (0.03, 0.1, 0.3, 1.0, 3.0), (0.1, 1.0)
ITERATIONS, QUICK_ITERATIONS = 100, 20  # of CRFsuite
FIT_TOL = 1e-3  # relative gap of the fit that is the unit of cost
QUICK_SHARE = 80  # one in so many sentences
PAPER_FITS = 20
TICKS = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0)  # of the plot: the default minor labels would overlap


def measure(params: dict[str, Any], folder: Path | None) -> Row:
    """Choose strengths, test, and time one fit with the strengths found."""
    assert folder is not None
    name, share = params["data"], params["one_in"]
    data = _loaded(name, folder)
    train, test = as_lists(name, data.train[::share]), as_lists(name, data.test[::share])
    if params["method"] == "crfsuite":
        return _crfsuite(params, *train, *test)
    return _tikhon(params, *train, *test)


@lru_cache(maxsize=1)
def _loaded(name: str, folder: Path) -> Tagged:
    return load_tagged(name, folder)


def _tikhon(params: Mapping[str, Any], X: Any, y: Any, X_test: Any, y_test: Any) -> Row:
    method = params["method"]
    model = ChainCRF(
        groups="template" if method == "templates" else None,
        tuner=Grid(values=VALUES, refine=1) if method == "grid" else "auto",
        cv=None,
        validation_fraction=HELD_OUT,
        n_jobs=params["threads"],
    )
    clock = Clock()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, y)
    seconds, cpu_seconds = clock.read()
    plain = ChainCRF(groups=model.groups, tuner=None, strengths=model.strengths_, tol=FIT_TOL, n_jobs=params["threads"])
    clock = Clock()
    plain.fit(X, y)
    fit_seconds, fit_cpu_seconds = clock.read()
    scores = chunk_scores(y_test, model.predict(X_test))
    return {
        "f1": 100.0 * scores.all.f1,
        "accuracy": 100.0 * scores.accuracy,
        "log_loss": -model.log_likelihood(X_test, y_test) / scores.n_tokens if _all_known(model, y_test) else None,
        "held_out_loss": model.tuning_.criterion,
        "seconds": seconds,
        "cpu_seconds": cpu_seconds,
        "fit_seconds": fit_seconds,
        "fit_cpu_seconds": fit_cpu_seconds,
        "fits": cpu_seconds / fit_cpu_seconds,
        "fits_wall_clock": seconds / fit_seconds,
        "fit_iterations": plain.n_iter_,
        "n_steps": len(model.tuning_.trace),
        "status": model.tuning_.status,
        "warnings": [str(one.message) for one in caught],
        "strengths": model.strengths_,
        "n_weights": sum(map(len, model.weights_by_group().values())),
    }


def _all_known(model: ChainCRF, y: Sequence[Sequence[str]]) -> bool:
    return {label for labels in y for label in labels} <= set(model.classes_.tolist())


def held_out_split(n_sentences: int) -> Split:
    """The sentences that ``ChainCRF(cv=None, validation_fraction=HELD_OUT)`` trains on and holds out."""
    splits, _ = make_splits(
        None, validation_fraction=HELD_OUT, random_state=None, X=None, y=None, row_weights=np.ones(n_sentences), codes=None
    )  # fmt: skip
    return splits[0]


def _crfsuite(params: Mapping[str, Any], X: Any, y: Any, X_test: Any, y_test: Any) -> Row:
    """The c2 with the best F1 on the hold-out, then a fit of all sentences.

    The test F1 is that after at most ``iterations`` L-BFGS iterations; that of a fit without this limit is stored as well.
    """
    iterations = params["iterations"]
    train, held_out = held_out_split(len(X))
    X_train, y_train, X_held, y_held = ([part[i] for i in rows] for rows in (train, held_out) for part in (X, y))
    clock = Clock()
    tried, kept = [], []
    for c2 in params["c2_values"]:
        model = crfsuite.train(X_train, y_train, c2=c2, iterations=iterations)
        tried.append({"c2": c2, "held_out_f1": 100.0 * chunk_scores(y_held, model.tag(X_held)).all.f1})
        kept.append(model)
    best = max(tried, key=lambda one: (one["held_out_f1"], one["c2"]))
    fit_clock = Clock()
    model = crfsuite.train(X, y, c2=best["c2"], iterations=iterations)
    (seconds, cpu_seconds), (fit_seconds, fit_cpu_seconds) = clock.read(), fit_clock.read()
    for one, other in zip(tried, kept, strict=True):  # not timed, since it is not used for the choice
        one["held_out_loss"] = other.log_loss(X_held, y_held)
    longer = crfsuite.train(X, y, c2=best["c2"], iterations=None if params["unlimited"] else iterations)
    scores = chunk_scores(y_test, model.tag(X_test))
    loss = model.log_loss(X_test, y_test)
    return {
        "f1": 100.0 * scores.all.f1,
        "f1_unlimited": 100.0 * chunk_scores(y_test, longer.tag(X_test)).all.f1,
        "accuracy": 100.0 * scores.accuracy,
        "log_loss": None if loss is None else loss * len(X_test) / scores.n_tokens,
        "held_out_loss": best["held_out_loss"],
        "held_out_f1": best["held_out_f1"],
        "tried": tried,
        "seconds": seconds,
        "cpu_seconds": cpu_seconds,
        "fit_seconds": fit_seconds,
        "fit_cpu_seconds": fit_cpu_seconds,
        "fits": cpu_seconds / fit_cpu_seconds,
        "fits_wall_clock": seconds / fit_seconds,
        "fit_iterations": len(model.trace),
        "fit_iterations_unlimited": len(longer.trace),
        "n_steps": len(tried),
        "status": "converged",
        "strengths": {"all": 2.0 * best["c2"]},
    }


def warm_up() -> None:
    """Load the compiled code of all methods."""
    X, y = [[["a=1"], ["a=2"]], [["a=2"]]] * 4, [["B-x", "O"], ["O"]] * 4
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for n_jobs in (1, 2):
            ChainCRF(tuner=Grid(values=(1.0,), widen=False, refine=0), cv=2, n_jobs=n_jobs).fit(X, y).predict(X)
            ChainCRF(tuner="auto", cv=None, n_jobs=n_jobs).fit(X, y)
        try:
            crfsuite.train(X, y, c2=1.0, iterations=2).tag(X)
        except MissingExtra:
            return  # its rows report that


def plan(quick: bool) -> Plan:
    share, iterations = (QUICK_SHARE, QUICK_ITERATIONS) if quick else (1, ITERATIONS)
    c2_values = list(QUICK_C2_VALUES if quick else C2_VALUES)
    rows = []
    for name in SETS:
        for method in METHODS:
            params: dict[str, Any] = {"data": name, "method": method, "one_in": share}
            if method == "crfsuite":
                params |= {"c2_values": c2_values, "iterations": iterations, "unlimited": not quick}
            else:
                params["threads"] = 1 if quick else 2
            cost = {"grid": 4, "crfsuite": 16}.get(method, 2)
            rows.append(RowSpec(key=f"{name}/{method}", batch=name, params=params, cost=cost))
    config = {
        "held_out": HELD_OUT, "grid": list(VALUES), "c2_values": c2_values, "iterations": iterations, "fit_tol": FIT_TOL,
        "one_in": share,
    }  # fmt: skip
    return Plan(config=config, rows=rows, tagged=list(SETS), quick=quick)


def evaluate(made: Plan, rows: list[Row]) -> Evaluation:
    by_set = {name: {row["method"]: row for row in rows if row["data"] == name} for name in SETS}
    summary = {name: _summary(found) for name, found in by_set.items() if len(found) == len(METHODS)}
    return Evaluation(summary=summary, aggregates=rows, markdown=_render(made, rows, summary))


def _summary(found: Mapping[str, Row]) -> dict[str, Any]:
    rivals = {method: row["f1"] for method, row in found.items() if method != "templates"}
    best = max(rivals, key=lambda method: rivals[method])
    return {
        "f1_gain": found["templates"]["f1"] - rivals[best],
        "best_rival": best,
        "f1_gain_over": {method: found["templates"]["f1"] - f1 for method, f1 in rivals.items()},
        "fits": found["templates"]["fits"],
        "fits_wall_clock": found["templates"]["fits_wall_clock"],
        "rival_fits": {method: found[method]["fits"] for method in rivals},
    }


def _render(made: Plan, rows: Sequence[Row], summary: Mapping[str, Any]) -> str:
    config = made.config
    values = ", ".join(f"{c2:g}" for c2 in config["c2_values"])
    about = [
        "Chain CRFs of order 1; windows of words and parts of speech for chunking (19 templates), windows of words with "
        "spelling for entities (17). All methods hold out the same "
        f"{100 * HELD_OUT:.0f} % of the training sentences, and are refitted on all of them. Our strengths are chosen by the "
        f"held-out log loss (mean over sentences), CRFsuite's c2 from {values} by the held-out F1; its fits take at most "
        f"{config['iterations']} L-BFGS iterations. Spanish is tested on testb.",
        "Seconds are wall-clock time of the tuning and of the last fit, ours on two threads, CRFsuite's on one. Fits: CPU "
        "seconds of the same, divided by those of one fit of all sentences from zero weights with the strengths found, to a "
        f"relative gap of {FIT_TOL:g}; for CRFsuite, by those of its last fit.",
    ]
    header = ["data", "", "F1 (%)", "accuracy (%)", "held-out loss", "seconds", "CPU seconds", "fits", "steps"]
    body = [
        [
            SETS[row["data"]],
            METHODS[row["method"]],
            number(row["f1"]),
            number(row["accuracy"]),
            short(row["held_out_loss"], 5),
            number(row["seconds"], 1),
            number(row["cpu_seconds"], 1),
            number(row["fits"], 1),
            str(row["n_steps"]),
        ]
        for row in rows
    ]
    chosen = "; ".join(
        f"{SETS[row['data']]}: c2 = {row['strengths']['all'] / 2:g}, held-out F1 {row['held_out_f1']:.2f}, test F1 "
        f"{row['f1_unlimited']:.2f} without a limit on iterations ({row['fit_iterations_unlimited']} in the last fit)"
        for row in rows
        if row["method"] == "crfsuite"
    )
    told = [
        f"{SETS[name]}: a learned strength for each template changes F1 by {found['f1_gain']:+.2f} points compared with the "
        f"best of the others ({METHODS[found['best_rival']]}) at the cost of {found['fits']:.1f} fits (the grid: "
        f"{found['rival_fits']['grid']:.1f}; the paper: about {PAPER_FITS})."
        for name, found in summary.items()
    ]
    return "\n".join(
        [
            heading(TITLE, about, quick=made.quick, date=today(), used=versions() | crfsuite.peer_version()),
            table(header, body),
            *([f"CRFsuite. {chosen}.\n"] if chosen else []),
            "\n\n".join(told) + "\n",
        ]
    )


def draw(evaluation: Evaluation) -> "Figure":
    """The strengths of the templates, and the single strengths."""
    figure = new_figure(15.0, 5.2)
    panels = figure.subplots(1, len(SETS))
    for axes, (name, words) in zip(panels, SETS.items(), strict=True):
        found = {row["method"]: row for row in evaluation.aggregates if row["data"] == name}
        if len(found) < len(METHODS):
            continue
        strengths = found["templates"]["strengths"]
        order = sorted(strengths, key=lambda group: strengths[group])
        axes.barh(range(len(order)), [strengths[group] for group in order], color=COLOURS[0], left=0.0)
        axes.set_xscale("log")
        for (method, label), colour in zip(
            (("grid", "grid"), ("crfsuite", "CRFsuite, 2 c2")), COLOURS[1:], strict=False
        ):
            (single,) = found[method]["strengths"].values()
            axes.axvline(single, color=colour, label=f"{label}: {single:.3g}")
        axes.set_yticks(range(len(order)), order)
        axes.set_xticks([value for value in TICKS if axes.get_xlim()[0] <= value <= axes.get_xlim()[1]])
        axes.xaxis.set_major_formatter("{x:g}")
        axes.xaxis.set_minor_formatter("")
        tidy(axes, x_label="strength", y_label="")
        axes.set_title(words)
        axes.legend(frameon=False, loc="lower right")
    return figure


EXPERIMENT = Experiment(
    name="chunking-strengths", summary=TITLE, plan=plan, measure=measure, evaluate=evaluate, draw=draw, warm_up=warm_up
)
