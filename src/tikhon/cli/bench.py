"""``tikhon bench``: speed beside other libraries, in one run."""

from pathlib import Path

from tikhon.cli.console import guarded
from tikhon.cli.runs import Data, Json, Name, Out, Quick, list_or_run


@guarded
def bench(
    name: Name = None, data: Data = None, out: Out = Path("results"), quick: Quick = False, as_json: Json = False
) -> None:
    """Race against other libraries on the same data; without NAME, list the races."""
    from tikhon.bench import BENCHES

    # One at a time: races that share the cores say nothing.
    list_or_run("bench", BENCHES, name, data=data, out=out, quick=quick, jobs=1, as_json=as_json)
