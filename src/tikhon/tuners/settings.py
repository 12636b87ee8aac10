"""Checks of tuner settings, made when a tuning starts (scikit-learn's rule: constructors only store)."""

from collections.abc import Mapping

import numpy as np

from tikhon.errors import InputError
from tikhon.groups import Groups
from tikhon.objective import Objective, Vector, hints_of
from tikhon.tuners.base import Problem, Start

NATURAL_SHARE = 0.03  # of the curvature
WEAKEST, STRONGEST = 2.0**-16, 2.0**20  # bounds, in units of the natural strengths


def check_prior(alpha: float, beta: float) -> None:
    if not 0.0 <= alpha < np.inf:
        raise InputError(f"alpha={alpha!r}: the shape of the Gamma prior must be finite, 0 or larger")
    if not 0.0 < beta < np.inf:
        raise InputError(f"beta={beta!r}: the rate of the Gamma prior must be finite and larger than 0")


def check_steps(max_steps: int, tol: float) -> None:
    if not isinstance(max_steps, int | np.integer) or max_steps < 1:
        raise InputError(f"max_steps={max_steps!r}: write a whole number, 1 or larger")
    if not 0.0 < tol < np.inf:
        raise InputError(f"tol={tol!r}: write a finite number larger than 0")


def check_bounds(bounds: tuple[float, float] | None) -> tuple[float, float]:
    given = np.asarray(bounds, dtype=float) if np.ndim(bounds) == 1 else np.zeros(0)  # type: ignore[arg-type]
    if bounds is None or given.shape != (2,) or not 0.0 < given[0] < given[1] < np.inf:
        raise InputError(f"bounds={bounds!r}: write two finite strengths, 0 < lower < upper")
    return float(bounds[0]), float(bounds[1])


def strength_bounds(bounds: tuple[float, float] | None, natural: Vector) -> tuple[Vector, Vector]:
    """The bounds on the strength of each group: as given, or 2^-16 and 2^20 times the natural strength."""
    if bounds is None:
        return natural * WEAKEST, natural * STRONGEST
    lower, upper = check_bounds(bounds)
    return np.full(len(natural), lower), np.full(len(natural), upper)


def check_pairs(problem: Problem, tuner: str) -> None:
    if not problem.pairs:
        raise InputError(f"the tuner {tuner!r} needs hold-out data: set cv or validation_fraction")


def natural_strengths(objective: Objective, groups: Groups) -> Vector:
    """A strength for each group that follows the units of its columns: the mean of the objective's hints, if any.

    Otherwise 3 % of the mean curvature of its weights: the best single strength was between 0.03 % and 20 % of it on the
    LIBSVM sets of the 2009 paper. 1 if the objective does not provide its curvature or it is zero, and for an empty group.
    """
    hints = hints_of(objective)
    if hints.natural_strengths is not None:
        told = groups.collect(hints.natural_strengths()) / np.maximum(groups.sizes, 1)
        return np.where(told > 0.0, told, 1.0)
    if hints.baseline_diagonal is not None:
        diagonal = hints.baseline_diagonal()
    elif hints.hessian_diagonal is not None:
        diagonal = hints.hessian_diagonal(np.zeros(objective.n_weights))
    else:
        return np.ones(groups.count)
    mean = groups.collect(diagonal) / np.maximum(groups.collect((diagonal > 0.0).astype(float)), 1.0)
    return np.where(mean > 0.0, NATURAL_SHARE * mean, 1.0)


def starting_theta(start: Start, groups: Groups) -> Vector:
    """The logarithms of the initial strengths of the learned groups."""
    learned = [name for name, is_learned in zip(groups.names, groups.learned, strict=True) if is_learned]
    if isinstance(start, Mapping):
        start = {str(name): value for name, value in start.items()}
        known = set(groups.names)
        unknown = [name for name in start if name not in known]
        if unknown:
            raise InputError(
                f"start has the unknown group {unknown[0]!r}; the groups are {', '.join(groups.names[:8])}"
            )
        values = np.array([float(start.get(name, 1.0)) for name in learned])
    else:
        values = np.full(len(learned), float(start))
    if not (np.isfinite(values) & (values > 0)).all():
        raise InputError(f"start={start!r}: initial strengths must be finite and larger than 0")
    return np.asarray(np.log(values))
