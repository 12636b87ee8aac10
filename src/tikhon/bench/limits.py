"""Time limits for contestants, and work in a separate process."""

import math
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

from threadpoolctl import threadpool_limits


class OutOfTimeError(Exception):
    """A contestant exceeded its time limit."""


class LostProcessError(Exception):
    """The process of a contestant ended without a result."""


@contextmanager
def cpu_limit(seconds: float | None) -> Iterator[None]:
    """Raise OutOfTimeError in the block once the process has used this many CPU seconds; None: no limit.

    Works only between Python instructions: a long call into a library is not interrupted (see ``in_fresh_process``).
    """
    if seconds is None:
        yield
        return

    def stop(*_: object) -> None:
        raise OutOfTimeError(f"stopped after {seconds:.3g} CPU seconds")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, before)


def end_process_after(cpu_seconds: float) -> None:
    """Have the system end this process after this many more CPU seconds (rounded up), even inside a library."""
    import resource  # not available on every system

    whole = math.ceil(time.process_time() + cpu_seconds)
    resource.setrlimit(resource.RLIMIT_CPU, (whole, whole + 5))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def in_fresh_process(work: Callable[..., Any], *arguments: Any, most_seconds: float | None = None) -> Any:
    """Run ``work`` in a new process on one thread, which has its own peak memory and may end itself, and return its result.

    Raises OutOfTimeError if ``end_process_after`` ended it, or after ``most_seconds`` of wall-clock time; processes that it
    started end with it. Function, arguments and result must be picklable; an exception in the work is raised here.
    """
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_answer, args=(sender, work, arguments), daemon=True)
    process.start()
    sender.close()  # so that the end of the process is the end of the pipe
    try:
        if not receiver.poll(most_seconds):
            raise OutOfTimeError(f"the process took more than {most_seconds:.3g} seconds")
        failed, answer = receiver.recv()
    except EOFError:
        process.join()
        if process.exitcode == -signal.SIGXCPU:
            raise OutOfTimeError("the process had used up its CPU seconds") from None
        raise LostProcessError(f"the process ended with exit code {process.exitcode} and without a result") from None
    finally:
        receiver.close()
        _end(process)
    if failed:
        raise answer
    return answer


def _end(process: BaseProcess) -> None:
    """Kill the process and, where the system has process groups, those that it has started."""
    if process.pid is not None and hasattr(os, "killpg"):
        with suppress(ProcessLookupError):  # all have ended
            os.killpg(process.pid, signal.SIGKILL)
    process.kill()
    process.join()


def _answer(sender: Connection, work: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    if hasattr(os, "setsid"):
        os.setsid()  # its own process group
    try:
        with threadpool_limits(1):
            answer = (False, work(*arguments))
    except Exception as problem:
        answer = (True, problem)
    sender.send(answer)
