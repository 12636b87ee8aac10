"""The tuners compared with scikit-learn's LogisticRegressionCV on the data sets of Tables 2 and 3(a) of Foo, Do, Ng 2009.

All use the same rows and an intercept; auto, loo and evidence have their default settings, the other tuners the same five
folds as the rival and, for grid, the same 21 strengths (C = 1 / strength). The rival uses the faster of its solvers lbfgs
and, up to 3,000 weights, newton-cholesky. liblinear's search for C and bbai are included where they are installed.

Times are those of the first split; accuracy and log loss are means over ten splits for the smaller sets without supplied
test rows, since a single split of them is too noisy.

On one thread times are CPU seconds of the whole tuning and fit: they equal wall-clock seconds on an idle machine, and are
not inflated on a busy one. bbai's are wall-clock seconds, since it works in a separate process. A few larger sets follow on
two threads, in wall-clock seconds.
"""

import warnings
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from tikhon import LogisticRegression
from tikhon.bench.glm_report import (
    CHOLESKY,
    LBFGS,
    MOST_FOR_CHOLESKY,
    OWN_SPLITS,
    PEERS,
    STOPPED,
    TITLE,
    TUNERS,
    TUNERS_ON_TWO,
    draw,
    render,
    summarise,
)
from tikhon.bench.limits import LostProcessError, OutOfTimeError, cpu_limit, end_process_after, in_fresh_process
from tikhon.bench.peers import BBAI, FITS, MAX_ITER, converged, fit_next_to_nothing, installed, logistic_cv
from tikhon.data.libsvm import Dataset
from tikhon.harness.fitting import GRID, N_FOLDS, Folds, folds_of, how_tuned, scores_on_test, tuner_of
from tikhon.harness.fitting import warm_up as warm_up_tuners
from tikhon.harness.libsvm_sets import CLASSIFICATION, SETS, TRAIN_ROWS, file_name, shape_of, split_set
from tikhon.harness.runner import Evaluation, Experiment, Plan, RowSpec
from tikhon.harness.store import Row
from tikhon.harness.timing import REPEATS, SHORT, timed

QUICK = ("heart", "iris")
# For two threads, in wall-clock time: larger sets, each with the rival's faster solver on one thread.
TWO_THREADS = {
    "mushrooms": LBFGS,
    "w1a": LBFGS,
    "connect-4": CHOLESKY,
    "dna": LBFGS,
    "letter": LBFGS,
    "mnist1": LBFGS,
    "satimage": LBFGS,
    "usps": LBFGS,
}
QUICK_TWO_THREADS = {"heart": LBFGS}
BY_FACTORS, MOST_FOR_FACTORS = ("loo", "evidence"), 1_500  # tuners that factorise, and the most weights they run with
SPLITS, MOST_ROWS_FOR_SPLITS = 10, 10_000
PATIENCE = 2.0  # times the time of lbfgs: newton-cholesky is stopped there, since only the faster counts
PEER_LIMIT, QUICK_PEER_LIMIT = 120.0, 10.0  # CPU seconds of liblinear and bbai
COST_OF_PEER = "gradient"  # for the ETA: about ten times as long as this tuner

_seconds_of_lbfgs: dict[str, float] = {}  # by data set, on one thread, as measured in this process


def measure(params: dict[str, Any], folder: Path | None) -> Row:
    """Tune and fit one contestant on one data set."""
    assert folder is not None
    if params["contestant"] not in PEERS:
        return _raced(params, folder)
    dataset = split_set(params["dataset"], folder, 0)
    nothing = {**shape_of(dataset), "warnings": []}
    try:
        row: Row = in_fresh_process(_raced_alone, params, folder, most_seconds=PATIENCE * params["limit"])
    except OutOfTimeError:
        return {**nothing, "status": STOPPED, "cpu_seconds": params["limit"]}
    except LostProcessError as problem:
        return {**nothing, "status": "failed", "cpu_seconds": None, "warnings": [str(problem)]}
    return row


def _raced_alone(params: dict[str, Any], folder: Path) -> Row:
    """In its own process, since a compiled library cannot be stopped otherwise."""
    split_set(params["dataset"], folder, 0)
    fit_next_to_nothing(lambda X, y, folds: FITS[params["contestant"]](X, y))
    end_process_after(params["limit"])
    return _raced(params, folder)


