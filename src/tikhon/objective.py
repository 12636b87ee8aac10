"""What models provide and what solvers and tuners require: *needs* are protocols, *hints* are optional values.

Conventions, for every objective:

- the loss is a *sum* over examples, without any penalty; a solver adds ``1/2 sum_j strength_j w_j^2``;
- weights are one flat float64 vector; methods never modify it, and repeated calls give bit-identical results;
- an objective owns its data: its methods take weights only.

A model must have ``n_weights``, ``is_convex``, ``loss_gradient`` and ``hessian_at``; the last may come from
:func:`tikhon.solvers.with_hessian`, by finite differences or complex steps. Splits require ``Rows``, Newton's method
``Factorable``, leave-one-out and evidence ``Curved``. Anything else that a model knows is optional and goes into
``objective.hints``, a :class:`Hints`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

Vector: TypeAlias = NDArray[np.float64]
Matrix: TypeAlias = NDArray[np.float64]
Product: TypeAlias = Callable[[Vector], Vector]


_known: dict[tuple[type, type], bool] = {}  # (protocol, type): does the type implement the protocol?


class _Need(type(Protocol)):  # type: ignore[misc]  # the metaclass of protocols has no public name
    """Decides ``isinstance(objective, need)``: from the objective's own declaration, else from its class.

    A wrapper has every method and forwards it whether or not the wrapped objective has it, so it declares the needs it meets
    as ``capabilities`` (see :func:`capabilities_of`). For all others the answer is cached by class, since Python inspects
    every attribute each time, which in a small fit takes longer than the linear algebra.
    """

    def __instancecheck__(cls, instance: object) -> bool:
        declared = getattr(instance, "capabilities", None)
        if declared is not None:
            return cls in declared
        key = (cls, type(instance))
        if key not in _known:
            _known[key] = bool(super().__instancecheck__(instance))
        return _known[key]


@runtime_checkable
class Objective(Protocol, metaclass=_Need):
    """A smooth loss of a flat vector of weights."""

    @property
    def n_weights(self) -> int: ...

    @property
    def is_convex(self) -> bool: ...

    def loss_gradient(self, weights: Vector) -> tuple[float, Vector]:
        """The summed loss and its gradient."""
        ...

    def hessian_at(self, weights: Vector) -> Product:
        """The map v -> H v at these weights; whatever depends on the weights alone is computed once."""
        ...


@runtime_checkable
class Rows(Objective, Protocol):
    """An objective made of examples (rows, sequences, molecules) that can be weighted and left out."""

    @property
    def n_rows(self) -> int: ...

    def reweighted(self, row_weights: Vector) -> "Rows":
        """The same objective with these row weights (of length ``n_rows``) instead of its own; 0 leaves a row out."""
        ...


@runtime_checkable
class Factorable(Objective, Protocol):
    """An objective whose penalised Hessian can be factorised, so that Newton steps and implicit gradients are direct."""

    @property
    def factor_cost(self) -> float:
        """The approximate cost of one factorisation in Hessian products; infinite if it must not be tried."""
        ...

    def factorise(self, weights: Vector, strength: Vector) -> Product:
        """The map v -> (H + diag(strength))^-1 v; raises ``numpy.linalg.LinAlgError`` if not positive definite."""
        ...


@dataclass(frozen=True, eq=False)
class Criterion:
    """A function of weights and strengths at one point, with its partial derivatives."""

    value: float
    by_weights: Vector  # at fixed strengths
    by_strength: Vector  # at fixed weights; one per weight, of the strengths themselves, not their logarithms
    by_row: Vector | None = None  # contribution of each row, if the value is a sum over rows


@dataclass(frozen=True, eq=False)
class StrengthCriterion:
    """A function of the strengths alone, such as the leave-one-out loss of an exact fit, with its derivatives."""

    value: float
    by_strength: Vector  # one per weight, of the strengths themselves; 0 for unpenalised weights
    error: float  # estimated relative rounding error of the value
    by_row: Vector  # contribution of each row


class Curvature(Protocol):
    """The penalised Hessian H + diag(strength) at some weights, in a form that can be inverted."""

    def solve(self, v: Vector) -> Vector:
        """(H + diag(strength))^-1 v."""
        ...

    def inverse_diagonal(self) -> Vector:
        """The diagonal d of the inverse; a weight with strength s_j has 1 - s_j d_j degrees of freedom (MacKay 1992)."""
        ...

    def noise_precision(self) -> float | Vector:
        """The factor, per weight, that turns the loss into a negative log-likelihood: 1 if it is one already."""
        ...

    def leave_one_out(self) -> Criterion:
        """The sum over rows of the loss at the weights that one Newton step without that row reaches."""
        ...

    def evidence(self) -> Criterion:
        """The negative log marginal likelihood in Laplace's approximation, up to a constant."""
        ...


@runtime_checkable
class Curved(Objective, Protocol):
    """A sum over rows that can compute the effect of leaving any of them out: required by ``loo`` and ``evidence``."""

    @property
    def curvature_cost(self) -> float:
        """The approximate cost of one ``curvature_at`` in Hessian products; infinite if it must not be tried."""
        ...

    def curvature_at(self, weights: Vector, strength: Vector) -> Curvature:
        """Factorise the penalised Hessian; raises ``numpy.linalg.LinAlgError`` if not positive definite."""
        ...


@dataclass(frozen=True, eq=False)
class Multiple:
    """The objective is ``multiplier`` times another one, whose strengths are these divided by ``multiplier``."""

    objective: Objective
    multiplier: float


