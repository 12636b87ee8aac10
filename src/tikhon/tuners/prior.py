"""Priors of the log strengths, for criteria that few rows do not determine.

The optimal penalty is zero for separable data and infinite for a group of pure noise, and many groups on few rows overfit the
splits. A prior of theta prevents this and fades as the number of rows grows: its negative logarithm P is in nats, the unit of
a summed log loss.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from tikhon.errors import InputError
from tikhon.objective import Vector, hints_of
from tikhon.tuners.base import Problem
from tikhon.tuners.outer_loop import Evaluate, Evaluation, WarmStart

LEAST_DEVIATION = 0.2  # a narrower prior would dominate the data
MOST = 300.0  # limit of an exponent: it keeps the criterion finite if the summed row weight is tiny

LogPrior: TypeAlias = Callable[[Vector], tuple[float, Vector]]  # P and its gradient at theta, in nats


def with_prior(evaluate: Evaluate, prior: LogPrior, n_rows: float, *, noisy: bool) -> Evaluate:
    """The criterion V, a mean loss over ``n_rows``, with a prior.

    V + P / n if V is a negative log-likelihood over n; V exp(2 P / n) if it is a variance, since its log-likelihood is
    n/2 log V.
    """

    def evaluate_with_prior(theta: Vector, accuracy: float, warm: WarmStart | None) -> Evaluation:
        found = evaluate(theta, accuracy, warm)
        nats, slopes = prior(theta)
        share, slope = nats / n_rows, slopes / n_rows
        if not noisy:
            return replace(found, value=found.value + share, gradient=found.gradient + slope, without_prior=found.plain)
        factor = float(np.exp(min(2.0 * share, MOST)))
        gradient = factor * (found.gradient + 2.0 * found.value * slope)
        return replace(found, value=factor * found.value, gradient=gradient, without_prior=found.plain)

    return evaluate_with_prior


@dataclass(frozen=True, eq=False)
class StrengthPrior:
    """A normal prior around the natural strengths: P = sum_g (theta_g - centre_g)^2 / 2 d^2, with the data of all rows."""

    centre: Vector
    deviation: float | None  # None: no prior
    total_weight: float
    noisy: bool

    def applied(self, evaluate: Evaluate) -> Evaluate:
        if self.deviation is None:
            return evaluate
        precision = 1.0 / self.deviation**2

        def prior(theta: Vector) -> tuple[float, Vector]:
            apart = theta - self.centre
            return 0.5 * precision * float(apart @ apart), precision * apart

        return with_prior(evaluate, prior, self.total_weight, noisy=self.noisy)


def strength_prior(problem: Problem, natural: Vector, deviation: float | None) -> StrengthPrior:
    """Centred at the natural strengths of the learned groups."""
    if deviation is not None and not LEAST_DEVIATION <= deviation < np.inf:
        raise InputError(
            f"prior_deviation={deviation!r}: write None or a number, {LEAST_DEVIATION} or larger, of log strengths; "
            "set known strengths in `strengths` instead"
        )
    noisy = hints_of(problem.objective).noise_is_unknown
    return StrengthPrior(np.log(natural[problem.groups.learned]), deviation, problem.total_weight, noisy)
