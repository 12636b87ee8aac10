"""A self-contained HTML page: tables and plots of one or several models, without scripts or network access."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np

from tikhon.data.files import replacing
from tikhon.errors import InputError, MissingExtra
from tikhon.groups import Groups
from tikhon.report.canvas import png_address
from tikhon.report.plots import plot_grid, plot_pooling, plot_strengths, plot_trace
from tikhon.results import TuneResult

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_ROWS = 200  # of a table of groups; the plot shows all


@dataclass(frozen=True, eq=False)
class Table:
    """Rows of cells; numbers are right-aligned and shown with four significant digits."""

    columns: Sequence[str]
    rows: Sequence[Sequence[object]]
    caption: str = ""
    marked: frozenset[int] = frozenset()  # rows to highlight


@dataclass(frozen=True, eq=False)
class Section:
    """A heading, paragraphs of plain text, tables, and figures with their captions."""

    heading: str
    paragraphs: Sequence[str] = ()
    tables: Sequence[Table] = ()
    figures: Sequence[tuple[str, "Figure"]] = field(default=())


class Fitted(Protocol):
    """The attributes of a fitted estimator that a section shows."""

    strengths_: Mapping[str, float]
    tuning_: TuneResult
    groups_: Groups


def model_section(heading: str, model: Fitted) -> Section:
    """The strengths and the tuning of one fitted model: a table of its groups, and every plot that it has data for."""
    result, groups = model.tuning_, model.groups_
    norms = np.sqrt(groups.collect(result.weights**2))
    order = np.argsort([-model.strengths_[name] for name in groups.names], kind="stable")
    rows = [
        (groups.names[g], model.strengths_[groups.names[g]], int(groups.sizes[g]), float(norms[g]))
        for g in order[:MOST_ROWS]
    ]
    left_out = groups.count - len(rows)
    caption = f"The {MOST_ROWS} largest of {groups.count:,} strengths." if left_out else ""
    figures: list[tuple[str, Figure]] = [("Strengths by group.", plot_strengths(result))]
    if result.trace:
        figures.append((f"Trace: {result.criterion_name} and strengths by step.", plot_trace(result)))
    tables = [Table(("group", "strength", "weights", "norm of weights"), rows, caption)]
    pooling = result.extras.get("pooling")
    if pooling is not None:
        figures.insert(1, ("Departures from the common strength.", plot_pooling(result)))
        reasons = pooling["reasons"]
        told = [(row[0], pooling["ratios"][row[0]], reasons[row[0]]) for row in rows if row[0] in reasons]
        tables.append(Table(("group", "times the common strength", "why not further"), told))
    if "grid" in result.extras:
        figures.append(("Held-out loss along the grid.", plot_grid(result)))
    return Section(
        heading,
        [result.summary(), *result.notes, *(f"Warning: {text}" for text in result.warnings)],
        tables,
        figures,
    )


def write_page(path: str | os.PathLike[str], title: str, sections: Sequence[Section]) -> Path:
    """Write the page atomically: to a temporary file, which is then renamed."""
    try:
        from jinja2 import Environment
    except ImportError as error:
        raise MissingExtra("HTML pages need jinja2: pip install 'tikhon[plot]'") from error
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters["cell"] = format_cell
    environment.filters["png"] = png_address
    environment.tests["numeric"] = _is_number
    source = resources.files("tikhon.report").joinpath("page.html.j2").read_text(encoding="utf-8")
    text = environment.from_string(source).render(title=title, sections=sections)
    place = Path(path)
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{place.parent} cannot be created: {error.strerror or error}") from error
    with replacing(place) as file:
        file.write(text.encode("utf-8"))
    return place


def format_cell(value: object) -> str:
    """A cell's text: empty for None, four significant digits for a float, thousands separators in a count."""
    if value is None:
        return ""
    if isinstance(value, float | np.floating):
        return f"{value:.4g}"
    if _is_number(value):
        return f"{value:,}"
    return str(value)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)
