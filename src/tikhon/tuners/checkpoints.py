"""Descriptions of the tuners' checkpoints: what each tuner passes to its journal at every step.

``Journal.resume`` takes a ``State``, adds what all checkpoints contain and validates the file before using any of it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tikhon.data.description import LARGEST, Agreement, Array, Arrays, Description, Header, Size
from tikhon.data.result_values import COUNT, STEP
from tikhon.data.values import ANY_NUMBER, FINITE, Flag, Later, ListOf, Mismatch, Number, Record, Text, Value, Whole
from tikhon.objective import Vector, hints_of
from tikhon.tuners.base import Problem

WEAKEST, STRONGEST = 1e-100, 1e100  # limits on the strengths that a tuning may resume with
FARTHEST = float(np.log(STRONGEST))
MOST_WEIGHT = 1e60  # losses square weights, and curvatures square losses
CRITERION = Number(-LARGEST, LARGEST)
COMMON, IN_UNITS, APART, DISPERSED = 0, 1, 2, 3  # the stages of a search


@dataclass(frozen=True, eq=False)
class State:
    """The state of a tuner: numbers in the header, and the arrays that go with them."""

    numbers: Value
    arrays: Callable[[Mapping[str, Any]], Mapping[str, Array]]  # given numbers that match their description
    agreements: tuple[Agreement, ...] = ()


def checkpoint_description(sizes: Mapping[str, int], state: State) -> Description:
    """The checkpoint of a tuning with these numbers of weights, groups and splits."""
    header = Record(
        {
            "fingerprint": Text(),
            "trace": ListOf(STEP, at_least=1, names="n_steps"),
            "numbers": state.numbers,
            "n_fits": COUNT,
            "worst_residual": Number(at_least=0.0, or_nan=True),
            "n_unconverged": COUNT,
        }
    )

    def arrays(header: Header, _: Arrays) -> dict[str, Array]:
        trace = Array("float64", ("n_steps", "n_groups"), at_least=0.0, at_most=FINITE)
        return {"trace.strengths": trace, **state.arrays(header["numbers"])}

    return Description(header, arrays, state.agreements, sizes)


def descent_arrays(size: Size, farthest: float, prefix: str = "") -> dict[str, Array]:
    """A ``DescentState`` with this many variables."""
    truth = Number(0.0, 1.0)
    return {
        f"{prefix}x": Array("float64", (size,), -farthest, farthest),
        f"{prefix}gradient": Array("float64", (size,)),
        f"{prefix}direction": Array("float64", (size,), -farthest, farthest),
        f"{prefix}moves": Array("float64", ("n_moves", size), -farthest, farthest),
        f"{prefix}changes": Array("float64", ("n_moves", size)),
        f"{prefix}scalars": Array(
            "float64", (5,), or_nan=True, entries=(CRITERION, Number(0.0, 1.0), truth, truth, ANY_NUMBER)
        ),  # value, step, accepted, stalled, fall
    }


def direct_state() -> State:
    return State(Record({}), lambda _: descent_arrays("n_weights", MOST_WEIGHT))


def mm_state(problem: Problem) -> State:
    groups = problem.groups
    strengths = Array(
        "float64",
        ("n_groups",),
        np.where(groups.learned, WEAKEST, groups.fixed),
        np.where(groups.learned, STRONGEST, groups.fixed),
    )
    arrays = {
        "weights": Array("float64", ("n_weights",), -MOST_WEIGHT, MOST_WEIGHT),
        "strengths": strengths,
        "updated": strengths,
        "next": strengths,
        "numbers": Array("float64", (2,), at_most=np.inf, entries=(CRITERION, Number(at_least=0.0))),  # value, change
    }
    return State(Record({}), lambda _: arrays)


def grid_state(values: Vector, bounds: tuple[float, float], n_rounds: int) -> State:
    """``values`` are the initial ones; later ones lie between them or, if the grid is widened, the bounds."""
    low, high = min(float(values.min()), bounds[0]), max(float(values.max()), bounds[1])
    strength = Number(low, high)
    numbers = Record({"rounds": Whole(0, n_rounds), "pending": ListOf(strength, at_most=2, distinct=True)})
    arrays = {
        "tried": Array("float64", ("n_steps",), low, high, distinct=True),
        "losses": Array("float64", ("n_steps", "n_splits")),
        "kept": Array("float64", ("n_kept",), low, high, distinct=True),
        "weights": Array("float64", ("n_kept", "n_splits", "n_weights"), -MOST_WEIGHT, MOST_WEIGHT),
    }
    return State(numbers, lambda _: arrays)


def search_state(problem: Problem, *, by_split: bool, pooled: bool) -> State:
    """For a descent in log strengths; ``pooled``: in stages, each with the results of those before it.

    ``by_split``: one fit per split; otherwise one fit of all data, or none.
    """
    n_learned = int(problem.groups.learned.sum())
    n_rows = _criterion_rows(problem, by_split) if pooled else None

    def arrays(numbers: Mapping[str, Any]) -> dict[str, Array]:
        stage = numbers["stage"]
        described = {
            **descent_arrays(1 if pooled and stage < APART else n_learned, FARTHEST, "descent."),
            **_starts(by_split, ""),
            "without_prior": Array("float64", (n_learned,)),
        }
        if n_rows is not None:
            described["row_losses"] = Array("float64", (n_rows,))
        if stage == COMMON:
            return described
        described |= {
            "common.theta": Array("float64", (n_learned,), -FARTHEST, FARTHEST),
            "common.gradient": Array("float64", (n_learned,)),
            **_starts(by_split, "common."),
        }
        return described if n_rows is None else {**described, "common.losses": Array("float64", (n_rows,))}

    return State(Later(lambda numbers: _search_numbers(numbers, pooled), frozenset({dict})), arrays, (_check_best,))


def _search_numbers(numbers: Mapping[str, Any], pooled: bool) -> Record:
    described: dict[str, Value] = {
        "stage": Whole(COMMON, DISPERSED if pooled else COMMON),
        "accuracy": Number(5e-324, 1.0),
        "error": Number(at_least=0.0),
        "decrease": Number(),
        "poor": Flag(),
        "shortened": Number(),
        "foretold": Number(),
        "criterion": CRITERION,
        "best": Whole(at_least=0),
    }
    stage = numbers.get("stage")
    if not isinstance(stage, int) or stage == COMMON:
        return Record(described)
    described["common_criterion"] = CRITERION
    if stage >= APART:
        described |= {"plain_strength": Number(WEAKEST, STRONGEST), "plain_criterion": CRITERION}
    if stage >= DISPERSED:
        described["dispersion"] = Number(1.0, FINITE)
    return Record(described)


def _check_best(header: Header, arrays: Arrays) -> None:
    best, n_steps = header["numbers"]["best"], len(header["trace"])
    if best >= n_steps:
        raise Mismatch("numbers.best", str(best), f"the index of one of {n_steps} steps")


def _starts(by_split: bool, prefix: str) -> dict[str, Array]:
    """Weights and adjoints for each split or, with leave-one-out, of the single fit; empty if nothing is fitted."""
    shape: tuple[Size, ...] = ("n_splits", "n_weights") if by_split else (1, "n_weights")
    array = Array("float64", shape, -MOST_WEIGHT, MOST_WEIGHT, other_shapes=() if by_split else ((0,),))
    return {f"{prefix}weights": array, f"{prefix}adjoints": array}


def _criterion_rows(problem: Problem, by_split: bool) -> int | None:
    """The number of rows that the criterion sums over; None if the model does not provide the loss of each."""
    views = [pair.holdout for pair in problem.pairs] if by_split else [problem.objective]
    by_row = [hints_of(view).row_losses for view in views]
    weights = np.zeros(problem.objective.n_weights)
    n_rows = 0
    for losses in by_row:
        if losses is None:
            return None
        n_rows += len(losses(weights))
    return n_rows
