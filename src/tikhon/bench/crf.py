"""Training and tagging with a chain CRF beside CRFsuite: CoNLL-2000, the same features, the same penalty, the same objective.

CRFsuite trains for 50 iterations of L-BFGS; we train, on one thread and on two, until the penalised objective is no higher than
CRFsuite's at its end. Everything is measured in processes of their own that were handed the same Python lists of features: the
time to take these in, the time to train, the time to tag the test sentences, and the most memory taken beyond the lists.
"""

import tempfile
import time
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np

from tikhon import ChainCRF
from tikhon.bench.limits import in_fresh_process
from tikhon.bench.memory import forget_peak, peak, resident
from tikhon.bench.target import ToTarget
from tikhon.data.chunk_scores import chunk_scores
from tikhon.data.tagged import load_tagged
from tikhon.data.token_windows import window_features
from tikhon.errors import MissingExtra
from tikhon.estimators.token_features import FeatureEncoder
from tikhon.experiments.output import heading, number, short, table, today, versions
from tikhon.experiments.runner import Evaluation, Experiment, Plan, RowSpec
from tikhon.experiments.store import Row
from tikhon.report.canvas import COLOURS, new_figure, tidy

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "Chain CRFs beside CRFsuite, CoNLL-2000"
DATA = "conll2000"
PEER = "python-crfsuite"
C2 = 1.0
ITERATIONS = 50
SHARES = (8, 4, 2, 1)  # one in so many training sentences
REPEATS = 3
QUICK_SHARES, QUICK_ITERATIONS = (64,), 10
SECONDS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500)  # marked on the axis
CONTESTANTS = {"crfsuite": "CRFsuite", "tikhon-1": "tikhon, 1 thread", "tikhon-2": "tikhon, 2 threads"}


def measure(params: dict[str, Any], folder: Path | None) -> Row:
    """All contestants on a share of the sentences, in turns; medians over the turns."""
    assert folder is not None
    share, iterations = params["one_in"], params["iterations"]
    turns = []
    for _ in range(params["repeats"]):
        rival = in_fresh_process(_crfsuite, folder, share, iterations)
        ours = {f"tikhon-{n}": in_fresh_process(_tikhon, folder, share, n, rival["objective"]) for n in (1, 2)}
        turns.append({"crfsuite": rival, **ours})
    return {
        name: {figure: median(turn[name][figure] for turn in turns) for figure in turns[0][name]}
        for name in CONTESTANTS
    }


def _sentences(folder: Path, share: int) -> tuple[Any, Any, Any, Any]:
    """Features and labels, to train on and to test on, as Python lists."""
    data = load_tagged(DATA, folder)
    train, test = data.train[::share], data.test
    maker = window_features(len(train[0].columns) - 1, spelling=False)
    X_train, X_test = ([maker.features(sentence) for sentence in part] for part in (train, test))
    return X_train, [list(one.columns[-1]) for one in train], X_test, [list(one.columns[-1]) for one in test]


def _crfsuite(folder: Path, share: int, iterations: int) -> Row:
    try:
        import pycrfsuite
    except ImportError as error:
        raise MissingExtra(f"this bench needs CRFsuite: pip install {PEER}") from error

    X, y, X_test, y_test = _sentences(folder, share)
    trainer = pycrfsuite.Trainer(algorithm="lbfgs", verbose=False)
    trainer.set_params({"c1": 0.0, "c2": C2, "max_iterations": iterations, "epsilon": 0.0, "delta": 0.0})
    before = resident()
    forget_peak()
    start = time.perf_counter()
    for sequence, labels in zip(X, y, strict=True):
        trainer.append(sequence, labels)
    encoded = time.perf_counter()
    with tempfile.TemporaryDirectory() as place:
        path = str(Path(place) / "model")
        trainer.train(path)
        trained = time.perf_counter()
        memory = peak() - before
        tagger = pycrfsuite.Tagger()
        tagger.open(path)
        tagging = time.perf_counter()
        predicted = [tagger.tag(sequence) for sequence in X_test]
        tagged = time.perf_counter()
    last = trainer.logparser.last_iteration
    return {
        "encode": encoded - start,
        "train": trained - encoded,
        "tag": tagged - tagging,
        "memory_mb": memory,
        "objective": float(last["loss"]),
        "iterations": int(last["num"]),
        **_scores(y_test, predicted),
    }


def _tikhon(folder: Path, share: int, n_threads: int, target: float) -> Row:
    X, y, X_test, y_test = _sentences(folder, share)
    ChainCRF(tuner=None, n_jobs=1).fit(X[:2], y[:2]).predict(X[:1])  # compiled code is loaded
    before = resident()
    forget_peak()
    start = time.perf_counter()
    solver = ToTarget(target)
    model = ChainCRF.from_c2(C2, solver=solver, n_jobs=n_threads).fit(X, y)
    trained = time.perf_counter()
    memory = peak() - before
    predicted = model.set_params(n_jobs=1).predict(X_test)
    tagging = time.perf_counter()
    predicted = model.predict(X_test)
    tagged = time.perf_counter()
    FeatureEncoder().encode(X, learn=True)
    encoded = time.perf_counter()
    return {
        "encode": encoded - tagged,
        "train": trained - start - (encoded - tagged),
        "tag": tagged - tagging,
        "memory_mb": memory,
        "objective": solver.reached,
        "iterations": solver.n_passes,
        **_scores(y_test, predicted),
    }


