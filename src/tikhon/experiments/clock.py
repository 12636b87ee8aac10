"""The clock of experiments and benches."""

import time

# Some virtual machines count CPU time in steps: shorter work seems to take none at all, and prices are quotients of times.
LEAST = 1e-6  # seconds


class Clock:
    """Wall-clock seconds, and CPU seconds of all threads, since it was made: never less than ``LEAST``."""

    def __init__(self) -> None:
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    def read(self) -> tuple[float, float]:
        wall, cpu = time.perf_counter() - self._wall, time.process_time() - self._cpu
        return max(wall, LEAST), max(cpu, LEAST)
