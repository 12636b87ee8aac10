"""Ridge regression with a strength for each group of columns, compared with himalaya's random search and scikit-learn.

Simulated data: normal columns in groups of 40 whose true weights differ by up to a hundredfold between groups; the
noise has variance 1, so that 1 is the lowest possible test error. The rivals: himalaya's GroupRidgeCV, which samples
divisions of the penalty among the groups and tries ten values of the total for each on five folds, and its kernel
variant where there are more columns than rows; and scikit-learn's RidgeCV, one strength for all columns. Costs are
also given in units of one plain fit, scikit-learn's Ridge at alpha = 1 on the same rows, timed along with each tuning.
"""

import warnings
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from statistics import fmean, median
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import Ridge as PlainRidge
from sklearn.linear_model import RidgeCV
from threadpoolctl import threadpool_limits

from tikhon import Ridge
from tikhon.bench.grouped_ridge_report import TITLE, draw, render
from tikhon.bench.himalaya import ALPHAS, HIMALAYA, HIMALAYA_KERNEL, divisions, fit_himalaya, himalaya_version
from tikhon.harness.fitting import N_FOLDS
from tikhon.harness.runner import Evaluation, Experiment, Plan, RowSpec
from tikhon.harness.store import Row
from tikhon.harness.timing import REPEATS, Clock, timed

AUTO = "auto"
RIDGE_CV = "RidgeCV"
TUNERS = (AUTO, "loo", "gradient", "evidence", "mm")
GROUP_SIZE, QUICK_GROUP_SIZE = 40, 6
TEST_ROWS = 5_000
BEST_R2 = 0.7  # of the true weights
SPAN = 2.0  # powers of ten between the largest and the smallest of the groups' true weights
UNIT_FITS = 9
DRAWS, QUICK_DRAWS = 1_000, 30
RIDGE_CV_ALPHAS = np.logspace(-3.0, 6.0, 37)
TWO_THREADS_BUDGET = 60.0  # of himalaya: only its time per draw is needed there
CALIBRATED = 5.0  # seconds that a trial must take for its time per draw to be reliable
ASKED_SPEEDUP, ASKED_MSE_RATIO, ASKED_RIDGE_FITS = 100.0, 1.0, 30.0


@dataclass(frozen=True)
class Size:
    """The size of the simulated data, and the number of data sets."""

    rows: int
    groups: int
    data_sets: int
    budget: float  # CPU seconds of himalaya on each: it makes as many draws as fit


SIZES = (Size(600, 5, 3, 400.0), Size(600, 20, 1, 200.0), Size(5_000, 50, 1, 720.0))
QUICK_SIZES = (Size(120, 5, 1, 60.0), Size(100, 20, 1, 60.0))


@dataclass(frozen=True, eq=False)
class Made:
    """Training rows, test rows, and the group of each column."""

    X: NDArray[np.float64]
    y: NDArray[np.float64]
    X_test: NDArray[np.float64]
    y_test: NDArray[np.float64]
    groups: NDArray[np.intp]


@lru_cache(maxsize=1)
def made_data(rows: int, groups: int, group_size: int, seed: int) -> Made:
    """y = X w + noise of variance 1, where w_j ~ N(0, s_g(j)^2), s falls from 1 to 10^-SPAN over the groups in random
    order, and w is scaled so that ||w||^2 = BEST_R2 / (1 - BEST_R2)."""
    rng = np.random.default_rng(seed)
    group_of = np.repeat(np.arange(groups), group_size)
    spreads = 10.0 ** (-SPAN * rng.permutation(groups) / (groups - 1))
    weights = spreads[group_of] * rng.normal(size=len(group_of))
    weights *= np.sqrt(BEST_R2 / (1.0 - BEST_R2)) / np.linalg.norm(weights)
    X = rng.normal(size=(rows + TEST_ROWS, len(group_of)))
    y = X @ weights + rng.normal(size=len(X))
    return Made(X[:rows], y[:rows], X[rows:], y[rows:], group_of)


def measure(params: dict[str, Any], folder: Path | None) -> Row:
    """Tune and fit one contestant on one simulated data set."""
    data = made_data(params["rows"], params["groups"], params["group_size"], params["data_set"])
    contestant: str = params["contestant"]
    two = params["threads"] == 2
    with threadpool_limits(2) if two else nullcontext():
        if contestant in (HIMALAYA, HIMALAYA_KERNEL):
            return _himalaya_row(data, params)
        if contestant == RIDGE_CV:
            run = timed(lambda: RidgeCV(alphas=RIDGE_CV_ALPHAS).fit(data.X, data.y), params["repeats"])
            return {**run.figures(), **_errors(run.answer, data), "strength": float(run.answer.alpha_)}

        def tuned() -> Any:
            return Ridge(groups=data.groups, tuner=contestant, n_jobs=params["threads"]).fit(data.X, data.y)

        run = timed(tuned, params["repeats"])
        tuning = run.answer.tuning_
        return {
            **run.figures(),
            **_errors(run.answer, data),
            "unit_seconds": _unit_seconds(data),
            "status": tuning.status,
            "reason": tuning.reason,
            "n_steps": len(tuning.trace),
            "n_fits": tuning.n_fits,
            "strengths": run.answer.strengths_,
        }


