"""The pool of threads: order, errors, and Ctrl-C at every instruction."""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import tikhon
from tikhon.threads import ThreadPool

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(tikhon.__file__).parents[1])}
STRIDE = 3  # every instruction takes half a minute

# The main thread raises SIGINT in itself before the k-th instruction of the pool and of the standard library's modules below
# it, for k = 1, 1 + stride, … until a map ends undisturbed. A lock that is never released lets the watchdog end the process.
EVERY_INSTRUCTION = """
import concurrent.futures, faulthandler, signal, sys, threading
import tikhon.threads
from tikhon.threads import ThreadPool

faulthandler.dump_traceback_later(100, exit=True)
FILES = {module.__file__ for module in (threading, concurrent.futures.thread, concurrent.futures._base, tikhon.threads)}
countdown = 0

def trace(frame, event, argument):
    global countdown
    if frame.f_code.co_filename not in FILES:
        return None
    frame.f_trace_opcodes = True
    if event == "opcode":
        countdown -= 1
        if countdown == 0:
            signal.raise_signal(signal.SIGINT)
    return trace

def interrupted_at(instruction):
    global countdown
    countdown = instruction
    sys.settrace(trace)
    try:
        with ThreadPool(2) as pool:
            assert pool.map(abs, [-1, 2, -3]) == [1, 2, 3]
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(None)
    return False

signal.signal(signal.SIGINT, signal.default_int_handler)
numbers = []
for number in range(1, 100_000, int(sys.argv[1])):
    if interrupted_at(number):
        numbers.append(number)
    elif countdown > 0:
        break
assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
print(len(numbers), number)
"""


@pytest.mark.parametrize("n_threads", [1, 2, 5])
def test_results_are_in_order(n_threads):
    def late(number):
        time.sleep(0.002 * (7 - number))
        return number

    with ThreadPool(n_threads) as pool:
        assert pool.map(late, range(7)) == list(range(7))
        assert pool.map(late, []) == []
        assert list(pool.in_order(late, iter(range(7)), 2)) == list(range(7))


def test_items_are_taken_no_further_ahead_than_asked():
    taken, gate = [], threading.Event()

    def items():
        for number in range(20):
            taken.append(number)
            yield number

    with ThreadPool(2) as pool:
        results = pool.in_order(lambda number: gate.wait(10) and number, items(), 3)
        threading.Timer(0.1, gate.set).start()
        assert next(results) == 0
        assert len(taken) <= 3
        assert list(results) == list(range(1, 20))


@pytest.mark.parametrize("error", [TimeoutError("own"), ValueError("own")])
def test_errors_of_tasks_reach_the_caller_and_the_pool_goes_on(error):
    def fails(number):
        if number == 1:
            raise error
        return number

    with ThreadPool(2) as pool:
        with pytest.raises(type(error), match="own"):
            pool.map(fails, range(4))
        assert pool.map(abs, [-2]) == [2]


@pytest.mark.slow
def test_control_c_at_any_instruction_leaves_nothing_hanging():
    command = [sys.executable, "-c", EVERY_INSTRUCTION, str(STRIDE)]
    outcome = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, timeout=120)
    assert outcome.returncode == 0, outcome.stderr
    n_interrupted, n_instructions = map(int, outcome.stdout.split())
    assert n_interrupted > 0.9 * n_instructions / STRIDE - 1
