"""How many trials the stages get."""

from collections.abc import Iterable
from numbers import Integral
from typing import Any

from tikhon.errors import InputError

AUTO_BASE, AUTO_PER_PARAMETER, AUTO_MOST = 20, 10, 100
EARLY_SHARE = 0.75  # of automatic trials, before the last stage
MOST_INITIAL = 10  # quasi-random trials, or twice the number of parameters


def trials_per_stage(n_trials: Any, n_stages: int, n_parameters: int, n_best: int) -> list[int]:
    """Trials of each stage, those that it begins with included."""
    if isinstance(n_trials, str) and n_trials == "auto":
        total = min(AUTO_BASE + AUTO_PER_PARAMETER * n_parameters, AUTO_MOST)
        if n_stages == 1:
            return [total]
        early = round(EARLY_SHARE * total / (n_stages - 1))
        return [*[early] * (n_stages - 1), max(total - early * (n_stages - 1), n_best + 1)]
    if isinstance(n_trials, Integral) and not isinstance(n_trials, bool):
        found = [int(n_trials)] * n_stages
    elif isinstance(n_trials, Iterable) and not isinstance(n_trials, str):
        found = list(n_trials)
    else:
        raise InputError(f"n_trials={n_trials!r}: write 'auto', a number, or a list with a number for each stage")
    if len(found) != n_stages:
        raise InputError(f"n_trials={n_trials!r} has {len(found)} entries for {n_stages} stages")
    if any(not isinstance(count, Integral) or isinstance(count, bool) or count < 1 for count in found):
        raise InputError(f"n_trials={n_trials!r}: every stage needs at least one trial")
    return [int(count) for count in found]


def initial_points(n_initial: Any, n_trials: int, n_parameters: int) -> int:
    """Quasi-random points with which the first stage begins."""
    if n_initial is None:
        return max(1, min(-(-n_trials // 3), max(MOST_INITIAL, 2 * n_parameters)))
    if not isinstance(n_initial, Integral) or isinstance(n_initial, bool) or n_initial < 1:
        raise InputError(f"n_initial={n_initial!r}: write a whole number of at least 1, or None")
    return min(int(n_initial), n_trials)
