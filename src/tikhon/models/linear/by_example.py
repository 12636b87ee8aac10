"""The loss and gradient of a few rows of a linear model, at a cost that depends on these rows alone."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tikhon.models.linear.design import Data
from tikhon.objective import Matrix, Vector

Places = NDArray[np.intp]


class ByExample:
    """For linear models: maps scores of single rows and their derivatives to weights.

    For a sparse X only the entries of these rows are read, and only their weights are changed.
    """

    X: Data
    fit_intercept: bool
    row_weights: Vector
    n_weights: Any  # a property of the models

    def _loss_by_scores(self, rows: Places, scores: Matrix) -> tuple[Vector, Matrix]:
        """The unweighted losses of rows with these scores (rows x outputs), and their derivatives by score."""
        raise NotImplementedError

    def add_gradient(self, weights: Vector, rows: Places, out: Vector, scale: float = 1.0) -> float:
        rows = np.asarray(rows, np.intp)
        p = int(self.X.shape[1])
        n_outputs = self.n_weights // (p + self.fit_intercept)
        entries = None if isinstance(self.X, np.ndarray) else _entries(self.X, rows)
        coefficients, intercepts = weights[: n_outputs * p].reshape(n_outputs, p), weights[n_outputs * p :]
        if entries is None:
            scores = self.X[rows] @ coefficients.T
        else:
            values, columns, row = entries
            scores = np.zeros((len(rows), n_outputs))
            np.add.at(scores, row, values[:, None] * coefficients[:, columns].T)
        losses, by_score = self._loss_by_scores(rows, scores + intercepts if self.fit_intercept else scores)
        own = self.row_weights[rows]
        by_score = scale * own[:, None] * by_score
        into = out[: n_outputs * p].reshape(n_outputs, p)
        if entries is None:
            into += by_score.T @ self.X[rows]
        else:
            for part, slopes in zip(into, by_score.T, strict=True):
                np.add.at(part, columns, values * slopes[row])
        out[n_outputs * p :] += by_score.sum(axis=0) if self.fit_intercept else 0.0
        return float(own @ losses)

    def support(self, rows: Places) -> Places:
        """The columns that these rows have entries in, for each output, and the intercepts."""
        rows = np.asarray(rows, np.intp)
        if isinstance(self.X, np.ndarray) or not len(rows):
            return np.arange(self.n_weights if len(rows) else 0)
        p = int(self.X.shape[1])
        n_outputs = self.n_weights // (p + self.fit_intercept)
        columns = np.unique(_entries(self.X, rows)[1]).astype(np.intp)
        coefficients = (p * np.arange(n_outputs)[:, None] + columns).ravel()
        return np.concatenate([coefficients, np.arange(n_outputs * p, self.n_weights)])


def _entries(X: Data, rows: Places) -> tuple[Vector, NDArray[Any], Places]:
    """Values and columns of all entries of these rows of a CSR matrix, and the index of each entry's row in ``rows``.

    Unlike ``X[rows]``, it does not scan the whole matrix.
    """
    first = X.indptr[rows].astype(np.intp)
    counts = X.indptr[rows + 1] - first
    row = np.repeat(np.arange(len(rows)), counts)
    places = np.arange(len(row)) + np.repeat(first - (np.cumsum(counts) - counts), counts)
    return X.data[places], X.indices[places], row
