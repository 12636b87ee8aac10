"""Matrices of one q x q block per pair of classes: sums over rows of C_i (x) x_i x_i', and x_i' M_kl x_i.

C_i is a symmetric m x m matrix over the classes, stored as its upper triangle, one row per pair (k <= l).
"""

from abc import ABC, abstractmethod
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from tikhon.models.linear.design import Design, pair_products
from tikhon.objective import Matrix, Vector

PRODUCT_BYTES = 2**26  # limit on the products of all pairs of columns, computed once per tuning


class Pairs:
    """The upper triangle of a symmetric matrix of size m as a flat list, and back."""

    def __init__(self, m: int) -> None:
        self.first, self.second = np.triu_indices(m)
        self.position = np.empty((m, m), np.intp)
        self.position[self.first, self.second] = self.position[self.second, self.first] = np.arange(len(self.first))

    def __len__(self) -> int:
        return len(self.first)


@lru_cache(maxsize=16)
def pairs_of(m: int) -> Pairs:
    """Shared by all folds: not to be modified."""
    return Pairs(m)


class ClassBlocks(ABC):
    """Sums and quadratic forms over the rows of a design, for m classes."""

    def __init__(self, design: Design, m: int) -> None:
        self.design, self.m, self.classes = design, m, pairs_of(m)

    @abstractmethod
    def gram(self, pairs: Matrix) -> Matrix:
        """sum_i C_i (x) x_i x_i', ordered by class, then column, in Fortran order; ``pairs`` is pairs x n."""

    @abstractmethod
    def quadratics(self, matrix: Matrix) -> Matrix:
        """x_i' M_kl x_i of a symmetric matrix, pairs x n."""

    def square(self, pairs: Matrix) -> NDArray[np.float64]:
        """m x m x n from pairs x n."""
        return pairs[self.classes.position]


class ByProducts(ClassBlocks):
    """For few columns: the products x_ij x_il of all pairs of columns are computed once, the rest is matrix products."""

    def __init__(self, design: Design, m: int) -> None:
        super().__init__(design, m)
        self._columns = pairs_of(design.width)

    @cached_property
    def _products(self) -> Matrix:
        """Pairs of columns x n."""
        return pair_products(self.design.block(slice(None)))

    def gram(self, pairs: Matrix) -> Matrix:
        q, m = self.design.width, self.m
        sums = (pairs @ self._products.T).T  # twice as fast as the other way round
        blocks = sums[self._columns.position[None, :, None, :], self.classes.position[:, None, :, None]]
        return np.asfortranarray(blocks.reshape(m * q, m * q))

    def quadratics(self, matrix: Matrix) -> Matrix:
        q, m = self.design.width, self.m
        by_columns = matrix.reshape(m, q, m, q).transpose(1, 3, 0, 2)
        by_columns = (by_columns + by_columns.transpose(1, 0, 2, 3))[:, :, self.classes.first, self.classes.second]
        folded = by_columns[self._columns.first, self._columns.second]
        folded[self._columns.first == self._columns.second] *= 0.5
        return np.asarray(folded.T @ self._products)


class ByRowBlocks(ClassBlocks):
    """For many columns: stores nothing of the size of the data."""

    def gram(self, pairs: Matrix) -> Matrix:
        q, m = self.design.width, self.m
        matrix = np.zeros((m * q, m * q), order="F")
        for rows in self.design.blocks(q):
            X = self.design.block(rows)
            for pair, (k, other) in enumerate(zip(self.classes.first, self.classes.second, strict=True)):
                matrix[k * q : (k + 1) * q, other * q : (other + 1) * q] += _weighted_squares(X, pairs[pair, rows])
        for k, other in zip(self.classes.first, self.classes.second, strict=True):
            matrix[other * q : (other + 1) * q, k * q : (k + 1) * q] = matrix[
                k * q : (k + 1) * q, other * q : (other + 1) * q
            ]
        return matrix

    def quadratics(self, matrix: Matrix) -> Matrix:
        q, m = self.design.width, self.m
        found = np.empty((len(self.classes), self.design.n_rows))
        for rows in self.design.blocks(m * q):
            X, start = self.design.block(rows), 0
            for k in range(m):
                product = (X @ matrix[k * q : (k + 1) * q, k * q :]).reshape(len(X), m - k, q)
                found[start : start + m - k, rows] = np.einsum("ilj,ij->li", product, X)
                start += m - k
        return found


def _weighted_squares(X: Matrix, weights: Vector) -> Matrix:
    """X' diag(w) X: at half the cost if the weights have one sign, as the working weights of softmax do."""
    if weights.min(initial=0.0) < 0.0 < weights.max(initial=0.0):
        mixed: Matrix = (X * weights[:, None]).T @ X
        return mixed
    scaled = X * np.sqrt(np.abs(weights))[:, None]
    squares: Matrix = scaled.T @ scaled  # numpy calls syrk for this
    return squares if weights.max(initial=0.0) > 0.0 else -squares


def class_blocks(design: Design, m: int) -> ClassBlocks:
    few = 8 * design.n_rows * design.width * (design.width + 1) // 2 <= PRODUCT_BYTES
    return ByProducts(design, m) if few else ByRowBlocks(design, m)
