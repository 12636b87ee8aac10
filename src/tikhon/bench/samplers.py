"""How close samplers come to the minimum of known functions, and what a proposal costs.

Each starts from the same ten Sobol points but for "GPSampler as shipped", which draws its own ten. In two fidelities the
function is also known in a cheap form, at 0.3 of the cost, like the score of a fit on 30 % of the rows: searches of equal total
cost use the exact form alone, or spend half of the cost on the cheap form first.
"""

from collections.abc import Callable, Sequence
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import wilcoxon

from tikhon.harness.output import heading, short, table, today, versions
from tikhon.harness.runner import Evaluation, Experiment, Plan, RowSpec
from tikhon.harness.store import Row
from tikhon.harness.timing import Clock
from tikhon.objective import Vector
from tikhon.report.canvas import COLOURS, new_figure, tidy

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from optuna.distributions import FloatDistribution
    from optuna.samplers import BaseSampler

TITLE = "Samplers on functions whose minimum is known"
TRIALS, START, FIRST_SEED, SEEDS = 50, 10, 200, 20
CHEAP, CHEAP_TRIALS, EXACT_TRIALS = 0.3, 40, 13  # in two fidelities; of equal cost as 25 exact trials
QUICK_TRIALS, QUICK_SEEDS = 12, 2
OURS, GP, GP_ALONE = "tikhon", "GPSampler", "GPSampler as shipped"


def branin(x: Vector) -> float:
    a, b = x
    bowl = b - 5.1 / (4.0 * np.pi**2) * a**2 + 5.0 / np.pi * a - 6.0
    return float(bowl**2 + 10.0 * (1.0 - 1.0 / (8.0 * np.pi)) * np.cos(a) + 10.0)


HARTMANN_A = np.array(
    [[10, 3, 17, 3.5, 1.7, 8], [0.05, 10, 17, 0.1, 8, 14], [3, 3.5, 1.7, 10, 17, 8], [17, 8, 0.05, 10, 0.1, 14]]
)
HARTMANN_P = 1e-4 * np.array(
    [
        [1312, 1696, 5569, 124, 8283, 5886],
        [2329, 4135, 8307, 3736, 1004, 9991],
        [2348, 1451, 3522, 2883, 3047, 6650],
        [4047, 8828, 8732, 5743, 1091, 381],
    ]
)


def hartmann(x: Vector, fidelity: float = 1.0) -> float:
    """Below a fidelity of 1 the first peak is higher, as in BoTorch's augmented form, and all are moved and raised."""
    moved = np.clip(x + 0.05 * (1.0 - fidelity) / (1.0 - CHEAP), 0.0, 1.0)
    heights = np.array([1.0 - 0.1 * (1.0 - fidelity), 1.2, 3.0, 3.2])
    peaks = np.exp(-(HARTMANN_A * (moved - HARTMANN_P) ** 2).sum(axis=1))
    return float(0.5 * (1.0 - fidelity) / (1.0 - CHEAP) - heights @ peaks)


def levy(x: Vector) -> float:
    w = 1.0 + (x - 1.0) / 4.0
    middle = (w[:-1] - 1.0) ** 2 * (1.0 + 10.0 * np.sin(np.pi * w[:-1] + 1.0) ** 2)
    last = (w[-1] - 1.0) ** 2 * (1.0 + np.sin(2.0 * np.pi * w[-1]) ** 2)
    return float(np.sin(np.pi * w[0]) ** 2 + middle.sum() + last)


FUNCTIONS: dict[str, tuple[Callable[[Vector], float], Sequence[tuple[float, float]], float]] = {
    "Branin": (branin, [(-5.0, 10.0), (0.0, 15.0)], 0.397887357729738),
    "Hartmann-6": (hartmann, [(0.0, 1.0)] * 6, -3.32236801141551),
    "Levy-20": (levy, [(-10.0, 10.0)] * 20, 0.0),
}
SAMPLERS = (OURS, GP, GP_ALONE, "TPESampler", "random")
TWO_FIDELITIES = {
    "exact": "exact alone",
    "cheap": "cheap first, fidelity as an input",
    "rerun": "cheap first, best run again",
}


def make_sampler(name: str, seed: int) -> "BaseSampler":
    from optuna.samplers import GPSampler, RandomSampler, TPESampler

    from tikhon.search.sampler import GaussianProcessSampler

    if name in (GP, GP_ALONE):
        return GPSampler(seed=seed, n_startup_trials=START)
    makers: dict[str, type[BaseSampler]] = {
        OURS: GaussianProcessSampler,
        "TPESampler": TPESampler,
        "random": RandomSampler,
    }
    made: Any = makers[name]
    sampler: BaseSampler = made(seed=seed)
    return sampler


