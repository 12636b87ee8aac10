"""Immutable results of fitting and tuning."""

from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from tikhon.objective import Vector

FitStatus: TypeAlias = Literal["converged", "max_iter", "stalled"]
TuneStatus: TypeAlias = Literal["converged", "max_steps", "stalled", "interrupted"]


def counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


@dataclass(frozen=True, eq=False, kw_only=True)
class FitResult:
    """The result of a solver: the minimiser of loss + 1/2 sum strength w^2 at given strengths."""

    weights: Vector
    loss: float  # without the penalty
    value: float  # with it
    residual: float  # norm of the gradient over its norm at the best constant prediction
    relative_gap: float  # (value - optimum) / value: an upper bound or an estimate
    gap_is_bound: bool  # False: ``relative_gap`` is an estimate
    n_iter: int
    n_passes: int  # evaluations of the loss and its gradient
    n_products: int  # Hessian-vector products; 0 for direct factorisations
    status: FitStatus
    reason: str


@dataclass(frozen=True, eq=False, kw_only=True)
class Step:
    """One step of a tuner. ``criterion`` is what the tuner minimises, such as held-out loss or negative log posterior."""

    number: int
    strengths: Vector  # one per group, fixed ones included
    criterion: float
    gradient_norm: float | None = None  # largest entry, in theta; ``direct``: relative, in the weights
    residual: float = 0.0  # worst over the fits and linear solves of this step
    n_iter: int = 0  # solver iterations spent on this step
    n_passes: int = 0  # evaluations of the loss and its gradient, over all splits
    n_products: int = 0  # Hessian-vector products, over all splits
    seconds: float = 0.0  # since the start of the tuning
    accepted: bool = True
    note: str = ""


@dataclass(frozen=True, eq=False, kw_only=True)
class TuneResult:
    """What a tuner found, and how."""

    tuner: str
    strengths: dict[str, float]  # by group name, as used for ``weights``
    weights: Vector  # fitted on all data with these strengths
    criterion_name: str  # "held-out loss per unit of weight", "negative log posterior" ...
    criterion: float | None
    train_loss: float  # summed loss of ``weights`` on all data, without penalty
    status: TuneStatus
    reason: str
    worst_residual: float
    relative_gap: float  # of the final fit: (objective - optimum) / objective, an upper bound or an estimate
    gap_is_bound: bool  # False: ``relative_gap`` is an estimate
    trace: tuple[Step, ...]
    n_fits: int
    seconds: float
    notes: tuple[str, ...] = ()  # folds that shrank, how strengths were carried over, widened grids ...
    warnings: tuple[
        str, ...
    ] = ()  # a strength at a bound, weights shrunk to 0 ...: estimators raise them as TuningWarning
    extras: dict[str, Any] = field(default_factory=dict)  # noise_variance, grid curve ...: plain numbers and lists

    @property
    def converged(self) -> bool:
        return self.status == "converged"

    def summary(self) -> str:
        """A one-line summary."""
        criterion = "" if self.criterion is None else f", {self.criterion_name} {self.criterion:.6g}"
        return (
            f"{self.tuner}: {self.status} ({self.reason}) after {self.work()}, "
            f"{self.seconds:.2f} s{criterion}{self._pooled()}"
        )

    def work(self) -> str:
        """The numbers of steps and fits in words."""
        return f"{counted(len(self.trace), 'step')}, {counted(self.n_fits, 'fit')}"

    def _pooled(self) -> str:
        """How far the strengths of the groups depart from the common one, if they were pooled."""
        pooling = self.extras.get("pooling")
        if pooling is None or self.criterion is None:
            return ""
        ratios = pooling["ratios"].values()
        return (
            f"; groups have {min(ratios):.3g} to {max(ratios):.3g} times the common strength "
            f"{pooling['common_strength']:.3g}, whose {self.criterion_name} is {pooling['common_criterion']:.6g}"
        )