def _unit_seconds(data: Made) -> float:
    """CPU seconds of one fit of scikit-learn's Ridge, the median of several."""
    return median(timed(lambda: PlainRidge(alpha=1.0).fit(data.X, data.y), 1).cpu_seconds for _ in range(UNIT_FITS))


def _himalaya_row(data: Made, params: Mapping[str, Any]) -> Row:
    """As many draws as fit into the budget, in one call; a trial run before it determines how many.

    Times are wall-clock seconds with two threads, otherwise CPU seconds.
    """
    tried = divisions(params["groups"], params["draws"])

    def searched(draws: int) -> Any:
        return fit_himalaya(params["contestant"], data.X, data.y, data.groups, tried[:draws])

    trial = 1
    while True:  # one draw is enough if it takes long
        clock = Clock()
        searched(trial)
        wall_seconds, cpu_seconds = clock.read()
        seconds = wall_seconds if params["threads"] == 2 else cpu_seconds
        if seconds >= CALIBRATED or 5 * trial > params["draws"]:
            break
        trial *= 5
    draws = int(np.clip(params["budget"] * trial / seconds, 1, params["draws"]))
    run = timed(lambda: searched(draws), 1)
    return {
        **run.figures(),
        **_errors(run.answer, data),
        "draws_done": draws,
        "version": himalaya_version(),
        "strengths": {str(group): float(np.exp(-delta)) for group, delta in enumerate(run.answer.deltas_)},
    }


def _errors(model: Any, data: Made) -> dict[str, float]:
    mse = float(np.mean((model.predict(data.X_test) - data.y_test) ** 2))
    return {"mse": mse, "r2": 1.0 - mse / float(np.var(data.y_test))}


def plan(quick: bool) -> Plan:
    sizes, group_size = (QUICK_SIZES, QUICK_GROUP_SIZE) if quick else (SIZES, GROUP_SIZE)
    draws, repeats = (QUICK_DRAWS, 1) if quick else (DRAWS, REPEATS)
    specs = []
    for size in sizes:
        shared = {"rows": size.rows, "groups": size.groups, "group_size": group_size, "repeats": repeats}
        races = [(contestant, 1) for contestant in (*TUNERS, RIDGE_CV)]
        peers = [HIMALAYA] if himalaya_version() is not None else []
        if size.groups * group_size > size.rows:
            peers += [HIMALAYA_KERNEL] * len(peers)  # which himalaya recommends there
        races += [(peer, 1) for peer in peers]
        if not quick:
            races += [(contestant, 2) for contestant in (AUTO, *peers[:1])]
        for data_set in range(size.data_sets):
            for contestant, threads in races:
                if threads == 2 and data_set > 0:
                    continue
                params = {**shared, "data_set": data_set, "contestant": contestant, "threads": threads}
                cost = 1
                if contestant in peers:
                    params |= {"draws": draws, "budget": size.budget if threads == 1 else TWO_THREADS_BUDGET}
                    cost = 200 if threads == 1 else 20
                key = f"{size.groups} groups/{data_set}/{contestant}" + ("/2 threads" if threads == 2 else "")
                specs.append(RowSpec(key=key, batch=f"{size.groups} groups", params=params, cost=cost))
    config = {
        "sizes": [[size.rows, size.groups, size.data_sets, size.budget] for size in sizes],
        "group_size": group_size,
        "test_rows": TEST_ROWS,
        "best_r2": BEST_R2,
        "span": SPAN,
        "folds": N_FOLDS,
        "repeats": repeats,
        "draws": draws,
        "alphas": ALPHAS.tolist(),
        "ridge_cv_alphas": RIDGE_CV_ALPHAS.tolist(),
        "unit_fits": UNIT_FITS,
    }
    return Plan(config=config, rows=specs, quick=quick)


def evaluate(made: Plan, rows: list[Row]) -> Evaluation:
    summary = summarise(rows)
    return Evaluation(summary=summary, markdown=render(made, summary))


