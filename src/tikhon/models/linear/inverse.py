"""The inverse of X~' diag(c) X~ + diag(s), with X~ = (X, 1), through the smaller of the numbers of rows and weights.

Besides solves, leave-one-out and evidence need the responses y_i = H^-1 x_i, the leverages x_i'H^-1 x_i and their
derivatives with respect to c.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from tikhon.kernels.linalg import cholesky, cholesky_inverse, cholesky_solve, triangular_solve
from tikhon.models.linear.design import MOST_SIDE, Data, Design
from tikhon.models.linear.dual import kernel
from tikhon.models.memo import LastPoint
from tikhon.objective import Matrix, Vector

KEPT_BYTES = 2**27  # limit on stored responses of all rows; larger ones are recomputed block by block


class Inverse(ABC):
    """(X~' diag(c) X~ + diag(s))^-1 for one output."""

    def __init__(self, design: Design, working_weights: Vector, strength: Vector) -> None:
        self.design, self.working_weights, self.strength = design, working_weights, strength

    @abstractmethod
    def solve(self, right: Matrix) -> Matrix:
        """Solve for a vector or a matrix."""

    @property
    @abstractmethod
    def log_determinant(self) -> float:
        """The log determinant of X~' diag(c) X~ + diag(s)."""

    @property
    @abstractmethod
    def diagonal(self) -> Vector: ...

    @property
    @abstractmethod
    def leverages(self) -> Vector:
        """x_i' H^-1 x_i."""

    @property
    def rest(self) -> Vector:
        """1 - c_i h_i: for least squares, a row's residual over its left-out residual."""
        return 1.0 - self.working_weights * self.leverages

    @abstractmethod
    def responses(self) -> Iterator[tuple[slice, Matrix]]:
        """H^-1 x_i in blocks of rows."""

    def squares_times(self, v: Vector) -> Vector:
        """sum_k (H^-1)_jk^2 v_k, one per weight j."""
        total = np.square(self.solve(np.eye(self.design.width))) @ v
        return np.asarray(total)

    def squares(self, weights: Vector) -> Vector:
        """sum_k weights_k (x_i' H^-1 x_k)^2 for each row i, for weights >= 0: y_i' G y_i with G = X~' diag(weights) X~."""
        found = np.empty(self.design.n_rows)
        gram = self.design.gram(weights)
        for rows, response in self.responses():
            found[rows] = np.einsum("ij,ij->i", response @ gram, response)
        return found

    def squared_responses(self, weights: Matrix) -> Matrix:
        """sum_i weights_it (H^-1 x_i)_j^2, one row per weight j, one column per t."""
        total = np.zeros((self.design.width, weights.shape[1]))
        for rows, response in self.responses():
            total += np.square(response).T @ weights[rows]
        return total


class ByColumns(Inverse):
    """Through the Gram matrix, of the size of the weights."""

    def __init__(self, design: Design, working_weights: Vector, strength: Vector, gram: Matrix | None = None) -> None:
        super().__init__(design, working_weights, strength)
        matrix = design.gram(working_weights) if gram is None else gram.copy(order="F")
        matrix.flat[:: len(strength) + 1] += strength
        self._factor = cholesky(matrix)

    def solve(self, right: Matrix) -> Matrix:
        return cholesky_solve(self._factor, right)

    @property
    def log_determinant(self) -> float:
        return 2.0 * float(np.log(np.diag(self._factor)).sum())

    @cached_property
    def _inverse(self) -> Matrix:
        return cholesky_inverse(self._factor)

    @property
    def diagonal(self) -> Vector:
        return np.diag(self._inverse)

    def squares_times(self, v: Vector) -> Vector:
        product: Vector = np.square(self._inverse) @ v
        return product

    @cached_property
    def leverages(self) -> Vector:
        if self.design.is_sparse:
            return self.design.quadratics(self._inverse)
        leverages = np.empty(self.design.n_rows)
        for rows, response in self.responses():
            leverages[rows] = self.design.row_products(rows, response)
        return leverages

    @cached_property
    def _between(self) -> LastPoint[Matrix]:
        """H^-1 G H^-1 with G = X~' diag(weights) X~, for some weights of the rows."""
        return LastPoint(lambda weights: self._inverse @ self.design.gram(weights) @ self._inverse)

    def responses(self) -> Iterator[tuple[slice, Matrix]]:
        if self._kept is not None:
            yield slice(None), self._kept
            return
        for rows in self.design.blocks():
            yield rows, self.design.times(rows, self._inverse)

    @cached_property
    def _kept(self) -> Matrix | None:
        if 8 * self.design.n_rows * self.design.width > KEPT_BYTES:
            return None
        return self.design.times(slice(None), self._inverse)

    def squared_responses(self, weights: Matrix) -> Matrix:
        if self.design.is_sparse and weights.shape[1] == 1:
            return np.diag(self._between.at(weights[:, 0]))[:, None]
        return super().squared_responses(weights)

    def squares(self, weights: Vector) -> Vector:
        """For sparse rows x_i' (H^-1 G H^-1) x_i, which exploits their zeros."""
        if self.design.is_sparse:
            return self.design.quadratics(self._between.at(weights))
        return super().squares(weights)


class ByRows(Inverse):
    """Through the kernel matrix of the rows, for fewer rows than weights.

    With K = X_p diag(1/s) X_p' over the penalised columns, M = (C^-1 + K)^-1 = C^1/2 (I + C^1/2 K C^1/2)^-1 C^1/2, and U
    the unpenalised columns: Q = U'MU and U~ = U - K M U give X~ H^-1 X~' = K - K M K + U~ Q^-1 U~'. It never divides by
    the working weights, which may be 0.
    """

    def __init__(self, design: Design, working_weights: Vector, strength: Vector) -> None:
        super().__init__(design, working_weights, strength)
        self._penalised = strength[: design.n_columns] > 0.0
        self._own = strength[: design.n_columns][self._penalised]
        self._columns = design.X if self._penalised.all() else design.X[:, self._penalised]
        self._kernel = _kernel(self._columns, self._own)
        self._root = np.sqrt(working_weights)
        matrix = self._kernel * np.outer(self._root, self._root)
        matrix.flat[:: len(matrix) + 1] += 1.0
        self._factor = cholesky(np.asfortranarray(matrix))
        self._free = self._unpenalised()
        self._moved = self._weighted_inverse(self._free)  # M U
        self._corner = cholesky(np.asfortranarray(self._free.T @ self._moved))  # Q

    def _unpenalised(self) -> Matrix:
        columns = self.design.X[:, ~self._penalised]
        columns = columns.toarray() if self.design.is_sparse else columns
        return np.column_stack([columns, np.ones(len(columns))]) if self.design.fit_intercept else columns

    def _weighted_inverse(self, right: Matrix) -> Matrix:
        """M times a vector or a matrix."""
        root = self._root if right.ndim == 1 else self._root[:, None]
        return root * cholesky_solve(self._factor, root * right)

    @property
    def log_determinant(self) -> float:
        halves = np.log(np.diag(self._factor)).sum() + np.log(np.diag(self._corner)).sum()
        return 2.0 * float(halves) + float(np.log(self._own).sum())

    def solve(self, right: Matrix) -> Matrix:
        p, chosen = self.design.n_columns, self._penalised
        own = self._own if right.ndim == 1 else self._own[:, None]
        direct = right[:p][chosen] / own
        scores = self._columns @ direct
        free = np.concatenate([right[:p][~chosen], right[p:]])
        intercepts = cholesky_solve(self._corner, free - self._moved.T @ scores)
        pull = self._weighted_inverse(scores + self._free @ intercepts)
        solution = np.empty_like(right)
        solution[:p][chosen] = direct - (self._columns.T @ pull) / own
        n_free = int((~chosen).sum())
        solution[:p][~chosen] = intercepts[:n_free]
        solution[p:] = intercepts[n_free:]
        return solution

    @cached_property
    def _fitted(self) -> Matrix:
        """X~ H^-1 X~', n x n."""
        half = triangular_solve(self._factor, self._root[:, None] * self._kernel)
        rest = self._free - self._kernel @ self._moved
        corner = triangular_solve(self._corner, rest.T)
        return self._kernel - half.T @ half + corner.T @ corner

    @cached_property
    def _left(self) -> Matrix:
        """C - C X~ H^-1 X~' C = M - M U Q^-1 U'M: the second form stays accurate if almost nothing is left."""
        inner = self._root[:, None] * cholesky_inverse(self._factor) * self._root
        corner = triangular_solve(self._corner, self._moved.T)
        return inner - corner.T @ corner

    @property
    def leverages(self) -> Vector:
        return np.diag(self._fitted)

    @property
    def rest(self) -> Vector:
        """c_i - c_i^2 h_i, over c_i."""
        left = np.diag(self._left)
        return np.divide(left, self.working_weights, out=np.ones_like(left), where=self.working_weights > 0.0)

    @property
    def diagonal(self) -> Vector:
        p, chosen = self.design.n_columns, self._penalised
        explained = _column_quadratics(self._columns, self._left)
        free = np.diag(cholesky_inverse(self._corner))
        diagonal = np.empty(self.design.width)
        diagonal[:p][chosen] = (1.0 - explained / self._own) / self._own
        n_free = int((~chosen).sum())
        diagonal[:p][~chosen] = free[:n_free]
        diagonal[p:] = free[n_free:]
        return diagonal

    def responses(self) -> Iterator[tuple[slice, Matrix]]:
        """diag(1/s) X_p' (I - C X~ H^-1 X~'); the entries of unpenalised weights are not needed and left at 0."""
        known = self.working_weights > 0.0
        left = np.divide(self._left, self.working_weights, out=np.zeros_like(self._left), where=known)
        if not known.all():  # rows of working weight 0: I - C F column by column
            unknown = np.flatnonzero(~known)
            left[:, unknown] = -self.working_weights[:, None] * self._fitted[:, unknown]
            left[unknown, unknown] += 1.0
        response = np.zeros((self.design.n_rows, self.design.width))
        response[:, : self.design.n_columns][:, self._penalised] = (self._columns.T @ left).T / self._own
        yield slice(None), response

    def squares(self, weights: Vector) -> Vector:
        found: Vector = np.square(self._fitted) @ weights
        return found


def is_sparse(X: Data) -> bool:
    return bool(sp.issparse(X))  # the stubs would narrow X to a type that has no products


def _kernel(columns: Data, strength: Vector) -> Matrix:
    """X diag(1/s) X'."""
    if is_sparse(columns):
        return np.asarray((columns.multiply(1.0 / strength).tocsr() @ columns.T).toarray())
    return kernel(columns, 1.0 / strength)


def _column_quadratics(columns: Data, inner: Matrix) -> Vector:
    """x_j' M x_j for each column."""
    if is_sparse(columns):
        return np.asarray(columns.multiply((columns.T @ inner).T).sum(axis=0)).ravel()
    return np.asarray(np.einsum("ij,ij->j", columns, inner @ columns))


def inverse_of(design: Design, working_weights: Vector, strength: Vector, gram: Matrix | None = None) -> Inverse:
    """By rows or by columns, whichever are fewer."""
    if fewer_rows(design):
        if design.fit_intercept and strength[-1] > 0.0:  # damped: treated as any other column
            ones = np.ones((design.n_rows, 1))
            X: Data = (
                sp.hstack([design.X, sp.csr_array(ones)]).tocsr() if design.is_sparse else np.hstack([design.X, ones])
            )
            design = Design(X, fit_intercept=False)
        return ByRows(design, working_weights, strength)
    return ByColumns(design, working_weights, strength, gram)


def fewer_rows(design: Design) -> bool:
    return design.n_rows < 0.8 * design.width


def inverse_cost(design: Design) -> float:
    """Multiplications of one inverse with its leverages; infinite where a matrix would be too large to keep."""
    if min(design.n_rows, design.width) > MOST_SIDE:
        return float("inf")
    if fewer_rows(design):
        per_row = design.n_stored / max(design.n_rows, 1)
        return design.n_rows**2 * (1.5 * per_row + 2.0 * design.n_rows)
    return design.gram_multiplications + design.n_stored * design.width + design.width**3
