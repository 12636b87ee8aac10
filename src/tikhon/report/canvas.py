"""Figures without global state: no pyplot, no rcParams, no chosen backend.

matplotlib is imported inside the functions, so that everything else works without the extra ``plot``.
"""

import base64
import io
import textwrap
from typing import TYPE_CHECKING, Literal

import numpy as np

from tikhon.errors import MissingExtra
from tikhon.objective import Vector

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's colours, distinguishable with any kind of colour vision, without the yellow, which is too pale.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
BLUE, RED = COLOURS[0], COLOURS[1]
GREY = "#666666"
LABEL_SIZE, TICK_SIZE = 10, 9


def new_figure(width: float, height: float) -> "Figure":
    """An empty figure of this size in inches, laid out so that no label is cut."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtra("plots need matplotlib: pip install 'tikhon[plot]'") from error
    figure = Figure(figsize=(width, height), layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    return figure


def whole_figure(axes: "Axes") -> "Figure":
    """The figure that holds these axes, also if they are in a subfigure."""
    from matplotlib.figure import SubFigure

    holder = axes.figure
    while isinstance(holder, SubFigure):
        holder = holder.figure
    return holder


def tidy(axes: "Axes", *, x_label: str, y_label: str) -> None:
    """Labels, a faint grid, and no frame on the sides without a scale."""
    axes.set_xlabel(x_label, fontsize=LABEL_SIZE)
    axes.set_ylabel(textwrap.fill(y_label, 26), fontsize=LABEL_SIZE)
    axes.tick_params(labelsize=TICK_SIZE)
    axes.grid(visible=True, color="#DDDDDD", linewidth=0.6)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def log_limits(values: Vector) -> tuple[float, float]:
    """Limits of a logarithmic axis: room on both sides of the values, and at least two powers of ten to label."""
    low, high = float(np.log10(values.min())), float(np.log10(values.max()))
    margin = 0.1 * max(high - low, 1.0)
    if high - low < 1.0:
        return 10.0 ** min(np.floor(low), low - margin), 10.0 ** max(np.ceil(high), high + margin)
    return 10.0 ** (low - margin), 10.0 ** (high + 1.6 * margin)


def log_scale(axes: "Axes", which: Literal["x", "y"], low: float, high: float) -> None:
    """A logarithmic axis with labels at powers of ten only: those between them would overlap."""
    from matplotlib.ticker import NullFormatter

    if which == "x":
        axes.set_xscale("log")
        axes.set_xlim(low, high)
        axes.xaxis.set_minor_formatter(NullFormatter())
    else:
        axes.set_yscale("log")
        axes.set_ylim(low, high)
        axes.yaxis.set_minor_formatter(NullFormatter())


def png_bytes(figure: "Figure", dpi: int = 144) -> bytes:
    """The figure as a PNG; the same figure gives the same bytes."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=dpi, metadata={"Software": None})
    return buffer.getvalue()


def png_address(figure: "Figure") -> str:
    """The figure as a data URL that can be embedded in a page."""
    return "data:image/png;base64," + base64.b64encode(png_bytes(figure)).decode("ascii")