@dataclass(frozen=True, eq=False)
class Removable:
    """Parts of a model that a strong penalty removes and a weaker one does not bring back."""

    revived: Callable[[Vector], Vector]
    """The weights with the parts that have vanished begun anew."""
    removed: Callable[[Vector], Vector]
    """The weights without any of these parts."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Hints:
    """What an objective knows besides its loss. Every entry is optional; without it, solvers and tuners are only slower.

    A wrapper forwards the hints unchanged, or adapts those of the wrapped objective with ``dataclasses.replace``.
    """

    # Starting points and scales.
    baseline: Callable[[], Vector] | None = None
    """The weights of the best constant prediction: intercepts at their optimum, all else 0. Fits start there."""
    baseline_diagonal: Callable[[], Vector] | None = None
    """The diagonal of the Hessian there with the intercepts profiled out, hence invariant to shifts of the columns."""
    gradient_norm: Callable[[], Callable[[Vector], float] | None] | None = None
    """A norm of gradients in units of the columns, if their scales differ widely; None: the Euclidean norm."""
    natural_strengths: Callable[[], Vector] | None = None
    """A plausible strength for each weight, in the units of its feature: searches start there; bounds are relative to it."""

    removable: Removable | None = None
    """Parts of the model whose weights have no gradient once they are 0, such as hidden units. Warm starts are revived."""

    # Cheap approximations of the Hessian.
    hessian_diagonal: Callable[[Vector], Vector] | None = None
    """The diagonal at some weights, exact or nearly so."""
    preconditioner: Callable[[Vector, Vector], Product] | None = None
    """Maps weights and strengths to a positive definite approximation of v -> (H + diag(strength))^-1 v."""
    hessian_sketch: Callable[[Vector], Matrix] | None = None
    """A positive semidefinite approximation of the Hessian at the cost of a few passes, where passes are expensive."""
    flat_directions: Callable[[NDArray[np.bool_]], Matrix | None] | None = None
    """Maps the mask of unpenalised weights to an orthonormal basis, n_weights x d, of the directions in which the loss is
    flat; None if these weights are too many to find one."""
    lbfgs_gap: float = np.inf
    """The relative gap down to which L-BFGS takes fewer passes than Newton's method; inf: never."""

    # Other forms of the loss.
    row_losses: Callable[[Vector], Vector] | None = None
    """The loss of each row of positive weight, times that weight, in the order of the rows."""
    noise_precision: Callable[[float], float] | None = None
    """For a loss that is a negative log-likelihood up to an unknown noise variance: the factor that makes it one,
    estimated from its value."""
    majoriser: Callable[[Vector], Objective] | None = None
    """A convex upper bound, up to a constant, that touches the objective at these weights."""
    multiple_of: Multiple | None = None

    # Memory.
    release: Callable[[], None] | None = None
    """Forget what was computed at the last weights: called when other fits need the memory."""

    # Leave-one-out of quadratic losses.
    rotated: Callable[[NDArray[np.bool_]], Curved | None] | None = None
    """The same loss as a function of rotated weights; a strength shared by all penalised weights is invariant to the
    rotation. None if it does not pay, or would mix the unpenalised weights (the argument) with others."""
    closed_leave_one_out: Callable[[NDArray[np.bool_], bool], Callable[[Vector], StrengthCriterion] | None] | None = (
        None
    )
    """Arguments: the mask of unpenalised weights, and whether all others share one strength. Returns the leave-one-out loss
    as a function of the strengths (one per weight) that needs no fit; None if that would cost more than fits."""
    average_left_out: Callable[[Vector], StrengthCriterion | None] | None = None
    """Leave-one-out loss as if all rows had the same leverage (generalised cross-validation); None if that is inaccurate."""

    @property
    def noise_is_unknown(self) -> bool:
        """Whether the loss is a sum of squares, in units of an unknown noise variance."""
        return self.noise_precision is not None


NO_HINTS = Hints()
NEEDS = (Objective, Rows, Factorable, Curved)


def hints_of(objective: object) -> Hints:
    """The objective's hints; empty if it has no ``hints``."""
    hints: Hints = getattr(objective, "hints", NO_HINTS)
    return hints


def release(objective: object) -> None:
    """Let the objective forget what it computed at the last weights, if it can."""
    forget = hints_of(objective).release
    if forget is not None:
        forget()


def capabilities_of(objective: Objective) -> frozenset[type]:
    """The needs that an objective meets: what a wrapper of it declares as its ``capabilities``."""
    return frozenset(need for need in NEEDS if isinstance(objective, need))


@dataclass(frozen=True, eq=False)
class Pair:
    """One split of the data: an objective to train on, one to validate on, and the summed row weights of each."""

    train: Objective
    holdout: Objective
    train_weight: float
    holdout_weight: float


@runtime_checkable
class Examples(Rows, Protocol):
    """An objective that computes the loss of a few of its examples cheaply, for stochastic gradients and perceptrons.

    The cost depends on these examples, not on their total number nor, if each depends on few weights (sequences, sparse
    rows), on the number of weights. An example counts with its row weight, once per occurrence.
    """

    def add_gradient(self, weights: Vector, rows: NDArray[np.intp], out: Vector, scale: float = 1.0) -> float:
        """The summed loss of these examples; ``scale`` times its gradient is added to ``out``.

        Only the entries of ``support`` are changed. All weights are read first: ``out`` may be the weights themselves.
        """
        ...

    def support(self, rows: NDArray[np.intp]) -> NDArray[np.intp]:
        """The weights that the loss of these examples depends on, in ascending order.

        This keeps a penalty on all weights cheap: apply the shrinkage missed since a weight was last touched.
        """
        ...
