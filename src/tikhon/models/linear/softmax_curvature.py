"""The effect of leaving rows out of a softmax regression, and its evidence.

Everything is in terms of the scores' differences to the last class, K - 1 of them. With r_i and C_i the slope and curvature of
row i's loss (weight included) and A_i = X_i' H^-1 X_i its leverage block, one Newton step without the row changes its scores by

    d_i = A_i (r_i + C_i d_i),  so  d_i = (I - A_i C_i)^-1 A_i r_i.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tikhon.kernels.linear.pointwise import softmax_loss_probability
from tikhon.kernels.linear.row_cholesky import row_cholesky, row_cholesky_solve
from tikhon.models.linear.class_blocks import ClassBlocks
from tikhon.models.linear.one_score import penalised_evidence
from tikhon.models.linear.softmax_factor import SoftmaxFactor
from tikhon.objective import Criterion, Matrix, Vector

Blocks = NDArray[np.float64]  # K x K x n: one matrix per row, the rows last, so that operations run along them


@dataclass(frozen=True, eq=False)
class SoftmaxLeftOut:
    """The leave-one-out losses and the derivatives of their sum; that by A_i is the outer product of ``left`` and ``right``."""

    losses: Vector
    by_score: Matrix  # (K - 1) x n, at fixed A
    left: Matrix
    right: Matrix


class RowCurvature:
    """C = R R' = a (diag(p) - p p') of each row over the first K - 1 classes, R = sqrt(a) (diag(sqrt p) - p sqrt(p)').

    R has K columns, including one for the last class. All arguments and results have one column per row of data.
    """

    def __init__(self, probability: Matrix, row_weights: Vector) -> None:
        self.row_weights, self.p = row_weights, np.ascontiguousarray(probability[:, :-1].T)
        self.root = np.sqrt(row_weights * probability.T)

    def times(self, v: Matrix) -> Matrix:
        return self.row_weights * self.through(v)

    def through(self, by_probability: Matrix) -> Matrix:
        """(diag(p) - pp')z: derivatives with respect to the scores from those with respect to the probabilities."""
        return self.p * (by_probability - dots(self.p, by_probability))

    def root_times(self, v: Matrix) -> Matrix:
        """R v."""
        shared: Matrix = self.root[:-1] * v[:-1] - self.p * dots(self.root, v)
        return shared

    def transposed_root_times(self, v: Matrix) -> Matrix:
        """R'v."""
        centre = dots(self.p, v)
        return self.root * np.vstack([v - centre, -centre])

    def inside(self, A: Blocks) -> Blocks:
        """R'AR, K x K."""
        K = len(self.root)
        middle = np.einsum("kln,ln->kn", A, self.p)
        padded = np.zeros((K, K, A.shape[2]))
        padded[:-1, :-1] = A
        padded[:-1] -= middle[:, None]
        padded[:, :-1] -= middle
        padded += dots(self.p, middle)
        padded *= self.root
        padded *= self.root[:, None]
        return padded

    def by_score(self, by_working_weight: Blocks) -> Matrix:
        """Derivatives with respect to the scores from those with respect to C, given symmetric ones."""
        inner = np.einsum("kkn->kn", by_working_weight) - 2.0 * np.einsum("kln,ln->kn", by_working_weight, self.p)
        return self.through(self.row_weights * inner)


def softmax_left_out(scores: Matrix, target: NDArray[np.intp], row: RowCurvature, A: Blocks) -> SoftmaxLeftOut:
    """Leave every row out. With N = I - R'AR, which is positive definite, and g the slope at the moved scores,

    d = (I - AC)^-1 A r = A (r + R N^-1 R'A r),  u = (I - CA)^-1 g = g + R N^-1 R'A g,  v = r + C d,
    dF = g'ds + u'(dA v + A dr + A dC d).
    """
    a, p = row.row_weights, row.p
    own = (target == np.arange(len(p))[:, None]).astype(np.float64)
    N = -row.inside(A)
    np.einsum("kkn->kn", N)[:] += 1.0
    factor = row_cholesky(N)

    def undone(v: Matrix) -> Matrix:
        """(I - CA)^-1 v."""
        moved = row.transposed_root_times(np.einsum("kln,ln->kn", A, v))
        return v + row.root_times(row_cholesky_solve(factor, moved))

    slope = a * (p - own)
    move = np.einsum("kln,ln->kn", A, undone(slope))
    right = slope + row.times(move)
    moved = scores.copy()
    moved[:, :-1] += move.T
    losses, there = softmax_loss_probability(moved, target)
    slope_there = a * (there[:, :-1].T - own)
    left = undone(slope_there)
    pulled = np.einsum("kln,ln->kn", A, left)
    by_probability = a * (pulled * (move - dots(p, move)) - dots(p, pulled) * move)
    by_score = slope_there + row.times(pulled) + row.through(by_probability)
    return SoftmaxLeftOut(a * losses, by_score, left, right)


def dots(left: Matrix, right: Matrix) -> Vector:
    """The inner product of each row of data."""
    return np.asarray(np.einsum("kn,kn->n", left, right))


@dataclass(frozen=True, eq=False)
class SoftmaxCurvature:
    """The penalised Hessian at some weights, factorised; vectors are in the model's order, see ``by_class``."""

    blocks: ClassBlocks
    target: NDArray[np.intp]
    row_weights: Vector
    scores: Matrix
    probability: Matrix
    weights: Vector
    strength: Vector
    loss: float
    gradient: Vector
    by_class: NDArray[np.intp]  # positions of the K x q weights in the model's order
    factor: SoftmaxFactor

    def solve(self, v: Vector) -> Vector:
        return self._flat(self.factor.solve(v[self.by_class].reshape(-1, self.factor.width)))

    def inverse_diagonal(self) -> Vector:
        return self._flat(self.factor.inverse_diagonal(self.factor.inverse()))

    def noise_precision(self) -> float:
        return 1.0

    def leave_one_out(self) -> Criterion:
        inverse, blocks, row = self.factor.inverse(), self.blocks, RowCurvature(self.probability, self.row_weights)
        found = softmax_left_out(self.scores, self.target, row, blocks.square(blocks.quadratics(inverse)))
        # A_i depends on H through its inverse B: dA = -X'B dH B X.
        first, second = blocks.classes.first, blocks.classes.second
        outer = 0.5 * (found.left[first] * found.right[second] + found.left[second] * found.right[first])
        by_matrix = -inverse @ blocks.gram(outer) @ inverse
        by_score = found.by_score + row.by_score(blocks.square(blocks.quadratics(by_matrix)))
        by_strength = self._flat(self.factor.by_strength(by_matrix))
        return Criterion(float(found.losses.sum()), self._adjoint(by_score), by_strength, found.losses)

    def evidence(self) -> Criterion:
        inverse, blocks, row = self.factor.inverse(), self.blocks, RowCurvature(self.probability, self.row_weights)
        by_score = row.by_score(blocks.square(blocks.quadratics(inverse)))
        # det H = det(reduced) times the product, over penalised columns, of their strengths summed over the classes.
        total = self.factor.strength.sum(axis=0)
        log_determinant = self.factor.reduced_log_determinant + float(np.log(total[total > 0.0]).sum())
        return penalised_evidence(
            self.loss, self.gradient, self.weights, self.strength, log_determinant, self._adjoint(by_score),
            self._flat(self.factor.inverse_diagonal(inverse)),
        )  # fmt: skip

    def _adjoint(self, by_difference: Matrix) -> Vector:
        """Derivatives with respect to the weights from those with respect to the score differences to the last class."""
        by_score = np.vstack([by_difference, -by_difference.sum(axis=0)])
        return self.blocks.design.adjoint_many(np.ascontiguousarray(by_score.T))

    def _flat(self, by_class: Matrix) -> Vector:
        vector = np.empty(by_class.size)
        vector[self.by_class] = by_class.ravel()
        return vector
