"""Conformance tests for your own models and tuners.

``check_objective`` tests derivatives at random points in random directions, ``check_tuner`` the guarantees that every
tuner gives, ``check_hypergradient`` an implicit gradient against refits. All raise AssertionError with the numbers.
"""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import cast

import numpy as np

from tikhon.groups import Groups
from tikhon.objective import Factorable, Objective, Rows, Vector, capabilities_of
from tikhon.results import Step, TuneResult
from tikhon.solvers import Newton, NewtonCG, prefers_factors
from tikhon.tuners.base import Problem, Tuner
from tikhon.tuners.hypergradient import hypergradient

DIRECTIONS = 3


def check_objective(objective: Objective, rng: np.random.Generator, *, scale: float = 0.5) -> None:
    """Check an objective at random weights of the given scale.

    (a) gradient . v against fourth-order differences of the loss; (b) Hessian products against differences of
    gradients; (c) u.Hv = v.Hu; (d) v.Hv >= 0 if convex; (e) weights are not modified and repeated calls are
    bit-identical; (f) a factorisation, if there is one, solves the penalised system; (g) row weights of 0 and 2 have
    the right effect, if there are rows and the loss is convex.
    """
    can = capabilities_of(objective)
    for _ in range(DIRECTIONS):
        weights, u, v = (scale * rng.normal(size=objective.n_weights) for _ in range(3))
        before = weights.copy()
        loss, gradient = objective.loss_gradient(weights)
        product = objective.hessian_at(weights)
        Hv, Hu = product(v), product(u)
        _check_gradient(objective, weights, v, float(gradient @ v))
        _check_product(objective, weights, v, Hv)
        size = float(np.linalg.norm(u) * np.linalg.norm(Hv)) + 1e-300
        assert abs(u @ Hv - v @ Hu) <= 1e-10 * size, f"Hessian is not symmetric: u.Hv = {u @ Hv}, v.Hu = {v @ Hu}"
        if objective.is_convex:
            assert v @ Hv >= -1e-12 * np.linalg.norm(v) * np.linalg.norm(Hv), (
                f"v.Hv = {v @ Hv} < 0 but is_convex is True"
            )
        again = objective.loss_gradient(weights)
        assert loss == again[0], "the same weights give another loss the second time"
        assert np.array_equal(gradient, again[1]), "the same weights give another gradient the second time"
        assert np.array_equal(Hv, objective.hessian_at(weights)(v)), "the same weights give another Hessian product"
        assert np.array_equal(weights, before), "loss_gradient or hessian_at modified the weights"
        if Factorable in can:
            _check_factor(cast(Factorable, objective), weights, v, rng)
    if Rows in can:
        _check_rows(cast(Rows, objective), rng, scale)


def _check_gradient(objective: Objective, weights: Vector, v: Vector, slope: float) -> None:
    def loss(t: float) -> float:
        return objective.loss_gradient(weights + t * v)[0]

    h = 1e-3
    difference = (8 * (loss(h) - loss(-h)) - (loss(2 * h) - loss(-2 * h))) / (12 * h)
    # Error of the differences: truncation of order h^4, and rounding of the loss divided by h.
    tolerance = 1e-6 * abs(difference) + 1e-12 * (abs(loss(0.0)) + 1.0) / h
    assert abs(slope - difference) <= tolerance, f"gradient . v = {slope}, differences give {difference}"


def _check_product(objective: Objective, weights: Vector, v: Vector, Hv: Vector) -> None:
    def gradient(t: float) -> Vector:
        return objective.loss_gradient(weights + t * v)[1]

    h = 1e-3
    difference = (8 * (gradient(h) - gradient(-h)) - (gradient(2 * h) - gradient(-2 * h))) / (12 * h)
    error = float(np.linalg.norm(Hv - difference))
    size = float(np.linalg.norm(difference))
    assert error <= 1e-5 * size + 1e-9, f"Hessian product differs by {error:.1e} from differences of size {size:.1e}"


def _check_factor(objective: Factorable, weights: Vector, v: Vector, rng: np.random.Generator) -> None:
    strength = rng.uniform(0.5, 2.0, objective.n_weights)
    x = objective.factorise(weights, strength)(v)
    back = objective.hessian_at(weights)(x) + strength * x
    error = float(np.linalg.norm(back - v) / np.linalg.norm(v))
    assert error <= 1e-8, f"the solution by factorise has relative error {error:.1e}"


def _check_rows(objective: Rows, rng: np.random.Generator, scale: float) -> None:
    weights = scale * rng.normal(size=objective.n_weights)
    ones, part = np.ones(objective.n_rows), (rng.random(objective.n_rows) < 0.5).astype(float)
    if not objective.is_convex:  # the logarithm of a sum is not additive
        return
    whole, left, right = (objective.reweighted(w).loss_gradient(weights) for w in (ones, part, ones - part))
    np.testing.assert_allclose(left[0] + right[0], whole[0], rtol=1e-9, err_msg="parts do not add up to the whole")
    np.testing.assert_allclose(left[1] + right[1], whole[1], rtol=1e-7, atol=1e-8 * np.abs(whole[1]).max())
    double = objective.reweighted(2.0 * ones).loss_gradient(weights)
    np.testing.assert_allclose(double[0], 2.0 * whole[0], rtol=1e-9, err_msg="weights of 2 do not double the loss")


