"""Trials on a Dask cluster: a task for each split, sent by the coordinator, which alone writes results."""

import contextlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import cloudpickle

from tikhon.search.evaluation import Job, Score, Scores, Work, numbered_score

LARGEST_TASK = "1 GiB"  # the data travel within a task, so that the scheduler can send them again if a worker is lost


@dataclass(eq=False)
class Cluster:
    """The workers of a ``dask.distributed.Client``. Splits of workers that are lost are evaluated again by others."""

    client: Any
    work: Work
    _sent: Any = field(default=None, init=False)

    def evaluate(self, jobs: Sequence[Job], deadline: float) -> Iterator[tuple[int, Scores]]:
        import dask
        import distributed

        if not jobs or time.monotonic() >= deadline:
            return
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": LARGEST_TASK}):
            if self._sent is None:
                self._sent = self.client.submit(cloudpickle.loads, cloudpickle.dumps(self.work), pure=False)
            futures = {
                self.client.submit(
                    numbered_score, self._sent, job.number, place, job.params, job.splits[place], pure=False
                ): (job.number, place)
                for job in jobs
                for place in range(len(job.splits))
            }  # fmt: skip
        n_splits = {job.number: len(job.splits) for job in jobs}
        found: dict[int, dict[int, Score]] = {job.number: {} for job in jobs}
        completed: Any = distributed.as_completed
        timeout = None if deadline == float("inf") else max(0.0, deadline - time.monotonic())
        try:
            with contextlib.suppress(TimeoutError):
                for future in completed(futures, timeout=timeout):
                    number, place = futures[future]
                    found[number][place] = _score_of(future)
                    if len(found[number]) == n_splits[number]:
                        yield number, [score for _, score in sorted(found[number].items())]
        finally:
            self.client.cancel(list(futures))


def _score_of(future: Any) -> Score:
    """A failed fit is a score already: what remains are failures of the cluster, such as workers that ran out of memory."""
    problem = future.exception()
    if problem is None:
        score: Score = future.result()[2]
        return score
    return Score("failed", problem=f"on the cluster: {type(problem).__name__}: {problem}")
