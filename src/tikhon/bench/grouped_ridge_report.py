"""The page and the plot of the benchmark ``grouped-ridge``."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tikhon.harness.output import heading, number, short, table, today, versions
from tikhon.harness.runner import Evaluation, Plan
from tikhon.report.canvas import COLOURS, GREY, TICK_SIZE, new_figure, tidy

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "Ridge with a strength for each group: seconds and test error compared with himalaya and scikit-learn's RidgeCV"
MEANING = {
    "least_speedup_himalaya": "times as fast as himalaya, minimum over the sizes: at least",
    "worst_mse_ratio": "test error over himalaya's, maximum over the sizes: at most",
    "ridge_fits_20_groups": "cost of tuning 20 groups in scikit-learn Ridge fits: at most",
}

COLUMNS = (
    "data",
    "rows",
    "features",
    "data sets",
    "times as fast as himalaya",
    "as himalaya's kernels",
    "with two threads",
    "test error over himalaya's",
    "scikit-learn Ridge fits",
)


def render(made: Plan, summary: Mapping[str, Any]) -> str:
    """The report in Markdown."""
    used = versions() | ({"himalaya": summary["himalaya"]} if summary["himalaya"] else {})
    parts = [
        heading(TITLE, _about(made, summary), quick=made.quick, date=today(), used=used),
        "## Targets\n",
        table(
            ["figure", "target", "found", ""],
            [
                [meaning, short(summary["asked"][key]), short(summary[key], 4), _verdict(summary["met"][key])]
                for key, meaning in MEANING.items()
            ],
        ),
        "## The tuner auto\n",
        table(
            COLUMNS,
            [
                [
                    name,
                    *(f"{entry[key]:,}" for key in ("n_rows", "n_features", "data_sets")),
                    _bound(entry, "speedup_himalaya"),
                    "" if entry["speedup_himalaya_kernel"] is None else short(entry["speedup_himalaya_kernel"]),
                    _bound(entry, "speedup_himalaya_2_threads"),
                    number(entry["mse_ratio"], 4),
                    short(entry["ridge_fits"]),
                ]
                for name, entry in summary["sizes"].items()
            ],
        ),
    ]
    for name, entry in summary["sizes"].items():
        parts += [f"## {name}\n", _contestants(entry)]
    return "\n".join(parts)


def _bound(entry: Mapping[str, Any], key: str) -> str:
    return ("at least " if entry["all_draws"] is False else "") + short(entry[key])


def _about(made: Plan, summary: Mapping[str, Any]) -> list[str]:
    config = made.config
    about = [
        f"Simulated data: independent normal columns in groups of {config['group_size']}; the true weights of a group are "
        f"normal with a standard deviation that falls from 1 to {10.0 ** -config['span']:g} over the groups, scaled so that "
        f"the best possible R² is {config['best_r2']:g}. The noise has variance 1, so that 1 is the lowest possible test "
        f"error (mean squared error on {config['test_rows']:,} further rows). Seeds 0, 1, …; means over data sets.",
        "CPU seconds of the whole tuning and fit on one thread, with an intercept, the median of up to five runs if "
        f"one is short. A Ridge fit is scikit-learn's Ridge at alpha = 1 on the same rows, the median of "
        f"{config['unit_fits']} fits timed along with each tuning.",
    ]
    if summary["himalaya"] is None:
        about.append(
            "**himalaya is not installed: its rows are left out, and the ratios to it are missing** "
            "(`pip install 'tikhon[peers]'`)."
        )
        return about
    alphas = config["alphas"]
    budgets = ", ".join(f"{size[3]:g}" for size in config["sizes"])
    about.append(
        f"himalaya: GroupRidgeCV, its random search (numpy, double precision) with {config['draws']:,} draws and "
        f"{len(alphas)} alphas from {alphas[0]:.3g} to {alphas[-1]:.3g}, on the same {config['folds']} folds. It is "
        f"given {budgets} seconds on a data set of each size. If not all draws fit, it makes only as many of the first "
        "as a trial run shows to fit, and its time and error are those of these draws: the ratio of times is then a "
        "lower bound ('at least') on that for all draws, and its error an upper bound. With two threads the time per "
        "draw is measured on fewer draws (or taken from one thread where that is less), and multiplied by the number of "
        "draws made with one thread; times are then wall-clock seconds."
    )
    about.append(
        "himalaya, kernels: MultipleKernelRidgeCV with the same draws, alphas and folds, which himalaya recommends where "
        "there are more columns than rows; the time includes computing the kernels."
    )
    return about


def _verdict(met: bool | None) -> str:
    if met is None:
        return "not measured"
    return "met" if met else "**not met** ⚠"


def _contestants(entry: Mapping[str, Any]) -> str:
    rows = []
    for name, figures in entry["contestants"].items():
        draws = figures.get("draws")
        rows.append(
            [
                name,
                short(figures["seconds"]),
                short(figures.get("ridge_fits")) if "ridge_fits" in figures else "",
                number(figures["mse"], 4),
                number(figures["r2"], 3),
                "" if draws is None else f"{draws:,.0f} draws, {short(figures['seconds_per_draw'])} s each",
                ", ".join(figures.get("status", [])),
            ]
        )
    return table(["contestant", "seconds", "Ridge fits", "test error", "test R²", "draws", "status"], rows)


def draw(evaluation: Evaluation) -> "Figure":
    """Test error against seconds, one panel for each size."""
    sizes = evaluation.summary["sizes"]
    figure = new_figure(3.2 * max(len(sizes), 2), 3.6)
    names: list[str] = list(dict.fromkeys(name for entry in sizes.values() for name in entry["contestants"]))
    handles: dict[str, Any] = {}
    for place, (size, entry) in enumerate(sizes.items(), start=1):
        axes = figure.add_subplot(1, len(sizes), place)
        for name, figures in reversed(entry["contestants"].items()):  # the first, ours, on top
            turn, colour = divmod(names.index(name), len(COLOURS))
            handles[name] = axes.scatter(
                [figures["seconds"]],
                [figures["mse"]],
                s=42 if turn == 0 else 16,
                marker="o" if turn == 0 else "s",
                color=COLOURS[colour - turn],  # the eighth reuses the last colour
                label=name,
                clip_on=False,
            )
        axes.axhline(1.0, color=GREY, linestyle="--", linewidth=1.0)
        axes.set_xscale("log")
        axes.set_title(size, fontsize=TICK_SIZE)
        tidy(axes, x_label="CPU seconds", y_label="test error over the noise" if place == 1 else "")
    figure.legend(
        handles=[handles[name] for name in names],
        loc="outside upper left",
        ncols=4,
        fontsize=TICK_SIZE,
        frameon=False,
    )
    return figure
