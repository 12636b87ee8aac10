"""The cost of tuning k = 1 … 1,000 strengths, in fits: how many plain fits at the strengths found take as long.

Logistic regression with a hold-out of a fifth of the rows, on simulated dense data and on 20 newsgroups. The unit is one
fit by scikit-learn's LogisticRegression (lbfgs, tol 1e-4) on all rows at the strengths found. It has a single C,
so column j is divided by sqrt(strength_j) and C = 1: with v_j = sqrt(strength_j) w_j,

    loss(X w) + 1/2 sum_j strength_j w_j^2 = loss(Z v) + 1/2 ||v||^2,   Z_j = X_j / sqrt(strength_j).

Columns of different scales make lbfgs slow, the more so the more the strengths differ. That unit therefore grows with k,
so the cost is also given in a second unit that does not: the fit at the one strength found for k = 1.
"""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import expit
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression as PlainLogistic
from sklearn.metrics import log_loss

from tikhon import LogisticRegression
from tikhon.bench.limits import OutOfTimeError, cpu_limit
from tikhon.bench.peers import compile_products, converged
from tikhon.data.text import load_newsgroups
from tikhon.harness.output import heading, number, short, table, today, versions
from tikhon.harness.runner import Evaluation, Experiment, Plan, RowSpec
from tikhon.harness.store import Row
from tikhon.harness.timing import REPEATS, timed
from tikhon.objective import Vector
from tikhon.report.canvas import COLOURS, GREY, TICK_SIZE, new_figure, tidy

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "The cost of tuning by the number of groups, in fits"
TUNER = "auto"
DENSE, NEWS = "dense", "news"
COUNTS, QUICK_COUNTS = (1, 10, 100, 1_000), (1, 10)
ROWS, FEATURES, QUICK_ROWS, QUICK_FEATURES = 20_000, 1_000, 600, 40
TEST_ROWS = 5_000
LOGIT_SPREAD = 2.0  # of the true scores: the best possible log loss is then about 0.47
SPAN = 1.5  # powers of ten between the true weights of the first and of the last column
TECHNICAL = ("comp.", "sci.")  # name prefixes of the newsgroups in the first class: 9 of the 20
MIN_DOCUMENTS = 2  # that contain a word
QUICK_EVERY = 20  # of the documents
HELD_OUT = 0.2
UNIT_FITS, UNIT_TOL, UNIT_MAX_ITER = 3, 1e-4, 2_000
LIMIT = 900.0  # CPU seconds; a tuning that takes longer is stopped
STOPPED = "stopped"
ASKED = {10: 6.0, 100: 10.0}  # fits, by number of groups
TICKS = (1, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 50, 100)  # of costs


@dataclass(frozen=True, eq=False)
class Data:
    """Training and test rows; ``order`` ranks the columns, and groups are neighbours in it."""

    X: Any
    y: NDArray[np.intp]
    X_test: Any
    y_test: NDArray[np.intp]
    order: NDArray[np.intp]


@lru_cache(maxsize=1)
def dense_data(rows: int, features: int) -> Data:
    """Normal columns whose true weights shrink from the first to the last: w_j ~ N(0, s_j^2), s_j = 10^(-SPAN j / p)."""
    rng = np.random.default_rng(0)
    weights = 10.0 ** (-SPAN * np.arange(features) / features) * rng.normal(size=features)
    weights *= LOGIT_SPREAD / np.linalg.norm(weights)
    X = rng.normal(size=(rows + TEST_ROWS, features))
    y = (rng.random(len(X)) < expit(X @ weights)).astype(np.intp)
    return Data(X[:rows], y[:rows], X[rows:], y[rows:], np.arange(features))


@lru_cache(maxsize=1)
def news_data(folder: Path, every: int) -> Data:
    """20 newsgroups as tf-idf of single words, technical against other groups; columns by decreasing document frequency."""
    texts = load_newsgroups(folder)
    words = TfidfVectorizer(min_df=MIN_DOCUMENTS)
    X = words.fit_transform(texts.train_texts[::every])
    documents = np.bincount(X.indices, minlength=X.shape[1])
    return Data(
        X,
        technical(texts.train_labels[::every]),
        words.transform(texts.test_texts[::every]),
        technical(texts.test_labels[::every]),
        np.argsort(-documents, kind="stable"),
    )


def technical(labels: NDArray[np.str_]) -> NDArray[np.intp]:
    return np.array([label.startswith(TECHNICAL) for label in labels.tolist()], dtype=np.intp)


def bands(order: NDArray[np.intp], count: int) -> NDArray[np.intp]:
    """The group of each column: the ordered columns, cut into bands of nearly equal size."""
    found = np.empty(len(order), dtype=np.intp)
    for band, columns in enumerate(np.array_split(order, count)):
        found[columns] = band
    return found


