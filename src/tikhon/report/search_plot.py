"""A plot of a search: the best score against time, and each parameter against the score."""

from typing import TYPE_CHECKING, Any

import numpy as np

from tikhon.errors import InputError
from tikhon.report.canvas import COLOURS, GREY, LABEL_SIZE, new_figure, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_PARAMETERS = 11  # with the curve, three rows of four panels
ACROSS = 4
WIDE_RANGE = 50.0  # largest over smallest value from which a parameter is drawn on a logarithmic axis
LONGEST_NAME = 18


def plot_search(search: Any) -> "Figure":
    """The trials of a fitted ``MultiStageSearchCV``, by stage: trials that failed are left out of the panels."""
    results = getattr(search, "cv_results_", None)
    if results is None or "elapsed" not in results:
        raise InputError(f"{type(search).__name__} cannot be plotted: pass a fitted MultiStageSearchCV")
    metric = search.refit if search.multimetric_ else "score"
    scores = np.asarray(results[f"mean_test_{metric}"], dtype=float)
    good = np.asarray(results["status"]) == "ok"
    stages = np.asarray(results["stage"])
    names = [name.removeprefix("param_") for name in results if name.startswith("param_")][:MOST_PARAMETERS]
    n_panels = len(names) + 1
    across = min(ACROSS, n_panels)
    down = -(-n_panels // across)
    figure = new_figure(3.3 * across + 0.6, 2.9 * down + 0.4)
    panels = list(np.ravel(figure.subplots(down, across, squeeze=False)))
    label = "score" if metric == "score" else metric
    _draw_curve(panels[0], np.asarray(results["elapsed"]), scores, stages, good, label)
    for axes, name in zip(panels[1:], names, strict=False):
        values = [results["params"][i][name] for i in range(len(scores))]
        _draw_parameter(axes, name, values, scores, stages, good, search.best_index_, label)
    for axes in panels[n_panels:]:
        axes.axis("off")
    return figure


def _draw_curve(axes: "Axes", elapsed: Any, scores: Any, stages: Any, good: Any, label: str) -> None:
    """Each stage has a curve of its own: scores of stages on few rows are lower than they would be on all."""
    for stage in np.unique(stages):
        own = np.flatnonzero((stages == stage) & good)
        own = own[np.argsort(elapsed[own], kind="stable")]
        colour = COLOURS[(int(stage) - 1) % len(COLOURS)]
        axes.plot(elapsed[own], scores[own], "o", color=colour, markersize=3, alpha=0.5)
        axes.step(
            elapsed[own], np.maximum.accumulate(scores[own]), where="post", color=colour, label=f"best of stage {stage}"
        )
    tidy(axes, x_label="seconds", y_label=label)
    axes.legend(frameon=False, fontsize=8, loc="lower right")


def _draw_parameter(
    axes: "Axes", name: str, values: list[Any], scores: Any, stages: Any, good: Any, best: int, label: str
) -> None:  # fmt: skip
    is_number = all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
    if is_number:
        places = np.array(values, dtype=float)
        if places.min() > 0.0 and places.max() > WIDE_RANGE * places.min():
            axes.set_xscale("log")
    else:
        texts = [str(value) for value in values]
        kinds = list(dict.fromkeys(texts))
        spread = np.random.default_rng(0).uniform(-0.2, 0.2, len(texts))  # equal choices side by side
        places = np.array([kinds.index(text) for text in texts]) + spread
        axes.set_xticks(range(len(kinds)), [_shortened(kind) for kind in kinds], rotation=20, ha="right")
        axes.set_xlim(-0.5, len(kinds) - 0.5)
    for stage in np.unique(stages):
        own = (stages == stage) & good
        axes.plot(
            places[own], scores[own], "o", color=COLOURS[(int(stage) - 1) % len(COLOURS)], markersize=4, alpha=0.7
        )
    axes.axvline(places[best], color=GREY, linestyle=":", linewidth=1.0)
    tidy(axes, x_label=name, y_label=label)
    axes.xaxis.label.set_fontsize(LABEL_SIZE)


def _shortened(text: str) -> str:
    return text if len(text) <= LONGEST_NAME else text[: LONGEST_NAME - 1] + "…"