def measure(params: dict[str, Any], folder: Path | None) -> Row:
    """One sampler on one function from one seed."""
    from tikhon.search.encoding import sobol_points

    if params["kind"] == "fidelity":
        return _two_fidelities(params)
    function, bounds, least = FUNCTIONS[params["function"]]
    space = _space(bounds)
    clock = Clock()
    values, seconds = _minimised(
        make_sampler(params["sampler"], params["seed"]), space, function, params["trials"],
        [] if params["sampler"] == GP_ALONE else sobol_points(space, START, params["seed"]),
    )  # fmt: skip
    return {
        "regrets": (np.minimum.accumulate([value for _, value in values]) - least).tolist(),
        "seconds_per_proposal": seconds / params["trials"],
        "seconds": clock.read()[0],
    }


def _space(bounds: Sequence[tuple[float, float]]) -> "dict[str, FloatDistribution]":
    from optuna.distributions import FloatDistribution

    return {f"x{number:02d}": FloatDistribution(low, high) for number, (low, high) in enumerate(bounds)}


def _minimised(
    sampler: "BaseSampler", space: "dict[str, FloatDistribution]", function: Callable[[Vector], float], n_trials: int,
    start: Sequence[dict[str, Any]],
) -> tuple[list[tuple[dict[str, Any], float]], float]:  # fmt: skip
    """The trials, and the CPU seconds of all proposals."""
    import optuna

    from tikhon.search.storage import quiet

    with quiet():
        study = optuna.create_study(sampler=sampler)
        for params in start:
            study.enqueue_trial(params)
    found, seconds = [], 0.0
    for _ in range(n_trials):
        clock = Clock()
        trial = study.ask(dict(space))
        seconds += clock.read()[1]
        value = function(np.array([trial.params[name] for name in space]))
        study.tell(trial, value)
        found.append((trial.params, value))
    return found, seconds


def _two_fidelities(params: dict[str, Any]) -> Row:
    from tikhon.search.encoding import sobol_points
    from tikhon.search.sampler import Evaluated, GaussianProcessSampler

    _, bounds, least = FUNCTIONS["Hartmann-6"]
    space, seed = _space(bounds), params["seed"]
    n_cheap, n_exact = (CHEAP_TRIALS, EXACT_TRIALS) if params["trials"] == TRIALS else (8, 4)
    exact: Callable[[Vector], float] = hartmann
    if params["sampler"] == "exact":
        n_exact += round(CHEAP * n_cheap)
        found = _minimised(GaussianProcessSampler(seed), space, exact, n_exact, sobol_points(space, START, seed))[0]
    else:
        cheap = partial(hartmann, fidelity=CHEAP)
        start = sobol_points(space, START, seed)
        first = _minimised(GaussianProcessSampler(seed), space, cheap, n_cheap, start)[0]
        if params["sampler"] == "cheap":
            earlier = [Evaluated(point, value, CHEAP) for point, value in first]
            found = _minimised(GaussianProcessSampler(seed, earlier=earlier), space, exact, n_exact, [])[0]
        else:
            best = sorted(first, key=lambda one: one[1])[:n_exact]
            found = [(point, exact(np.array([point[name] for name in space]))) for point, _ in best]
    return {"regrets": [min(value for _, value in found) - least]}


def plan(quick: bool) -> Plan:
    trials, seeds = (QUICK_TRIALS, QUICK_SEEDS) if quick else (TRIALS, SEEDS)
    has_torch = find_spec("torch") is not None
    samplers = [name for name in SAMPLERS if has_torch or name not in (GP, GP_ALONE)]
    cases = [("function", function, sampler) for function in FUNCTIONS for sampler in samplers]
    cases += [("fidelity", "Hartmann-6", how) for how in TWO_FIDELITIES]
    rows = [
        RowSpec(
            key=f"{kind}/{function}/{sampler}/{seed}",
            batch=f"{kind}/{function}",
            params={"kind": kind, "function": function, "sampler": sampler, "seed": seed, "trials": trials},
            cost=5 if sampler in (GP, GP_ALONE) else 1,
        )
        for kind, function, sampler in cases
        for seed in range(FIRST_SEED, FIRST_SEED + seeds)
    ]
    return Plan(config={"trials": trials, "start": START, "seeds": seeds, "samplers": samplers}, rows=rows, quick=quick)


