"""How much memory a process takes, in megabytes, and the most that it took."""

import resource
from pathlib import Path

STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def resident() -> float:
    """Megabytes in use; where the system does not tell, the most that there were."""
    return _told("VmRSS:")


def peak() -> float:
    """The most megabytes that were in use since ``forget_peak``, or where there is none, since the start."""
    return _told("VmHWM:")


def _told(field: str) -> float:
    if STATUS.exists():
        for line in STATUS.read_text().splitlines():
            if line.startswith(field):
                return float(line.split()[1]) / 1024.0
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0


def forget_peak() -> None:
    if CLEAR.exists():
        CLEAR.write_text("5")  # the kernel's word for it
