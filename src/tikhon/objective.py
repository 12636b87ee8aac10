"""The protocols that models implement and that solvers and tuners ask for.

Conventions, for every objective:

- the loss is a *sum* over examples, without any penalty; a solver adds ``1/2 sum_j strength_j w_j^2``;
- weights are one flat float64 vector; methods never modify it and give the same bits when called twice;
- an objective owns its data: its methods take weights only.

Only ``n_weights``, ``is_convex`` and ``loss_gradient`` must be written for a model of your own:
:func:`tikhon.solvers.with_hessian` adds Hessian products by differences or by complex steps (row weights are yours to add).
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


class _ByType(type(Protocol)):  # type: ignore[misc]  # the class of protocols has no public name
    """Remembers for each type whether it has what a protocol asks for.

    Python looks at every attribute at every ``isinstance``, which in a small fit takes more time than the linear algebra.
    So what an objective can do must be decided by its class, not added to single instances.
    """

    def __instancecheck__(cls, instance: object) -> bool:
        key = (cls, type(instance))
        if key not in _known:
            _known[key] = bool(super().__instancecheck__(instance))
        return _known[key]


@runtime_checkable
class Objective(Protocol, metaclass=_ByType):
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
class RowLosses(Rows, Protocol):
    """An objective that tells the losses of its rows apart: how far chance explains a difference of two sums of them."""

    def row_losses(self, weights: Vector) -> Vector:
        """The loss of each row of positive weight, times that weight, in the order of the rows."""
        ...


@runtime_checkable
class Diagonal(Objective, Protocol):
    """An objective that knows the diagonal of its Hessian: a preconditioner for conjugate gradients."""

    def hessian_diagonal(self, weights: Vector) -> Vector: ...


@runtime_checkable
class Baseline(Objective, Protocol):
    """An objective that knows its best constant prediction: where a fit starts, and what residuals are measured by."""

    def baseline_weights(self) -> Vector:
        """Intercepts at their best, all else 0."""
        ...

    def baseline_curvature(self) -> Vector:
        """The diagonal of the Hessian there, with the intercepts free to follow: it does not see a shift of columns."""
        ...


@runtime_checkable
class Natural(Objective, Protocol):
    """An objective that knows how large its weights tend to be: where a search for strengths starts."""

    def natural_strengths(self) -> Vector:
        """The strength of each weight, were it all there is to say about it; it follows the units of the features."""
        ...


@runtime_checkable
class Measured(Objective, Protocol):
    """An objective whose weights may be in very different units: its gradients are judged in these."""

    def weight_units(self) -> Vector | None:
        """The unit of each entry of a gradient; None where all may be compared as they are."""
        ...


@runtime_checkable
class Preconditioned(Objective, Protocol):
    """An objective that offers more than its diagonal: an approximate inverse of its penalised Hessian."""

    def preconditioner(self, weights: Vector, strength: Vector) -> Product:
        """A symmetric positive definite map close to v -> (H + diag(strength))^-1 v, and cheap."""
        ...


@runtime_checkable
class Sketched(Objective, Protocol):
    """An objective whose passes are dear, and that can guess its whole Hessian for the price of a few of them."""

    def hessian_sketch(self, weights: Vector) -> Matrix:
        """A positive semidefinite matrix close to the Hessian; the same weights give the same one."""
        ...


@runtime_checkable
class Gentle(Objective, Protocol):
    """An objective that knows whether its weights hardly depend on each other, as those of rare words do."""

    @property
    def gentle_tol(self) -> float:
        """The relative gap down to which gradients alone take fewer passes over the data than Newton's method; inf: never."""
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


@runtime_checkable
class Rotatable(Curved, Protocol):
    """An objective that is cheaper in other axes, for one strength of all penalised weights."""

    def rotated(self, unpenalised: NDArray[np.bool_]) -> Curved | None:
        """The same loss as a function of rotated weights, which such a penalty does not notice.

        None where it does not pay, or where weights are unpenalised that a rotation would mix with others.
        """
        ...


@runtime_checkable
class ClosedForm(Curved, Protocol):
    """An objective whose leave-one-out loss is a closed function of the strengths: no fit is needed to compute it."""

    def closed_leave_one_out(
        self, unpenalised: NDArray[np.bool_], *, common: bool
    ) -> Callable[[Vector], StrengthCriterion] | None:
        """The summed loss as a function of the strengths, one per weight; ``common``: all but 0 will be the same.

        None where it would be more expensive than fits.
        """
        ...


@runtime_checkable
class Averaged(Curved, Protocol):
    """An objective whose leave-one-out loss has a cheap likeness."""

    def average_left_out(self, strength: Vector) -> StrengthCriterion | None:
        """Leave-one-out loss as if all rows had the same leverage (generalised cross-validation); None where that is poor."""
        ...


@runtime_checkable
class Flat(Objective, Protocol):
    """An objective that knows in which directions it is flat."""

    def flat_directions(self, unpenalised: NDArray[np.bool_]) -> Matrix | None:
        """An orthonormal basis, n_weights x d, of the flat directions among the unpenalised weights.

        None where there are too many unpenalised weights to find it.
        """
        ...


@runtime_checkable
class Majorisable(Objective, Protocol):
    """An objective that offers a convex upper bound touching it at given weights."""

    def majoriser_at(self, weights: Vector) -> Objective:
        """A convex objective that differs at ``weights`` by a constant, and nowhere else lies below."""
        ...


@runtime_checkable
class Noisy(Objective, Protocol):
    """A loss that is a negative log-likelihood up to the unknown variance of some noise."""

    def noise_precision(self, loss: float) -> float:
        """By what the loss must be multiplied to be one, guessed from its value."""
        ...


@runtime_checkable
class Multiple(Objective, Protocol):
    """A positive multiple of another objective: strengths divided by the factor belong to that one."""

    @property
    def objective(self) -> Objective: ...

    @property
    def factor(self) -> float: ...


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