@dataclass(frozen=True, eq=False)
class HypergradientCheck:
    """Derivatives of held-out loss in random directions of theta: implicit, and by differences of refits."""

    theta: Vector
    implicit: tuple[float, ...]
    refitted: tuple[float, ...]

    @property
    def error(self) -> float:
        """The largest difference, relative to the largest slope."""
        size = max(max(map(abs, self.refitted)), 1e-12)
        return max(abs(a - b) for a, b in zip(self.implicit, self.refitted, strict=True)) / size


def check_hypergradient(
    problem: Problem,
    *,
    theta: Vector | None = None,
    seed: int = 0,
    step: float = 1e-4,
    tol: float = 1e-5,
    n_directions: int = DIRECTIONS,
) -> HypergradientCheck:
    """Compare the implicit gradient at ``theta`` (random unless given) with central differences of refits.

    Refits use Newton's method to the limit of precision: differences through an inexact solver are mostly noise.
    """
    rng = np.random.default_rng(seed)
    n_learned = int(problem.groups.learned.sum())
    theta = rng.normal(size=n_learned) if theta is None else theta
    sharp = (
        Newton() if prefers_factors(problem.pairs[0].train) else NewtonCG()
    )  # Newton's method, whatever solver was chosen
    problem = replace(problem, solver=sharp)
    found = hypergradient(problem, theta, accuracy=1e-11)
    implicit, refitted = [], []
    for _ in range(n_directions):
        v = rng.normal(size=n_learned)
        v /= np.linalg.norm(v)
        ahead, behind = (hypergradient(problem, theta + s * v, accuracy=1e-11).value for s in (step, -step))
        implicit.append(float(found.gradient @ v))
        refitted.append((ahead - behind) / (2 * step))
    report = HypergradientCheck(theta, tuple(implicit), tuple(refitted))
    assert report.error <= tol, (
        f"implicit slopes {implicit} differ from refitted ones {refitted} by {report.error:.1e} (relative), {tol:.1e} allowed"
    )
    return report


def check_tuner(make: Callable[[str | None], Tuner], problem: Problem, checkpoint: str | None = None) -> TuneResult:
    """Check the guarantees of a tuner on a problem; ``make(checkpoint)`` builds it.

    Strengths are finite, non-negative and named after the groups; fixed ones are kept; the weights are a minimum at these
    strengths; ``on_step`` receives every step of the trace; repeated calls are bit-identical; and with a checkpoint, a run
    stopped early, in the middle, late or not at all, and then resumed, ends with the same bits and the same trace.
    """
    seen: list[Step] = []
    result = make(None).tune(replace(problem, on_step=seen.append))
    groups = problem.groups
    assert tuple(result.strengths) == groups.names, f"strengths {list(result.strengths)}, groups {groups.names}"
    strengths = np.array(list(result.strengths.values()))
    assert (np.isfinite(strengths) & (strengths >= 0)).all(), f"strengths {strengths}"
    np.testing.assert_array_equal(strengths[~groups.learned], groups.fixed[~groups.learned], "fixed strengths moved")
    assert [step.number for step in seen] == [step.number for step in result.trace], "on_step missed a step"
    assert all(np.isfinite(step.criterion) for step in result.trace), "a step has no finite criterion"
    assert result.seconds >= 0
    assert result.n_fits >= 1
    _check_minimum(problem, groups, strengths, result)
    repeated = make(None).tune(problem)
    assert np.array_equal(repeated.weights, result.weights), "a second call gives other bits"
    if checkpoint is not None:
        _check_resume(make, problem, checkpoint, result)
    return result


def _check_minimum(problem: Problem, groups: Groups, strengths: Vector, result: TuneResult) -> None:
    if not problem.objective.is_convex:
        return
    _, gradient = problem.objective.loss_gradient(result.weights)
    left = gradient + groups.expand(strengths) * result.weights
    scale = np.linalg.norm(problem.objective.loss_gradient(np.zeros_like(result.weights))[1])
    assert np.linalg.norm(left) <= 1e-6 * scale, (
        f"the weights are not a minimum: residual {np.linalg.norm(left) / scale:.1e}"
    )


class _StopError(Exception):
    pass


def _check_resume(make: Callable[[str | None], Tuner], problem: Problem, checkpoint: str, whole: TuneResult) -> None:
    n_steps = len(whole.trace)
    for last in sorted({2, n_steps // 2, n_steps - 1, n_steps} - {0}):
        path = f"{checkpoint}.{last}"
        _stopped(make(path), problem, last)
        for _ in range(2):  # the second time, from the checkpoint of a finished run
            resumed = make(path).tune(problem)
            assert np.array_equal(resumed.weights, whole.weights), (
                f"a run resumed after step {last} ends with other bits"
            )
            assert len(resumed.trace) == n_steps, f"a run resumed after step {last} has another trace"


def _stopped(tuner: Tuner, problem: Problem, last: int) -> None:
    def stop(step: Step) -> None:
        if step.number >= last:
            raise _StopError

    with contextlib.suppress(_StopError):
        tuner.tune(replace(problem, on_step=stop))
