"""Bounded descent by quasi-Newton or conjugate-gradient directions, with an ask-and-tell interface.

The caller evaluates; the descent only proposes points. So a step can be rejected, an evaluation repeated with higher accuracy,
and the whole state saved between two evaluations and resumed. It is the outer loop of hyperparameter learning, the L-BFGS
solver of inner problems and the direct alternative to majorization-minimization.

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
GROWTH = 2.0  # factor on the step if the slope does not flatten
STEEP = 0.5  # second derivative as a share of the slope, before any is known
FURTHER = 3.0  # factor by which a step by the cubic may be longer or shorter than one by the secant
LEAST_PRODUCT = 1e-10  # relative to |s||y|: pairs below would spoil the approximation


@dataclass(frozen=True, eq=False)
class DescentState:
    """The complete state; arrays and numbers only, so that it can be written to a file."""

    x: Vector  # the best point so far
    value: float  # NaN before the first evaluation
    gradient: Vector
    direction: Vector
    step: float  # the next point is x + step * direction, cut off at the bounds
    moves: tuple[Vector, ...]  # the last differences of points, oldest first
    changes: tuple[Vector, ...]  # and of gradients
    accepted: bool  # was the last evaluation an accepted step?
    stalled: bool  # no step along the steepest descent direction lowers the value
    fall: float = np.nan  # decrease of the value along the last stored move
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
        # Copies: some BLAS libraries sum in another order if an array begins in the middle of another.
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
    first_move: float = np.inf  # largest entry of the first step
    largest_move: float = np.inf  # and of any step
    metric: Vector | Product | None = None  # approximate diagonal of the Hessian, or an approximate inverse
    relative_second_derivative: float | None = None  # or one far from steep slopes, relative to the first value
    noise: float = 0.0  # relative error of values; within it, the gradients decide
    single: bool = False  # store pairs in single precision: half the memory and time if there are many variables

    def start(self, x: Vector) -> DescentState:
        x = x if self._unbounded else np.clip(x, self.lower, self.upper)
        return DescentState(x, np.nan, np.zeros_like(x), np.zeros_like(x), 0.0, (), (), True, False)

    def ask(self, state: DescentState) -> Vector:
        """The next point to evaluate."""
        x = state.x + state.step * state.direction
        return x if self._unbounded else np.clip(x, self.lower, self.upper)

    def tell(self, state: DescentState, value: float, gradient: Vector, x: Vector | None = None) -> DescentState:
        """Process the value and gradient at the point that was asked for (``x``, if the caller still has it)."""
        if np.isnan(state.value):
            return self._depart(replace(state, value=value, gradient=gradient, accepted=True))
        x = self.ask(state) if x is None else x
        move = x - state.x
        promised = float(state.gradient @ move)
        lower = value <= state.value + SUFFICIENT * promised or (
            abs(value - state.value) <= self.noise * abs(value)
            and np.linalg.norm(gradient) < np.linalg.norm(state.gradient)
        )
        if np.isfinite(value) and lower:
            change = gradient - state.gradient
            inner_product = float(move @ change)
            # If the slope does not flatten along a step, the next one is at least twice as long.
            least = GROWTH * float(np.abs(move).max(initial=0.0)) if inner_product <= 0.0 else 0.0
            state = self._remember(state, x, value, gradient, move, change, inner_product)
            del x, move, change  # there may be many variables
            return self._depart(state, least)
        return self._shorten(state, value, promised)

    def rebase(self, state: DescentState, value: float, gradient: Vector, x: Vector | None = None) -> DescentState:
        """Replace the value and gradient at the best point by better ones, or the point too, and restart from there."""
        return self._depart(replace(state, x=state.x if x is None else x, value=value, gradient=gradient))

    def projected_gradient(self, state: DescentState) -> Vector:
        """The gradient where a descent step is possible, 0 where a bound blocks it."""
        return _where(self._free(state), state.gradient)

    def is_held(self, state: DescentState) -> bool:
        """Whether bounds hold every variable."""
        free = self._free(state)
        return free is not None and not free.any()

    @cached_property
    def _unbounded(self) -> bool:
        return bool(np.isneginf(self.lower).all() and np.isposinf(self.upper).all())

    def _free(self, state: DescentState) -> NDArray[np.bool_] | None:
        """The variables not held by a bound; None if there are no bounds, as in fits of many weights."""
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
            kept = slice(max(len(moves) + 1 - self.memory, 0), None)
            moves, changes = (*moves[kept], move), (*changes[kept], change)
            inner_products = (*inner_products[kept], inner_product)
            fall = state.value - value
        return replace(
            state, x=x, value=value, gradient=gradient, moves=moves, changes=changes, accepted=True, fall=fall,
            inner_products=inner_products,
            direction=state.direction if state.step == 1.0 else state.step * state.direction,
        )  # fmt: skip

    def _shorten(self, state: DescentState, value: float, promised: float) -> DescentState:
        """A shorter step along the same direction, by parabolic interpolation."""
        shrink = 0.1
        if np.isfinite(value):
            excess = value - state.value - promised  # over the linear model
            shrink = float(np.clip(-promised / (2.0 * excess), 0.1, 0.5)) if excess > 0 else 0.5
        step = shrink * state.step
        if step > SMALLEST_STEP:
            return replace(state, step=step, accepted=False)
        if len(state.moves):  # drop the pairs and try the gradient itself
            fresh = replace(
                state, moves=(), changes=(), inner_products=(), direction=np.zeros_like(state.x), accepted=False
            )
            return replace(self._depart(fresh), accepted=False)
        return replace(state, accepted=False, stalled=True)

    def _depart(self, state: DescentState, least: float = 0.0) -> DescentState:
        """Choose the direction of the next step."""
        free = self._free(state)
        uphill = _where(free, state.gradient)
        if self.method == "quasi-newton":
            direction = self._two_loop(state, uphill, free)
        else:
            direction = self._conjugate(state, -uphill, free)
        # Also if the direction is not finite: single precision has a small range.
        if not -float(direction @ uphill) > 1e-12 * float(np.linalg.norm(direction) * np.linalg.norm(uphill)):
            direction = -self._by_metric(uphill)
        if len(state.x) == 1 and state.moves:
            direction = _by_cubic(state, direction)
        if not len(state.moves) and self.relative_second_derivative is not None:
            # In log strengths: if the penalty is too strong, the slope of the loss decreases with the strength, so its
            # curvature is about the slope; towards stronger penalties the slope hardly changes for a long way.
            steep = STEEP * np.maximum(uphill, 0.0).max(initial=0.0)
            direction = direction / max(self.relative_second_derivative * abs(state.value) + steep, 1e-300)
        largest = float(np.abs(direction).max(initial=0.0))
        most = self.largest_move if len(state.moves) else self.first_move
        if 0.0 < largest < least:
            direction, largest = direction * (least / largest), least
        if largest > most:
            direction = direction * (most / largest)
        return replace(state, direction=direction, step=1.0, stalled=largest == 0.0)

    def _two_loop(self, state: DescentState, uphill: Vector, free: NDArray[np.bool_] | None) -> Vector:
        """The L-BFGS direction on the free variables (Nocedal 1980)."""
        moves, changes, inner_products = state.moves, state.changes, state.inner_products
        if free is not None and not free.all():
            moves, changes = (tuple(np.where(free, v, 0.0) for v in pairs) for pairs in (moves, changes))
            inner_products = tuple(float(s @ y) for s, y in zip(moves, changes, strict=True))
        usable = [(s, y, sy) for s, y, sy in zip(moves, changes, inner_products, strict=True) if sy > 0.0]
        q: Vector = uphill.astype(np.float32 if self.single else np.float64)
        np.negative(q, out=q)
        applied = []
        for s, y, sy in reversed(usable):
            a = float(s @ q) / sy
            q = _plus_multiple(q, -a, y)
            applied.append(a)
        q = self._by_metric(q)
        if usable:
            s, y, sy = usable[-1]
            size = float(y @ self._by_metric(y))
            if size > 0.0:  # tiny changes of a gradient underflow in single precision
                q *= sy / size
        for (s, y, sy), a in zip(usable, reversed(applied), strict=True):
            q = _plus_multiple(q, a - float(y @ q) / sy, s)
        return _where(free, q.astype(np.float64, copy=False))

    def _by_metric(self, v: Vector) -> Vector:
        """Apply the metric, in the precision of ``v``."""
        if self.metric is None:
            return v
        found: Vector = self.metric(v) if callable(self.metric) else v / self.metric
        return found.astype(v.dtype, copy=False)

    def _conjugate(self, state: DescentState, downhill: Vector, free: NDArray[np.bool_] | None) -> Vector:
        """Polak-Ribiere, restarted if it would go uphill, scaled by the curvature along the last step."""
        if not len(state.moves):
            return downhill
        move, change = state.moves[-1], state.changes[-1]
        before = -(state.gradient - change)  # downhill at the point before
        beta = max(0.0, float(downhill @ (downhill - _where(free, before))) / max(float(before @ before), 1e-300))
        length = float(move @ move) / float(move @ change)  # the inverse of the second derivative
        last = move * float(np.sqrt(before @ before)) / max(float(np.linalg.norm(move)), 1e-300)
        return _where(free, length * (downhill + beta * last))


def _plus_multiple(total: Vector, factor: float, v: Vector) -> Vector:
    """total + factor v, in place: one pass over memory instead of numpy's two."""
    axpy: Any = saxpy if total.dtype == np.float32 else daxpy
    summed: Vector = axpy(v, total, a=factor)
    return summed


def _where(free: NDArray[np.bool_] | None, v: Vector) -> Vector:
    return v if free is None else np.where(free, v, 0.0)


def _by_cubic(state: DescentState, secant: Vector) -> Vector:
    """The step to the minimum of the cubic through the last two points and slopes, in one dimension.

    A secant of the slopes ignores the values and is misled by a criterion that first decreases steadily and then turns. The
    step stays close to it nevertheless: the values may be noisy.
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
