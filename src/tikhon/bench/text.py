"""Text: 20 newsgroups (20 classes) and IMDB (two), tf-idf of words and pairs of words, compared with LogisticRegressionCV.

One strength for all columns, then one for each group of columns: bands of document frequency, words and pairs separate,
and both. The rival tries 21 values of C = 1 / strength on five folds; liblinear, if installed, does its own search for C.
Vectorising is not timed. CPU seconds on one thread, then wall-clock seconds on two.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.feature_extraction.text import TfidfVectorizer
from threadpoolctl import threadpool_limits

from tikhon import LogisticRegression
from tikhon.bench.peers import (
    LIBLINEAR,
    LOGISTIC_CV,
    MAX_ITER,
    PACKAGES,
    converged,
    fit_liblinear,
    fit_next_to_nothing,
    installed,
    logistic_cv,
    peer_versions,
)
from tikhon.data.libsvm import Dataset
from tikhon.data.text import load_imdb, load_newsgroups
from tikhon.harness.fitting import GRID, N_FOLDS, Folds, folds_of, scores_on_test
from tikhon.harness.libsvm_sets import shape_of
from tikhon.harness.output import heading, number, short, table, today, versions
from tikhon.harness.runner import Evaluation, Experiment, Plan, RowSpec
from tikhon.harness.store import Row
from tikhon.harness.timing import timed
from tikhon.report.canvas import BLUE, GREY, RED, new_figure, tidy

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "Text with one strength and with several, compared with LogisticRegressionCV"
TUNER = "auto"
SOLVER = "lbfgs"
LOADERS = {"newsgroups": load_newsgroups, "imdb": load_imdb}
FILES = {"newsgroups": "newsgroups20", "imdb": "imdb"}
ONE, BANDS, NGRAMS, BOTH = "one", "bands", "ngrams", "both"
GROUPINGS = (ONE, BANDS, NGRAMS, BOTH)
MOST_ROWS, QUICK_ROWS = None, 150  # training rows, and as many test rows, drawn with seed 0
LEAST_DOCUMENTS = 10  # in which a column must occur
LABEL_HEIGHT = 12  # points, in the plot
ASKED_SPEEDUP, ASKED_LOSS_RATIO, ASKED_GROUPINGS = 5.0, 1.0, 2


class Text(NamedTuple):
    """A vectorised set and, for each grouping by name, the group of each column."""

    dataset: Dataset
    groups: Mapping[str, NDArray[np.str_] | None]


@lru_cache(maxsize=1)
def text_set(name: str, folder: Path, most_rows: int | None) -> Text:
    """tf-idf of words and pairs of words: 1 + log of the count, times the inverse document frequency; rows of unit length."""
    texts = LOADERS[name](folder)
    train, test = (_drawn(len(labels), most_rows, labels) for labels in (texts.train_labels, texts.test_labels))
    vectoriser = TfidfVectorizer(ngram_range=(1, 2), min_df=LEAST_DOCUMENTS, sublinear_tf=True)
    X: Any = vectoriser.fit_transform([texts.train_texts[row] for row in train])
    dataset = Dataset(
        name=name,
        task="binary" if name == "imdb" else "multiclass",
        X_train=X,
        y_train=texts.train_labels[train],
        X_test=vectoriser.transform([texts.test_texts[row] for row in test]),
        y_test=texts.test_labels[test],
    )
    return Text(dataset, column_groups(X, vectoriser.get_feature_names_out()))


def _drawn(n_rows: int, most: int | None, labels: NDArray[np.str_]) -> NDArray[np.intp]:
    """All rows, or ``most`` of the first three classes."""
    rows = np.arange(n_rows)
    if most is None:
        return rows
    few = rows[np.isin(labels, np.unique(labels)[:3])]
    return np.sort(np.random.default_rng(0).permutation(few)[:most])


def column_groups(X: Any, terms: Sequence[str]) -> dict[str, NDArray[np.str_] | None]:
    """Bands double: 10 to 19 documents, 20 to 39 and so on; "words" and "pairs"; both crossed."""
    documents = np.diff(sparse.csc_matrix(X).indptr)
    steps = np.log2(documents / LEAST_DOCUMENTS).astype(int)
    bands = np.array([f"from {LEAST_DOCUMENTS * 2**step} documents" for step in steps])
    kinds = np.array(["pairs" if " " in term else "words" for term in terms])
    both = np.array([f"{kind} {band}" for kind, band in zip(kinds, bands, strict=True)])
    return {ONE: None, BANDS: bands, NGRAMS: kinds, BOTH: both}


def measure(params: dict[str, Any], folder: Path | None) -> Row:
    """Tune and fit one contestant on one set."""
    assert folder is not None
    dataset, groups = text_set(params["dataset"], folder, params["most_rows"])
    contestant: str = params["contestant"]
    threads: int = params["threads"]
    X, y = dataset.X_train, dataset.y_train
    folds = folds_of(dataset, 0)
    several: AbstractContextManager[Any] = nullcontext() if threads == 1 else threadpool_limits(threads)
    with several:
        if threads > 1:
            _warm_up(contestant, threads)
        run = timed(lambda: _fit(contestant, X, y, folds, groups.get(contestant), threads), params["repeats"])
    model = run.answer
    row = {**shape_of(dataset), "n_nonzeros": X.nnz, **scores_on_test(model, dataset), **run.figures()}
    if contestant in GROUPINGS:
        tuning = model.tuning_
        return {
            **row,
            "strengths": model.strengths_,
            "status": tuning.status,
            "reason": tuning.reason,
            "n_steps": len(tuning.trace),
            "n_fits": tuning.n_fits,
            "worst_residual": tuning.worst_residual,
            "notes": tuning.notes,
        }
    if contestant == LIBLINEAR:
        return {**row, "strengths": {"all": model.strength}, "status": "converged"}
    strength = 1.0 / float(np.ravel(model.C_)[0])
    return {**row, "strengths": {"all": strength}, "status": converged(run.warnings)}


def _fit(contestant: str, X: Any, y: NDArray[Any], folds: Folds, groups: NDArray[np.str_] | None, threads: int) -> Any:
    if contestant in GROUPINGS:
        return LogisticRegression(groups=groups, tuner=TUNER, n_jobs=threads).fit(X, y)
    if contestant == LIBLINEAR:
        return fit_liblinear(X, y)
    return logistic_cv(SOLVER, folds, n_jobs=threads).fit(X, y)


def plan(quick: bool) -> Plan:
    most_rows = QUICK_ROWS if quick else MOST_ROWS
    names = ["newsgroups"] if quick else list(LOADERS)

    def spec(name: str, contestant: str, threads: int) -> RowSpec:
        params = {
            "dataset": name,
            "contestant": contestant,
            "threads": threads,
            "most_rows": most_rows,
            "repeats": 1 if quick else 3,
        }
        key = f"{name}/{contestant}" if threads == 1 else f"{name}/{contestant}/{threads} threads"
        cost = (4 if contestant == LOGISTIC_CV else 1) * (10 if name == "newsgroups" else 1)
        return RowSpec(key=key, batch=name, params=params, cost=cost)

    rivals = [LOGISTIC_CV, *([LIBLINEAR] if installed(LIBLINEAR) else [])]
    rows = [
        spec(name, contestant, threads)
        for name in names
        for threads, contestants in ((1, (*GROUPINGS, *rivals)), (2, (ONE, LOGISTIC_CV)))
        for contestant in contestants
    ]
    config = {
        "datasets": names,
        "most_rows": most_rows,
        "least_documents": LEAST_DOCUMENTS,
        "tuner": TUNER,
        "grid": list(GRID),
        "folds": N_FOLDS,
        "max_iter": MAX_ITER,
    }
    return Plan(config=config, rows=rows, texts=[FILES[name] for name in names], quick=quick)


def evaluate(made: Plan, rows: list[Row]) -> Evaluation:
    summary = summarise(rows)
    return Evaluation(summary=summary, markdown=render(made, summary))


def summarise(rows: Sequence[Row]) -> dict[str, Any]:
    """For each set: speedup_<set> and logloss_ratio_<set>, the rival's seconds over ours and our test log loss over the
    rival's, both with one group; gain_<set>_<grouping>, the relative reduction of the test log loss compared with one
    group; two_threads_speedup_<set>, the speedup in wall-clock time on two threads."""
    datasets: dict[str, dict[str, Any]] = {}
    for row in rows:
        shape = {key: row[key] for key in ("n_train", "n_test", "n_features", "n_nonzeros", "n_classes")}
        entry = datasets.setdefault(row["dataset"], {**shape, "one_thread": {}, "two_threads": {}})
        keys = ("accuracy", "log_loss", "strengths", "status", "wall_seconds", "warnings")
        seconds = row["cpu_seconds"] if row["threads"] == 1 else row["wall_seconds"]
        figures = {"seconds": seconds, **{key: row[key] for key in keys}}
        entry["one_thread" if row["threads"] == 1 else "two_threads"][row["contestant"]] = figures
    summary: dict[str, Any] = {"clock": "CPU seconds on one thread, wall-clock seconds on two", "datasets": datasets}
    lower = []
    for name, entry in datasets.items():
        found = entry["one_thread"]
        if LOGISTIC_CV in found and ONE in found:
            summary[f"speedup_{name}"] = found[LOGISTIC_CV]["seconds"] / found[ONE]["seconds"]
            summary[f"logloss_ratio_{name}"] = found[ONE]["log_loss"] / found[LOGISTIC_CV]["log_loss"]
        for grouping in GROUPINGS[1:]:
            if ONE in found and grouping in found:
                gain = 1.0 - found[grouping]["log_loss"] / found[ONE]["log_loss"]
                summary[f"gain_{name}_{grouping}"] = gain
                lower += [f"{name} {grouping}"] if gain > 0.0 else []
        both = entry["two_threads"]
        if LOGISTIC_CV in both and ONE in both:
            summary[f"two_threads_speedup_{name}"] = both[LOGISTIC_CV]["seconds"] / both[ONE]["seconds"]
    speedups = [summary.get(f"speedup_{name}", 0.0) for name in datasets]
    ratios = [summary.get(f"logloss_ratio_{name}", np.inf) for name in datasets]
    summary["lower_with_groups"] = lower
    summary["asked"] = {"speedup": ASKED_SPEEDUP, "logloss_ratio": ASKED_LOSS_RATIO, "groupings": ASKED_GROUPINGS}
    summary["met"] = bool(
        min(speedups, default=0.0) >= ASKED_SPEEDUP
        and max(ratios, default=np.inf) <= ASKED_LOSS_RATIO
        and len({text.split()[1] for text in lower}) >= ASKED_GROUPINGS
    )
    return summary


def render(made: Plan, summary: Mapping[str, Any]) -> str:
    """The report in Markdown."""
    about = (
        f"tf-idf of words and pairs of words (1 + log of the count, rows of unit length) found in at least "
        f"{LEAST_DOCUMENTS} training documents. {LOGISTIC_CV}: C = 2^-10 … 2^10, 5 folds, scoring log loss, {SOLVER}, "
        f"max_iter {MAX_ITER}, default tol. Ours: tuner {TUNER!r} with its default settings. {BANDS}: a group for each "
        f"doubling of the number of documents; {NGRAMS}: words and pairs; {BOTH}: crossed."
    )
    package = PACKAGES[LIBLINEAR]
    found = {name: one for name, one in peer_versions().items() if name == package}
    notes = [] if found else [f"Not installed here, therefore omitted: {package} (`pip install 'tikhon[peers]'`)."]
    top = heading(TITLE, [about, *notes], quick=made.quick, date=today(), used={**versions(), **found})
    parts = [top]
    for name, entry in summary["datasets"].items():
        parts += [f"## {name}\n", _shape(entry), _contestants(entry)]
        if f"speedup_{name}" in summary:
            parts.append(
                f"With one group {short(summary[f'speedup_{name}'])} times as fast as {LOGISTIC_CV}, test log loss "
                f"{number(summary[f'logloss_ratio_{name}'], 4)} times that of the rival; on two threads "
                f"{short(summary.get(f'two_threads_speedup_{name}'))} times as fast.\n"
            )
    parts += [
        f"Target: {ASKED_SPEEDUP:g} times as fast on each set at no higher test log loss, and with groups a lower one "
        f"than with one group for at least {ASKED_GROUPINGS} groupings. "
        f"{'Met' if summary['met'] else '**Not met** ⚠'}.\n",
        "## Strengths\n",
        *(_strengths(name, entry) for name, entry in summary["datasets"].items()),
    ]
    return "\n".join(parts)


def _shape(entry: Mapping[str, Any]) -> str:
    return (
        f"{entry['n_train']:,} training and {entry['n_test']:,} test documents, {entry['n_features']:,} columns, "
        f"{entry['n_nonzeros']:,} non-zeros, {entry['n_classes']} classes.\n"
    )


def _contestants(entry: Mapping[str, Any]) -> str:
    header = ["contestant", "CPU seconds, one thread", "wall seconds, two", "test log loss", "accuracy (%)", "groups"]
    rows = []
    for contestant, figures in entry["one_thread"].items():
        on_two = entry["two_threads"].get(contestant, {}).get("seconds")
        name = f"{TUNER}, {contestant}" if contestant in GROUPINGS else contestant
        loss, accuracy = number(figures["log_loss"], 4), number(figures["accuracy"])
        rows.append([name, short(figures["seconds"]), short(on_two), loss, accuracy, str(len(figures["strengths"]))])
    return table(header, rows)


def _strengths(name: str, entry: Mapping[str, Any]) -> str:
    rows = [
        [f"{name}, {contestant}", group, short(strength)]
        for contestant, figures in entry["one_thread"].items()
        for group, strength in figures["strengths"].items()
    ]
    return table(["set", "group", "strength"], rows)


def _overlap(point: tuple[float, float], other: tuple[float, float]) -> bool:
    """Would the labels of these two points (seconds, loss) overlap?"""
    return bool(abs(np.log(point[0] / other[0])) < 1.0 and abs(np.log(point[1] / other[1])) < 1e-3)


def draw(evaluation: Evaluation) -> "Figure":
    """Test log loss against seconds, a panel for each set."""
    from matplotlib.ticker import NullFormatter

    datasets = evaluation.summary["datasets"]
    figure = new_figure(5.0 * max(1, len(datasets)), 3.6)
    for axes, (name, entry) in zip(np.ravel(figure.subplots(1, max(1, len(datasets)))), datasets.items(), strict=False):
        points = {name: (figures["seconds"], figures["log_loss"]) for name, figures in entry["one_thread"].items()}
        for place, (contestant, point) in enumerate(points.items()):
            colour = BLUE if contestant in GROUPINGS else RED if contestant == LOGISTIC_CV else GREY
            axes.scatter(*point, color=colour, s=36)
            above = sum(_overlap(point, other) for other in list(points.values())[:place])
            axes.annotate(contestant, point, xytext=(5, 4 + LABEL_HEIGHT * above), textcoords="offset points")
        axes.set_xscale("log")
        axes.xaxis.set_minor_formatter(NullFormatter())  # on a single decade all of them would be labelled
        axes.margins(0.35, 0.4)
        axes.set_title(name)
        tidy(axes, x_label="CPU seconds, one thread", y_label="test log loss")
    return figure


def warm_up() -> None:
    for contestant in (ONE, LOGISTIC_CV, *([LIBLINEAR] if installed(LIBLINEAR) else [])):
        _warm_up(contestant, 1)


def _warm_up(contestant: str, threads: int) -> None:
    fit_next_to_nothing(lambda X, y, folds: _fit(contestant, sparse.csr_matrix(X), y, folds, None, threads))


BENCH = Experiment(
    name="text", summary=TITLE, plan=plan, measure=measure, evaluate=evaluate, draw=draw, warm_up=warm_up
)
