"""The penalised Hessian of softmax in the differences of the classes to the last, factorised.

The loss depends only on the differences V_k = w_k - w_K. Given them, the common part of a column's weights minimises the
penalty, which leaves V_j'(diag(s_j) - s_j s_j' / sum s_j)V_j over the first K - 1 classes. So the system has K - 1 blocks
instead of K, has no flat direction for the intercepts, and is exact for any strengths, whether or not they are the same in
all classes.
"""

import numpy as np

from tikhon.kernels.linalg import cholesky, cholesky_inverse, cholesky_solve
from tikhon.models.linear.class_blocks import ClassBlocks
from tikhon.objective import Matrix, Vector


class SoftmaxFactor:
    """(H + diag(s))^-1 for K classes and a design of q columns, its weights ordered by class, then column."""

    def __init__(self, hessian: Matrix, strength: Matrix) -> None:
        """``hessian`` is that of the differences, in Fortran order, and is overwritten; ``strength`` is K x q."""
        self.n_free, self.width = strength.shape[0] - 1, strength.shape[1]
        self.strength = strength
        total = strength.sum(axis=0)
        self._total = total
        penalised = total > 0.0
        self._divisor = np.where(penalised, total, np.inf)
        self.share = strength[:-1] / self._divisor  # sigma
        # Where nothing is penalised any common part will do: the one of mean 0.
        self._taken = np.where(penalised, self.share, 1.0 / strength.shape[0])
        # A view: the matrix is symmetric, and its transpose is stored row by row.
        by_class = hessian.T.reshape(self.n_free, self.width, self.n_free, self.width)
        column, free = np.arange(self.width)[:, None, None], np.arange(self.n_free)
        own = strength[:-1].T
        by_class[free[:, None], column, free, column] -= own[:, :, None] * self.share.T[:, None, :]
        by_class[free, column[:, 0], free, column[:, 0]] += own
        self._factor = cholesky(hessian)

    def solve(self, right: Matrix) -> Matrix:
        """For a K x q right side: first the differences, then the common part, determined by the penalty alone."""
        total = right.sum(axis=0)
        reduced = right[:-1] - self.share * total
        differences = cholesky_solve(self._factor, reduced.ravel()).reshape(self.n_free, self.width)
        common = total / self._divisor - (self._taken * differences).sum(axis=0)
        solution = np.empty((self.n_free + 1, self.width))
        np.add(differences, common, out=solution[:-1])
        solution[-1] = common
        return solution

    @property
    def reduced_log_determinant(self) -> float:
        return 2.0 * float(np.log(np.diag(self._factor)).sum())

    def inverse(self) -> Matrix:
        """The inverse of the reduced system, a square matrix of size (K - 1) q."""
        return cholesky_inverse(self._factor)

    def inverse_diagonal(self, inverse: Matrix) -> Matrix:
        """The diagonal of the whole inverse, K x q, from that of the reduced system.

        The weights are V + t: (I; 0)V - 1 sigma'V + 1 (sum of the right side) / sum s.
        """
        K, q = self.n_free + 1, self.width
        by_column = same_column(inverse, self.n_free, q)
        diagonal = np.empty((K, q))
        common = np.einsum("kj,jkl,lj->j", self.share, by_column, self.share)
        spread = np.divide(1.0, self._total, out=np.zeros(q), where=self._total > 0.0) + common
        diagonal[-1] = spread
        moved = np.einsum("jkl,lj->kj", by_column, self.share)
        diagonal[:-1] = np.einsum("jkk->kj", by_column) - 2.0 * moved + spread
        return diagonal

    def by_strength(self, by_matrix: Matrix) -> Matrix:
        """Derivatives with respect to the K x q strengths of a function of the reduced matrix, from those by its entries."""
        q = self.width
        by_column = same_column(by_matrix, self.n_free, q)
        moved = np.einsum("jkl,lj->kj", by_column, self.share)
        common = np.einsum("kj,kj->j", self.share, moved)
        found = np.empty_like(self.strength)
        found[-1] = common
        found[:-1] = np.einsum("jkk->kj", by_column) - 2.0 * moved + common
        return found


def working_weight_pairs(blocks: ClassBlocks, probability: Matrix, row_weights: Vector) -> Matrix:
    """a (diag(p) - p p') over all classes but the last, the upper triangle, pairs x n."""
    first, second = blocks.classes.first, blocks.classes.second
    p = np.ascontiguousarray(probability[:, :-1].T)
    weighted = row_weights * p
    pairs = -weighted[first] * p[second]
    pairs[first == second] += weighted
    return pairs


def same_column(matrix: Matrix, n_free: int, width: int) -> Matrix:
    """The entries that belong to one column of the design: q x (K - 1) x (K - 1)."""
    return np.asarray(np.einsum("kjlj->jkl", matrix.reshape(n_free, width, n_free, width)))
