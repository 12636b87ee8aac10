"""The demo: one strength compared with one per group, on data that comes with scikit-learn, in under a minute.

All methods use the same seeded splits with columns standardised on the training rows; results are measured on rows that
no method has seen.
"""

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from sklearn.linear_model import LogisticRegressionCV, RidgeCV
from sklearn.metrics import log_loss, mean_squared_error
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from tikhon.errors import TuningWarning
from tikhon.estimators.linear.logistic import LogisticRegression
from tikhon.estimators.linear.ridge import Ridge
from tikhon.objective import Matrix, Vector
from tikhon.report.canvas import new_figure
from tikhon.report.demo_data import SEED, Case, cases
from tikhon.report.page import Section, Table, write_page
from tikhon.report.plots import plot_grid, plot_strengths, plot_trace
from tikhon.results import TuneResult

GRID = 2.0 ** np.arange(-10, 11)  # also the initial grid of tikhon, before it widens and refines
PEER = "scikit-learn, one strength"
SINGLE = "tikhon grid, one strength"
GROUPED = ("tikhon mm, by group", "tikhon auto, by group")
METHODS = (PEER, SINGLE, *GROUPED)
Report: TypeAlias = Callable[[str], None]


@dataclass(frozen=True)
class DemoResult:
    """The path of the page, the rows of its table, and the total time."""

    page: Path
    rows: list[dict[str, object]]
    seconds: float


@dataclass(frozen=True, eq=False, kw_only=True)
class Score:
    """One method on one split."""

    loss: float
    accuracy: float | None
    seconds: float
    strengths: dict[str, float]
    tuning: TuneResult | None


def run(out: Path, *, progress: Report, quick: bool = False) -> DemoResult:
    """Fit everything, write ``out/index.html`` and return its table; ``progress`` is called with each next task."""
    started = time.perf_counter()
    new_figure(1, 1)  # without the extra ``plot``, fail before the work and not after it
    rows: list[dict[str, object]] = []
    sections: list[Section] = []
    comparisons: list[str] = []
    for case in cases(quick=quick):
        scores: dict[str, list[Score]] = {}
        for method in METHODS:
            progress(f"{case.name}: {method}")
            with threadpool_limits(1):  # the matrices are small: threads would spend the time waiting for each other
                scores[method] = [_score(case, method, split) for split in range(case.n_splits)]
        case_rows = [_row(case, method, scores[method]) for method in METHODS]
        rows += case_rows
        comparisons.append(_comparison(case, scores))
        sections.append(_section(case, case_rows, scores, comparisons[-1]))
    progress("writing the page")
    overview = Section(
        "Summary",
        [
            "How strongly should a model be regularised? Cross-validation over a grid chooses a single strength. "
            "tikhon learns one strength for each group of columns, at the cost of a few fits. Below, on data that "
            "comes with scikit-learn, all losses are measured on rows that were not used for fitting or tuning.",
            _headline(rows),
            *comparisons,
        ],
        [Table(list(rows[0]), [list(row.values()) for row in rows])],
    )
    page = write_page(out / "index.html", "tikhon: how strongly to regularise, by group", [overview, *sections])
    return DemoResult(page, rows, time.perf_counter() - started)


def _score(case: Case, method: str, split: int) -> Score:
    X_train, X_test, y_train, y_test = train_test_split(
        case.X,
        case.y,
        train_size=case.train_fraction,
        random_state=SEED + split,
        stratify=case.y if case.task == "classification" else None,
    )
    scaler = StandardScaler().fit(X_train)
    X_train, X_test = scaler.transform(X_train), scaler.transform(X_test)
    started = time.perf_counter()
    model = _fitted(case, method, X_train, y_train)
    seconds = time.perf_counter() - started
    strengths, tuning = (_peer_strength(model), None) if method == PEER else (dict(model.strengths_), model.tuning_)
    if case.task == "regression":
        return Score(
            loss=float(mean_squared_error(y_test, model.predict(X_test))),
            accuracy=None,
            seconds=seconds,
            strengths=strengths,
            tuning=tuning,
        )
    return Score(
        loss=float(log_loss(y_test, model.predict_proba(X_test))),
        accuracy=float(np.mean(model.predict(X_test) == y_test)),
        seconds=seconds,
        strengths=strengths,
        tuning=tuning,
    )


def _fitted(case: Case, method: str, X: Matrix, y: Vector) -> Any:
    """A fitted estimator: scikit-learn's with its own cross-validation, or ours."""
    if method == PEER:
        return _fitted_peer(case, X, y)
    face = LogisticRegression if case.task == "classification" else Ridge
    model = face(groups=None if method == SINGLE else case.groups, tuner=_tuner(method), random_state=SEED, n_jobs=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TuningWarning)  # the page shows them, from the result
        return model.fit(X, y)


def _tuner(method: str) -> str:
    """The tuner's name in "tikhon mm, by group"."""
    return method.split()[1].rstrip(",")


