"""The inner problem, loss + 1/2 sum strength w^2, and what all solvers need from it."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from tikhon.objective import Hints, Matrix, Objective, Product, Vector, hints_of
from tikhon.results import FitResult, FitStatus

FLAT_STRENGTH = 1e-9  # of the mean curvature: lifts flat directions in factorisations; they are projected out anyway
FALLBACK_STRENGTH = 1e-6  # of the mean curvature: for unpenalised weights too many to find their flat directions
TRIFLE = 1e-8  # of the largest curvature: makes a sketch of the Hessian positive definite
FIRST_DAMPING = 1e-12  # of the largest curvature
LEAST_SIGNAL = 1e-9  # of the gradient at zero weights: less at the baseline is rounding error
LITTLE, MOST_RESIZED = 0.02, 0.8  # share of the weights: moves below do not pay; limit on the moves
LEAST_VALUE = 1e-6  # of the loss at the baseline: if the penalised loss is less, gaps are relative to the baseline
EPSILON = float(np.finfo(float).eps)

Factor = TypeVar("Factor")

_measures: "WeakKeyDictionary[Objective, Measure]" = WeakKeyDictionary()
_structures: "WeakKeyDictionary[Objective, _Structure]" = WeakKeyDictionary()


@dataclass(frozen=True, eq=False)
class Measure:
    """The size of a gradient: its norm, in units of the columns if these differ widely, and relative to a scale."""

    norm: Callable[[Vector], float]
    scale: float = 1.0
    baseline_loss: float = 0.0  # at the best constant prediction

    def residual(self, gradient: Vector) -> float:
        return self.norm(gradient) / self.scale


def gradient_measure(objective: Objective) -> Measure:
    """Measures gradients relative to the loss gradient at the best constant prediction.

    It does not depend on where a solver starts, so that an accurate warm start is recognised (scikit-learn issue
    6524 shows what happens otherwise); nor on the strengths, since penalised weights are 0 there; nor on a shift of
    columns or targets, which would dominate the gradient at zero weights.
    """
    try:
        measure = _measures.get(objective)
    except TypeError:  # an objective that is not hashable: computed each time
        return _gradient_measure(objective)
    if measure is None:
        measure = _measures[objective] = _gradient_measure(objective)
    return measure


def _gradient_measure(objective: Objective) -> Measure:
    in_units = hints_of(objective).gradient_norm
    norm = (None if in_units is None else in_units()) or euclidean
    at_zero = norm(objective.loss_gradient(np.zeros(objective.n_weights))[1])
    baseline_loss, gradient = objective.loss_gradient(baseline(objective))
    return Measure(norm, max(norm(gradient), LEAST_SIGNAL * at_zero) or 1.0, float(baseline_loss))


def euclidean(v: Vector) -> float:
    return math.sqrt(v.dot(v))  # in a third of the time that numpy's norm takes for a few weights


def baseline(objective: Objective) -> Vector:
    """The weights of the best constant prediction, or zeros if an objective does not provide them: where fits start."""
    known = hints_of(objective).baseline
    return np.zeros(objective.n_weights) if known is None else known()


@dataclass(frozen=True, eq=False)
class FlatDirections:
    """An orthonormal basis of the flat directions, over the weights that they involve: usually very few."""

    moved: NDArray[np.intp]
    basis: Matrix  # one row for each of these weights

    @property
    def exist(self) -> bool:
        return len(self.moved) > 0

    def taken_out(self, v: Vector) -> Vector:
        left = v.copy()
        left[self.moved] -= self.basis @ (self.basis.T @ v[self.moved])
        return left


def _flat_directions(basis: Matrix) -> FlatDirections:
    moved = np.flatnonzero(basis.any(axis=1))
    return FlatDirections(moved, basis[moved])


class Point(NamedTuple):
    """Weights with the results of one pass over the data."""

    weights: Vector
    loss: float  # without the penalty
    value: float  # with it
    gradient: Vector  # of the value


@dataclass
class Work:
    """The cost of a fit so far."""

    n_passes: int = 0  # evaluations of the loss and its gradient
    n_products: int = 0  # Hessian-vector products


@dataclass(frozen=True, eq=False)
class Penalised:
    """An objective with its strengths (one per weight), and the basis of its flat directions."""

    objective: Objective
    strength: Vector
    flat: FlatDirections
    measure: Measure
    lift: float  # a tiny strength for unpenalised weights if some directions are flat, so that a factor exists
    work: Work = field(default_factory=Work)

    @property
    def hints(self) -> Hints:
        return hints_of(self.objective)

    @cached_property
    def unpenalised(self) -> NDArray[np.bool_]:
        unpenalised: NDArray[np.bool_] = self.strength == 0.0
        return unpenalised

    @cached_property
    def has_unpenalised(self) -> bool:
        return bool(self.unpenalised.any())

    @cached_property
    def has_penalised(self) -> bool:
        """Without a penalty the gap has no bound."""
        return not bool(self.unpenalised.all())

    @cached_property
    def _divisor(self) -> Vector:
        """The strengths, infinite if unpenalised."""
        return np.where(self.unpenalised, np.inf, self.strength) if self.has_unpenalised else self.strength

    def relative(self, gap: float, value: float) -> float:
        """A gap relative to the penalised loss, or to a share of the baseline's if that is negligible."""
        return gap / max(abs(value), LEAST_VALUE * abs(self.measure.baseline_loss), 1e-300)

    def gap_bound(self, point: Point) -> float:
        """1/2 g' S^-1 g over the penalised weights, relative: at least the gap f(w) - f* of a convex loss.

        This holds once the loss is minimised over the unpenalised weights; see ``tikhon.solvers.gap``.
        """
        g = point.gradient
        return self.relative(0.5 * float(g / self._divisor @ g), point.value)

    def at(self, weights: Vector) -> Point:
        return Point(weights, *self.value_gradient(weights))

    def hessian_at(self, weights: Vector) -> Product:
        """v -> (H + S) v without the flat directions; products are counted."""
        product = self.objective.hessian_at(weights)

        def penalised_product(v: Vector) -> Vector:
            self.work.n_products += 1
            return self.project(product(v) + self.strength * v)

        return penalised_product

    def value_gradient(self, weights: Vector) -> tuple[float, float, Vector]:
        """Loss, penalised value, penalised gradient."""
        self.work.n_passes += 1
        loss, gradient = self.objective.loss_gradient(weights)
        pull = self.strength * weights
        value = float(loss + 0.5 * (pull @ weights))
        pull += gradient  # in place: there may be many weights
        return float(loss), value, self.project(pull)

    def project(self, v: Vector) -> Vector:
        """Project the flat directions out of a vector."""
        return self.flat.taken_out(v) if self.flat.exist else v

    def diagonal(self, weights: Vector) -> Vector:
        """The diagonal of the penalised Hessian, or the strengths alone if the objective does not provide its own."""
        diagonal = self.strength
        if self.hints.hessian_diagonal is not None:
            diagonal = diagonal + self.hints.hessian_diagonal(weights)
        elif self.hints.baseline_diagonal is not None:
            diagonal = diagonal + self.hints.baseline_diagonal()
        floor = 1e-8 * float(diagonal.max(initial=0.0))
        return np.maximum(diagonal, floor if floor > 0 else 1.0)

    def preconditioner(self, weights: Vector) -> Product:
        """An approximate inverse of the penalised Hessian for conjugate gradients, without the flat directions."""
        if self.hints.preconditioner is not None:
            apply = self.hints.preconditioner(weights, self.strength)
            return lambda v: self.project(apply(v))
        if self.hints.hessian_sketch is not None:
            sketch = self.hints.hessian_sketch(weights)
            trifle = TRIFLE * float(sketch.diagonal().max(initial=1.0))
            factor = cho_factor(sketch + np.diag(self.strength + trifle))
            return lambda v: self.project(cho_solve(factor, v))
        diagonal = self.diagonal(weights)
        return lambda v: self.project(v / diagonal)

    def lifted(self) -> Vector:
        """Strengths for which a factor exists."""
        return np.where(self.unpenalised, self.lift, self.strength) if self.flat.exist else self.strength

    def starting(self, start: Vector | None) -> Vector:
        """The starting point: the given one, revived, or the baseline, without the flat directions."""
        if start is None:
            start = baseline(self.objective)
        elif self.hints.removable is not None:
            start = self.hints.removable.revived(start)
        return self.project(start)

    def resized(self, weights: Vector) -> Vector:
        """One Newton step along the penalised weights themselves: at new strengths they first all shrink or grow.

        It takes one Hessian product and saves a gradient method many of its first steps.
        """
        ray = np.where(self.strength > 0.0, weights, 0.0)
        slope = float(self.value_gradient(weights)[2] @ ray)
        curvature = float(ray @ self.hessian_at(weights)(ray))
        if not curvature > 0.0 or abs(slope) <= LITTLE * curvature:
            return weights
        return weights - float(np.clip(slope / curvature, -MOST_RESIZED, MOST_RESIZED)) * ray

    def result(
        self, point: Point, n_iter: int, status: FitStatus, reason: str, *, gap: float, gap_is_bound: bool
    ) -> FitResult:
        return FitResult(
            weights=point.weights, loss=point.loss, value=point.value, residual=self.measure.residual(point.gradient),
            relative_gap=gap, gap_is_bound=gap_is_bound, n_iter=n_iter, n_passes=self.work.n_passes,
            n_products=self.work.n_products, status=status, reason=reason,
        )  # fmt: skip


