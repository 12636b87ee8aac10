"""Time of reading files by their size: columns of a table, lines of a sequence, tokens of a sentence.

Files are made at each size, from 1,000 to 100,000 columns or lines, and read several times; the exponent is the slope of the
logarithm of the median time in that of the size. A reader that looks through all names for each name has an exponent of 2.
"""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tikhon.data.conll import read_conll
from tikhon.data.rna import read_rna
from tikhon.data.svmlight import read_svmlight
from tikhon.data.tables import header, read_csv
from tikhon.harness.output import heading, short, table, today, versions
from tikhon.harness.runner import Evaluation, Experiment, Plan, RowSpec
from tikhon.harness.store import Row
from tikhon.harness.timing import timed
from tikhon.report.canvas import COLOURS, GREY, new_figure, tidy

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "Time of reading files by their size"
SIZES, QUICK_SIZES = (1_000, 3_000, 10_000, 30_000, 100_000), (1_000, 10_000)
REPEATS, QUICK_REPEATS = 5, 3
ALLOWED = 1.1  # exponent
CSV_ROWS = 10


def csv_text(size: int) -> str:
    names = ",".join([*(f"column_{place}" for place in range(size)), "label"])
    row = ",".join([*(f"{place % 7}.5" for place in range(size)), "1"])
    return "\n".join([names, *[row] * CSV_ROWS, ""])


def fasta_text(size: int) -> str:
    return ">one\n" + "GCAUGCAUGCAUGCAUGCAU\n" * size


def bpseq_text(size: int) -> str:
    return "".join(f"{place} A 0\n" for place in range(1, size + 1))


def svmlight_text(size: int) -> str:
    row = " ".join(f"{place}:1.5" for place in range(1, size + 1))
    return f"1 {row}\n" * CSV_ROWS


def conll_text(size: int) -> str:
    return "word NN B\n" * size + "\n"


def _predicting(path: Path) -> Any:
    """As for a model: the columns are asked for by name."""
    return read_csv(path, columns=header(path)[:-1])


READERS: dict[str, tuple[str, Callable[[int], str], Callable[[Path], Any]]] = {
    "csv, columns": (".csv", csv_text, lambda path: read_csv(path, target="label")),
    "csv, columns by name": (".csv", csv_text, _predicting),
    "svmlight, columns": (".svm", svmlight_text, read_svmlight),
    "FASTA, lines": (".fa", fasta_text, read_rna),
    "bpseq, lines": (".bpseq", bpseq_text, read_rna),
    "tokens, lines": (".tsv", conll_text, read_conll),
}


def measure(params: dict[str, Any], folder: Path | None) -> Row:
    """One reader at one size."""
    suffix, text, read = READERS[params["reader"]]
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / f"file{suffix}"
        path.write_text(text(params["size"]))
        n_bytes = path.stat().st_size
        run = timed(lambda: read(path), params["repeats"])
    return {"cpu_seconds": run.cpu_seconds, "bytes": n_bytes}


def plan(quick: bool) -> Plan:
    sizes, repeats = (QUICK_SIZES, QUICK_REPEATS) if quick else (SIZES, REPEATS)
    rows = [
        RowSpec(key=f"{reader}/{size}", batch=reader, params={"reader": reader, "size": size, "repeats": repeats})
        for reader in READERS
        for size in sizes
    ]
    return Plan(config={"sizes": list(sizes), "csv_rows": CSV_ROWS}, rows=rows, quick=quick)


def evaluate(made: Plan, rows: list[Row]) -> Evaluation:
    entries: list[dict[str, Any]] = []
    for reader in READERS:
        own = [row for row in rows if row["reader"] == reader]
        logs = np.log([[row["size"], row["cpu_seconds"]] for row in own])
        exponent = float(np.polyfit(logs[:, 0], logs[:, 1], 1)[0])
        entries.append(
            {"reader": reader, "exponent": exponent, "seconds": {str(r["size"]): r["cpu_seconds"] for r in own}}
        )
    largest = max(entry["exponent"] for entry in entries)
    summary = {
        "exponents": {entry["reader"]: entry["exponent"] for entry in entries},
        "largest_exponent": largest,
        "allowed": ALLOWED,
        "met": largest <= ALLOWED,
    }
    sizes = made.config["sizes"]
    about = f"CPU seconds, the median of up to {made.rows[0].params['repeats']} runs; tables have {CSV_ROWS} rows."
    cells = [
        [entry["reader"], *(short(entry["seconds"][str(size)]) for size in sizes), f"{entry['exponent']:.2f}"]
        for entry in entries
    ]
    verdict = f"Target: exponents of at most {ALLOWED}. {'Met' if summary['met'] else '**Not met** ⚠'}.\n"
    top = heading(TITLE, [about], quick=made.quick, date=today(), used=versions())
    grid = table(["read", *(f"{size:,}" for size in sizes), "exponent"], cells)
    return Evaluation(summary=summary, aggregates=entries, markdown="\n".join([top, grid, verdict]))


def draw(evaluation: Evaluation) -> "Figure":
    figure = new_figure(6.4, 4.0)
    axes = figure.add_subplot()
    for entry, colour in zip(evaluation.aggregates, COLOURS, strict=False):
        sizes = [int(size) for size in entry["seconds"]]
        axes.plot(sizes, list(entry["seconds"].values()), "o-", color=colour, label=entry["reader"])
    least, most = sizes[0], sizes[-1]
    start = min(next(iter(entry["seconds"].values())) for entry in evaluation.aggregates)
    axes.plot([least, most], [start, start * most / least], color=GREY, linestyle="--", label="linear")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.legend(frameon=False, fontsize=8)
    tidy(axes, x_label="columns or lines", y_label="CPU seconds")
    return figure


def warm_up() -> None:
    for reader in READERS:
        measure({"reader": reader, "size": 10, "repeats": 1}, None)


BENCH = Experiment(
    name="reading", summary=TITLE, plan=plan, measure=measure, evaluate=evaluate, draw=draw, warm_up=warm_up
)
