"""The cost of uninformative groups and the gain from informative ones: test log loss relative to one strength.

Small sets, half of the rows for testing (stratified); columns are standardised on the training half. Uninformative groups are
random groups of columns, or each column on its own; informative groups are the columns and added columns of noise, or the
columns and their squares and products. Simulated data have far more columns than rows.
"""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_digits, load_iris
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

from tikhon import LogisticRegression
from tikhon.data.libsvm import load
from tikhon.harness.output import heading, number, short, table, today, versions
from tikhon.harness.runner import Evaluation, Experiment, Plan, RowSpec
from tikhon.harness.store import Row
from tikhon.harness.timing import REPEATS, timed
from tikhon.objective import Matrix
from tikhon.report.canvas import COLOURS, GREY, TICK_SIZE, new_figure, tidy

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "Uninformative and informative groups: test log loss relative to one strength"
# The method and its constants were chosen on the first half; the second was evaluated afterwards.
CHOSEN_ON = ("australian", "german.numer", "ionosphere", "sonar", "segment", "vehicle", "breast cancer", "iris")
SHOWN_ON = ("diabetes", "heart", "liver-disorders", "glass", "svmguide2", "wine", "digits")
SCIKIT_LEARN = {"breast cancer": load_breast_cancer, "digits": load_digits, "iris": load_iris}
WIDE = "wide"
RANDOM_2, RANDOM_5, SEPARATE, NOISE, PRODUCTS = "random_2", "random_5", "separate", "noise", "products"
KINDS = (RANDOM_2, RANDOM_5, SEPARATE, NOISE, PRODUCTS)
MEANINGLESS = (RANDOM_2, RANDOM_5)
N_SEEDS, QUICK_SEEDS, WIDE_SEEDS = 5, 1, 20
QUICK_SETS = ("heart", "iris")
TUNERS = ("auto", "loo", "gradient", "evidence", "mm")
COMPARED_SEEDS = 1  # of the tuners other than auto
LEAST_LOSS = 0.01  # test log losses below count as this
WIDE_COLUMNS, WIDE_SIGNALS, WIDE_TEST_ROWS, WIDE_NOISE = 2_000, 20, 2_000, 4_000
MOST_FOR_PRODUCTS = 20  # columns
ASKED = {
    RANDOM_2: 1.01,
    RANDOM_5: 1.01,
    "worst_random": 1.05,
    NOISE: 0.82,
    PRODUCTS: 0.90,
    "worst_meaning": 1.0,
    SEPARATE: 1.03,
    "worst_separate": 1.15,
    "wide_random_2": 1.03,
    "wide_random_5": 1.03,
    "wide_noise": 1.0,
}


@dataclass(frozen=True, eq=False)
class Halves:
    """Standardised training and test rows, and the group of each column."""

    X: Matrix
    y: NDArray[np.intp]
    X_test: Matrix
    y_test: NDArray[np.intp]
    groups: NDArray[np.intp]


@lru_cache(maxsize=2)
def whole_set(name: str, folder: Path | None) -> tuple[Matrix, NDArray[Any]]:
    if name in SCIKIT_LEARN:
        X, y = SCIKIT_LEARN[name](return_X_y=True)
        return X, y
    assert folder is not None
    dataset = load(name, folder)
    X = dataset.X_train
    return np.asarray(X if isinstance(X, np.ndarray) else X.toarray()), dataset.y_train


def standardised(train: Matrix, test: Matrix) -> tuple[Matrix, Matrix]:
    means, spreads = train.mean(axis=0), train.std(axis=0)
    spreads = np.where(spreads > 0.0, spreads, 1.0)
    return (train - means) / spreads, (test - means) / spreads