def _raced(params: dict[str, Any], folder: Path) -> Row:
    name: str = params["dataset"]
    dataset = split_set(name, folder, 0)
    contestant: str = params["contestant"]
    threads: int = params["threads"]

    def fit_to(dataset: Dataset, folds: Folds) -> Any:
        X, y = dataset.X_train, dataset.y_train
        if contestant in PEERS:
            return FITS[contestant](X, y)
        if contestant in OWN_SPLITS:
            return LogisticRegression(tuner=contestant, n_jobs=threads).fit(X, y)
        if contestant in TUNERS:
            return LogisticRegression(tuner=tuner_of(contestant), cv=folds, n_jobs=threads).fit(X, y)
        return logistic_cv(contestant, folds, n_jobs=threads).fit(X, y)

    folds = folds_of(dataset, 0)

    limit = _limit_of_cholesky(params, folder) if contestant == CHOLESKY and threads == 1 else None
    several: AbstractContextManager[Any] = nullcontext() if threads == 1 else threadpool_limits(threads)
    try:
        with several, cpu_limit(limit):
            if threads > 1:
                _warm_up(contestant, threads)
            run = timed(lambda: fit_to(dataset, folds), params["repeats"])
            scores = [scores_on_test(run.answer, dataset)]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # only those of the first split are kept
                for seed in range(1, params["splits"]):
                    other = split_set(name, folder, seed)
                    scores.append(scores_on_test(fit_to(other, folds_of(other, seed)), other))
    except OutOfTimeError:
        return {**shape_of(dataset), "status": STOPPED, "cpu_seconds": limit, "warnings": []}
    if contestant == LBFGS and threads == 1:
        _seconds_of_lbfgs[name] = run.cpu_seconds
    means = {key: fmean(each[key] for each in scores) for key in scores[0]}
    row = {**shape_of(dataset), **means, "splits": len(scores), **run.figures()}
    if contestant in TUNERS:
        return {**row, **how_tuned(run.answer), "notes": run.answer.tuning_.notes}
    if contestant in PEERS:
        if contestant == BBAI:  # it works in a separate process, whose CPU time is not seen here
            row["cpu_seconds"] = run.wall_seconds
        return {**row, "strength": run.answer.strength, "status": "converged"}
    return {**row, "strength": 1.0 / float(np.ravel(run.answer.C_)[0]), "status": converged(run.warnings)}


def _limit_of_cholesky(params: dict[str, Any], folder: Path) -> float:
    """CPU seconds, from those of lbfgs on the same set, which a resumed run measures again if that row is done."""
    name: str = params["dataset"]
    if name not in _seconds_of_lbfgs:
        _raced({**params, "contestant": LBFGS}, folder)
    most = _seconds_of_lbfgs[name]
    n_splits: int = params["splits"]
    # Short work is repeated, further splits follow, and the limit covers all of it.
    return PATIENCE * most * (params["repeats"] + n_splits if most < SHORT else n_splits)


def contestants(name: str) -> list[str]:
    """The tuners, the rival's solvers, and the other peers that are installed."""
    facts = SETS[name]
    n_weights = (facts.features + 1) * (facts.classes if facts.classes > 2 else 1)
    rivals = [LBFGS, CHOLESKY] if n_weights <= MOST_FOR_CHOLESKY else [LBFGS]
    tuners = [tuner for tuner in TUNERS if tuner not in BY_FACTORS or n_weights <= MOST_FOR_FACTORS]
    return [*tuners, *rivals, *(peer for peer in PEERS if installed(peer))]


def n_splits(name: str, quick: bool) -> int:
    """Small sets without supplied test rows are split ten times, since a single split is too noisy."""
    facts = SETS[name]
    if facts.supplied_test or facts.rows > MOST_ROWS_FOR_SPLITS:
        return 1
    return 2 if quick else SPLITS


def plan(quick: bool) -> Plan:
    chosen = [name for name in CLASSIFICATION if not quick or name in QUICK]
    two_threads = QUICK_TWO_THREADS if quick else TWO_THREADS
    repeats = 1 if quick else REPEATS
    limit = QUICK_PEER_LIMIT if quick else PEER_LIMIT

    def spec(name: str, contestant: str, threads: int) -> RowSpec:
        params = {
            "dataset": name,
            "contestant": contestant,
            "threads": threads,
            "repeats": repeats,
            "splits": 1 if threads > 1 or contestant in PEERS else n_splits(name, quick),
            "limit": limit,
        }
        cost = SETS[name].cost(contestant) if contestant in TUNERS else 10 * SETS[name].cost(COST_OF_PEER)
        key = f"{name}/{contestant}" if threads == 1 else f"{name}/{contestant}/{threads} threads"
        return RowSpec(key=key, batch=name, params=params, cost=cost)

    rows = [spec(name, contestant, 1) for name in chosen for contestant in contestants(name)]
    rows += [spec(name, one, 2) for name, solver in two_threads.items() for one in (*TUNERS_ON_TWO, solver)]
    config = {
        "datasets": chosen,
        "train_rows": {name: rows for name, rows in TRAIN_ROWS.items() if name in chosen},
        "two_threads": two_threads,
        "grid": list(GRID),
        "folds": N_FOLDS,
        "repeats": repeats,
        "splits": {name: n_splits(name, quick) for name in chosen},
        "limit": limit,
        "max_iter": MAX_ITER,
    }
    return Plan(config=config, rows=rows, files=[file_name(name) for name in chosen], quick=quick)


def evaluate(made: Plan, rows: list[Row]) -> Evaluation:
    summary = summarise(rows)
    return Evaluation(summary=summary, markdown=render(made, summary))


def warm_up() -> None:
    """The tuners and the rival, on tiny data."""
    warm_up_tuners()
    for contestant in (*OWN_SPLITS, LBFGS, CHOLESKY):
        _warm_up(contestant, 1)


def _warm_up(contestant: str, threads: int) -> None:
    """Also for several threads: starting the rival's worker processes takes seconds."""
    if contestant in TUNERS:
        fit_next_to_nothing(lambda X, y, folds: LogisticRegression(tuner=contestant, n_jobs=threads).fit(X, y))
    else:
        fit_next_to_nothing(lambda X, y, folds: logistic_cv(contestant, folds, n_jobs=threads).fit(X, y))


BENCH = Experiment(name="glm", summary=TITLE, plan=plan, measure=measure, evaluate=evaluate, draw=draw, warm_up=warm_up)
