"""How every experiment and benchmark runs: row by row, each stored immediately, so that a killed run can be resumed.

An experiment lists its rows (``plan``), measures one (``measure``) and turns them into results (``evaluate``, ``draw``).
Rows run one after the other on a single thread so that their times are comparable; with ``jobs`` above 1 whole data
sets run in parallel, each in its own process, and the parent stores the rows.
"""

import json
import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from multiprocessing.connection import wait as wait_for_any
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, TypeAlias

from threadpoolctl import threadpool_limits

from tikhon._version import __version__
from tikhon.data.libsvm import check_available, check_paths, data_folder
from tikhon.data.rna import rna_file
from tikhon.data.tagged import check_tagged
from tikhon.data.text import check_texts
from tikhon.errors import InputError
from tikhon.harness.output import plain, today, versions, write, write_json
from tikhon.harness.store import Row, RowStore
from tikhon.report.canvas import new_figure, png_bytes
from tikhon.report.progress import Progress

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Measure: TypeAlias = Callable[[dict[str, Any], Path | None], Row]


@dataclass(frozen=True, eq=False, kw_only=True)
class RowSpec:
    """One row to measure. Rows of a batch share a data set; ``cost`` is an estimate for the ETA and the order of batches."""

    key: str
    batch: str
    params: dict[str, Any]
    cost: int = 1


@dataclass(frozen=True, eq=False, kw_only=True)
class Plan:
    """All rows of a run, the settings that they depend on, and the names of the data they need: LIBSVM, text, tagged, RNA.

    Rows with a ``fold`` among their params can be limited to the first few folds.
    """

    config: dict[str, Any]
    rows: Sequence[RowSpec]
    files: Sequence[str] = ()
    texts: Sequence[str] = ()
    tagged: Sequence[str] = ()
    rnas: Sequence[str] = ()
    paths: Sequence[str] = ()  # of other files, relative to the data folder
    quick: bool = False


@dataclass(frozen=True, eq=False, kw_only=True)
class Evaluation:
    """The results, machine-readable and as a page."""

    summary: dict[str, Any]
    aggregates: list[dict[str, Any]] = field(default_factory=list)
    markdown: str = ""


@dataclass(frozen=True, eq=False, kw_only=True)
class Experiment:
    """A table or figure of a paper, or a benchmark, that can be run by name."""

    name: str
    summary: str
    plan: Callable[[bool], Plan]
    measure: Measure
    evaluate: Callable[[Plan, list[Row]], Evaluation]
    draw: Callable[[Evaluation], "Figure"]
    warm_up: Callable[[], None]

    def run(
        self, data: Path | None, out: Path, *, quick: bool, jobs: int, progress: Progress, folds: int | None = None
    ) -> dict[str, Any]:  # fmt: skip
        """Measure the rows that are missing in ``out``, then write NAME.json, NAME.md and NAME.png there.

        ``folds`` limits the run to the first few folds, where the experiment has any; a later run may add the others.

        Returns the content of NAME.json with the paths written, as ``files``.
        """
        if jobs < 1:
            raise InputError(f"jobs is {jobs}: write 1 or more")
        new_figure(1, 1)  # reports a missing extra now, not after hours
        plan = self.plan(quick)
        if folds is not None:
            plan = self._limited(plan, folds)
        folder = None
        if plan.files or plan.texts or plan.tagged or plan.rnas or plan.paths:
            folder = data_folder(data)
            check_available(list(plan.files), folder)
            check_texts(list(plan.texts), folder)
            check_tagged(plan.tagged, folder)
            for name in plan.rnas:
                rna_file(name, folder)
            check_paths(plan.paths, folder)
        rows = self._rows(plan, folder, out, jobs=jobs, progress=progress)
        return self._written(plan, rows, out)

    def _limited(self, plan: Plan, folds: int) -> Plan:
        if folds < 1:
            raise InputError(f"folds is {folds}: write 1 or more")
        if not any("fold" in row.params for row in plan.rows):
            raise InputError(f"{self.name} has no folds: leave --folds out")
        return replace(plan, rows=[row for row in plan.rows if row.params.get("fold", 0) < folds])

    def _rows(self, plan: Plan, folder: Path | None, out: Path, *, jobs: int, progress: Progress) -> list[Row]:
        config = json.dumps({**plan.config, "quick": plan.quick, "tikhon": __version__}, sort_keys=True)
        path = out / f"{self.name}{'.quick' if plan.quick else ''}.rows.jsonl"
        store = RowStore(path, self.name, config)
        done = {row["key"]: row for row in store.open() if "error" not in row}
        missing = [spec for spec in plan.rows if spec.key not in done]
        progress.start(
            sum(spec.cost for spec in missing), f"{self.name}: {len(missing)} of {len(plan.rows)} rows to do"
        )
        measured = _one_by_one if jobs == 1 else _side_by_side
        for spec, outcome in measured(missing, self, folder, jobs):
            row = plain({"key": spec.key, **spec.params, **outcome})
            store.append(row)
            done[spec.key] = row
            left = len(plan.rows) - len(done)
            progress.advance(spec.cost, f"{self.name}: {spec.key} done, {left} of {len(plan.rows)} rows left")
        return [done[spec.key] for spec in plan.rows]

    def _written(self, plan: Plan, rows: list[Row], out: Path) -> dict[str, Any]:
        failed = [row for row in rows if "error" in row]
        evaluation = self.evaluate(plan, [row for row in rows if "error" not in row])
        document = {
            "name": self.name,
            "quick": plan.quick,
            "date": today(),
            "versions": versions(),
            "config": plan.config,
            "summary": {**evaluation.summary, "n_rows": len(rows), "n_failed": len(failed)},
            "aggregates": evaluation.aggregates,
            "rows": rows,
        }
        markdown = evaluation.markdown
        if failed:
            lines = [f"- {row['key']}: {row['error']}" for row in failed]
            markdown += "\n## Failed rows (retried on the next start)\n\n" + "\n".join(lines) + "\n"
        files = [out / f"{self.name}.{ending}" for ending in ("json", "md", "png")]
        write_json(files[0], document)
        write(files[1], markdown.encode())
        write(files[2], png_bytes(self.draw(evaluation)))
        return {**plain(document), "files": [str(file) for file in files]}


