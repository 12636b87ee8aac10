"""Strengths to begin with where weights can vanish for good, as those of hidden units do under a strong penalty."""

import numpy as np

from tikhon.objective import Objective, Vector, hints_of
from tikhon.tuners.base import Problem

WEAKER, MOST_TIMES = 0.1, 4
ROUGH = 0.01  # relative gap: enough to see whether weights vanish
LEAST_SHARE = 0.05  # of the loss that these parts of the model must explain


def weak_enough(problem: Problem, objective: Objective, strengths: Vector) -> tuple[Vector, Vector | None]:
    """These strengths, those to be learned weakened until a fit uses all parts of the model, and the weights of that fit.

    Where all hidden units have vanished, no criterion has a slope, and a tuner that begins there ends there. Objectives
    without such parts (``Hints.removable``) are not fitted; if no strength helps, the strengths are returned as they are.
    """
    removable = hints_of(objective).removable
    if removable is None:
        return strengths, None
    weaker = strengths
    for _ in range(1 + MOST_TIMES):
        fit = problem.solver.minimise(objective, problem.groups.expand(weaker), tol=ROUGH)
        without = objective.loss_gradient(removable.removed(fit.weights))[0]
        if without - fit.loss > LEAST_SHARE * abs(without):
            return weaker, fit.weights
        weaker = np.where(problem.groups.learned, WEAKER * weaker, weaker)
    return strengths, None