def _fitted_peer(case: Case, X: Matrix, y: Vector) -> Any:
    if case.task == "regression":
        return RidgeCV(alphas=GRID, cv=5, scoring="neg_mean_squared_error").fit(X, y)
    with warnings.catch_warnings():
        # Some versions announce changes of defaults and attributes that do not affect a plain L2 penalty.
        warnings.simplefilter("ignore", FutureWarning)
        return LogisticRegressionCV(Cs=1.0 / GRID, cv=5, scoring="neg_log_loss", max_iter=1000).fit(X, y)


def _peer_strength(model: Any) -> dict[str, float]:
    return {"all": float(model.alpha_) if isinstance(model, RidgeCV) else float(1.0 / np.ravel(model.C_)[0])}


def _row(case: Case, method: str, scores: Sequence[Score]) -> dict[str, object]:
    accuracies = [score.accuracy for score in scores if score.accuracy is not None]
    return {
        "data": case.name,
        "method": method,
        "measure": case.measure,
        "test loss": float(np.mean([score.loss for score in scores])),
        "accuracy": float(np.mean(accuracies)) if accuracies else None,
        "seconds": float(np.mean([score.seconds for score in scores])),
        "strengths": ", ".join(f"{name} {value:.3g}" for name, value in _typical(scores).items()),
    }


def _typical(scores: Sequence[Score]) -> Mapping[str, float]:
    """The geometric mean over splits of each group's strength."""
    return {
        name: float(np.exp(np.mean([np.log(max(score.strengths[name], 1e-300)) for score in scores])))
        for name in scores[0].strengths
    }


def _comparison(case: Case, scores: Mapping[str, Sequence[Score]]) -> str:
    """The effect of groups on the test loss: by how much, and on how many splits."""
    single = np.array([score.loss for score in scores[SINGLE]])
    parts = []
    for method in GROUPED:
        grouped = np.array([score.loss for score in scores[method]])
        change = 100.0 * (grouped.mean() / single.mean() - 1.0)
        better = int(np.sum(grouped < single))
        parts.append(f"{_tuner(method)} {change:+.1f} % (lower on {better} of {len(single)} splits)")
    return f"{case.name}: {case.measure} on test rows, by group compared with one strength by grid: {'; '.join(parts)}."


def _headline(rows: Sequence[Mapping[str, Any]]) -> str:
    """How often groups helped, wins and losses alike, counted from the rows."""
    single = {row["data"]: row["test loss"] for row in rows if row["method"] == SINGLE}
    counts = []
    for method in GROUPED:
        mine = [row for row in rows if row["method"] == method]
        lower = [row["data"] for row in mine if row["test loss"] < single[row["data"]]]
        named = f" ({', '.join(lower)})" if lower else ""
        counts.append(f"with {_tuner(method)} on {len(lower)} of {len(mine)} data sets{named}")
    return (
        f"Strengths by group gave a lower mean test loss than one strength {' and '.join(counts)}; on the others it was "
        "higher. All data sets that were tried are shown."
    )


def _section(
    case: Case, rows: Sequence[dict[str, object]], scores: Mapping[str, Sequence[Score]], comparison: str
) -> Section:
    columns = [key for key in rows[0] if key not in {"data", "measure"}]
    n_train = round(case.train_fraction * len(case.y))
    splits = "one seeded split" if case.n_splits == 1 else f"the mean over {case.n_splits} seeded splits"
    table = Table(
        columns,
        [[row[key] for key in columns] for row in rows],
        f"{case.measure.capitalize()}, {splits}, {n_train} training rows, {len(case.y) - n_train} test rows; seconds "
        "are those of one fit with its tuning.",
        frozenset({int(np.argmin([float(str(row["test loss"])) for row in rows]))}),
    )
    auto, single = scores[GROUPED[1]][0].tuning, scores[SINGLE][0].tuning
    figures = []
    if auto is not None and single is not None:
        figures = [
            ("Strengths found by the tuner auto, first split: a larger strength shrinks the group's weights more.",
             plot_strengths(auto)),
            (f"Trace of this tuning: {auto.criterion_name} and strengths by step.", plot_trace(auto)),
            ("One strength for all columns, by grid: held-out loss by strength.", plot_grid(single)),
        ]  # fmt: skip
    return Section(case.name.capitalize(), [case.about, comparison, *_warnings(scores)], [table], figures)


def _warnings(scores: Mapping[str, Sequence[Score]]) -> list[str]:
    """The distinct warnings of the tuners, each with the split where it first occurred."""
    seen: dict[str, str] = {}
    for method, tried in scores.items():
        for split, score in enumerate(tried, start=1):
            for text in score.tuning.warnings if score.tuning is not None else ():
                seen.setdefault(text, f"Warning of {method.split(',')[0]} on split {split}: {text}.")
    return list(seen.values())
