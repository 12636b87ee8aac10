"""``tikhon demo``: a demonstration of the library on data that comes with it."""

from pathlib import Path
from typing import Annotated

import typer

from tikhon.cli.console import guarded, progress_bar, write_json


@guarded
def demo(
    out: Annotated[Path, typer.Option("--out", help="The directory for the page and its plots.")] = Path("tikhon-demo"),
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")] = False,
) -> None:
    """Tune models on data that comes with tikhon: a table, plots and an HTML page, in under a minute."""
    from tikhon.cli.tables import print_rows
    from tikhon.report.demo import run

    with progress_bar() as bar:
        bar.start(None, "demo")
        result = run(out, progress=lambda text: bar.advance(1, text))
    if as_json:
        write_json({"page": str(result.page), "rows": result.rows, "seconds": result.seconds})
        return
    print_rows(result.rows)
    print(f"{result.page} shows more ({result.seconds:.1f} s)")
