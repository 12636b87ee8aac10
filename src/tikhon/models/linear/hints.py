"""The hints of every linear model."""

from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tikhon.objective import Hints, Matrix, Product, Vector


class LinearModel(Protocol):
    """The methods that become hints; ``Hints`` documents what each returns."""

    def baseline_weights(self) -> Vector: ...

    def baseline_diagonal(self) -> Vector: ...

    def gradient_norm(self) -> Callable[[Vector], float] | None: ...

    def hessian_diagonal(self, weights: Vector) -> Vector: ...

    def preconditioner(self, weights: Vector, strength: Vector) -> Product: ...

    def flat_directions(self, unpenalised: NDArray[np.bool_]) -> Matrix | None: ...

    def row_losses(self, weights: Vector) -> Vector: ...

    def release(self) -> None: ...


def linear_hints(model: LinearModel, *, lbfgs_gap: float = np.inf) -> Hints:
    return Hints(
        baseline=model.baseline_weights,
        baseline_diagonal=model.baseline_diagonal,
        gradient_norm=model.gradient_norm,
        hessian_diagonal=model.hessian_diagonal,
        preconditioner=model.preconditioner,
        flat_directions=model.flat_directions,
        row_losses=model.row_losses,
        release=model.release,
        lbfgs_gap=lbfgs_gap,
    )
