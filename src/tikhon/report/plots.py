"""Plots of strengths, of a tuning's trace, and of a grid's curve.

Each returns a ``matplotlib.figure.Figure``: save it with ``figure.savefig("strengths.png")``, or draw into axes of your
own with ``ax``. Strengths are drawn on a logarithmic axis; a strength of 0 cannot be shown there and is drawn at its
left end as an open marker.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tikhon.errors import InputError
from tikhon.objective import Vector
from tikhon.report.canvas import (
    BLUE,
    COLOURS,
    GREY,
    LABEL_SIZE,
    RED,
    TICK_SIZE,
    log_limits,
    log_scale,
    new_figure,
    tidy,
    whole_figure,
)
from tikhon.results import Step, TuneResult, counted

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_NAMED = 40  # more groups than this are drawn as a curve: their names would not be readable
MOST_LINES = 7  # as many paths as there are colours
MOST_PATHS = 200  # thin lines drawn when there are more groups than colours
LONGEST_NAME = 24
DECADES_SHOWN = 12  # a strength may run to 1e300 or 1e-300, which would hide all others in a plot
STRENGTH = "strength (penalty ½ · strength · ‖w‖²)"


def plot_strengths(result_or_strengths: TuneResult | Mapping[str, float], ax: "Axes | None" = None) -> "Figure":
    """Strengths by group, the largest on top; more than 40 groups as one sorted curve. Also accepts ``model.tuning_``."""
    strengths = result_or_strengths.strengths if isinstance(result_or_strengths, TuneResult) else result_or_strengths
    if not isinstance(strengths, Mapping):
        raise InputError(f"{type(strengths).__name__} cannot be plotted: pass model.strengths_ or model.tuning_")
    if not strengths:
        raise InputError("there are no groups to plot: the mapping of strengths is empty")
    names = sorted(strengths, key=lambda name: strengths[name])
    values = np.array([strengths[name] for name in names], dtype=float)
    if ax is None:
        height = 1.1 + 0.28 * len(names) if len(names) <= MOST_NAMED else 3.6
        figure = new_figure(6.4, max(height, 1.6))
        ax = figure.add_subplot()
    else:
        figure = whole_figure(ax)
    if len(names) <= MOST_NAMED:
        _draw_named(ax, names, values)
    else:
        _draw_sorted(ax, values)
    return figure


def plot_trace(result: TuneResult) -> "Figure":
    """The criterion by step above, the groups' strengths below; rejected steps are marked by crosses."""
    if not result.trace:
        raise InputError(f"there is no trace to plot: the tuner {result.tuner!r} took no steps")
    figure = new_figure(7.4, 5.4)
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(1, 1.2))
    _draw_criterion(above, result)
    _draw_paths(below, result)
    above.set_title(
        f"{result.tuner}: {result.status}, {counted(len(result.trace), 'step')}",
        fontsize=LABEL_SIZE,
        loc="left",
        pad=10,
    )
    return figure


def plot_pooling(result: TuneResult) -> "Figure":
    """How far the strength of each group departed from the common one; more than 40 groups as one sorted curve."""
    pooling = result.extras.get("pooling")
    if pooling is None:
        raise InputError(
            f"there is no common strength to compare with: the tuner was {result.tuner!r}; tune several groups with 'auto'"
        )
    ratios = pooling["ratios"]
    names = sorted(ratios, key=lambda name: float(ratios[name]))
    values = np.array([ratios[name] for name in names], dtype=float)
    many = len(names) > MOST_NAMED
    figure = new_figure(6.4, 3.6 if many else max(1.3 + 0.28 * len(names), 1.9))
    axes = figure.add_subplot()
    label = f"common strength: {pooling['common_strength']:.3g}"
    if many:
        _draw_sorted(axes, values, (1.0, label))
        axes.set_ylabel("times the common strength", fontsize=LABEL_SIZE)
        return figure
    rows = np.arange(len(names))
    shown, _ = _on_log_axis(np.append(values, 1.0))
    log_scale(axes, "x", *log_limits(shown))
    axes.axvline(shown[-1], color=RED, linewidth=1.4, linestyle="--", label=label)
    axes.hlines(rows, shown[-1], shown[:-1], color=BLUE, linewidth=1.4, alpha=0.6)
    axes.plot(shown[:-1], rows, "o", color=BLUE, markersize=6)
    for row, place, name in zip(rows, shown[:-1], names, strict=True):
        axes.annotate(
            f"{ratios[name]:.3g} ×", (place, row), (0, 6), "data", "offset points", ha="center", fontsize=TICK_SIZE - 1
        )
    axes.set_ylim(-0.7, len(names) - 0.2)
    tidy(axes, x_label="times the common strength", y_label="")
    axes.set_yticks(rows, [_short(name) for name in names], fontsize=TICK_SIZE)
    axes.grid(visible=False, axis="y")
    axes.legend(fontsize=TICK_SIZE, frameon=False, loc="lower left", bbox_to_anchor=(0.0, 1.0))
    return figure