def evaluate(made: Plan, rows: list[Row]) -> Evaluation:
    entries = []
    for kind, function, sampler in dict.fromkeys((row["kind"], row["function"], row["sampler"]) for row in rows):
        own = _of(rows, kind, function, sampler)
        last = np.array([row["regrets"][-1] for row in own])
        low, median, high = np.quantile(last, (0.25, 0.5, 0.75))
        ours = np.array([row["regrets"][-1] for row in _of(rows, kind, function, OURS)])
        differences = (ours - last)[ours != last] if kind == "function" else np.zeros(0)
        p = float(wilcoxon(differences).pvalue) if len(differences) > 0 else None
        curves = np.array([row["regrets"] for row in own])
        entries.append(
            {
                "kind": kind, "function": function, "sampler": sampler, "median": median, "quartiles": [low, high],
                "p_value": p, "curve": np.median(curves, axis=0).tolist(),
                "seconds_per_proposal": float(np.median([row.get("seconds_per_proposal", np.nan) for row in own])),
            }
        )  # fmt: skip
    by = {(one["kind"], one["function"], one["sampler"]): one for one in entries}
    summary: dict[str, Any] = {}
    for function in FUNCTIONS:
        if ("function", function, GP) in by:
            rival, own_entry = by["function", function, GP], by["function", function, OURS]
            beyond_chance = rival["p_value"] is not None and rival["p_value"] < 0.05
            summary[f"{function}_no_worse"] = own_entry["median"] <= rival["median"] or not beyond_chance
    exact, cheap = (by["fidelity", "Hartmann-6", how]["median"] for how in ("exact", "cheap"))
    summary["two_fidelities"] = cheap / exact
    summary["most_seconds_per_proposal"] = max(
        one["seconds_per_proposal"] for one in entries if one["sampler"] == OURS and one["kind"] == "function"
    )
    return Evaluation(summary=summary, aggregates=entries, markdown=_render(made, entries, summary))


def _of(rows: Sequence[Row], kind: str, function: str, sampler: str) -> list[Row]:
    own = [row for row in rows if (row["kind"], row["function"], row["sampler"]) == (kind, function, sampler)]
    return sorted(own, key=lambda row: int(row["seed"]))


def _render(made: Plan, entries: Sequence[dict[str, Any]], summary: dict[str, Any]) -> str:
    about = (
        f"Regret: the least value found less the minimum, after {made.config['trials']} trials, of which the first {START} "
        "are the same Sobol points for all but GPSampler as shipped. Medians and quartiles of "
        f"{made.config['seeds']} seeds that were not used for choosing; p: Wilcoxon's test of paired seeds against tikhon's "
        "sampler. CPU seconds."
    )
    cells = [
        [
            f"{one['function']}, {one['sampler']}", short(one["median"]),
            f"{short(one['quartiles'][0])} to {short(one['quartiles'][1])}", short(one["p_value"], 2),
            short(one["seconds_per_proposal"], 2),
        ]
        for one in entries
        if one["kind"] == "function"
    ]  # fmt: skip
    fidelity = [
        [TWO_FIDELITIES[one["sampler"]], short(one["median"]), " to ".join(short(value) for value in one["quartiles"])]
        for one in entries
        if one["kind"] == "fidelity"
    ]
    top = heading(TITLE, [about], quick=made.quick, date=today(), used={**versions(), "optuna": version("optuna")})
    cheap = (
        f"Hartmann-6 in two fidelities, at the cost of {round(CHEAP * CHEAP_TRIALS) + EXACT_TRIALS} exact trials: the cheap "
        f"form costs {CHEAP}, its optimum is moved by 0.05 in every coordinate. {CHEAP_TRIALS} cheap and {EXACT_TRIALS} exact "
        f"trials with the fidelity as an input end at {summary['two_fidelities']:.2g} of the regret of exact trials alone "
        "(asked: 0.5).\n"
    )
    return "\n".join(
        [
            top,
            table(["function, sampler", "regret", "quartiles", "p", "seconds per proposal"], cells),
            cheap,
            table(["two fidelities", "regret", "quartiles"], fidelity),
        ]
    )


def draw(evaluation: Evaluation) -> "Figure":
    """Median regret by trial, a panel for each function."""
    figure = new_figure(3.6 * len(FUNCTIONS), 3.4)
    for axes, function in zip(figure.subplots(1, len(FUNCTIONS)), FUNCTIONS, strict=True):
        own = [one for one in evaluation.aggregates if one["kind"] == "function" and one["function"] == function]
        for one, colour in zip(own, COLOURS, strict=False):
            axes.plot(range(1, len(one["curve"]) + 1), one["curve"], color=colour, label=one["sampler"])
        axes.set_yscale("log")
        axes.set_title(function, fontsize=10)
        tidy(axes, x_label="trials", y_label="median regret")
    axes.legend(frameon=False, fontsize=8)
    return figure


def warm_up() -> None:
    measure({"kind": "function", "function": "Branin", "sampler": OURS, "seed": 0, "trials": START + 1}, None)


BENCH = Experiment(
    name="samplers", summary=TITLE, plan=plan, measure=measure, evaluate=evaluate, draw=draw, warm_up=warm_up
)
