"""Partial pooling: strengths depart from a common one only as far as the data support.

A criterion of n rows cannot determine the strengths of the groups exactly; unconstrained, its minimum fits sampling noise.
So the best common strength exp(mu) is found first, and the log strengths then get independent Cauchy priors around mu,

    (n / f) V(theta) + sum_g log(1 + ((theta_g - mu) / d)^2),

with the criterion V as a mean loss, n V in nats. Near mu the prior is approximately normal and absorbs sampling noise; its
tails are flat, so groups that truly differ are hardly shrunk. At theta = mu the sum is 0, so the final criterion is at most
its value at the best common strength.

If the units of groups differ widely, or their sizes do and the data confirm it, mu depends on the group: log strengths are
shrunk towards a common one plus a known offset.

The dispersion f is 1 if a gain is spread over the rows as that of a log-likelihood is, and larger if it is due to few rows,
whose losses say less about new rows than their sum suggests.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from tikhon.errors import InputError
from tikhon.objective import Vector
from tikhon.solvers.descent import STEEP
from tikhon.tuners.base import Problem
from tikhon.tuners.outer_loop import Evaluate, Evaluation, OuterLoop, Saved, WarmStart
from tikhon.tuners.prior import with_prior
from tikhon.tuners.settings import natural_strengths

SMALLEST, LARGEST = 0.05, 100.0  # allowed scales of the prior
TOLERATED = 1.25  # dispersion that changes too little to repeat the descent
MARGIN = 2.0  # a departure whose gain exceeds this multiple of its prior is certain
SCALES_APART = 1e4  # ratio of natural strengths above which groups are taken to have units of their own
# Ratio of sizes from which large groups may be of another kind, its effect, and the ratio above which it tells nothing.
SIZES_APART, SIZE_POWER, SIZES_ASTRAY = 2.0, 1.5, 100.0
STAYED = 0.05  # departure of a log strength that counts as none


@dataclass(frozen=True, eq=False, kw_only=True)
class Pooling:
    """Cauchy priors of the log strengths around that of the common strength."""

    centre: Vector  # one per learned group: the same for all, unless their units or sizes differ widely
    deviation: float
    n_rows: float  # rows of the mean loss that is the criterion, to convert it to nats
    noisy: bool
    dispersion: float = 1.0

    def __call__(self, theta: Vector) -> tuple[float, Vector]:
        """The negative log prior, 0 at the centre, and its gradient."""
        apart = theta - self.centre
        nats = float(np.log1p(np.square(apart / self.deviation)).sum())
        return nats, 2.0 * apart / (self.deviation**2 + np.square(apart))

    def applied(self, evaluate: Evaluate) -> Evaluate:
        return with_prior(evaluate, self, self._effective_rows, noisy=self.noisy)

    @property
    def _effective_rows(self) -> float:
        return self.n_rows / self.dispersion

    def nats(self, slopes: Vector, value: float) -> Vector:
        """Derivatives of the criterion, rescaled to those of a log-likelihood of all rows."""
        return self._effective_rows * slopes / (2.0 * max(value, 1e-300) if self.noisy else 1.0)

    def second_derivatives(self, slopes: Vector, value: float, relative_second_derivative: float) -> Vector:
        """Approximate second derivatives at the centre: the criterion's, plus the prior's if it will hold the group there.

        The prior's gradient is at most 1 / d nats: steeper slopes lead out into its flat tails.
        """
        of_data = relative_second_derivative * abs(value) + STEEP * float(np.maximum(slopes, 0.0).max(initial=0.0))
        held = np.abs(self.nats(slopes, value)) < 1.0 / self.deviation
        unit = 2.0 * value if self.noisy else 1.0
        of_prior = 2.0 * unit / (self.deviation**2 * self._effective_rows)
        return np.maximum(np.where(held, of_data + of_prior, of_data), 1e-300)

    def dispersion_of(self, common: "Known", found: "Known") -> float:
        """From the gains of the rows: the variance of their sum over twice the sum, at least 1.

        For a log-likelihood the two are equal at its optimum: the gain is 1/2 z^2 with standard error z.
        """
        if found.losses is None or common.losses is None or not found.value < common.value:
            return 1.0
        unit = common.value + found.value if self.noisy else 1.0
        gains = (common.losses - found.losses) / unit
        total, variance = float(gains.sum()), float(len(gains) * gains.var())
        return max(1.0, variance / (2.0 * total)) if total > 0.0 else 1.0

    def supports(self, found: "Known", common: "Known") -> bool:
        """Whether a departure found without the dispersion would hardly change with it.

        True if the dispersion is close to 1, or if the gain far exceeds the prior's share even with it.
        """
        if self.dispersion <= TOLERATED:
            return True
        prior = 2.0 * self(found.theta)[0] * MARGIN / self._effective_rows
        if self.noisy:
            return bool(found.value * np.exp(prior) < common.value)
        return bool(found.value + 0.5 * prior < common.value)


@dataclass(frozen=True, eq=False)
class Known:
    """An evaluation of the criterion without any prior, in a form that a checkpoint can store."""

    theta: Vector
    value: float
    gradient: Vector
    losses: Vector | None  # of the rows
    warm: WarmStart | None

    @staticmethod
    def ended(run: OuterLoop, offsets: Vector | float = 0.0) -> "Known":
        """Where a descent ended; for tied groups, including their offsets."""
        gradient = np.asarray(run.without_prior)
        theta = np.broadcast_to(run.state.x, gradient.shape) + offsets
        return Known(theta, run.criterion, gradient, run.row_losses(), run.warm)

    def evaluation(self, pool: Pooling) -> Evaluation:
        """Including the prior."""
        plain = Evaluation(
            value=self.value, gradient=self.gradient, error=0.0, residual=0.0, poor="",
            n_fits=0, n_iter=0, n_passes=0, n_products=0, warm=self.warm or WarmStart((), ()), row_losses=lambda: self.losses,
        )  # fmt: skip
        return pool.applied(lambda *_: plain)(self.theta, 0.0, None)

    def kept(self) -> Saved:
        arrays = {"common.theta": self.theta, "common.gradient": self.gradient}
        if self.losses is not None:
            arrays["common.losses"] = self.losses
        if self.warm is not None:
            arrays |= {"common.weights": np.array(self.warm.weights), "common.adjoints": np.array(self.warm.adjoints)}
        return arrays, {"common_criterion": self.value}

    @staticmethod
    def restored(saved: Saved) -> "Known":
        arrays, numbers = saved
        theta, warm = arrays["common.theta"], None
        if "common.weights" in arrays:
            weights, adjoints = (
                tuple(row.copy() for row in arrays[f"common.{name}"]) for name in ("weights", "adjoints")
            )
            warm = WarmStart(weights, adjoints, theta)
        return Known(theta, numbers["common_criterion"], arrays["common.gradient"], arrays.get("common.losses"), warm)


@dataclass(frozen=True, eq=False)
class Centre:
    """What the groups' strengths are shrunk towards, and the plain common strength: equal, unless units or sizes differ."""

    known: Known
    common: float  # the best strength that all groups share
    criterion: float  # at that strength

    @staticmethod
    def plain(known: Known) -> "Centre":
        return Centre(known, float(np.exp(known.theta[0])), known.value)

    def kept(self) -> Saved:
        arrays, numbers = self.known.kept()
        return arrays, {**numbers, "plain_strength": self.common, "plain_criterion": self.criterion}

    @staticmethod
    def restored(saved: Saved) -> "Centre":
        return Centre(Known.restored(saved), saved[1]["plain_strength"], saved[1]["plain_criterion"])


