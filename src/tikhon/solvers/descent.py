"""Bounded descent by quasi-Newton or conjugate-gradient directions, as a machine that asks and is told.

The caller evaluates; the machine only says where. So a step can be rejected, an evaluation repeated with more accuracy,
and the whole state saved between two evaluations and taken up again. It serves as the outer loop of hyperparameter
learning, as the L-BFGS solver of inner problems and as the direct rival of majorization-minimization.

    state = descent.start(x)
    while not done:
        state = descent.tell(state, *evaluate(descent.ask(state)))
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import daxpy, saxpy

from tikhon.objective import Product, Vector

Method = Literal["quasi-newton", "conjugate-gradient"]
SUFFICIENT = 1e-4  # of the promised decrease (Armijo)
SMALLEST_STEP = 1e-10
GROWTH = 2.0  # of the step where the slope does not flatten
STEEP = 0.5  # of the slope, as second derivative, before any is known
FURTHER = 3.0  # than a secant's step a cubic's may lead, or as much less far
LEAST_PRODUCT = 1e-10  # of |s||y|: pairs below would spoil the approximation


@dataclass(frozen=True, eq=False)
class DescentState:
    """All that the machine remembers; arrays and numbers only, so that it can be written to a file."""

    x: Vector  # the best point so far
    value: float  # NaN before the first evaluation
    gradient: Vector
    direction: Vector
    step: float  # the next point is x + step * direction, cut off at the bounds
    moves: tuple[Vector, ...]  # the last differences of points, oldest first
    changes: tuple[Vector, ...]  # and of gradients
    accepted: bool  # was the last evaluation a step forward?
    stalled: bool  # no step along the steepest descent lowers the value
    fall: float = np.nan  # of the value along the last move that is remembered
    inner_products: tuple[float, ...] = ()  # products of moves and changes, pair by pair

    def arrays(self) -> dict[str, NDArray[np.float64]]:
        scalars = np.array([self.value, self.step, float(self.accepted), float(self.stalled), self.fall])
        moves, changes = (np.reshape(pairs, (len(pairs), len(self.x))) for pairs in (self.moves, self.changes))
        return {
            "x": self.x, "gradient": self.gradient, "direction": self.direction, "moves": moves, "changes": changes,
            "scalars": scalars,
        }  # fmt: skip

    @staticmethod
    def from_arrays(arrays: dict[str, NDArray[np.float64]]) -> "DescentState":
        value, step, accepted, stalled, fall = map(float, arrays["scalars"])
        # Copies: some BLAS libraries add up in another order where an array begins in the middle of another.
        moves, changes = (tuple(row.copy() for row in arrays[name]) for name in ("moves", "changes"))
        return DescentState(
            arrays["x"], value, arrays["gradient"], arrays["direction"], step, moves, changes, bool(accepted), bool(stalled),
            fall, tuple(float(s @ y) for s, y in zip(moves, changes, strict=True)),
        )  # fmt: skip


@dataclass(frozen=True, eq=False, kw_only=True)
class Descent:
    """Minimise within bounds: L-BFGS or Polak-Ribiere directions on the free variables, backtracking along the
    projected path (Bertsekas 1982)."""

    method: Method = "quasi-newton"
    lower: float | Vector = -np.inf
    upper: float | Vector = np.inf
    memory: int = 10
    first_move: float = np.inf  # largest entry of the very first step
    largest_move: float = np.inf  # and of any
    metric: Vector | Product | None = None  # a guess of the Hessian's diagonal, or the inverse of one of all of it
    relative_second_derivative: float | None = None  # or of its size far from any slope, in units of the first value
    noise: float = 0.0  # relative error of values; within it, a smaller gradient is the better witness
    single: bool = False  # remember pairs in single precision: half the memory and time where variables are many

    def start(self, x: Vector) -> DescentState:
        x = np.clip(x, self.lower, self.upper)
        return DescentState(x, np.nan, np.zeros_like(x), np.zeros_like(x), 0.0, (), (), True, False)

    def ask(self, state: DescentState) -> Vector:
        """The next point to evaluate."""
        x = state.x + state.step * state.direction
        return x if self._unbounded else np.clip(x, self.lower, self.upper)

    def tell(self, state: DescentState, value: float, gradient: Vector) -> DescentState:
        """Take the value and gradient at the point that was asked."""
        if np.isnan(state.value):
            return self._depart(replace(state, value=value, gradient=gradient, accepted=True))
        x = self.ask(state)
        move = x - state.x
        promised = float(state.gradient @ move)
        lower = value <= state.value + SUFFICIENT * promised or (
            abs(value - state.value) <= self.noise * abs(value)
            and np.linalg.norm(gradient) < np.linalg.norm(state.gradient)
        )
        if np.isfinite(value) and lower:
            change = gradient - state.gradient
            inner_product = float(move @ change)
            # Where the slope does not flatten along a step, the next one is at least twice as long.
            least = GROWTH * float(np.abs(move).max(initial=0.0)) if inner_product <= 0.0 else 0.0
            return self._depart(self._remember(state, x, value, gradient, move, change, inner_product), least)
        return self._shorten(state, value, promised)

    def rebase(self, state: DescentState, value: float, gradient: Vector, x: Vector | None = None) -> DescentState:
        """Replace the value and gradient at the best point by better ones, or the point too, and set out from there anew."""
        return self._depart(replace(state, x=state.x if x is None else x, value=value, gradient=gradient))

    def projected_gradient(self, state: DescentState) -> Vector:
        """The gradient where a step down is possible, 0 where a bound is in the way."""
        return _where(self._free(state), state.gradient)

    @cached_property
    def _unbounded(self) -> bool:
        return bool(np.isneginf(self.lower).all() and np.isposinf(self.upper).all())

    def _free(self, state: DescentState) -> NDArray[np.bool_] | None:
        """Which variables no bound holds; None where there are no bounds, as in fits of many weights."""
        if self._unbounded:
            return None
        held = ((state.x <= self.lower) & (state.gradient > 0)) | ((state.x >= self.upper) & (state.gradient < 0))
        return ~held

    def _remember(
        self, state: DescentState, x: Vector, value: float, gradient: Vector, move: Vector, change: Vector, inner_product: float
    ) -> DescentState:  # fmt: skip
        moves, changes, inner_products, fall = state.moves, state.changes, state.inner_products, state.fall
        if inner_product > LEAST_PRODUCT * float(np.linalg.norm(move) * np.linalg.norm(change)):
            if self.single:
                move, change = move.astype(np.float32), change.astype(np.float32)
            moves, changes = (*moves, move)[-self.memory :], (*changes, change)[-self.memory :]
            inner_products = (*inner_products, inner_product)[-self.memory :]
            fall = state.value - value
        return replace(
            state, x=x, value=value, gradient=gradient, moves=moves, changes=changes, accepted=True, fall=fall,
            inner_products=inner_products,
            direction=state.direction if state.step == 1.0 else state.step * state.direction,
        )  # fmt: skip

    def _shorten(self, state: DescentState, value: float, promised: float) -> DescentState:
        """A shorter step along the same direction, by a parabola through what is known."""
        shrink = 0.1
        if np.isfinite(value):
            excess = value - state.value - promised  # over the linear model
            shrink = float(np.clip(-promised / (2.0 * excess), 0.1, 0.5)) if excess > 0 else 0.5
        step = shrink * state.step
        if step > SMALLEST_STEP:
            return replace(state, step=step, accepted=False)
        if len(state.moves):  # forget the pairs and try the gradient itself
            fresh = replace(
                state, moves=(), changes=(), inner_products=(), direction=np.zeros_like(state.x), accepted=False
            )
            return replace(self._depart(fresh), accepted=False)
        return replace(state, accepted=False, stalled=True)

    def _depart(self, state: DescentState, least: float = 0.0) -> DescentState:
        """Choose the direction of the next step."""
        free = self._free(state)
        downhill = _where(free, -state.gradient)
        if self.method == "quasi-newton":
            direction = self._two_loop(state, downhill, free)
        else:
            direction = self._conjugate(state, downhill, free)
        # Also where the direction is not finite: single precision has a small range.
        if not float(direction @ downhill) > 1e-12 * float(np.linalg.norm(direction) * np.linalg.norm(downhill)):
            direction = self._by_metric(downhill)
        if len(state.x) == 1 and state.moves:
            direction = _by_cubic(state, direction)
        if not len(state.moves) and self.relative_second_derivative is not None:
            # In log strengths: the slope of a loss that too strong a penalty makes falls with the strength, so its
            # curvature is about the slope; towards stronger penalties the slope hardly changes for long.
            steep = STEEP * np.maximum(-downhill, 0.0).max(initial=0.0)
            direction = direction / max(self.relative_second_derivative * abs(state.value) + steep, 1e-300)
        largest = float(np.abs(direction).max(initial=0.0))
        most = self.largest_move if len(state.moves) else self.first_move
        if 0.0 < largest < least:
            direction, largest = direction * (least / largest), least
        if largest > most:
            direction = direction * (most / largest)
        return replace(state, direction=direction, step=1.0, stalled=largest == 0.0)

    def _two_loop(self, state: DescentState, downhill: Vector, free: NDArray[np.bool_] | None) -> Vector:
        """The L-BFGS direction on the free variables (Nocedal 1980)."""
        moves, changes, inner_products = state.moves, state.changes, state.inner_products
        if free is not None and not free.all():
            moves, changes = (tuple(np.where(free, v, 0.0) for v in pairs) for pairs in (moves, changes))
            inner_products = tuple(float(s @ y) for s, y in zip(moves, changes, strict=True))
        usable = [(s, y, sy) for s, y, sy in zip(moves, changes, inner_products, strict=True) if sy > 0.0]
        q: Vector = downhill.astype(np.float32 if self.single else np.float64)
        applied = []
        for s, y, sy in reversed(usable):
            a = float(s @ q) / sy
            q = _plus_multiple(q, -a, y)
            applied.append(a)
        q = self._by_metric(q)
        if usable:
            s, y, sy = usable[-1]
            q *= sy / float(y @ self._by_metric(y))
        for (s, y, sy), a in zip(usable, reversed(applied), strict=True):
            q = _plus_multiple(q, a - float(y @ q) / sy, s)
        return _where(free, q.astype(np.float64, copy=False))

    def _by_metric(self, v: Vector) -> Vector:
        """In the precision of ``v``."""
        if self.metric is None:
            return v
        found: Vector = self.metric(v) if callable(self.metric) else v / self.metric
        return found.astype(v.dtype, copy=False)

    def _conjugate(self, state: DescentState, downhill: Vector, free: NDArray[np.bool_] | None) -> Vector:
        """Polak-Ribiere, restarted where it would go uphill, scaled by the curvature along the last step."""
        if not len(state.moves):
            return downhill
        move, change = state.moves[-1], state.changes[-1]
        before = -(state.gradient - change)  # downhill at the point before
        beta = max(0.0, float(downhill @ (downhill - _where(free, before))) / max(float(before @ before), 1e-300))
        length = float(move @ move) / float(move @ change)  # the inverse of the second derivative
        last = move * float(np.sqrt(before @ before)) / max(float(np.linalg.norm(move)), 1e-300)
        return _where(free, length * (downhill + beta * last))


def _plus_multiple(total: Vector, factor: float, v: Vector) -> Vector:
    """total + factor v, in place: one pass over memory where numpy would take two."""
    axpy: Any = saxpy if total.dtype == np.float32 else daxpy
    summed: Vector = axpy(v, total, a=factor)
    return summed


def _where(free: NDArray[np.bool_] | None, v: Vector) -> Vector:
    return v if free is None else np.where(free, v, 0.0)


def _by_cubic(state: DescentState, secant: Vector) -> Vector:
    """The step to the least value of the cubic through the last two points and slopes, in one dimension.

    A secant of the slopes does not use the values, and a criterion that first falls steadily and then turns deceives it. Near
    it stays all the same: the values may be noisy.
    """
    move, change = float(state.moves[-1][0]), float(state.changes[-1][0])
    after = float(state.gradient[0])
    before = after - change
    middle = before + after - 3.0 * state.fall / -move
    square = middle**2 - before * after
    if not square > 0.0:
        return secant
    root = float(np.copysign(np.sqrt(square), move))
    step = -move * (after + root - middle) / (after - before + 2.0 * root)
    ratio = float(np.clip(step / secant[0], 1.0 / FURTHER, FURTHER)) if secant[0] != 0.0 else 1.0
    return secant * ratio