def dealt(n_columns: int, n_groups: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Random groups of nearly equal size."""
    groups = np.arange(n_columns) % n_groups
    rng.shuffle(groups)
    return groups


def halves(name: str, kind: str, seed: int, folder: Path | None) -> Halves:
    """A data set with groups of this kind; see ``applies`` for the kinds that it has."""
    if name == WIDE:
        return wide_data(kind, seed)
    X, y = whole_set(name, folder)
    train, test = train_test_split(np.arange(len(y)), test_size=0.5, stratify=y, random_state=seed)
    left, right = standardised(X[train], X[test])
    rng, p = np.random.default_rng(seed), X.shape[1]
    if kind == NOISE:
        extra = max(2 * p, 20)
        left, right = (np.hstack([part, rng.normal(size=(len(part), extra))]) for part in (left, right))
        groups = np.repeat([0, 1], [p, extra])
    elif kind == PRODUCTS:
        i, j = np.triu_indices(p)
        added = standardised(left[:, i] * left[:, j], right[:, i] * right[:, j])
        left, right = (np.hstack([part, more]) for part, more in zip((left, right), added, strict=True))
        groups = np.repeat([0, 1], [p, len(i)])
    else:
        groups = np.arange(p) if kind == SEPARATE else dealt(p, int(kind.split("_")[1]), rng)
    return Halves(left, y[train], right, y[test], groups)


def wide_data(kind: str, seed: int) -> Halves:
    """30 to 60 rows of 2,000 normal columns, 20 of which determine two classes."""
    rng = np.random.default_rng(seed)
    n, p = int(rng.integers(30, 61)), WIDE_COLUMNS
    weights = rng.normal(size=WIDE_SIGNALS) * 3.0 / np.sqrt(WIDE_SIGNALS)
    X = rng.normal(size=(n + WIDE_TEST_ROWS, p))
    y = (rng.random(len(X)) < 1.0 / (1.0 + np.exp(-X[:, :WIDE_SIGNALS] @ weights))).astype(np.intp)
    if kind == NOISE:
        X = np.hstack([X, rng.normal(size=(len(X), WIDE_NOISE))])
        groups = np.repeat([0, 1], [p, WIDE_NOISE])
    else:
        groups = dealt(p, int(kind.split("_")[1]), rng)
    left, right = standardised(X[:n], X[n:])
    return Halves(left, y[:n], right, y[n:], groups)


def applies(kind: str, n_columns: int) -> bool:
    least = {RANDOM_2: 4, RANDOM_5: 10}
    return n_columns >= least.get(kind, 0) and (kind != PRODUCTS or n_columns <= MOST_FOR_PRODUCTS)


N_COLUMNS = {
    "australian": 14, "german.numer": 24, "ionosphere": 34, "sonar": 60, "segment": 19, "vehicle": 18, "breast cancer": 30,
    "iris": 4, "diabetes": 8, "heart": 13, "liver-disorders": 6, "glass": 9, "svmguide2": 20, "wine": 13, "digits": 64,
}  # fmt: skip


def measure(params: dict[str, Any], folder: Path | None) -> Row:
    """Fit with one strength and with groups; losses on the test half."""
    data = halves(params["dataset"], params["kind"], params["seed"], folder)

    def fitted(groups: Any, tuner: str) -> Any:
        return LogisticRegression(groups=groups, tuner=tuner, n_jobs=1).fit(data.X, data.y)

    def loss(model: Any) -> float:
        found = log_loss(data.y_test, model.predict_proba(data.X_test), labels=model.classes_)
        return max(float(found), LEAST_LOSS)

    one = timed(lambda: fitted(None, "auto"), params["repeats"])
    several = timed(lambda: fitted(data.groups, params["tuner"]), params["repeats"])
    tuning = several.answer.tuning_
    return {
        "n_train": len(data.y),
        "n_columns": data.X.shape[1],
        "log_loss_one": loss(one.answer),
        "log_loss": loss(several.answer),
        "cpu_seconds_one": one.cpu_seconds,
        **several.figures(),
        "criterion_one": one.answer.tuning_.criterion,
        "criterion": tuning.criterion,
        "status": tuning.status,
        "n_steps": len(tuning.trace),
        "pooling": tuning.extras.get("pooling", {}).get("dispersion"),
    }


def _cases(quick: bool) -> Iterator[dict[str, Any]]:
    """Every row: the sets with each kind of groups that applies, then the simulated data."""
    names = QUICK_SETS if quick else (*CHOSEN_ON, *SHOWN_ON)
    for name in names:
        for kind in KINDS:
            for tuner in TUNERS[:1] if quick else TUNERS:
                n_seeds = QUICK_SEEDS if quick else N_SEEDS if tuner == TUNERS[0] else COMPARED_SEEDS
                if applies(kind, N_COLUMNS[name]) and (tuner == TUNERS[0] or kind != SEPARATE):
                    for seed in range(n_seeds):
                        yield {"dataset": name, "kind": kind, "seed": seed, "tuner": tuner}
    for kind in () if quick else (RANDOM_2, RANDOM_5, NOISE):
        for seed in range(WIDE_SEEDS):
            yield {"dataset": WIDE, "kind": kind, "seed": seed, "tuner": TUNERS[0]}


def plan(quick: bool) -> Plan:
    repeats = 1 if quick else REPEATS
    specs = [
        RowSpec(
            key="/".join(str(case[part]) for part in ("dataset", "kind", "tuner", "seed")),
            batch=str(case["dataset"]),
            params={**case, "repeats": repeats},
        )
        for case in _cases(quick)
    ]
    files = sorted({spec.batch for spec in specs} - set(SCIKIT_LEARN) - {WIDE})
    config = {"seeds": N_SEEDS, "wide_seeds": WIDE_SEEDS, "least_loss": LEAST_LOSS, "repeats": repeats}
    return Plan(config=config, rows=specs, files=files, quick=quick)


def ratios(rows: Sequence[Row]) -> dict[str, float]:
    """For each data set, the geometric mean over seeds of the log loss with groups over that with one strength."""
    logs: dict[str, list[float]] = {}
    for row in rows:
        logs.setdefault(row["dataset"], []).append(float(np.log(row["log_loss"] / row["log_loss_one"])))
    return {name: float(np.exp(np.mean(found))) for name, found in logs.items()}


def geometric_mean(values: Sequence[float]) -> float | None:
    return float(np.exp(np.mean(np.log(values)))) if len(values) else None


def summarise(rows: Sequence[Row]) -> dict[str, Any]:
    summary: dict[str, Any] = {"tuner": TUNERS[0]}
    own = [row for row in rows if row["tuner"] == TUNERS[0] and row["dataset"] != WIDE]
    found = {kind: ratios([row for row in own if row["kind"] == kind]) for kind in KINDS}
    for kind, by_set in found.items():
        summary[kind] = geometric_mean(list(by_set.values()))
        for half, names in (("chosen", CHOSEN_ON), ("shown", SHOWN_ON)):
            summary[f"{kind}_{half}"] = geometric_mean([ratio for name, ratio in by_set.items() if name in names])
    for name, kinds in (
        ("worst_random", MEANINGLESS),
        ("worst_meaning", (NOISE, PRODUCTS)),
        ("worst_separate", (SEPARATE,)),
    ):
        summary[name] = max((ratio for kind in kinds for ratio in found[kind].values()), default=None)
    for kind in (RANDOM_2, RANDOM_5, NOISE):
        wide = ratios([row for row in rows if row["dataset"] == WIDE and row["kind"] == kind])
        summary[f"wide_{kind}"] = wide.get(WIDE)
    costs = [row["cpu_seconds"] / row["cpu_seconds_one"] for row in own]
    summary["cpu_over_one_strength"] = geometric_mean(costs)
    summary["asked"] = ASKED
    summary["met"] = all(summary[name] is not None and summary[name] <= most for name, most in ASKED.items())
    return summary


def evaluate(made: Plan, rows: list[Row]) -> Evaluation:
    summary = summarise(rows)
    entries = [
        {"kind": kind, "dataset": name, "ratio": ratio, "tuner": tuner}
        for kind in KINDS
        for tuner in TUNERS
        for name, ratio in ratios([row for row in rows if row["kind"] == kind and row["tuner"] == tuner]).items()
    ]
    return Evaluation(summary=summary, aggregates=entries, markdown=render(made, rows, entries, summary))


def render(made: Plan, rows: Sequence[Row], entries: Sequence[Mapping[str, Any]], summary: Mapping[str, Any]) -> str:
    about = [
        "Logistic regression with tuner='auto'; half of the rows for testing, columns standardised on the other half; mean "
        f"test log loss (values below {LEAST_LOSS:g} count as that) over that of one strength on the same columns. "
        f"Geometric means over {N_SEEDS} seeds, then over data sets; 'worst' is the worst data set. CPU seconds, one thread.",
        "random_2, random_5: columns assigned at random to 2 (if 4 or more) or 5 groups (if 10 or more). separate: a group for "
        "each column. noise: the columns, and max(2p, 20) added columns of normal noise. products: the columns, and their "
        f"squares and products (up to {MOST_FOR_PRODUCTS} columns).",
        f"wide: simulated data, 30 to 60 rows and {WIDE_COLUMNS:,} normal columns, {WIDE_SIGNALS} of which decide the class; "
        f"{WIDE_SEEDS} seeds; noise: {WIDE_NOISE:,} columns of noise added.",
        f"The method and its constants were chosen on {', '.join(CHOSEN_ON)}; the other sets were evaluated afterwards.",
    ]
    asked = [[name, number(most, 3), number(summary[name], 4)] for name, most in ASKED.items()]
    means = [
        [kind, number(summary[kind], 4), number(summary[f"{kind}_chosen"], 4), number(summary[f"{kind}_shown"], 4)]
        for kind in KINDS
    ]
    own = {(entry["dataset"], entry["kind"]): entry["ratio"] for entry in entries if entry["tuner"] == TUNERS[0]}
    names = list(dict.fromkeys(entry["dataset"] for entry in entries))
    sets = [[name, *(number(own.get((name, kind)), 3) for kind in KINDS)] for name in names]
    others = [[tuner, *_compared(rows, tuner)] for tuner in TUNERS]
    verdict = f"Targets: {'met' if summary['met'] else '**not met** ⚠'}.\n"
    return "\n".join(
        [
            heading(TITLE, about, quick=made.quick, date=today(), used=versions()),
            "## Targets\n",
            table(["figure", "at most", "found"], asked),
            verdict,
            "## Both halves\n",
            table(["groups", "all sets", "chosen on", "shown on"], means),
            "## By data set\n",
            table(["data set", *KINDS], sets),
            f"## Other tuners, seed 0\n\nCPU time is relative to one strength with {TUNERS[0]}, a geometric mean.\n",
            table(["tuner", *(kind for kind in KINDS if kind != SEPARATE), "CPU time"], others),
        ]
    )


def _compared(rows: Sequence[Row], tuner: str) -> list[str]:
    """For the first seeds of a tuner: mean ratios by kind, and the relative time."""
    first = [row for row in rows if row["tuner"] == tuner and row["seed"] < COMPARED_SEEDS and row["dataset"] != WIDE]
    cells = []
    for kind in (kind for kind in KINDS if kind != SEPARATE):
        found = ratios([row for row in first if row["kind"] == kind])
        cells.append(number(geometric_mean(list(found.values())), 3))
    return [*cells, short(geometric_mean([row["cpu_seconds"] / row["cpu_seconds_one"] for row in first]))]


def draw(evaluation: Evaluation) -> "Figure":
    """One dot per data set and kind of groups; 1 is one strength."""
    figure = new_figure(7.4, 3.6)
    axes = figure.add_subplot()
    own = [entry for entry in evaluation.aggregates if entry["tuner"] == TUNERS[0]]
    for half, colour, names in (
        ("chosen on", COLOURS[0], CHOSEN_ON),
        ("shown on", COLOURS[1], SHOWN_ON),
        ("simulated, wide", COLOURS[2], (WIDE,)),
    ):
        found = [entry for entry in own if entry["dataset"] in names]
        places = [KINDS.index(entry["kind"]) + 0.18 * (COLOURS.index(colour) - 1) for entry in found]
        if found:
            axes.plot(
                [entry["ratio"] for entry in found], places, "o", color=colour, alpha=0.6, markersize=5, label=half
            )
    axes.axvline(1.0, color=GREY, linewidth=1.0)
    axes.set_xscale("log")
    axes.set_ylim(len(KINDS) - 0.5, -0.5)
    tidy(axes, x_label="test log loss relative to one strength", y_label="")
    ticks = [0.3, 0.5, 0.7, 1.0, 1.2]
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.set_yticks(range(len(KINDS)), list(KINDS), fontsize=TICK_SIZE)
    axes.legend(fontsize=TICK_SIZE, frameon=False)
    return figure


def warm_up() -> None:
    """Every tuner once on tiny data."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 4))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for y in (X[:, 0] > 0, np.digitize(X[:, 0] + 0.1 * rng.normal(size=60), [-0.5, 0.5])):
            for tuner in TUNERS:
                LogisticRegression(groups=[0, 0, 1, 1], tuner=tuner, n_jobs=1).fit(X, y.astype(int)).predict_proba(X)


BENCH = Experiment(
    name="groups", summary=TITLE, plan=plan, measure=measure, evaluate=evaluate, draw=draw, warm_up=warm_up
)
