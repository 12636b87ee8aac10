"""The end of every tuning: fit on all data with the strengths found, and warn where needed."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tikhon.groups import Groups
from tikhon.objective import Curved, Objective, Vector, hints_of, release
from tikhon.results import TuneResult, TuneStatus
from tikhon.solvers import prefers_factors
from tikhon.solvers.penalised import baseline, damped, gradient_measure, penalised
from tikhon.tuners.base import Problem
from tikhon.tuners.journal import Journal
from tikhon.tuners.settings import natural_strengths

VANISHED = 0.01  # share of the loss explained by the penalised weights; below it they count as vanished
SHOWN = 5  # names in a message
ROWS_PER_STRENGTH = 20  # below this, learned strengths are likely to overfit the splits


def refit(
    name: str,
    problem: Problem,
    journal: Journal,
    strengths: Vector,
    start: Vector | None,
    *,
    criterion_name: str,
    criterion: float | None,
    status: TuneStatus,
    reason: str,
    notes: tuple[str, ...] = (),
    warnings: tuple[str, ...] = (),
    extras: Mapping[str, Any] | None = None,
) -> TuneResult:
    """Fit all data with these strengths, one per group, from ``start``, and assemble the result.

    If the loss is not convex but has a convex bound, the bound at ``start`` is fitted; if that is a multiple of another
    objective, its factor is stored, since the strengths divided by it are those of the other.
    """
    for pair in problem.pairs:
        for side in (pair.train, pair.holdout):
            release(side)
    objective = convex_bound(problem.objective, baseline(problem.objective) if start is None else start)
    multiple = hints_of(objective).multiple_of
    extras = dict(extras or {}) | ({} if multiple is None else {"loss_factor": multiple.multiplier})
    fit = problem.solver.minimise(objective, problem.groups.expand(strengths), start)
    journal.count_fits(fit.residual)
    if fit.status != "converged":
        warnings = (*warnings, f"the final fit did not converge: {fit.reason}; raise max_iter or tol")
    if journal.n_unconverged:
        status = "stalled" if status == "converged" else status
        reason = f"{reason}, but {journal.n_unconverged} of {journal.n_fits} fits stopped early: raise max_iter"
    decided = degrees_of_freedom(objective, problem.groups, strengths, fit.weights)
    if decided is not None:
        extras["degrees_of_freedom"] = decided
    if learned_vanished(objective, problem.groups.expand(strengths) > 0.0, fit.weights):
        warnings = (
            *warnings,
            "the penalised weights shrank to almost zero and the model predicts almost the same as without them: "
            f"if you expected a signal, try {_other_tuner(name)}, other groups, or columns of one scale",
        )
    return TuneResult(
        tuner=name,
        strengths=problem.groups.named(strengths),
        weights=fit.weights,
        criterion_name=criterion_name,
        criterion=criterion,
        train_loss=float(problem.objective.loss_gradient(fit.weights)[0]),
        status=status,
        reason=reason,
        worst_residual=journal.worst_residual,
        relative_gap=fit.relative_gap,
        gap_is_bound=fit.gap_is_bound,
        trace=tuple(journal.trace),
        n_fits=journal.n_fits,
        seconds=journal.seconds,
        notes=problem.notes + notes,
        warnings=warnings,
        extras={"n_iter": fit.n_iter, **extras},
    )


def degrees_of_freedom(
    objective: Objective, groups: Groups, strengths: Vector, weights: Vector
) -> dict[str, float] | None:
    """The degrees of freedom of each group: sum_j (1 - s_g (H^-1)_jj) (MacKay 1992).

    None if factorising the Hessian is not cheap.
    """
    strength = groups.expand(strengths)
    multiple = hints_of(objective).multiple_of
    if multiple is not None:
        strength, objective = strength / multiple.multiplier, multiple.objective
    if not (prefers_factors(objective) and isinstance(objective, Curved)):
        return None
    inner = penalised(objective, strength)
    inverse = damped(objective.curvature_at, inner, weights).inverse_diagonal()
    return groups.named(np.clip(groups.collect(1.0 - strength * inverse), 0.0, groups.sizes))


def _other_tuner(name: str) -> str:
    return (
        "tuner='mm' or other columns" if name in ("auto", "loo", "gradient", "grid") else "tuner='gradient' or 'grid'"
    )


def convex_bound(objective: Objective, weights: Vector) -> Objective:
    """The objective itself, or its convex bound that touches it at these weights, if it has one."""
    majoriser = hints_of(objective).majoriser
    return objective if majoriser is None else majoriser(weights)


def carried_over(problem: Problem, strengths: Vector) -> tuple[Vector, tuple[str, ...]]:
    """Strengths for the refit on all data, and a note on how they follow from those found on the training parts.

    With rescale="none" a strength is the precision of a prior and stays; with "n" learned ones grow with the data.
    """
    if problem.rescale == "none" or not problem.pairs:
        return strengths, ("strengths carried over to all data unchanged (rescale='none')",)
    train = float(np.mean([pair.train_weight for pair in problem.pairs]))
    ratio = problem.total_weight / train
    note = f"learned strengths multiplied by {ratio:.6g}, the ratio of all data to the training parts (rescale='n')"
    return np.where(problem.groups.learned, strengths * ratio, strengths), (note,)


def learned_vanished(objective: Objective, penalised: NDArray[np.bool_], weights: Vector) -> bool:
    """Whether the loss is hardly below that with all penalised weights at 0, or that of the best constant."""
    if not penalised.any():
        return False
    without = min(
        objective.loss_gradient(np.where(penalised, 0.0, weights))[0], gradient_measure(objective).baseline_loss
    )
    return bool(without - objective.loss_gradient(weights)[0] < VANISHED * abs(without))


def vanished_groups(problem: Problem, candidates: NDArray[np.bool_], weights: Vector) -> tuple[str, ...]:
    """A warning for those of the candidates, groups of small weights, whose weights the data would make larger.

    If each weight of a group moved freely, by the inverse of its curvature h, they would lower the loss by about
    1/2 sum g^2 / (h + s), where s is the natural strength; for pure noise the mean of g^2 is h, which is subtracted. Empty if
    all penalised weights have vanished: that has its own warning.
    """
    groups, objective = problem.groups, problem.objective
    diagonal = hints_of(objective).hessian_diagonal
    if not candidates.any() or bool(candidates[groups.learned].all()) or diagonal is None:
        return ()
    loss, gradient = objective.loss_gradient(weights)
    curvature = np.maximum(diagonal(weights), 0.0)
    held = curvature + groups.expand(natural_strengths(objective, groups))
    terms = np.divide(np.square(gradient) - curvature, held, out=np.zeros_like(held), where=held > 0.0)
    missed = 0.5 * groups.collect(terms)
    found = np.flatnonzero(candidates & (missed > VANISHED * abs(loss)))
    if not len(found):
        return ()
    return (
        f"the weights of {_listed([groups.names[number] for number in found])} shrank to almost zero, although the data "
        "support them: try tuner='auto', or columns of one scale",
    )


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(map(repr, names[:SHOWN])) + more


BOUND_ADVICE = {
    "lower": "hardly penalised: with few rows a sign that the splits are overfitted (try fewer groups or tuner='mm'); "
    "with many, lower the bound or fix the strength at 0",
    "upper": "if the weights are practically 0, drop the columns; if not, raise the bound",
}


def bound_warnings(groups: Groups, strengths: Vector, bounds: tuple[Vector, Vector]) -> tuple[str, ...]:
    """A warning for the learned groups at either bound; strengths and bounds have one entry per group."""
    found = []
    for bound, side in zip(bounds, BOUND_ADVICE, strict=True):
        at = groups.learned & (np.abs(np.log(np.maximum(strengths, 1e-300)) - np.log(bound)) <= 1e-6)
        names = [groups.names[i] for i in np.flatnonzero(at)]
        if names:
            found.append(
                f"the strength of {_listed(names)} is at its {side} bound {bound[at].max():.3g}; {BOUND_ADVICE[side]}"
            )
    return tuple(found)


def many_strengths(problem: Problem) -> tuple[str, ...]:
    """A warning if there are so many strengths that the held-out loss no longer estimates the loss on new data."""
    n_learned, n_rows = int(problem.groups.learned.sum()), problem.total_weight
    if n_learned == 1 or n_learned * ROWS_PER_STRENGTH <= n_rows:
        return ()
    return (
        f"{n_learned} strengths were learned from the held-out loss of {n_rows:.6g} rows: it no longer estimates the loss on "
        "new data; compare with fewer groups, tuner='mm' or tuner='grid' on rows kept aside",
    )