def plot_grid(result: TuneResult) -> "Figure":
    """The held-out loss by strength, with standard errors where there are several folds, and the chosen strength."""
    grid = result.extras.get("grid")
    if grid is None:
        raise InputError(f"there is no grid curve to plot: the tuner was {result.tuner!r}; tune with 'grid'")
    order = np.argsort(grid["strengths"])
    strengths = np.asarray(grid["strengths"], dtype=float)[order]
    losses = np.asarray(grid["losses"], dtype=float)[order]
    errors = np.array([np.nan if e is None else e for e in grid["standard_errors"]], dtype=float)[order]
    figure = new_figure(6.4, 3.6)
    axes = figure.add_subplot()
    log_scale(axes, "x", *log_limits(strengths))
    has_errors = bool(np.nan_to_num(errors).any())  # a single hold-out has none
    label = "held-out loss" + (" ± standard error" if has_errors else "")
    axes.plot(strengths, losses, color=BLUE, linewidth=1.4, marker="o", markersize=4, label=label)
    if has_errors:
        axes.fill_between(strengths, losses - errors, losses + errors, color=BLUE, alpha=0.2, linewidth=0)
    chosen = float(grid["chosen"])
    axes.axvline(chosen, color=RED, linewidth=1.4, linestyle="--", label=f"chosen: {chosen:.3g}")
    tidy(axes, x_label=STRENGTH, y_label=result.criterion_name)
    axes.legend(fontsize=TICK_SIZE, frameon=False)
    return figure


def _draw_named(axes: "Axes", names: Sequence[str], values: Vector) -> None:
    rows = np.arange(len(names))
    shown, clipped = _on_log_axis(values)
    left, right = log_limits(shown)
    log_scale(axes, "x", left, right)
    axes.hlines(rows, left, shown, color=BLUE, linewidth=1.2, alpha=0.5)
    for marks, face in ((~clipped, BLUE), (clipped, "white")):
        if marks.any():  # the layout would treat an empty line as a marker at the figure's corner
            axes.plot(shown[marks], rows[marks], "o", color=BLUE, markersize=6, markerfacecolor=face, clip_on=False)
    for row, place, value in zip(rows, shown, values, strict=True):
        axes.annotate(f"{value:.3g}", (place, row), (7, 0), "data", "offset points", va="center", fontsize=TICK_SIZE)
    axes.set_ylim(-0.7, len(names) - 0.3)
    tidy(axes, x_label=STRENGTH, y_label="")
    axes.set_yticks(rows, [_short(name) for name in names], fontsize=TICK_SIZE)
    axes.grid(visible=False, axis="y")


def _draw_sorted(axes: "Axes", values: Vector, line: tuple[float, str] | None = None) -> None:
    """The sorted values, with a line at a labelled strength or at the median."""
    shown, clipped = _on_log_axis(values)
    height, label = line or (float(np.median(shown)), f"median: {np.median(values):.3g}")
    log_scale(axes, "y", *log_limits(np.append(shown, height)))
    axes.plot(np.arange(1, len(shown) + 1), shown, color=BLUE, linewidth=2)
    axes.axhline(height, color=RED, linewidth=1.2, linestyle="--", label=label)
    note = f", {clipped.sum():,} beyond the axis" if clipped.any() else ""
    tidy(axes, x_label=f"{len(values):,} groups, sorted by strength{note}", y_label="strength")
    axes.legend(fontsize=TICK_SIZE, frameon=False)


