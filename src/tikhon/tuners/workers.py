"""Threads over pairs of training and hold-out data."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from typing import Any, TypeAlias

from threadpoolctl import ThreadpoolController

from tikhon.threads import ThreadPool

Mapper: TypeAlias = Callable[[Callable[[Any], Any], Sequence[Any]], list[Any]]


@cache
def _controller() -> ThreadpoolController:
    """Cached: finding the libraries takes some milliseconds, longer than many a fit."""
    return ThreadpoolController()


def one_blas_thread() -> AbstractContextManager[Any]:
    """Limits linear algebra libraries to one thread within this context."""
    limit: AbstractContextManager[Any] = _controller().limit(limits=1, user_api="blas")
    return limit


@contextmanager
def workers(n_jobs: int, n_items: int) -> Iterator[Mapper]:
    """A ``map`` over ``n_jobs`` threads with results in order, so that sums do not depend on timing.

    The linear algebra libraries release the interpreter lock; their own threads share the same budget.
    """
    threads = min(n_jobs, n_items)
    with one_blas_thread() if threads > 1 else nullcontext(), ThreadPool(threads) as pool:
        yield pool.map
