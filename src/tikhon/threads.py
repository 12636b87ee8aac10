"""The one thread pool: ordered maps that Ctrl-C cannot deadlock.

Python may raise ``KeyboardInterrupt`` between any two instructions of the main thread, even right after a lock of the standard
library's pool has been acquired and before the ``with`` statement that would release it. The workers then wait for that lock
forever. So the pool defers Ctrl-C while it submits tasks and collects results, and raises it in between.
"""

import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from types import TracebackType
from typing import Any, Self, TypeVar

Item = TypeVar("Item")
Found = TypeVar("Found")

POLL_SECONDS = 0.05  # the longest delay before Ctrl-C is noticed


def available_cores() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class _InterruptsHeldBack:
    """Counts Ctrl-C within this context and raises ``KeyboardInterrupt`` at its end.

    Only the main thread receives signals, and a user's own handler is left in place.
    """

    def __enter__(self) -> Self:
        self.count = 0
        self._replaced = (
            threading.current_thread() is threading.main_thread()
            and signal.getsignal(signal.SIGINT) is signal.default_int_handler
        )
        if self._replaced:
            signal.signal(signal.SIGINT, self._counted)
        return self

    def _counted(self, *_: Any) -> None:
        self.count += 1

    def __exit__(self, *_: object) -> None:
        if self._replaced:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        if self.count:
            raise KeyboardInterrupt


class ThreadPool:
    """Maps over threads with results in order, so that sums do not depend on timing.

    Functions should release the GIL. With one thread they run in the calling thread. On leaving the context, tasks that have
    not started are cancelled and running ones are waited for; a second Ctrl-C abandons them.

    >>> with ThreadPool(2) as pool:
    ...     pool.map(abs, [-1, 2, -3])
    [1, 2, 3]
    """

    def __init__(self, n_threads: int) -> None:
        self.n_threads = n_threads
        self._executor = ThreadPoolExecutor(n_threads) if n_threads > 1 else None
        self._abandoned: list[Future[Any]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._executor is None:
            return
        with _InterruptsHeldBack() as interrupts:
            self._executor.shutdown(wait=False, cancel_futures=True)
            while not interrupts.count and wait(self._abandoned, POLL_SECONDS).not_done:
                pass
            if not interrupts.count:
                self._executor.shutdown()

    def map(self, function: Callable[[Item], Found], items: Iterable[Item]) -> list[Found]:
        """The results of the function for all items, in order."""
        items = list(items)
        return list(self.in_order(function, items, len(items)))

    def in_order(self, function: Callable[[Item], Found], items: Iterable[Item], ahead: int) -> Iterator[Found]:
        """The same, one by one, as soon as they are available; ``ahead`` bounds the tasks in flight, and so memory."""
        if self._executor is None:
            yield from map(function, items)
            return
        started: deque[Future[Found]] = deque()
        try:
            for item in items:
                with _InterruptsHeldBack():
                    started.append(self._executor.submit(function, item))
                while started and (len(started) >= ahead or _is_done(started[0])):
                    yield _result(started)
            while started:
                yield _result(started)
        finally:
            with _InterruptsHeldBack():
                self._abandoned += [future for future in started if not future.cancel()]


def _is_done(future: Future[Any]) -> bool:
    with _InterruptsHeldBack():
        return future.done()


def _result(started: deque[Future[Found]]) -> Found:
    """The first result; its task stays in ``started`` until it is done."""
    first = started[0]
    with _InterruptsHeldBack() as interrupts:
        while not first.done() and not interrupts.count:
            wait([first], POLL_SECONDS)
    started.popleft()
    return first.result()