def _one_by_one(
    specs: Sequence[RowSpec], experiment: Experiment, folder: Path | None, jobs: int
) -> Iterator[tuple[RowSpec, Row]]:
    if specs:
        experiment.warm_up()
    for spec in specs:
        yield spec, _measured(experiment.measure, spec.params, folder)


def _side_by_side(
    specs: Sequence[RowSpec], experiment: Experiment, folder: Path | None, jobs: int
) -> Iterator[tuple[RowSpec, Row]]:
    """One process per lane; a lane takes a whole batch, the most expensive first, and measures its rows in order."""
    batches: dict[str, deque[RowSpec]] = {}
    for spec in specs:
        batches.setdefault(spec.batch, deque()).append(spec)
    waiting = deque(sorted(batches.values(), key=lambda batch: -sum(spec.cost for spec in batch)))
    context = multiprocessing.get_context("spawn")
    with ExitStack() as stack:
        running: dict[Future[Row], tuple[RowSpec, deque[RowSpec], ProcessPoolExecutor]] = {}

        def start(lane: ProcessPoolExecutor, batch: deque[RowSpec]) -> None:
            if not batch and waiting:
                batch = waiting.popleft()
            if batch:
                spec = batch.popleft()
                running[lane.submit(_measured, experiment.measure, spec.params, folder)] = (spec, batch, lane)

        for _ in range(min(jobs, len(batches))):
            lane = ProcessPoolExecutor(1, context, initializer=_begin_lane, initargs=(experiment.warm_up,))
            stack.callback(lane.shutdown, cancel_futures=True)
            start(lane, deque())
        while running:
            finished, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in finished:
                spec, batch, lane = running.pop(future)
                outcome = future.result()
                start(lane, batch)
                yield spec, outcome


def _begin_lane(warm_up: Callable[[], None]) -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        # A killed parent cannot end its children; without this they would wait forever.
        threading.Thread(target=_end_with, args=(parent.sentinel,), daemon=True).start()
    warm_up()


def _end_with(sentinel: int) -> None:
    wait_for_any([sentinel])
    os._exit(1)


def _measured(measure: Measure, params: dict[str, Any], folder: Path | None) -> Row:
    """The row, or its error: one failed row must not end a run of hours."""
    try:
        with _never_half_a_row(), threadpool_limits(1):
            return measure(params, folder)
    except Exception as problem:
        return {"error": f"{type(problem).__name__}: {problem}"}


@contextmanager
def _never_half_a_row() -> Iterator[None]:
    """Ctrl-C ends the run even where a fit catches it to return what it has: that would be stored as a whole row."""
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:  # background jobs ignore it
        yield
        return
    caught: list[int] = []

    def interrupt(number: int, frame: FrameType | None) -> None:
        caught.append(number)
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if caught:
            raise KeyboardInterrupt