def check_pooling(pooling: float | None) -> None:
    if pooling is not None and not SMALLEST <= pooling <= LARGEST:
        raise InputError(f"pooling={pooling!r}: write None or a scale of log strengths from {SMALLEST} to {LARGEST:g}")


def unit_offsets(problem: Problem) -> Vector:
    """Logarithms of the powers of ten by which the natural strengths of the learned groups exceed the smallest.

    All 0 if they do not differ widely: then a common strength is one number.
    """
    natural = natural_strengths(problem.objective, problem.groups)[problem.groups.learned]
    ratios = natural / natural.min()
    if ratios.max() <= SCALES_APART:
        return np.zeros(len(natural))
    return np.asarray(np.log(10.0) * np.round(np.log10(ratios)))


def size_offsets(problem: Problem) -> Vector:
    """Offsets of the log strengths expected from sizes alone: the more columns a group has, the less each contributes.

    Columns and all their products, words and pairs of words, signals and incidental measurements: large groups were made
    differently from small ones. All 0 if sizes are similar, or differ as much as those of a feature and its crossings.
    """
    sizes = np.maximum(problem.groups.sizes[problem.groups.learned], 1)
    ratios = sizes / sizes.min()
    if not SIZES_APART <= ratios.max() <= SIZES_ASTRAY:
        return np.zeros(len(sizes))
    return np.asarray(SIZE_POWER * np.log(ratios))


def pooling_report(problem: Problem, pool: Pooling, centre: Centre, found: Known) -> dict[str, Any]:
    """How far each group departed from the common strength, and why not further."""
    names = [name for name, learned in zip(problem.groups.names, problem.groups.learned, strict=True) if learned]
    centres = np.exp(pool.centre) / centre.common
    ratios = np.exp(found.theta) / centre.common
    slopes = pool.nats(found.gradient, found.value)
    reasons = [_reason(*of_group) for of_group in zip(centres, found.theta - pool.centre, slopes, strict=True)]
    return {
        "common_strength": centre.common,
        "common_criterion": centre.criterion,
        "centres": dict(zip(names, centres.tolist(), strict=True)),
        "deviation": pool.deviation,
        "dispersion": pool.dispersion,
        "ratios": dict(zip(names, ratios.tolist(), strict=True)),
        "slopes": dict(zip(names, slopes.tolist(), strict=True)),
        "reasons": dict(zip(names, reasons, strict=True)),
    }


def _reason(centre: float, departure: float, slope: float) -> str:
    around = "the common strength"
    if abs(np.log(centre)) >= STAYED:
        around = f"{centre:.3g} times the common strength, as units or sizes of the groups suggest"
    way = "stronger" if slope < 0.0 else "weaker"
    further = f"2.7 times {way} would gain at most {abs(slope):.2g} nats"
    if abs(departure) < STAYED:
        return f"at {around}; {further}"
    return f"{'stronger' if departure > 0.0 else 'weaker'} than {around}; another {further}"