def _draw_criterion(axes: "Axes", result: TuneResult) -> None:
    accepted = [step for step in result.trace if step.accepted and np.isfinite(step.criterion)]
    rejected = [step for step in result.trace if not step.accepted]
    if accepted:
        axes.plot(
            _numbers(accepted), [s.criterion for s in accepted], color=BLUE, marker="o", markersize=4, linewidth=1.4
        )
    if rejected:
        # A rejected step can be anywhere, even infinite: it is clipped to the limits rather than allowed to set them.
        low, high = axes.get_ylim()
        heights = np.clip(np.nan_to_num([s.criterion for s in rejected], nan=high, posinf=high, neginf=low), low, high)
        axes.set_ylim(low, high)
        axes.plot(_numbers(rejected), heights, "x", color=RED, markersize=7, clip_on=False, label="rejected step")
        axes.legend(fontsize=TICK_SIZE, frameon=False)
    tidy(axes, x_label="", y_label=result.criterion_name)
    axes.ticklabel_format(axis="y", useOffset=False)


def _draw_paths(axes: "Axes", result: TuneResult) -> None:
    from matplotlib.ticker import MaxNLocator

    names = list(result.strengths)
    steps = [step for step in result.trace if step.accepted] or list(result.trace)
    numbers = _numbers(steps)
    paths, _ = _on_log_axis(np.array([step.strengths for step in steps], dtype=float))
    log_scale(axes, "y", *log_limits(paths))
    if len(names) <= MOST_LINES:
        for name, path, colour in zip(names, paths.T, COLOURS, strict=False):
            axes.plot(numbers, path, color=colour, linewidth=1.6, marker="o", markersize=3, label=_short(name))
        if len(names) > 1:
            _legend_beside(axes, "group")
    else:
        order = np.argsort(paths[-1], kind="stable")
        drawn = order[np.unique(np.linspace(0, len(order) - 1, MOST_PATHS).astype(int))]
        axes.plot(numbers, paths[:, drawn], color=GREY, linewidth=0.5, alpha=0.4)
        axes.plot(numbers, np.median(paths, axis=1), color=BLUE, linewidth=2.2, label="median")
        low, high = np.quantile(paths, (0.1, 0.9), axis=1)
        axes.plot(numbers, low, color=RED, linewidth=1.4, linestyle="--", label="10 % and 90 %")
        axes.plot(numbers, high, color=RED, linewidth=1.4, linestyle="--")
        _legend_beside(axes, f"{len(names):,} groups")
    tidy(axes, x_label="step", y_label="strength" if len(names) > 1 else f"strength of {_short(names[0])}")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))


def _legend_beside(axes: "Axes", title: str) -> None:
    axes.legend(
        title=title,
        title_fontsize=TICK_SIZE,
        fontsize=TICK_SIZE,
        frameon=False,
        loc="upper left",
        bbox_to_anchor=(1.01, 1.0),
        alignment="left",
    )


def _numbers(steps: Sequence[Step]) -> list[int]:
    return [step.number for step in steps]


def _on_log_axis(values: Vector) -> tuple[Vector, NDArray[np.bool_]]:
    """The values clipped to a readable range of a logarithmic axis, and which of them were clipped."""
    usable = values[np.isfinite(values) & (values > 0)]
    middle = float(np.exp(np.median(np.log(usable)))) if usable.size else 1.0
    low, high = middle * 10.0**-DECADES_SHOWN, middle * 10.0**DECADES_SHOWN
    within = usable[(usable >= low) & (usable <= high)]
    edge = within.min() / 10.0 if within.size else middle / 10.0
    shown = np.where(
        values < low, edge, np.where(values > high, within.max() * 10.0 if within.size else middle, values)
    )
    return shown, shown != values


def _short(name: str) -> str:
    """The name, shortened in the middle if long, and escaped where matplotlib would read a formula or a hidden label."""
    if len(name) > LONGEST_NAME:
        half = (LONGEST_NAME - 1) // 2
        name = f"{name[:half]}…{name[-half:]}"
    return (" " if name.startswith("_") else "") + name.replace("$", r"\$")
