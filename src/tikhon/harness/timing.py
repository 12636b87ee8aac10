"""Timing: wall-clock and CPU seconds, the median of repeated runs for short work."""

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np

Answer = TypeVar("Answer")

SHORT = 0.3  # seconds; shorter work is repeated, and the median taken
REPEATS = 5
# Some virtual machines count CPU time in steps: shorter work seems to take no time, and costs are ratios of times.
LEAST = 1e-6  # seconds


class Clock:
    """Wall-clock seconds, and CPU seconds of all threads, since its creation: never less than ``LEAST``."""

    def __init__(self) -> None:
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    def read(self) -> tuple[float, float]:
        wall, cpu = time.perf_counter() - self._wall, time.process_time() - self._cpu
        return max(wall, LEAST), max(cpu, LEAST)


@dataclass(frozen=True, eq=False)
class Timed(Generic[Answer]):
    """An answer, the median time that it took, and the warnings raised."""

    answer: Answer
    cpu_seconds: float
    wall_seconds: float
    repeats: int
    warnings: list[str]

    def figures(self) -> dict[str, Any]:
        return {
            "cpu_seconds": self.cpu_seconds,
            "wall_seconds": self.wall_seconds,
            "repeats": self.repeats,
            "warnings": self.warnings,
        }


def timed(work: Callable[[], Answer], repeats: int) -> Timed[Answer]:
    """Time the work; short work is done ``repeats`` times, and the median taken."""
    cpu: list[float] = []
    wall: list[float] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        while not cpu or (len(cpu) < repeats and max(wall) < SHORT):
            clock = Clock()
            answer = work()
            wall_seconds, cpu_seconds = clock.read()
            cpu.append(cpu_seconds)
            wall.append(wall_seconds)
    messages = sorted({f"{entry.category.__name__}: {entry.message}" for entry in caught})
    return Timed(answer, float(np.median(cpu)), float(np.median(wall)), len(cpu), messages)
