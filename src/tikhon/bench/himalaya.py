"""himalaya's random search for grouped ridge regression, if the package himalaya is installed.

It samples divisions g of the penalty from Dirichlet distributions, and for each sample and each total alpha fits ridge
regression on columns scaled by sqrt(g): the strength of group k is alpha / g_k. GroupRidgeCV uses a singular value
decomposition of the rows of every fold; MultipleKernelRidgeCV an eigendecomposition of their kernel, which himalaya
recommends where there are more columns than rows. Both use numpy and double precision here.
"""

import importlib
import importlib.util
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import KFold

from tikhon.harness.fitting import N_FOLDS

HIMALAYA, HIMALAYA_KERNEL = "himalaya", "himalaya, kernels"
CONCENTRATION = (0.1, 1.0)  # its own default
ALPHAS = np.logspace(-1.0, 3.5, 10)


def himalaya_version() -> str | None:
    """None if it is not installed."""
    return version("himalaya") if importlib.util.find_spec("himalaya") is not None else None


def divisions(groups: int, draws: int) -> NDArray[np.float64]:
    """The divisions of the penalty that GroupRidgeCV(random_state=0) draws; like there, the first one is uniform."""
    drawn = importlib.import_module("himalaya.kernel_ridge").generate_dirichlet_samples(
        n_samples=draws, n_kernels=groups, concentration=list(CONCENTRATION), random_state=0
    )
    found = np.array(drawn, dtype=np.float64)
    found[0] = 1.0 / groups
    return found


def fit_himalaya(
    form: str,
    X: NDArray[np.float64],
    y: NDArray[np.float64],
    groups: NDArray[np.intp],
    tried: NDArray[np.float64],
) -> Any:
    """The fitted model; ``deltas_`` has the logarithms of 1 / strength, ``predict`` takes rows like those of X."""
    importlib.import_module("himalaya.backend").set_backend("numpy")
    folds = KFold(N_FOLDS, shuffle=True, random_state=0)  # the same as ours
    search = {"n_iter": tried, "alphas": ALPHAS, "progress_bar": False}
    if form == HIMALAYA:
        model = importlib.import_module("himalaya.ridge").GroupRidgeCV(
            groups=groups, fit_intercept=True, cv=folds, solver_params={**search, "warn": False}
        )
        return model.fit(X, y)
    means = X.mean(axis=0)
    kernel_model = importlib.import_module("himalaya.kernel_ridge").MultipleKernelRidgeCV(
        kernels="precomputed", fit_intercept=True, cv=folds, solver="random_search", solver_params=search
    )
    return KernelAnswer(kernel_model.fit(_kernels(X - means, X - means, groups), y), X - means, means, groups)


@dataclass(frozen=True, eq=False)
class KernelAnswer:
    """A fitted kernel model that predicts from rows of X."""

    model: Any
    rows: NDArray[np.float64]
    means: NDArray[np.float64]
    groups: NDArray[np.intp]

    @property
    def deltas_(self) -> NDArray[np.float64]:
        return np.asarray(self.model.deltas_)

    def predict(self, X: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(self.model.predict(_kernels(X - self.means, self.rows, self.groups)))


def _kernels(left: NDArray[np.float64], right: NDArray[np.float64], groups: NDArray[np.intp]) -> NDArray[np.float64]:
    return np.stack([left[:, groups == group] @ right[:, groups == group].T for group in np.unique(groups)])
