"""Contestants are stopped wherever they are; work in a process of its own comes back, or says why not."""

import itertools
import os
import time

import psutil
import pytest

from tikhon.bench.limits import LostProcessError, OutOfTimeError, cpu_limit, in_fresh_process

SPINS_IN_ONE_CALL = """
from tikhon.bench.limits import end_process_after
end_process_after(0.1)
sum(range(10**12))  # one call: no signal handler of Python's would be reached
"""


def test_python_code_that_takes_too_long_is_stopped() -> None:
    with pytest.raises(OutOfTimeError), cpu_limit(0.05):
        sum(1 for _ in itertools.count())
    with cpu_limit(None):
        assert sum(range(10)) == 45


@pytest.mark.slow
def test_compiled_code_that_takes_too_long_is_stopped() -> None:
    with pytest.raises(OutOfTimeError):
        in_fresh_process(exec, SPINS_IN_ONE_CALL)


@pytest.mark.slow
def test_a_fresh_process_answers_or_says_why_not() -> None:
    assert in_fresh_process(os.getpid) != os.getpid()
    with pytest.raises(ValueError, match="invalid literal"):
        in_fresh_process(int, "one")
    with pytest.raises(LostProcessError, match="exit code 3"):
        in_fresh_process(os._exit, 3)


@pytest.mark.slow
def test_a_process_that_waits_for_another_ends_with_it(tmp_path):
    """The other spins; who waits for it uses no CPU time that a limit could see."""
    written = tmp_path / "pid"
    waits = (
        "import subprocess, sys, pathlib\n"
        "other = subprocess.Popen([sys.executable, '-c', 'while True: pass'])\n"
        f"pathlib.Path({str(written)!r}).write_text(str(other.pid))\n"
        "other.wait()\n"
    )
    # A new process takes up to six seconds to come up where other work fills the machine.
    with pytest.raises(OutOfTimeError, match="more than 15 seconds"):
        in_fresh_process(exec, waits, most_seconds=15.0)
    other = int(written.read_text())
    for _ in range(100):
        if not _runs(other):
            return
        time.sleep(0.05)
    pytest.fail(f"the process {other} still runs")


def _runs(pid):
    try:
        status = psutil.Process(pid).status()
    except psutil.NoSuchProcess:
        return False
    return status != psutil.STATUS_ZOMBIE