def divided(X: Any, strengths: Vector) -> Any:
    """Z with columns X_j / sqrt(strength_j), on which C = 1 is the same objective."""
    if isinstance(X, np.ndarray):
        return X / np.sqrt(strengths)
    Z = X.copy()  # scipy CSR
    Z.data /= np.sqrt(strengths)[Z.indices]
    return Z


def plain_fit(tol: float = UNIT_TOL) -> Any:
    return PlainLogistic(C=1.0, solver="lbfgs", tol=tol, max_iter=UNIT_MAX_ITER)


def measure(params: dict[str, Any], folder: Path | None) -> Row:
    """Tune one number of groups on one data set, and fit at the strengths found."""
    if params["data"] == DENSE:
        data = dense_data(params["rows"], params["features"])
    else:
        assert folder is not None
        data = news_data(folder, params["every"])
    groups = bands(data.order, params["k"])
    shape = {"n_rows": data.X.shape[0], "n_features": data.X.shape[1], "n_test": data.X_test.shape[0]}

    def tuned() -> Any:
        return LogisticRegression(groups=groups, tuner=TUNER, cv=None, validation_fraction=HELD_OUT, n_jobs=1).fit(
            data.X, data.y
        )

    try:
        with cpu_limit(params["limit"]):
            run = timed(tuned, params["repeats"])
    except OutOfTimeError:
        return {**shape, "status": STOPPED, "cpu_seconds": params["limit"]}
    model = run.answer
    by_column = np.array([model.strengths_[str(group)] for group in groups])
    Z = divided(data.X, by_column)
    units = [timed(lambda: plain_fit().fit(Z, data.y), 1) for _ in range(UNIT_FITS)]
    return {
        **shape,
        **run.figures(),
        "log_loss": float(log_loss(data.y_test, model.predict_proba(data.X_test))),
        "unit_seconds": median(unit.cpu_seconds for unit in units),
        "unit_iterations": int(units[0].answer.n_iter_[0]),
        "unit_status": converged(units[0].warnings),
        "status": model.tuning_.status,
        "reason": model.tuning_.reason,
        "n_steps": len(model.tuning_.trace),
        "n_fits": model.tuning_.n_fits,
        "strengths_range": [float(by_column.min()), float(np.median(by_column)), float(by_column.max())],
    }


def plan(quick: bool) -> Plan:
    counts = QUICK_COUNTS if quick else COUNTS
    shapes: dict[str, dict[str, int]] = {
        DENSE: {"rows": QUICK_ROWS, "features": QUICK_FEATURES} if quick else {"rows": ROWS, "features": FEATURES},
        NEWS: {"every": QUICK_EVERY if quick else 1},
    }
    shared = {"repeats": 1 if quick else REPEATS, "limit": LIMIT}
    specs = [
        RowSpec(key=f"{name}/{k}", batch=name, params={"data": name, "k": k, **shape, **shared})
        for name, shape in shapes.items()
        for k in counts
    ]
    config = {
        **shared,
        "counts": list(counts),
        "data": shapes,
        "held_out": HELD_OUT,
        "test_rows": TEST_ROWS,
        "unit": [UNIT_FITS, UNIT_TOL, UNIT_MAX_ITER],
        "made": [LOGIT_SPREAD, SPAN],
        "news": [list(TECHNICAL), MIN_DOCUMENTS],
    }
    return Plan(config=config, rows=specs, texts=["newsgroups20"], quick=quick)


def evaluate(made: Plan, rows: list[Row]) -> Evaluation:
    entries = [_entry(row, rows) for row in rows]
    summary = summarise(entries)
    return Evaluation(summary=summary, aggregates=entries, markdown=render(made, entries, summary))


def _entry(row: Row, rows: Sequence[Row]) -> dict[str, Any]:
    """The row's figures with its cost in both units; None if it was stopped."""
    keys = ("data", "k", "n_rows", "n_features", "status", "log_loss", "unit_seconds", "unit_iterations", "unit_status")
    entry: dict[str, Any] = {key: row.get(key) for key in keys}
    entry["seconds"] = row["cpu_seconds"]
    first = next((other for other in rows if other["data"] == row["data"] and other["k"] == 1), {})
    one_strength = first.get("unit_seconds")
    entry["fits"] = row["cpu_seconds"] / row["unit_seconds"] if "unit_seconds" in row else None
    known = one_strength is not None and row["status"] != STOPPED
    entry["one_strength_fits"] = row["cpu_seconds"] / one_strength if known else None
    return entry


