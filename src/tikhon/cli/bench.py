"""``tikhon bench``: speed compared with other libraries, in one run."""

from pathlib import Path

from tikhon.cli.console import guarded
from tikhon.cli.runs import Data, Json, Name, Out, Quick, list_or_run


@guarded
def bench(
    name: Name = None, data: Data = None, out: Out = Path("results"), quick: Quick = False, as_json: Json = False
) -> None:
    """Benchmark against other libraries on the same data; without NAME, list the benchmarks."""
    from tikhon.bench import BENCHES

    # One at a time: timings of runs that share the cores are meaningless.
    list_or_run("bench", BENCHES, name, data=data, out=out, quick=quick, jobs=1, as_json=as_json)
