"""Gram matrices of many row-weighted views of the same rows, derived from one another.

Leaving rows out subtracts: with X~ = (X, 1), weights a0 of all rows and a of a view,

    X~' diag(a) X~  =  X~' diag(a0) X~  -  X~' diag(a0 - a) X~

and the last term needs only the rows that the view leaves out or downweights. K folds then take two passes over the
rows, one for all rows and one for those left out, instead of the K - 1 for computing each training part separately.
"""

from hashlib import blake2b
from threading import Lock
from weakref import WeakValueDictionary

import numpy as np

from tikhon.models.linear.design import Design
from tikhon.objective import Matrix, Vector

CANCELLED = 1e-6  # of a column's squares: if a subtraction leaves less, ten digits are no longer guaranteed
MOST_RENEWED = 0.1  # of the columns: if more have cancelled, the whole matrix is recomputed


class SharedGrams:
    """X~' diag(a) X~ for any row weights a, by subtraction from the weights a0 if few rows differ.

    The matrix of a0 is kept; others only as long as a view holds them, so that the left-out rows of one view and the
    view of just these rows (the two halves of a split) share one. Thread-safe.
    """

    def __init__(self, design: Design, row_weights: Vector) -> None:
        self._design, self._row_weights = design, row_weights
        self._whole: Matrix | None = None
        self._forming_whole, self._looking = Lock(), Lock()
        self._known: WeakValueDictionary[bytes, Matrix] = WeakValueDictionary()

    def of(self, row_weights: Vector) -> Matrix:
        key = blake2b(row_weights.tobytes(), digest_size=16).digest()
        with self._looking:
            found = self._known.get(key)
        if found is None:  # two threads may both compute it; that costs time but the result is the same
            found = self._formed(row_weights)
            with self._looking:
                self._known[key] = found
        return found

    def _formed(self, row_weights: Vector) -> Matrix:
        left_out = self._row_weights - row_weights
        n_left_out, n_used = np.count_nonzero(left_out), np.count_nonzero(row_weights)
        if n_left_out == 0:
            return self._of_all_rows()
        if n_left_out >= n_used or left_out.min() < 0.0:
            return self._direct(row_weights)
        return self._renewed(self._of_all_rows() - self.of(left_out), row_weights)

    def _of_all_rows(self) -> Matrix:
        with self._forming_whole:
            if self._whole is None:
                self._whole = self._direct(self._row_weights)
            return self._whole

    def _direct(self, row_weights: Vector) -> Matrix:
        used = np.flatnonzero(row_weights)
        if 2 * len(used) < len(row_weights):
            return Design(self._design.X[used], self._design.fit_intercept).gram(row_weights[used])
        return self._design.gram(row_weights)

    def _renewed(self, gram: Matrix, row_weights: Vector) -> Matrix:
        """Recompute the columns that a subtraction has almost cancelled: they may be mostly rounding error.

        An entry ij has an error of some 1e-16 sqrt(g_ii g_jj) of the whole, so the diagonal shows it. A rare category whose
        rows are all left out is the usual case.
        """
        p = self._design.n_columns
        lost = np.flatnonzero(np.diag(gram) < CANCELLED * np.diag(self._of_all_rows()))
        if len(lost) == 0:
            return gram
        if len(lost) > MOST_RENEWED * p or lost[-1] == p:
            return self._direct(row_weights)
        columns = self._design.X[:, lost]
        columns = columns.toarray() if self._design.is_sparse else columns
        products = self._design.adjoint_many(row_weights[:, None] * columns)  # X~' diag(a) X_lost, row by row
        gram[lost, :p] = products[: len(lost) * p].reshape(len(lost), p)
        gram[lost, p:] = products[len(lost) * p :].reshape(len(lost), -1)
        gram[:, lost] = gram[lost].T
        return gram