def summarise(entries: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    summary: dict[str, Any] = {"clock": "CPU seconds, one thread", "tuner": TUNER}
    for entry in entries:
        name = f"{entry['data']}_k{entry['k']}"
        summary[name] = entry["fits"]
        summary[f"{name}_one_strength_fits"] = entry["one_strength_fits"]
        summary[f"{name}_log_loss"] = entry["log_loss"]
    summary["asked"] = {f"k{k}": fits for k, fits in ASKED.items()}
    judged = [entry for entry in entries if entry["k"] in ASKED]
    summary["met"] = all(entry["fits"] is not None and entry["fits"] <= ASKED[entry["k"]] for entry in judged)
    return summary


def render(made: Plan, entries: Sequence[Mapping[str, Any]], summary: Mapping[str, Any]) -> str:
    """The report in Markdown."""
    about = [
        f"Logistic regression with tuner={TUNER!r} and one hold-out of {HELD_OUT:.0%} of the rows; CPU seconds of the "
        "whole tuning and of the final fit on all rows, one thread.",
        f"**A fit**: scikit-learn's LogisticRegression (lbfgs, tol {UNIT_TOL:g}) on all rows at the strengths found, "
        f"the median of {UNIT_FITS}. It has a single C, so each column is divided by the square root of its strength, and C "
        "= 1: the same objective. Columns of different scales slow lbfgs down, so this unit grows as the strengths "
        "differ more: see its iterations. **One-strength fits** are the same seconds in units of the fit at the "
        "strength found for one group, which does not depend on the number of groups.",
        f"dense: simulated data, normal columns whose true weights shrink {10.0**SPAN:.0f}-fold from the first to the last, "
        f"scores with standard deviation {LOGIT_SPREAD:g}; groups are neighbouring columns; {TEST_ROWS:,} test rows.",
        "news: 20 newsgroups by date, comp.* and sci.* against the others, tf-idf of single words in at least "
        f"{MIN_DOCUMENTS} documents; groups are bands of document frequency with equal numbers of words.",
        f"A tuning that takes more than {LIMIT:g} seconds is stopped.",
    ]
    header = ["data", "groups", "seconds", "one fit", "its iterations", "fits", "target", "one-strength fits"]
    header += ["test log loss", "status"]
    cells = []
    for entry in entries:
        fit = short(entry["unit_seconds"]) + (" (not converged)" if entry["unit_status"] == "max_iter" else "")
        iterations = "n/a" if entry["unit_iterations"] is None else f"{entry['unit_iterations']:,}"
        asked = f"at most {ASKED[entry['k']]:g}" if entry["k"] in ASKED else ""
        cells.append(
            [
                f"{entry['data']}, {entry['n_rows']:,} × {entry['n_features']:,}",
                f"{entry['k']:,}",
                ("over " if entry["status"] == STOPPED else "") + short(entry["seconds"]),
                fit,
                iterations,
                short(entry["fits"]),
                asked,
                short(entry["one_strength_fits"]),
                number(entry["log_loss"], 4),
                entry["status"],
            ]
        )
    verdict = f"Targets: {'met' if summary['met'] else '**not met** ⚠'}.\n"
    return "\n".join(
        [heading(TITLE, about, quick=made.quick, date=today(), used=versions()), table(header, cells), verdict]
    )


def draw(evaluation: Evaluation) -> "Figure":
    """Cost by the number of groups in both units, and the test log loss."""
    figure = new_figure(9.0, 3.6)
    cost, loss = figure.add_subplot(1, 2, 1), figure.add_subplot(1, 2, 2)
    for colour, name in zip(COLOURS, (DENSE, NEWS), strict=False):
        found = [entry for entry in evaluation.aggregates if entry["data"] == name and entry["fits"] is not None]
        counts = [entry["k"] for entry in found]
        cost.plot(counts, [entry["fits"] for entry in found], "o-", color=colour, label=f"{name}, fits")
        others = [entry["one_strength_fits"] or np.nan for entry in found]
        cost.plot(counts, others, "o--", color=colour, markerfacecolor="white", label=f"{name}, one-strength fits")
        loss.plot(counts, [entry["log_loss"] for entry in found], "o-", color=colour, label=name)
    cost.plot(list(ASKED), list(ASKED.values()), "_", color=GREY, markersize=16, label="target: at most")
    for axes in (cost, loss):
        axes.set_xscale("log")
    cost.set_yscale("log")
    cost.set_yticks([tick for tick in TICKS if cost.get_ylim()[0] <= tick <= cost.get_ylim()[1]])
    cost.yaxis.set_major_formatter("{x:g}")
    cost.yaxis.set_minor_formatter("")
    loss.set_ylim(bottom=0.0)
    tidy(cost, x_label="groups", y_label="cost of tuning")
    tidy(loss, x_label="groups", y_label="test log loss")
    cost.legend(fontsize=TICK_SIZE - 1, frameon=False)
    loss.legend(fontsize=TICK_SIZE - 1, frameon=False)
    return figure


def warm_up() -> None:
    """Ours and the plain fit, dense and sparse, on tiny data."""
    compile_products()
    data = dense_data(60, 4)
    groups = bands(data.order, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for X in (data.X, sparse.csr_matrix(data.X)):
            LogisticRegression(groups=groups, tuner=TUNER, cv=None, n_jobs=1).fit(X, data.y).predict_proba(X)
            plain_fit().fit(X, data.y)


BENCH = Experiment(
    name="price", summary=TITLE, plan=plan, measure=measure, evaluate=evaluate, draw=draw, warm_up=warm_up
)
