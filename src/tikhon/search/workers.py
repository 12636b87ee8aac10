"""Who evaluates trials: this process, joblib's workers, processes that can be ended, or a Dask cluster.

Workers only evaluate. What they are given and return does not depend on how many there are, so neither do the trials.
"""

import contextlib
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import cloudpickle
import joblib
from joblib.externals.loky.backend import get_context
from pebble import ProcessExpired, ProcessPool
from threadpoolctl import threadpool_limits

from tikhon.errors import InputError
from tikhon.search.cluster import Cluster
from tikhon.search.evaluation import Job, Score, Scores, Work, numbered_score, score_splits


class Workers(Protocol):
    """Yields the scores of each job when they are complete; jobs that are not by the deadline are left out."""

    def evaluate(self, jobs: Sequence[Job], deadline: float) -> Iterator[tuple[int, Scores]]: ...


@contextlib.contextmanager
def hired(work: Work, *, n_jobs: int | None, trial_timeout: float | None, client: Any = None) -> Iterator[Workers]:
    """The workers for a search, released at the end.

    Parameters
    ----------
    work : Work
        What all trials share.
    n_jobs : int or None
        As for joblib; None means 1, or what a surrounding ``joblib.parallel_config`` says.
    trial_timeout : float or None
        Seconds of a trial. With such a limit each trial has a process of its own, which is ended when they are over.
    client : dask.distributed.Client or None
        A cluster to evaluate on.
    """
    if client is not None:
        if trial_timeout is not None:
            raise InputError(
                "trial_timeout with a Dask client: a cluster cannot end one trial; leave out one of them, or limit "
                "the fit itself"
            )
        yield Cluster(client, work)
    elif trial_timeout is not None:
        with Processes(work, joblib.effective_n_jobs(n_jobs), trial_timeout) as processes:
            yield processes
    elif joblib.effective_n_jobs(n_jobs) == 1:
        yield Here(work)
    else:
        yield Parallel(work, n_jobs)


@dataclass(frozen=True, eq=False)
class Here:
    """This process, one split after the other."""

    work: Work

    def evaluate(self, jobs: Sequence[Job], deadline: float) -> Iterator[tuple[int, Scores]]:
        for job in jobs:
            if time.monotonic() >= deadline:
                return
            yield job.number, score_splits(self.work, job.params, job.splits)


@dataclass(frozen=True, eq=False)
class Parallel:
    """Workers of joblib, split by split: also threads or a cluster, as ``joblib.parallel_config`` says."""

    work: Work
    n_jobs: int | None

    def evaluate(self, jobs: Sequence[Job], deadline: float) -> Iterator[tuple[int, Scores]]:
        if time.monotonic() >= deadline:
            return
        tasks = [(job, place) for job in jobs for place in range(len(job.splits))]
        found: dict[int, dict[int, Score]] = {job.number: {} for job in jobs}
        parallel = joblib.Parallel(n_jobs=self.n_jobs, return_as="generator_unordered", pre_dispatch="n_jobs")
        scores = parallel(
            joblib.delayed(numbered_score)(self.work, job.number, place, job.params, job.splits[place])
            for job, place in tasks
        )
        with contextlib.closing(scores):
            for number, place, score in scores:
                found[number][place] = score
                if len(found[number]) == len(next(job for job in jobs if job.number == number).splits):
                    yield number, [score for _, score in sorted(found[number].items())]
                if time.monotonic() >= deadline:
                    return


class Processes(AbstractContextManager["Processes"]):
    """Processes of which each evaluates a trial at a time, and is ended if that takes too long.

    loky's processes do not import the user's main module again, and share no threads with this one.
    """

    def __init__(self, work: Work, count: int, trial_timeout: float) -> None:
        self._count, self._timeout = count, trial_timeout
        self._folder = tempfile.TemporaryDirectory(prefix="tikhon-search-")
        data = Path(self._folder.name) / "data"
        joblib.dump((work.X, work.y, dict(work.fit_params), dict(work.score_params)), data)
        bare = cloudpickle.dumps(replace(work, X=None, y=None, fit_params={}, score_params={}))
        self._initial = (bare, str(data), max(1, (os.cpu_count() or 1) // count))
        self._pool: Any = None

    def __enter__(self) -> "Processes":
        self._pool = ProcessPool(
            max_workers=self._count, context=get_context("loky"), initializer=_begin, initargs=self._initial
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.stop()
        self._pool.join()
        self._folder.cleanup()

    def evaluate(self, jobs: Sequence[Job], deadline: float) -> Iterator[tuple[int, Scores]]:
        futures: dict[Future[Scores], int] = {}
        for job in jobs:
            sent = cloudpickle.dumps((dict(job.params), list(job.splits)))
            futures[self._pool.schedule(_work_on, args=[sent], timeout=self._timeout)] = job.number
        try:
            while futures and time.monotonic() < deadline:
                done, _ = wait(futures, timeout=_until(deadline), return_when=FIRST_COMPLETED)
                for future in sorted(done, key=lambda one: futures[one]):
                    yield futures.pop(future), self._result(future)
        finally:
            for future in futures:
                future.cancel()

    def _result(self, future: "Future[Scores]") -> Scores:
        try:
            return future.result()
        except TimeoutError:
            return [Score("timeout", fit_seconds=self._timeout, problem=out_of_time(self._timeout))]
        except ProcessExpired as end:
            return [Score("failed", problem=f"its process ended with code {end.exitcode}: out of memory, or a crash")]


def out_of_time(seconds: float) -> str:
    return f"not finished after {seconds:g} seconds (trial_timeout)"


_of_process: dict[str, Work] = {}  # in a worker process: what its trials share


def _begin(bare: bytes, data: str, threads: int) -> None:
    X, y, fit_params, score_params = joblib.load(data, mmap_mode="r")
    work: Work = cloudpickle.loads(bare)
    _of_process["work"] = replace(work, X=X, y=y, fit_params=fit_params, score_params=score_params)
    threadpool_limits(threads)


def _work_on(sent: bytes) -> Scores:
    params, splits = cloudpickle.loads(sent)
    return score_splits(_of_process["work"], params, splits)


def _until(deadline: float) -> float | None:
    return None if deadline == float("inf") else max(0.0, deadline - time.monotonic())
