"""Output of experiments: JSON, Markdown tables, versions and date, but nothing about the machine."""

import json
import math
import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from tikhon._version import __version__
from tikhon.data.files import replacing


def versions() -> dict[str, str]:
    """The versions that results may depend on."""
    libraries = {name: version(name) for name in ("numpy", "scipy", "scikit-learn")}
    return {"tikhon": __version__, "python": platform.python_version(), **libraries}


def today() -> str:
    return datetime.now(UTC).date().isoformat()


def plain(value: Any) -> Any:
    """The value with numpy types converted to Python's, NaN and infinities to None, for JSON."""
    if isinstance(value, dict):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def write_json(path: Path, document: Any) -> None:
    write(path, (json.dumps(plain(document), indent=1, allow_nan=False) + "\n").encode())


def write(path: Path, content: bytes) -> None:
    """Write a temporary file and rename it, so that a reader sees either the old file or the new one."""
    with replacing(path) as file:
        file.write(content)


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table; the first column left-aligned, the others right-aligned."""
    rule = ["---", *["---:"] * (len(header) - 1)]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (header, rule, *rows)) + "\n"


def number(value: float | None, digits: int = 2) -> str:
    """A fixed number of decimals; "n/a" for None."""
    return "n/a" if value is None else f"{value:.{digits}f}"


def short(value: float | None, digits: int = 3) -> str:
    """Significant digits; "n/a" for None."""
    return "n/a" if value is None else f"{value:.{digits}g}"


def spread(mean: float | None, deviation: float | None, digits: int = 2) -> str:
    """ "mean ± deviation", or the mean alone if there was one split."""
    if mean is None or deviation is None:
        return number(mean, digits)
    return f"{mean:.{digits}f} ± {deviation:.{digits}f}"


def heading(title: str, paragraphs: Sequence[str], *, quick: bool, date: str, used: dict[str, str]) -> str:
    """The top of a report: title, what was run, when and with which versions."""
    software = ", ".join(f"{name} {number}" for name, number in used.items())
    lines = [f"# {title}", "", f"{date}; {software}."]
    if quick:
        lines += ["", "**A quick run: few small data sets and one split. Its figures are not meaningful.**"]
    for paragraph in paragraphs:
        lines += ["", paragraph]
    return "\n".join(lines) + "\n"
