"""What models offer, and solvers and tuners ask for: *needs* are protocols, *hints* are values.

Conventions, for every objective:

- the loss is a *sum* over examples, without any penalty; a solver adds ``1/2 sum_j strength_j w_j^2``;
- weights are one flat float64 vector; methods never modify it and give the same bits when called twice;
- an objective owns its data: its methods take weights only.

What a model must have is ``n_weights``, ``is_convex``, ``loss_gradient`` and ``hessian_at``; the last may come from
:func:`tikhon.solvers.with_hessian`, by differences or by complex steps. Splits need ``Rows``, Newton's method
``Factorable``, leave-one-out and evidence ``Curved``. All else that a model may know only helps: it stands in
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


_known: dict[tuple[type, type], bool] = {}  # protocol and type: does the type have what the protocol asks for?


class _Need(type(Protocol)):  # type: ignore[misc]  # the class of protocols has no public name
    """Decides ``isinstance(objective, need)``: by what the objective declares, else by its class.

    A wrapper has every method and forwards it, whether the objective inside has it or not: it declares the needs that are met
    as ``capabilities`` (see :func:`capabilities_of`). For the others the answer is kept by class, since Python looks at
    every attribute each time, which in a small fit takes more time than the linear algebra.
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
    """A smooth loss of flat weights."""

    @property
    def n_weights(self) -> int: ...

    @property
    def is_convex(self) -> bool: ...

    def loss_gradient(self, weights: Vector) -> tuple[float, Vector]:
        """The summed loss and its gradient."""
        ...

    def hessian_at(self, weights: Vector) -> Product:
        """The map v -> H v at these weights; what depends on the weights alone is computed once."""
        ...


@runtime_checkable
class Rows(Objective, Protocol):
    """An objective made of examples (rows, sequences, molecules) that can be weighted and left out."""

    @property
    def n_rows(self) -> int: ...

    def reweighted(self, row_weights: Vector) -> "Rows":
        """The same objective with these weights (of length ``n_rows``) in place of its own; 0 leaves a row out."""
        ...


@runtime_checkable
class Factorable(Objective, Protocol):
    """An objective whose penalised Hessian can be factorised, so that Newton steps and implicit gradients are direct."""

    @property
    def factor_cost(self) -> float:
        """About how many Hessian products one factorisation is worth; infinite where it must not be tried."""
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
    by_row: Vector | None = None  # what each row adds to the value, where it is a sum over rows


@dataclass(frozen=True, eq=False)
class StrengthCriterion:
    """A function of the strengths alone, such as the leave-one-out loss of an exact fit, with its derivatives."""

    value: float
    by_strength: Vector  # one per weight, of the strengths themselves; 0 for unpenalised weights
    error: float  # estimated relative rounding error of the value
    by_row: Vector  # what each row adds to the value


class Curvature(Protocol):
    """The penalised Hessian H + diag(strength) at some weights, in a form that can be inverted."""

    def solve(self, v: Vector) -> Vector:
        """(H + diag(strength))^-1 v."""
        ...

    def inverse_diagonal(self) -> Vector:
        """The diagonal of the inverse: with a strength s, 1 - s times it is what a weight counts as (MacKay 1992)."""
        ...

    def noise_precision(self) -> float | Vector:
        """By what the loss must be multiplied, weight by weight, to be a negative log-likelihood: 1 if it is one."""
        ...

    def leave_one_out(self) -> Criterion:
        """The summed loss of each row by the weights that one Newton step reaches without it."""
        ...

    def evidence(self) -> Criterion:
        """The negative logarithm of the marginal likelihood in Laplace's approximation, up to a constant."""
        ...


@runtime_checkable
class Curved(Objective, Protocol):
    """A sum over rows that can say what happens when any one of them is left out: what ``loo`` and ``evidence`` need."""

    @property
    def curvature_cost(self) -> float:
        """About how many Hessian products a ``curvature_at`` is worth; infinite where it must not be tried."""
        ...

    def curvature_at(self, weights: Vector, strength: Vector) -> Curvature:
        """Factorise the penalised Hessian; raises ``numpy.linalg.LinAlgError`` if not positive definite."""
        ...


@dataclass(frozen=True, eq=False)
class Multiple:
    """An objective is ``multiplier`` times another one: strengths divided by it belong to that one."""

    objective: Objective
    multiplier: float


