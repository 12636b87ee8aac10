"""Hessian-vector products in the three ways of Do, Foo, Ng 2008, section 4.2."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np

from tikhon.objective import Hints, Objective, Product, Vector, hints_of

HessianMethod: TypeAlias = Literal["analytic", "finite", "complex"]


class LossGradient(Protocol):
    """The minimal interface of a user's own model."""

    @property
    def n_weights(self) -> int: ...

    @property
    def is_convex(self) -> bool: ...

    def loss_gradient(self, weights: Vector) -> tuple[float, Vector]: ...


def finite_difference_hessian(objective: LossGradient, weights: Vector) -> Product:
    """(g(w + r v) - g(w - r v)) / 2r: equation (7), made symmetric. Two gradients per product; about nine digits."""
    base = max(1.0, float(np.linalg.norm(weights)))

    def product(v: Vector) -> Vector:
        norm = float(np.linalg.norm(v))
        if norm == 0.0:
            return np.zeros_like(v)
        r = np.cbrt(np.finfo(float).eps) * base / norm  # balances truncation (r^2) and rounding (eps / r)
        ahead, behind = objective.loss_gradient(weights + r * v)[1], objective.loss_gradient(weights - r * v)[1]
        return np.asarray((ahead - behind) / (2.0 * r))

    return product


def complex_step_hessian(objective: LossGradient, weights: Vector) -> Product:
    """Im g(w + i r v) / r: equation (8). One complex gradient per product; no cancellation, so r can be tiny."""

    def product(v: Vector) -> Vector:
        norm = float(np.linalg.norm(v))
        if norm == 0.0:
            return np.zeros_like(v)
        r = 1e-20 / norm
        complex_weights: Any = weights + 1j * r * v
        return np.asarray(objective.loss_gradient(complex_weights)[1]).imag / r

    return product


def analytic_hessian(objective: Objective, weights: Vector) -> Product:
    """The objective's own product."""
    return objective.hessian_at(weights)


HESSIANS: dict[HessianMethod, Callable[[Any, Vector], Product]] = {
    "analytic": analytic_hessian,
    "finite": finite_difference_hessian,
    "complex": complex_step_hessian,
}


@dataclass(frozen=True, eq=False)
class WithHessian:
    """An objective made from a loss and gradient, with Hessian products by finite differences or complex steps."""

    model: LossGradient
    method: HessianMethod

    @property
    def n_weights(self) -> int:
        return self.model.n_weights

    @property
    def is_convex(self) -> bool:
        return self.model.is_convex

    @property
    def hints(self) -> Hints:
        return hints_of(self.model)

    def loss_gradient(self, weights: Vector) -> tuple[float, Vector]:
        return self.model.loss_gradient(weights)

    def hessian_at(self, weights: Vector) -> Product:
        return HESSIANS[self.method](self.model, weights)


def with_hessian(model: LossGradient, method: Literal["finite", "complex"] = "finite") -> WithHessian:
    """Make a full objective from a model that only has ``loss_gradient``.

    "complex" is exact to rounding but needs a ``loss_gradient`` that accepts complex weights.
    """
    return WithHessian(model, method)
