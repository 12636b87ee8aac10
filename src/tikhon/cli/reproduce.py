"""``tikhon reproduce``: the tables and figures of the papers, on their data."""

from pathlib import Path
from typing import Annotated

import typer

from tikhon.cli.console import guarded
from tikhon.cli.runs import Data, Json, Name, Out, Quick, list_or_run


@guarded
def reproduce(
    name: Name = None,
    data: Data = None,
    out: Out = Path("results"),
    quick: Quick = False,
    jobs: Annotated[int, typer.Option("--jobs", min=1, help="Number of parallel jobs.")] = 1,
    folds: Annotated[
        int | None, typer.Option("--folds", min=1, help="Only the first few folds of an experiment with folds.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Reproduce an experiment of a paper; without NAME, list them. A restarted run resumes where it stopped."""
    from tikhon.experiments import EXPERIMENTS

    list_or_run(
        "reproduce", EXPERIMENTS, name, data=data, out=out, quick=quick, jobs=jobs, folds=folds, as_json=as_json
    )  # fmt: skip