@dataclass(frozen=True, kw_only=True, eq=False)
class Hints:
    """What an objective knows beside its loss. Each entry is optional; solvers and tuners do without it, only slower.

    A wrapper forwards them whole, or makes its own from those of the objective inside by ``dataclasses.replace``.
    """

    # Where to begin, and how large things are.
    baseline: Callable[[], Vector] | None = None
    """The weights of the best constant prediction: intercepts at their best, all else 0. Fits start there."""
    baseline_diagonal: Callable[[], Vector] | None = None
    """The diagonal of the Hessian there, with the intercepts free to follow: it does not see a shift of columns."""
    gradient_units: Callable[[], Vector | None] | None = None
    """The unit of each entry of a gradient, where columns are on very different scales; None: compared as they are."""
    natural_strengths: Callable[[], Vector] | None = None
    """About the strength of each weight, in the units of its feature: where a search starts and what bounds it."""

    # The Hessian, more cheaply.
    hessian_diagonal: Callable[[Vector], Vector] | None = None
    """Its diagonal at some weights, exact or nearly so."""
    preconditioner: Callable[[Vector, Vector], Product] | None = None
    """Of weights and strengths: a positive definite map close to v -> (H + diag(strength))^-1 v."""
    hessian_sketch: Callable[[Vector], Matrix] | None = None
    """A positive semidefinite matrix close to the Hessian, for the price of a few passes that are expensive themselves."""
    flat_directions: Callable[[NDArray[np.bool_]], Matrix | None] | None = None
    """Of the unpenalised weights: an orthonormal basis, n_weights x d, of the directions in which the loss is flat; None
    where they are too many to find it."""
    lbfgs_gap: float = np.inf
    """The relative gap down to which L-BFGS takes fewer passes than Newton's method; inf: never."""

    # The loss in other forms.
    row_losses: Callable[[Vector], Vector] | None = None
    """The loss of each row of positive weight, times that weight, in the order of the rows."""
    noise_precision: Callable[[float], float] | None = None
    """For a loss that is a negative log-likelihood up to the variance of some noise: by what to multiply it to be one,
    guessed from its value."""
    majoriser: Callable[[Vector], Objective] | None = None
    """A convex objective that differs at these weights by a constant, and nowhere else lies below."""
    multiple_of: Multiple | None = None

    # Leave-one-out of quadratic losses.
    rotated: Callable[[NDArray[np.bool_]], Curved | None] | None = None
    """The same loss as a function of rotated weights, which one strength for all penalised weights does not notice; None
    where it does not pay, or where a rotation would mix the unpenalised weights (the argument) with others."""
    closed_leave_one_out: Callable[[NDArray[np.bool_], bool], Callable[[Vector], StrengthCriterion] | None] | None = (
        None
    )
    """Of the unpenalised weights, and of whether all others will have one strength: the leave-one-out loss as a function of
    the strengths, one per weight, that needs no fit; None where it would be more expensive than fits."""
    average_left_out: Callable[[Vector], StrengthCriterion | None] | None = None
    """Leave-one-out loss as if all rows had the same leverage (generalised cross-validation); None where that is poor."""

    @property
    def noise_is_unknown(self) -> bool:
        """Is the loss a sum of squares, whose unit is the unknown variance of the noise?"""
        return self.noise_precision is not None


NO_HINTS = Hints()
NEEDS = (Objective, Rows, Factorable, Curved)


def hints_of(objective: object) -> Hints:
    """What the objective knows beside its loss; nothing where it has no ``hints``."""
    hints: Hints = getattr(objective, "hints", NO_HINTS)
    return hints


def capabilities_of(objective: Objective) -> frozenset[type]:
    """The needs that an objective meets: what a wrapper of it declares as its ``capabilities``."""
    return frozenset(need for need in NEEDS if isinstance(objective, need))


@dataclass(frozen=True, eq=False)
class Pair:
    """One split of the data: an objective to train on, one to judge by, and the summed row weights of each."""

    train: Objective
    holdout: Objective
    train_weight: float
    holdout_weight: float


@runtime_checkable
class Examples(Rows, Protocol):
    """An objective that gives the loss of a few of its examples cheaply, for stochastic gradients and perceptrons.

    The cost depends on these examples, not on how many there are in all, nor, where each of them depends on few weights
    (sequences, sparse rows), on the number of weights. An example counts with its row weight, as often as it is given.
    """

    def add_gradient(self, weights: Vector, rows: NDArray[np.intp], out: Vector, scale: float = 1.0) -> float:
        """The summed loss of these examples; ``scale`` times its gradient is added to ``out``.

        Only the entries of ``support`` are touched. All weights are read before: ``out`` may be the weights themselves.
        """
        ...

    def support(self, rows: NDArray[np.intp]) -> NDArray[np.intp]:
        """The weights that the loss of these examples depends on, in rising order.

        A penalty on all weights is then as cheap: shrink these by what they have missed since they were last touched.
        """
        ...
