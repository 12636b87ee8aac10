"""Direct minimisation of the integrated-out objective: the alternative to majorization-minimization in the 2009 paper."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tikhon.objective import Product, Vector, hints_of
from tikhon.results import Step, TuneResult, TuneStatus
from tikhon.solvers import NewtonCG
from tikhon.solvers.descent import Descent, DescentState
from tikhon.solvers.penalised import baseline, gradient_measure, penalised
from tikhon.tuners.base import Problem, Start, Tuner
from tikhon.tuners.checkpoints import direct_state
from tikhon.tuners.integrated import IntegratedOut
from tikhon.tuners.journal import Journal
from tikhon.tuners.refit import refit, vanished_groups
from tikhon.tuners.settings import check_prior, check_steps
from tikhon.tuners.vanishing import weak_enough

POLISHED = 1e-22  # relative gap of the last Newton steps
FIRST_FIT = 1e-2  # relative gap of the fit at which the Hessian is sketched


@dataclass(frozen=True, kw_only=True)
class Direct(Tuner):
    """L-BFGS on loss(w) + sum_j (n_j/2 + alpha) log(1/2 ||w_j||^2 + beta), equation (6), from the best constant prediction.

    The strengths follow from the weights at the end. Models whose passes are expensive (RNA) start from a low-accuracy
    fit with the strengths of ``start`` and skip the final Newton steps. A warm start uses the weights of the last fit.

    Parameters
    ----------
    alpha, beta : float, default=0.0, 1.0
        Shape and rate of the Gamma prior of the strengths.
    start : float, mapping from group name to float, or None, default=None
        Strengths that scale the first step, or those of the low-accuracy initial fit. None: 1; after a warm start, those
        that follow from its weights.
    tol : float, default=1e-5
        Converged when the norm of the gradient, relative to that at the best constant prediction, is at most this.
    max_steps : int, default=2000
    memory : int, default=10
        Pairs of vectors that L-BFGS keeps.
    checkpoint : str or None, default=None
        A file written after every step, from which an interrupted tuning resumes.

    Examples
    --------
    >>> import numpy as np
    >>> from tikhon import MM, Direct, LogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 12))
    >>> y = X[:, :2].sum(axis=1) + rng.normal(size=200) > 0
    >>> direct, mm = (LogisticRegression(tuner=tuner).fit(X, y) for tuner in (Direct(), MM(tol=1e-6)))
    >>> bool(np.allclose(direct.coef_, mm.coef_, atol=1e-4))
    True
    """

    name: ClassVar[str] = "direct"
    uses_pairs: ClassVar[bool] = False
    needs_likelihood: ClassVar[bool] = True

    alpha: float = 0.0
    beta: float = 1.0
    start: Start | None = None
    tol: float = 1e-5  # norm of the gradient over that at the best constant prediction
    max_steps: int = 2000
    memory: int = 10
    checkpoint: str | None = None

    def tune(self, problem: Problem) -> TuneResult:
        check_prior(self.alpha, self.beta)
        check_steps(self.max_steps, self.tol)
        groups = problem.groups
        integrated = IntegratedOut(problem.objective, groups, self.alpha, self.beta)
        measure = gradient_measure(problem.objective)
        zeros = np.zeros(problem.objective.n_weights)
        begin, metric = self._beginning(problem, integrated)
        descent = Descent(memory=self.memory, metric=metric, noise=1e-14)
        journal = Journal.of(self, problem)
        saved = journal.resume(direct_state())
        state = descent.start(begin) if saved is None else DescentState.from_arrays(saved[0])
        status: TuneStatus = "max_steps"
        residual = np.inf if np.isnan(state.value) else measure.residual(state.gradient)
        try:
            while len(journal.trace) < self.max_steps and residual > self.tol and not state.stalled:
                state = descent.tell(state, *integrated.loss_gradient(descent.ask(state)))
                residual = measure.residual(state.gradient)
                step = Step(
                    number=len(journal.trace) + 1, strengths=integrated.strengths(state.x), criterion=float(state.value),
                    gradient_norm=residual, n_iter=1, n_passes=1, seconds=journal.seconds, accepted=state.accepted,
                    note="" if state.accepted else "shortened",
                )  # fmt: skip
                journal.record(step, state.arrays, {})
            if residual <= self.tol:
                status = "converged"
            elif state.stalled:
                status = "stalled"
        except KeyboardInterrupt:
            status = "interrupted"
        weights, value = state.x, float(state.value)
        if hints_of(problem.objective).hessian_sketch is None:
            # Where L-BFGS stops depends on rounding; a few Newton steps reach the stationary point itself.
            polished = NewtonCG(tol=POLISHED, max_iter=20, max_products=200).minimise(integrated, zeros, state.x)
            if polished.value <= value:
                weights, value = polished.weights, polished.value
        reason = f"relative gradient norm {residual:.1e}, tol is {self.tol:.1e}"
        return refit(
            self.name, problem, journal, integrated.strengths(weights), weights, criterion_name="negative log posterior",
            criterion=value, status=status, reason=reason,
            warnings=vanished_groups(problem, integrated.hardly_used(weights), weights),
        )  # fmt: skip

    def _beginning(self, problem: Problem, integrated: IntegratedOut) -> tuple[Vector, Vector | Product]:
        """The initial weights and an approximation of the Hessian.

        If passes are expensive and there is no warm start: a fit with the initial strengths, and a sketch of the Hessian
        there.
        """
        objective, weights = problem.objective, problem.start
        strengths = integrated.first_strengths(self.start, weights)
        if self.start is None and weights is None:
            strengths, weights = weak_enough(problem, objective, strengths)
        strength = problem.groups.expand(strengths)
        hints = hints_of(objective)
        if hints.hessian_sketch is not None:
            if weights is None:
                weights = problem.solver.minimise(objective, strength, tol=FIRST_FIT).weights
            return weights, penalised(objective, strength).preconditioner(weights)
        if hints.hessian_diagonal is not None:
            at = np.zeros(objective.n_weights) if weights is None else weights
            strength = strength + hints.hessian_diagonal(at)
        metric = np.maximum(strength, 1e-8 * max(float(strength.max()), 1.0))
        return baseline(objective) if weights is None else weights, metric