def _scores(truth: Sequence[Any], predicted: Sequence[Any]) -> Row:
    scores = chunk_scores(truth, predicted)
    return {"accuracy": 100.0 * scores.accuracy, "f1": 100.0 * scores.all.f1}


def warm_up() -> None:
    """Every contestant has a process of its own, and warms up there."""


def plan(quick: bool) -> Plan:
    shares, repeats = (QUICK_SHARES, 1) if quick else (SHARES, REPEATS)
    iterations = QUICK_ITERATIONS if quick else ITERATIONS
    rows = [
        RowSpec(
            key=f"1/{share} of the sentences",
            batch="all",
            params={"one_in": share, "iterations": iterations, "repeats": repeats},
            cost=100 // share + 20,
        )
        for share in shares
    ]
    config = {"data": DATA, "c2": C2, "iterations": iterations, "shares": list(shares), "repeats": repeats}
    return Plan(config=config, rows=rows, tagged=[DATA], quick=quick)


def evaluate(made: Plan, rows: list[Row]) -> Evaluation:
    whole = min(rows, key=lambda row: row["one_in"])
    rival, one, two = (whole[name] for name in CONTESTANTS)
    summary = {
        "speedup_train_1": rival["train"] / one["train"],
        "speedup_train_2": rival["train"] / two["train"],
        "speedup_encode": rival["encode"] / one["encode"],
        "speedup_tag": rival["tag"] / one["tag"],
        "memory_ratio": one["memory_mb"] / rival["memory_mb"],
        "memory_ratio_2": two["memory_mb"] / rival["memory_mb"],
        "objective_ratio": max(one["objective"], two["objective"]) / rival["objective"],
        "f1_difference": min(one["f1"], two["f1"]) - rival["f1"],
        "growth": {name: _growth(rows, name) for name in CONTESTANTS},
    }
    return Evaluation(summary=summary, aggregates=rows, markdown=_render(made, rows, summary))


def _growth(rows: Sequence[Row], name: str) -> float | None:
    """The exponent of the training time in the number of sentences."""
    if len(rows) < 2:
        return None
    sizes, times = [-np.log(row["one_in"]) for row in rows], [np.log(row[name]["train"]) for row in rows]
    return float(np.polyfit(sizes, times, 1)[0])


def _render(made: Plan, rows: Sequence[Row], summary: Mapping[str, Any]) -> str:
    about = (
        f"Windows of words and parts of speech (19 templates), L2 penalty c2 = {C2:g} (our strength {2 * C2:g}), one for all "
        "weights; pairs of features and labels seen in training. CRFsuite: L-BFGS, "
        f"{made.config['iterations']} iterations; ours until the objective is no higher. Medians of {made.config['repeats']}. "
        "Encoding is the hand-over of lists of text; training includes all that follows; memory is the most that both took "
        "beyond the lists; tagging on one thread."
    )
    header = ["sentences", "", "encode (s)", "train (s)", "passes", "objective", "memory (MB)", "tag (s)", "F1 (%)"]
    body = [
        [
            _share(row),
            words,
            number(row[name]["encode"]),
            number(row[name]["train"]),
            str(row[name]["iterations"]),
            number(row[name]["objective"], 1),
            number(row[name]["memory_mb"], 0),
            number(row[name]["tag"]),
            number(row[name]["f1"]),
        ]
        for row in rows
        for name, words in CONTESTANTS.items()
    ]
    growth = ", ".join(f"{CONTESTANTS[name]} {short(value)}" for name, value in summary["growth"].items())
    verdict = (
        f"All sentences: training {summary['speedup_train_1']:.1f} times as fast on one thread, "
        f"{summary['speedup_train_2']:.1f} on two; taking in features {summary['speedup_encode']:.1f}, tagging "
        f"{summary['speedup_tag']:.1f}; memory {summary['memory_ratio']:.2f} of CRFsuite's on one thread, "
        f"{summary['memory_ratio_2']:.2f} on two; chunk F1 "
        f"{summary['f1_difference']:+.2f} points. Training time grows with the number of sentences to the power of: {growth}."
    )
    return "\n".join(
        [
            heading(
                TITLE,
                [about],
                quick=made.quick,
                date=today(),
                used=versions() | {"python-crfsuite": version("python-crfsuite")},
            ),
            table(header, body),
            verdict + "\n",
        ]
    )


def _share(row: Mapping[str, Any]) -> str:
    return "all" if row["one_in"] == 1 else f"1/{row['one_in']}"


def draw(evaluation: Evaluation) -> "Figure":
    """Training time against the share of the sentences."""
    figure = new_figure(6.4, 4.2)
    axes = figure.subplots()
    rows = sorted(evaluation.aggregates, key=lambda row: -row["one_in"])
    for (name, words), colour in zip(CONTESTANTS.items(), COLOURS, strict=False):
        axes.plot(
            [1 / row["one_in"] for row in rows], [row[name]["train"] for row in rows], "o-", color=colour, label=words
        )
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks([1 / row["one_in"] for row in rows], [_share(row) for row in rows])
    seconds = [row[name]["train"] for row in rows for name in CONTESTANTS]
    ticks = [tick for tick in SECONDS if min(seconds) / 2 < tick < 2 * max(seconds)]
    axes.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.legend(frameon=False)
    tidy(axes, x_label="share of the training sentences", y_label="seconds to train")
    return figure


BENCH = Experiment(name="crf", summary=TITLE, plan=plan, measure=measure, evaluate=evaluate, draw=draw, warm_up=warm_up)
