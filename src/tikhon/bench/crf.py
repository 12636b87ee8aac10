"""Chain CRFs compared with CRFsuite on CoNLL-2000 and CoNLL-2002 Spanish: same features, same penalty, same objective.

The minimum f* of the penalised objective is computed first, to a certified relative gap of 1e-8. Then each library trains until
its objective is within a relative gap of 1e-3 and of 1e-4, and once with usual settings: tikhon with its default tolerance,
CRFsuite for 100 iterations. Each run is in its own process and receives the same Python lists of features.
"""

import time
import unittest.mock
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from statistics import median
from typing import Any, TypeAlias

from tikhon import ChainCRF
from tikhon.bench.crf_report import CONTESTANTS, GAPS, TITLE, draw, evaluate, gap_key
from tikhon.bench.limits import in_fresh_process
from tikhon.bench.memory import forget_peak, peak, resident
from tikhon.bench.target import ToTarget
from tikhon.data.chunk_scores import chunk_scores
from tikhon.data.tagged import as_lists, load_tagged
from tikhon.estimators.chain.token_features import FeatureEncoder
from tikhon.harness.crfsuite import train
from tikhon.harness.runner import Experiment, Plan, RowSpec
from tikhon.harness.store import Row

Curve: TypeAlias = list[tuple[float, float]]  # seconds of training, and the penalised objective reached by then


@dataclass(frozen=True)
class Task:
    """A data set, its penalty, and the shares of its training sentences: 8 means one in eight."""

    c2: float
    shares: tuple[int, ...]
    quick_share: int


TASKS = {
    "conll2000": Task(1.0, (8, 4, 2, 1), 64),
    "conll2002-es": Task(0.5, (1,), 64),
}
QUICK_TEST_SHARE = 8
THREADS = (1, 2)
REPEATS = 3
OPTIMUM_GAP = 1e-8  # certified, of f*
USUAL_ITERATIONS = 100  # of CRFsuite
EARLIER_ITERATIONS = 50  # whose objective is reported as well
MOST_ITERATIONS = 400  # of CRFsuite, if 100 do not reach the smallest gap
WARM_UP_SENTENCES = 20


def measure(params: dict[str, Any], folder: Path | None) -> Row:
    """All contestants on a share of the sentences, in alternating turns; medians over the turns."""
    assert folder is not None
    run = in_fresh_process if params["fresh"] else _in_this_process
    data = (folder, params["data"], params["one_in"], params["test_one_in"])
    optimum = run(_optimum, *data)
    least = optimum["value"] * (1.0 - optimum["certified_gap"])  # a lower bound on f*
    target = least * (1.0 + min(GAPS))
    most, turns = MOST_ITERATIONS, []
    for _ in range(params["repeats"]):
        rival = run(_crfsuite, *data, USUAL_ITERATIONS)
        if first_below(rival["curve"], target) is None:
            rival["curve"] = run(_crfsuite, *data, most)["curve"]
            most = (first_below(rival["curve"], target) or (most,))[0]  # further turns need no more
        turn = {"crfsuite": rival}
        for n_threads in THREADS:
            turn[f"tikhon-{n_threads}"] = {
                **run(_default_fit, *data, n_threads),
                "curve": run(_fit_to_target, *data, n_threads, target),
            }
        turns.append(turn)
    seen = [value for turn in turns for one in turn.values() for _, value in one["curve"]]
    seen += [one["objective"] for turn in turns for one in turn.values()]
    best = min(optimum["value"], *seen)
    found = {name: _medians([turn[name] for turn in turns], best) for name in CONTESTANTS}
    curves = {
        name: [(seconds, value / best - 1.0) for seconds, value in turns[-1][name]["curve"]] for name in CONTESTANTS
    }
    return {"optimum": {**optimum, "lowest_seen": best}, **found, "curves": curves}


def _in_this_process(work: Callable[..., Any], *arguments: Any) -> Any:
    return work(*arguments)


def first_below(curve: Curve, target: float) -> tuple[int, float] | None:
    """The number of passes and the seconds until the objective was first at most ``target``; None if it never was."""
    return next(((n, seconds) for n, (seconds, value) in enumerate(curve, start=1) if value <= target), None)


def _medians(turns: Sequence[Row], optimum: float) -> Row:
    """Medians over the turns; None if a gap was not reached in all of them."""
    rows = []
    for turn in turns:
        row = {figure: value for figure, value in turn.items() if figure != "curve"}
        row["gap"] = turn["objective"] / optimum - 1.0
        if "earlier_objective" in turn:
            row["earlier_gap"] = turn["earlier_objective"] / optimum - 1.0
        for gap in GAPS:
            passes, seconds = first_below(turn["curve"], optimum * (1.0 + gap)) or (None, None)
            row |= {gap_key("passes", gap): passes, gap_key("seconds", gap): seconds}
        rows.append(row)
    by_figure = {figure: [row[figure] for row in rows] for figure in rows[0]}
    return {figure: None if None in values else median(values) for figure, values in by_figure.items()}


@lru_cache(maxsize=1)
def _sentences(folder: Path, name: str, share: int, test_share: int) -> tuple[Any, Any, Any, Any]:
    """Training and test features and labels, as Python lists."""
    data = load_tagged(name, folder)
    return *as_lists(name, data.train[::share]), *as_lists(name, data.test[::test_share])


