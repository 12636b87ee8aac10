"""Plots, HTML pages and the demo. The extra ``plot`` is needed for drawing, not for importing."""

from tikhon.report.page import Section, Table, model_section, write_page
from tikhon.report.plots import plot_grid, plot_pooling, plot_strengths, plot_trace
from tikhon.report.search_plot import plot_search

__all__ = [
    "Section",
    "Table",
    "model_section",
    "plot_grid",
    "plot_pooling",
    "plot_search",
    "plot_strengths",
    "plot_trace",
    "write_page",
]
