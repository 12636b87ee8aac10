"""The inner problem: minimise loss + 1/2 sum strength w^2 at given strengths."""

from tikhon.solvers.choose import SOLVERS, Auto, Solver, make_solver, prefers_factors, prefers_gradients
from tikhon.solvers.hessian import HESSIANS, HessianMethod, with_hessian
from tikhon.solvers.lbfgs import LBFGS
from tikhon.solvers.newton import Newton
from tikhon.solvers.newton_cg import NewtonCG

__all__ = [
    "HESSIANS",
    "LBFGS",
    "SOLVERS",
    "Auto",
    "HessianMethod",
    "Newton",
    "NewtonCG",
    "Solver",
    "make_solver",
    "prefers_factors",
    "prefers_gradients",
    "with_hessian",
]