def penalised(objective: Objective, strength: Vector) -> Penalised:
    """Find the flat directions and the scale; too many unpenalised weights to analyse get a tiny strength."""
    structure = _structure(objective, strength == 0.0)
    if structure.held > 0.0:
        strength = np.where(structure.unpenalised, structure.held, strength)
    return Penalised(objective, strength, structure.flat, gradient_measure(objective), structure.lift)


@dataclass(frozen=True, eq=False)
class _Structure:
    """What depends only on which weights are unpenalised."""

    unpenalised: NDArray[np.bool_]
    flat: FlatDirections
    lift: float
    held: float  # strength of unpenalised weights, if they are too many to analyse


def _structure(objective: Objective, unpenalised: NDArray[np.bool_]) -> _Structure:
    """Cached for each objective: all fits of a tuning request the same."""
    try:
        known = _structures.get(objective)
    except TypeError:  # an objective that is not hashable: computed each time
        return _analysed(objective, unpenalised)
    if known is None or not np.array_equal(known.unpenalised, unpenalised):
        known = _structures[objective] = _analysed(objective, unpenalised)
    return known


def _analysed(objective: Objective, unpenalised: NDArray[np.bool_]) -> _Structure:
    none = _flat_directions(np.zeros((0, 0)))
    find = hints_of(objective).flat_directions
    if find is None or not unpenalised.any():
        return _Structure(unpenalised, none, 0.0, 0.0)
    basis = find(unpenalised)
    if basis is None:
        return _Structure(unpenalised, none, 0.0, _trifle(objective, unpenalised, FALLBACK_STRENGTH))
    flat = _flat_directions(basis)
    lift = _trifle(objective, unpenalised, FLAT_STRENGTH) if flat.exist else 0.0
    return _Structure(unpenalised, flat, lift, 0.0)


def _trifle(objective: Objective, unpenalised: NDArray[np.bool_], relative: float) -> float:
    """A small multiple of the mean curvature of the unpenalised weights."""
    diagonal = hints_of(objective).hessian_diagonal
    curvature = np.ones(objective.n_weights) if diagonal is None else diagonal(np.zeros(objective.n_weights))
    mean = float(curvature[unpenalised].mean())
    return relative * (mean if mean > 0 else 1.0)


def damped(factorise: Callable[[Vector, Vector], Factor], problem: Penalised, weights: Vector) -> Factor:
    """``factorise`` applied to weights and the problem's strengths, with the least damping for which a factor exists.

    Non-convex losses and rounding errors lead to matrices that are not positive definite.
    """
    strength = problem.lifted()
    try:
        return factorise(weights, strength)
    except np.linalg.LinAlgError:
        damping = FIRST_DAMPING * float(problem.diagonal(weights).max())
    while True:
        try:
            return factorise(weights, strength + damping)
        except np.linalg.LinAlgError:
            damping *= 10.0
            if not np.isfinite(damping):
                raise
