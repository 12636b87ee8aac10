"""Small problems that many tests share."""

import numpy as np
import scipy.sparse as sp

from tikhon.groups import weight_groups
from tikhon.models import LeastSquares, Logistic, Softmax
from tikhon.objective import Pair
from tikhon.solvers import make_solver
from tikhon.tuners import Problem

MODELS = ("logistic", "softmax", "least_squares")
N_CLASSES = 3


def data(model, rng, n=60, p=6):
    """Features of mixed scale and a target with signal in the first three of them."""
    X = rng.normal(size=(n, p)) * np.linspace(0.5, 2.0, p)
    signal = X[:, :3] @ np.array([1.0, -1.0, 0.5]) + 0.5 * rng.normal(size=n)
    if model == "logistic":
        return X, (signal > 0).astype(float)
    if model == "softmax":
        return X, np.digitize(signal, [-0.7, 0.7]).astype(np.intp)
    return X, 3.0 + signal


def sparse(rng, n, p, per_row):
    """A CSR matrix with so many normal entries in each row."""
    columns = np.concatenate([rng.choice(p, per_row, replace=False) for _ in range(n)])
    return sp.csr_array((rng.normal(size=n * per_row), columns, np.arange(0, n * per_row + 1, per_row)), shape=(n, p))


def objective(model, X, y, **kwargs):
    if model == "logistic":
        return Logistic(X, y, **kwargs)
    if model == "softmax":
        return Softmax(X, y, n_classes=N_CLASSES, **kwargs)
    return LeastSquares(X, y, **kwargs)


def n_outputs(model):
    return N_CLASSES if model == "softmax" else 1


def problem(model, rng, groups=None, *, n=60, p=6, solver="auto", fixed=None, n_folds=3, sparse=False, **kwargs):
    X, y = data(model, rng, n, p)
    whole = objective(model, sp.csr_array(X) if sparse else X, y)
    columns = [f"x{i}" for i in range(p)]
    grouped = weight_groups(groups, columns, n_outputs=n_outputs(model), fit_intercept=True).with_fixed(fixed)
    fold = rng.permutation(n) % n_folds
    pairs = [
        Pair(
            whole.reweighted((fold != k) * 1.0),
            whole.reweighted((fold == k) * 1.0),
            (fold != k).sum(),
            (fold == k).sum(),
        )
        for k in range(n_folds)
    ]
    return Problem(
        objective=whole, groups=grouped, solver=make_solver(solver, tol=1e-18, max_iter=500), pairs=pairs,
        total_weight=float(n), **kwargs,
    )  # fmt: skip
