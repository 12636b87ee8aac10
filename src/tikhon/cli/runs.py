"""Shared by ``reproduce`` and ``bench``: named runs that write into a directory."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol, TypeAlias

import typer

from tikhon.cli.console import InterruptionError, progress_bar, write_json
from tikhon.errors import InputError

if TYPE_CHECKING:
    from tikhon.report.progress import Progress

Name: TypeAlias = Annotated[str | None, typer.Argument(help="Which one to run; leave out for a list.")]
Data: TypeAlias = Annotated[
    Path | None, typer.Option("--data", envvar="TIKHON_DATA", help="The directory of the data.")
]
Out: TypeAlias = Annotated[Path, typer.Option("--out", help="The directory for the results.")]
Quick: TypeAlias = Annotated[bool, typer.Option("--quick", help="Run only a small part, in seconds.")]
Json: TypeAlias = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]


class Run(Protocol):
    """A named run that writes its results."""

    @property
    def summary(self) -> str: ...

    def run(
        self, data: Path | None, out: Path, *, quick: bool, jobs: int, progress: "Progress", folds: int | None = None
    ) -> dict[str, Any]: ...  # fmt: skip


def list_or_run(
    command: str,
    runs: Mapping[str, Run],
    name: str | None,
    *,
    data: Path | None,
    out: Path,
    quick: bool,
    jobs: int,
    as_json: bool,
    folds: int | None = None,
) -> None:
    if name is None:
        _list(runs, as_json)
        return
    if name not in runs:
        raise InputError(f"{command}: there is no {name!r}; choose from {', '.join(sorted(runs))}")
    if data is not None and not data.is_dir():
        raise InputError(f"{data}: there is no such directory; name the directory of the data with --data")
    if out.exists() and not out.is_dir():
        raise InputError(f"{out}: is not a directory; name one for the results with --out")
    try:
        with progress_bar() as bar:
            result = runs[name].run(data, out, quick=quick, jobs=jobs, progress=bar, folds=folds)
    except KeyboardInterrupt:
        raise InterruptionError(f"finished results are in {out}; the same command resumes from there") from None
    if as_json:
        write_json(result)
    else:
        print(f"{name}: written to {out}")


def _list(runs: Mapping[str, Run], as_json: bool) -> None:
    if as_json:
        write_json({name: run.summary for name, run in runs.items()})
        return
    width = max(map(len, runs), default=0)
    for name, run in runs.items():
        print(f"{name:<{width}}  {run.summary}")