def _optimum(folder: Path, name: str, share: int, test_share: int) -> Row:
    X, y, *_ = _sentences(folder, name, share, test_share)
    solver = ToTarget(gap=OPTIMUM_GAP)
    ChainCRF.from_c2(TASKS[name].c2, solver=solver, n_jobs=max(THREADS)).fit(X, y)
    return {"value": solver.reached, "certified_gap": solver.reached_gap, "passes": solver.n_passes}


def _crfsuite(folder: Path, name: str, share: int, test_share: int, iterations: int) -> Row:
    X, y, X_test, y_test = _sentences(folder, name, share, test_share)
    c2 = TASKS[name].c2
    train(X[:WARM_UP_SENTENCES], y[:WARM_UP_SENTENCES], c2=c2, iterations=2).tag(X[:1])
    before = resident()
    forget_peak()
    model = train(X, y, c2=c2, iterations=iterations, early_stop=False)
    memory = peak() - before
    start = time.perf_counter()
    predicted = model.tag(X_test)
    tag = time.perf_counter() - start
    values = [value for _, value in model.trace]
    return {
        "encode": model.encode_seconds,
        "train": model.train_seconds,
        "tag": tag,
        "memory_mb": memory,
        "objective": values[-1],
        "earlier_objective": values[min(len(values), EARLIER_ITERATIONS) - 1],
        "iterations": len(values),
        **_scores(y_test, predicted),
        "curve": model.trace,
    }


def _default_fit(folder: Path, name: str, share: int, test_share: int, n_threads: int) -> Row:
    X, y, X_test, y_test = _sentences(folder, name, share, test_share)
    model = ChainCRF.from_c2(TASKS[name].c2, n_jobs=n_threads)
    _warm_up(model, X, y)
    before = resident()
    forget_peak()
    with _EncodingClock() as encoding:
        start = time.perf_counter()
        model.fit(X, y)
        trained = time.perf_counter()
    memory = peak() - before
    model.set_params(n_jobs=1).predict(X_test[:1])  # builds the decoder
    tagging = time.perf_counter()
    predicted = model.predict(X_test)
    tagged = time.perf_counter()
    weights = model.tuning_.weights
    return {
        "encode": encoding.seconds,
        "train": trained - start - encoding.seconds,
        "tag": tagged - tagging,
        "memory_mb": memory,
        "objective": model.tuning_.train_loss + TASKS[name].c2 * float(weights @ weights),
        "iterations": model.n_iter_,
        **_scores(y_test, predicted),
    }


def _fit_to_target(folder: Path, name: str, share: int, test_share: int, n_threads: int, target: float) -> Curve:
    X, y, *_ = _sentences(folder, name, share, test_share)
    _warm_up(ChainCRF.from_c2(TASKS[name].c2, n_jobs=n_threads), X, y)
    solver = ToTarget(target)
    with _EncodingClock() as encoding:
        start = time.perf_counter()
        ChainCRF.from_c2(TASKS[name].c2, solver=solver, n_jobs=n_threads).fit(X, y)
    return [(stamp - start - encoding.seconds, value) for stamp, value in solver.trace]


def _warm_up(model: ChainCRF, X: Sequence[Any], y: Sequence[Any]) -> None:
    """Load compiled code."""
    model.fit(X[:WARM_UP_SENTENCES], y[:WARM_UP_SENTENCES]).predict(X[:1])


class _EncodingClock:
    """The time that fits inside the block spent on encoding features."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __enter__(self) -> "_EncodingClock":
        encode = FeatureEncoder.encode

        def timed(*arguments: Any, **named: Any) -> Any:
            start = time.perf_counter()
            found = encode(*arguments, **named)
            self.seconds += time.perf_counter() - start
            return found

        self._patch = unittest.mock.patch.object(FeatureEncoder, "encode", timed)
        self._patch.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._patch.stop()


def _scores(truth: Sequence[Any], predicted: Sequence[Any]) -> Row:
    scores = chunk_scores(truth, predicted)
    return {"accuracy": 100.0 * scores.accuracy, "f1": 100.0 * scores.all.f1}


def warm_up() -> None:
    """Nothing: every contestant warms up in its own process."""


def plan(quick: bool) -> Plan:
    repeats = 1 if quick else REPEATS
    rows = [
        RowSpec(
            key=f"{name}, 1/{share} of the sentences",
            batch="all",
            params={
                "data": name,
                "one_in": share,
                "test_one_in": QUICK_TEST_SHARE if quick else 1,
                "repeats": repeats,
                "fresh": not quick,
            },
            cost=100 // share + 20,
        )
        for name, task in TASKS.items()
        for share in ((task.quick_share,) if quick else task.shares)
    ]
    config = {
        "c2": {name: task.c2 for name, task in TASKS.items()},
        "gaps": list(GAPS),
        "optimum_gap": OPTIMUM_GAP,
        "iterations": USUAL_ITERATIONS,
        "earlier_iterations": EARLIER_ITERATIONS,
        "most_iterations": MOST_ITERATIONS,
        "repeats": repeats,
    }
    return Plan(config=config, rows=rows, tagged=list(TASKS), quick=quick)


BENCH = Experiment(name="crf", summary=TITLE, plan=plan, measure=measure, evaluate=evaluate, draw=draw, warm_up=warm_up)
