"""Warnings before work that is unlikely to fit into memory."""

import os
from pathlib import Path

from tikhon.errors import TuningWarning
from tikhon.estimators.user_warnings import Warn

MOST_OF_MEMORY = 0.8
LITTLE = 2.0**27  # bytes that are there on any machine: asking how many are free takes as long as part of a small fit
MEMINFO = Path("/proc/meminfo")


def warn_if_too_large(needed: float, what: str, advice: str, warn: Warn) -> None:
    """``needed`` bytes; ``what`` ends with a verb, as in "1,000,000 weights take"."""
    available = None if needed <= LITTLE else available_memory()
    if available is not None and needed > MOST_OF_MEMORY * available:
        warn(
            f"{what} about {needed / 2**30:.1f} GiB, but only {available / 2**30:.1f} GiB are free: {advice}",
            TuningWarning,
        )


def available_memory() -> float | None:
    """In bytes, caches that the system can drop included; None if it does not report it."""
    try:
        for line in MEMINFO.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return 1024.0 * float(line.split()[1])
        return float(os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (ValueError, OSError, AttributeError, IndexError):
        return None
