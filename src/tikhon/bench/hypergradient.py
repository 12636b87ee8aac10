"""The cost of one hypergradient as the number of groups grows: always one fit and one linear solve per pair.

Sparse logistic regression on simulated data, one hold-out pair. The columns are divided into 10, 100, 1,000 and 10,000
groups; all strengths are 1, so that theta is the same point each time and fit and solve do the same work. Each round
measures all of them in turn, and ratios of medians are reported: temporary slowdowns of the machine affect all of them.
"""

from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from tikhon.groups import weight_groups
from tikhon.harness.output import heading, short, table, today, versions
from tikhon.harness.runner import Evaluation, Experiment, Plan, RowSpec
from tikhon.harness.store import Row
from tikhon.harness.timing import Clock
from tikhon.models import Logistic
from tikhon.objective import Pair
from tikhon.report.canvas import BLUE, GREY, new_figure, tidy
from tikhon.solvers import make_solver
from tikhon.tuners.base import Problem
from tikhon.tuners.hypergradient import hypergradient

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "The cost of one hypergradient by the number of groups"
GROUPS = (10, 100, 1_000, 10_000)
N_FEATURES = 20_000
N_ROWS, QUICK_ROWS = 4_000, 1_000
PER_ROW = 50  # non-zeros
ROUNDS, QUICK_ROUNDS = 9, 3
ALLOWED = 1.2  # time for 10,000 groups over that for 10
ACCURACY = 1e-6


def made_problem(n_rows: int, n_groups: int) -> Problem:
    """Sparse rows whose columns are assigned to the groups in turn; a fifth of the rows is held out."""
    rng = np.random.default_rng(0)
    columns = rng.integers(0, N_FEATURES, size=n_rows * PER_ROW)
    starts = np.arange(0, n_rows * PER_ROW + 1, PER_ROW)
    X = sparse.csr_matrix((rng.normal(size=len(columns)), columns, starts), shape=(n_rows, N_FEATURES))
    X.sum_duplicates()
    truth = rng.normal(size=N_FEATURES)
    y = (X @ truth + 3.0 * rng.normal(size=n_rows) > 0).astype(np.float64)
    objective = Logistic(X, y, fit_intercept=True)
    names = [str(column % n_groups) for column in range(N_FEATURES)]
    groups = weight_groups(names, [str(column) for column in range(N_FEATURES)], n_outputs=1, fit_intercept=True)
    held_out = (np.arange(n_rows) % 5 == 0).astype(np.float64)
    pair = Pair(
        objective.reweighted(1.0 - held_out), objective.reweighted(held_out), n_rows - held_out.sum(), held_out.sum()
    )
    solver = make_solver("auto", tol=1e-8, max_iter=1000)
    return Problem(objective=objective, groups=groups, solver=solver, pairs=[pair], total_weight=float(n_rows))


def measure(params: dict[str, Any], folder: Path | None) -> Row:
    """One round: each number of groups once."""
    seconds, products = {}, {}
    turn = params["round"] % len(params["groups"])  # rotated, since the first one finds cold caches
    for n_groups in params["groups"][turn:] + params["groups"][:turn]:
        problem = made_problem(params["rows"], n_groups)
        theta = np.zeros(problem.groups.count)
        clock = Clock()
        found = hypergradient(problem, theta, accuracy=ACCURACY)
        seconds[str(n_groups)] = clock.read()[1]
        products[str(n_groups)] = found.n_products
    return {"seconds": seconds, "n_products": products}


def plan(quick: bool) -> Plan:
    rows, rounds = (QUICK_ROWS, QUICK_ROUNDS) if quick else (N_ROWS, ROUNDS)
    params = {"rows": rows, "groups": list(GROUPS)}
    specs = [
        RowSpec(key=f"round {number}", batch="rounds", params={"round": number, **params}) for number in range(rounds)
    ]
    config = {**params, "features": N_FEATURES, "per_row": PER_ROW, "accuracy": ACCURACY, "rounds": rounds}
    return Plan(config=config, rows=specs, quick=quick)


def evaluate(made: Plan, rows: list[Row]) -> Evaluation:
    seconds = {n_groups: median(row["seconds"][str(n_groups)] for row in rows) for n_groups in GROUPS}
    entries = [
        {
            "groups": n_groups,
            "seconds": seconds[n_groups],
            "ratio": seconds[n_groups] / seconds[GROUPS[0]],
            "n_products": rows[0]["n_products"][str(n_groups)],
        }
        for n_groups in GROUPS
    ]
    largest = max(entry["ratio"] for entry in entries)
    summary = {
        "features": N_FEATURES,
        "ratios": {str(entry["groups"]): entry["ratio"] for entry in entries},
        "largest_ratio": largest,
        "allowed": ALLOWED,
        "met": largest <= ALLOWED,
    }
    about = (
        f"Sparse logistic regression, {made.config['rows']:,} rows, {N_FEATURES:,} features, {PER_ROW} non-zeros per "
        f"row, one hold-out pair, cold start; the median of {len(rows)} rounds, CPU seconds, one thread."
    )
    header = ["groups", "seconds", f"over {GROUPS[0]} groups", "Hessian products"]
    cells = [
        [f"{entry['groups']:,}", short(entry["seconds"]), f"{entry['ratio']:.3f}", str(entry["n_products"])]
        for entry in entries
    ]
    verdict = f"Target: at most {ALLOWED}. {'Met' if summary['met'] else '**Not met** ⚠'}.\n"
    top = heading(TITLE, [about], quick=made.quick, date=today(), used=versions())
    return Evaluation(summary=summary, aggregates=entries, markdown="\n".join([top, table(header, cells), verdict]))


def draw(evaluation: Evaluation) -> "Figure":
    figure = new_figure(6.0, 3.4)
    axes = figure.add_subplot()
    entries = evaluation.aggregates
    axes.plot([entry["groups"] for entry in entries], [entry["ratio"] for entry in entries], "o-", color=BLUE)
    axes.axhline(ALLOWED, color=GREY, linestyle="--", linewidth=1.0)
    axes.set_xscale("log")
    axes.set_ylim(0.0, max(1.5, 1.1 * evaluation.summary["largest_ratio"]))
    tidy(axes, x_label="groups", y_label=f"time of one hypergradient relative to {GROUPS[0]} groups")
    return figure


def warm_up() -> None:
    problem = made_problem(100, GROUPS[0])
    hypergradient(problem, np.zeros(problem.groups.count), accuracy=ACCURACY)


BENCH = Experiment(
    name="hypergradient", summary=TITLE, plan=plan, measure=measure, evaluate=evaluate, draw=draw, warm_up=warm_up
)
