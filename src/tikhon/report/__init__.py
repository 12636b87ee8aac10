"""Plots, HTML pages and the demo. Needs the extra ``plot`` when something is drawn, not when it is imported."""

from tikhon.report.page import Section, Table, model_section, write_page
from tikhon.report.plots import plot_grid, plot_pooling, plot_strengths, plot_trace

__all__ = [
    "Section",
    "Table",
    "model_section",
    "plot_grid",
    "plot_pooling",
    "plot_strengths",
    "plot_trace",
    "write_page",
]
