"""Current and peak memory of the process, in megabytes."""

import resource
from pathlib import Path

STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def resident() -> float:
    """Megabytes in use, or the peak where the system does not report the current value."""
    return _told("VmRSS:")


def peak() -> float:
    """Peak megabytes since ``forget_peak``, or since the start where the system cannot reset it."""
    return _told("VmHWM:")


def _told(field: str) -> float:
    if STATUS.exists():
        for line in STATUS.read_text().splitlines():
            if line.startswith(field):
                return float(line.split()[1]) / 1024.0
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0


def forget_peak() -> None:
    if CLEAR.exists():
        CLEAR.write_text("5")  # the kernel's code for resetting the peak
