"""Contestants are stopped wherever they are; work in a process of its own comes back, or says why not."""

import itertools
import os

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


def test_compiled_code_that_takes_too_long_is_stopped() -> None:
    with pytest.raises(OutOfTimeError):
        in_fresh_process(exec, SPINS_IN_ONE_CALL)


def test_a_fresh_process_answers_or_says_why_not() -> None:
    assert in_fresh_process(os.getpid) != os.getpid()
    with pytest.raises(ValueError, match="invalid literal"):
        in_fresh_process(int, "one")
    with pytest.raises(LostProcessError, match="exit code 3"):
        in_fresh_process(os._exit, 3)