def summarise(rows: Sequence[Row]) -> dict[str, Any]:
    """For each size the means over its data sets, the ratios to himalaya, and the cost in plain fits."""
    by_size: dict[int, list[Row]] = {}
    for row in rows:
        by_size.setdefault(row["groups"], []).append(row)
    sizes = {f"{groups} groups": _size_summary(found) for groups, found in by_size.items()}
    speedups = [entry["speedup_himalaya"] for entry in sizes.values()]
    ratios = [entry["mse_ratio"] for entry in sizes.values()]
    summary: dict[str, Any] = {
        "clock": "CPU seconds, one thread; wall-clock seconds with two threads",
        "himalaya": next((row["version"] for row in rows if row["contestant"] == HIMALAYA), None),
        "sizes": sizes,
        "least_speedup_himalaya": min(speedups) if speedups and None not in speedups else None,
        "worst_mse_ratio": max(ratios) if ratios and None not in ratios else None,
        "ridge_fits_20_groups": sizes.get("20 groups", {}).get("ridge_fits"),
    }
    summary["asked"] = {
        "least_speedup_himalaya": ASKED_SPEEDUP,
        "worst_mse_ratio": ASKED_MSE_RATIO,
        "ridge_fits_20_groups": ASKED_RIDGE_FITS,
    }
    summary["met"] = {
        "least_speedup_himalaya": _met(summary["least_speedup_himalaya"], at_least=ASKED_SPEEDUP),
        "worst_mse_ratio": _met(summary["worst_mse_ratio"], at_most=ASKED_MSE_RATIO),
        "ridge_fits_20_groups": _met(summary["ridge_fits_20_groups"], at_most=ASKED_RIDGE_FITS),
    }
    return summary


def _met(value: float | None, *, at_least: float = -np.inf, at_most: float = np.inf) -> bool | None:
    return None if value is None else bool(at_least <= value <= at_most)


def _size_summary(rows: Sequence[Row]) -> dict[str, Any]:
    contestants: dict[str, dict[str, Any]] = {}
    for name in (*TUNERS, RIDGE_CV, HIMALAYA, HIMALAYA_KERNEL):
        found = [row for row in rows if row["contestant"] == name and row["threads"] == 1]
        if found:
            contestants[name] = _means(found)
    first = rows[0]
    entry: dict[str, Any] = {
        "n_rows": first["rows"],
        "n_features": first["groups"] * first["group_size"],
        "n_groups": first["groups"],
        "data_sets": len({row["data_set"] for row in rows}),
        "contestants": contestants,
        "ridge_fits": contestants.get(AUTO, {}).get("ridge_fits"),
        "speedup_himalaya": None,
        "speedup_himalaya_kernel": None,
        "speedup_himalaya_2_threads": None,
        "mse_ratio": None,
        "all_draws": None,
    }
    if AUTO not in contestants or HIMALAYA not in contestants:
        return entry
    ours, rival = contestants[AUTO], contestants[HIMALAYA]
    entry["speedup_himalaya"] = rival["seconds"] / ours["seconds"]
    entry["mse_ratio"] = ours["mse"] / rival["mse"]
    entry["all_draws"] = all(
        row["draws_done"] == row["draws"] for row in rows if row["contestant"] == HIMALAYA and row["threads"] == 1
    )
    if HIMALAYA_KERNEL in contestants:
        entry["speedup_himalaya_kernel"] = contestants[HIMALAYA_KERNEL]["seconds"] / ours["seconds"]
    two = {row["contestant"]: row for row in rows if row["threads"] == 2}
    if AUTO in two and HIMALAYA in two:
        # Two threads that wait for a busy core can take far longer than one alone.
        per_draw = min(two[HIMALAYA]["wall_seconds"] / two[HIMALAYA]["draws_done"], rival["seconds_per_draw"])
        entry["speedup_himalaya_2_threads"] = per_draw * rival["draws"] / two[AUTO]["wall_seconds"]
    return entry


def _means(found: Sequence[Row]) -> dict[str, Any]:
    means: dict[str, Any] = {
        "seconds": fmean(row["cpu_seconds"] for row in found),
        "mse": fmean(row["mse"] for row in found),
        "r2": fmean(row["r2"] for row in found),
    }
    if "unit_seconds" in found[0]:
        means["ridge_fits"] = fmean(row["cpu_seconds"] / row["unit_seconds"] for row in found)
        means["status"] = sorted({row["status"] for row in found})
    if "draws_done" in found[0]:
        means["draws"] = fmean(row["draws_done"] for row in found)
        means["seconds_per_draw"] = means["seconds"] / means["draws"]
    return means


def warm_up() -> None:
    """Every contestant on tiny data."""
    data = made_data(60, 2, 3, 0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for tuner in TUNERS:
            Ridge(groups=data.groups, tuner=tuner, n_jobs=1).fit(data.X, data.y).predict(data.X)
    RidgeCV(alphas=RIDGE_CV_ALPHAS).fit(data.X, data.y)
    PlainRidge().fit(data.X, data.y)
    if himalaya_version() is not None:
        for form in (HIMALAYA, HIMALAYA_KERNEL):
            fit_himalaya(form, data.X, data.y, data.groups, divisions(2, 2)).predict(data.X)


BENCH = Experiment(
    name="grouped-ridge", summary=TITLE, plan=plan, measure=measure, evaluate=evaluate, draw=draw, warm_up=warm_up
)
