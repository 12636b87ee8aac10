"""A weak prior of the log strengths, for criteria that few rows do not pin down.

Separable data ask for no penalty at all, a group of pure noise for an infinite one, and many groups on few rows fit the
splits; a normal prior of theta around the natural strengths ends that, and fades as rows come in.
"""

from dataclasses import dataclass, replace

import numpy as np

from tikhon.errors import InputError
from tikhon.objective import Noisy, Vector
from tikhon.tuners.base import Problem
from tikhon.tuners.descending import Evaluate, Evaluation, Warm

LEAST_DEVIATION = 0.2  # a narrower prior would drown the data
MOST = 300.0  # an exponent: rows that weigh next to nothing leave the prior alone, and the criterion finite


@dataclass(frozen=True, eq=False)
class StrengthPrior:
    """P = sum_g (theta_g - centre_g)^2 / 2 d^2, in units of a log-likelihood of all rows."""

    centre: Vector
    deviation: float | None  # None: no prior
    total_weight: float
    noisy: bool

    def applied(self, evaluate: Evaluate) -> Evaluate:
        """The criterion V, a loss per unit of weight, with the prior.

        V + P / n where V is a negative log-likelihood over n; V exp(2 P / n) where it is a variance, since its
        log-likelihood is n/2 log V.
        """
        if self.deviation is None:
            return evaluate

        def with_prior(theta: Vector, accuracy: float, warm: Warm | None) -> Evaluation:
            found = evaluate(theta, accuracy, warm)
            slope = (theta - self.centre) / (float(self.deviation or 1.0) ** 2 * self.total_weight)
            share = self._share(theta)
            if not self.noisy:
                return replace(
                    found, value=found.value + share, gradient=found.gradient + slope, without_prior=found.value
                )
            factor = float(np.exp(min(2.0 * share, MOST)))
            gradient = factor * (found.gradient + 2.0 * found.value * slope)
            return replace(found, value=factor * found.value, gradient=gradient, without_prior=found.value)

        return with_prior

    def _share(self, theta: Vector) -> float:
        """P / n."""
        spread = (theta - self.centre) / float(self.deviation or 1.0)
        return 0.5 * float(spread @ spread) / self.total_weight


def strength_prior(problem: Problem, natural: Vector, deviation: float | None) -> StrengthPrior:
    """Centred at the natural strengths of the learned groups."""
    if deviation is not None and not LEAST_DEVIATION <= deviation < np.inf:
        raise InputError(
            f"prior_deviation={deviation!r}: write None or a number, {LEAST_DEVIATION} or larger, of log strengths; "
            "strengths that are known are better given in `strengths`"
        )
    noisy = isinstance(problem.objective, Noisy)
    return StrengthPrior(np.log(natural[problem.groups.learned]), deviation, problem.total_weight, noisy)
