"""The rivals in the classification benchmarks: scikit-learn's LogisticRegressionCV and, if installed, two more.

liblinear (package liblinear-official): its own search for C, ``-C``, which doubles C from a small value on with
warm-started fits, and takes the C with the highest accuracy over five folds. It treats more than two classes as one
against the rest. bbai: one strength by approximate leave-one-out loss; sparse data are made dense for it.
"""

import contextlib
import importlib
import importlib.util
import inspect
import io
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import expit, softmax
from sklearn.linear_model import LogisticRegressionCV

from tikhon.harness.fitting import GRID, N_FOLDS, Folds
from tikhon.models.linear.sparse_rows import SparseRows
from tikhon.objective import Matrix, Vector

LOGISTIC_CV = "LogisticRegressionCV"
LIBLINEAR, BBAI = "liblinear", "bbai"
PACKAGES = {LIBLINEAR: "liblinear-official", BBAI: "bbai"}
MAX_ITER = 1_000


def logistic_cv(solver: str, folds: Folds, *, n_jobs: int | None = None) -> Any:
    """LogisticRegressionCV, with settings that avoid the future warnings of both old and new versions."""
    quiet = {"l1_ratios": (0.0,), "use_legacy_attributes": False}
    parameters = inspect.signature(LogisticRegressionCV).parameters
    settings = {
        name: value for name, value in quiet.items() if name in parameters and parameters[name].default == "warn"
    }
    rival: Any = LogisticRegressionCV
    return rival(
        Cs=np.array(GRID), cv=folds, scoring="neg_log_loss", solver=solver, max_iter=MAX_ITER, n_jobs=n_jobs, **settings
    )


def converged(messages: list[str]) -> str:
    """The status of a scikit-learn fit, from its warnings."""
    return "max_iter" if any(message.startswith("ConvergenceWarning") for message in messages) else "converged"


def installed(peer: str) -> bool:
    return importlib.util.find_spec(peer) is not None


def peer_versions() -> dict[str, str]:
    """The versions of the installed peers."""
    return {package: version(package) for peer, package in PACKAGES.items() if installed(peer)}


@dataclass(frozen=True, eq=False)
class LinearAnswer:
    """The scores X coef' + intercept, and how a rival turns them into probabilities."""

    classes_: NDArray[Any]
    coef_: Matrix  # two classes: one row, scores of the second class; otherwise one row per class
    intercept_: Vector
    strength: float
    one_against_rest: bool = False

    def predict_proba(self, X: Any) -> Matrix:
        scores = np.asarray(X @ self.coef_.T + self.intercept_)
        if len(self.classes_) == 2:
            return np.column_stack([expit(-scores[:, 0]), expit(scores[:, 0])])
        if self.one_against_rest:
            each = expit(scores)
            return np.asarray(each / each.sum(axis=1, keepdims=True))
        return np.asarray(softmax(scores, axis=1))


def fit_liblinear(X: Any, y: NDArray[Any]) -> LinearAnswer:
    """The best C by ``-s 0 -C``, with an unpenalised intercept, and the fit with it."""
    library = importlib.import_module("liblinear.liblinearutil")
    classes, codes = np.unique(y, return_inverse=True)
    problem = library.problem(codes.astype(np.float64), sparse.csr_matrix(X))
    with contextlib.redirect_stdout(io.StringIO()):  # it prints the best C
        best = float(library.train(problem, f"-s 0 -C -v {N_FOLDS} -B 1 -R -q")[0])
        model = library.train(problem, f"-s 0 -c {best:.17g} -B 1 -R -q")
    labels = model.get_labels()  # in order of first occurrence
    n_scores = 1 if len(classes) == 2 else len(classes)
    weights = np.ctypeslib.as_array(model.w, (X.shape[1] + 1, n_scores)).T.copy()
    if n_scores > 1:
        weights = weights[np.argsort(labels)]
    elif labels[0] == 0:
        weights = -weights  # its scores are those of its first label
    return LinearAnswer(classes, weights[:, :-1], weights[:, -1], 1.0 / best, one_against_rest=True)


def fit_bbai(X: Any, y: NDArray[Any]) -> LinearAnswer:
    """One C by approximate leave-one-out loss; as in scikit-learn, the strength is 1 / C."""
    classes, codes = np.unique(y, return_inverse=True)
    dense = np.ascontiguousarray(X) if isinstance(X, np.ndarray) else X.toarray()
    model = importlib.import_module("bbai.glm").LogisticRegression().fit(dense, codes)
    return LinearAnswer(classes, np.asarray(model.coef_), np.ravel(model.intercept_), 1.0 / float(model.C_))


FITS = {LIBLINEAR: fit_liblinear, BBAI: fit_bbai}


def compile_products() -> None:
    """Compile the products with large sparse matrices."""
    rows = SparseRows(sparse.csr_array(np.eye(3)))
    for vectors in (np.ones(3), np.ones((3, 2))):
        rows.times(vectors)
        rows.transpose_times(vectors)
    rows.squares_times(np.ones((3, 1)))
    rows.column_counts()


def fit_next_to_nothing(fit: Callable[[Matrix, NDArray[np.intp], Folds], Any]) -> None:
    """Call ``fit`` with few rows of two and of three classes and two folds, so that imports, first calls, the start of
    processes and compilation for large sparse data are not timed."""
    rng = np.random.default_rng(0)
    compile_products()
    X = rng.normal(size=(60, 3))
    noisy = X[:, 0] + rng.normal(size=60)
    folds = [(np.arange(30), np.arange(30, 60)), (np.arange(30, 60), np.arange(30))]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for edges in ([0.0], [-0.5, 0.5]):
            fit(X, np.digitize(noisy, edges), folds)
