"""The leave-one-out loss of least squares as a closed-form function of the strengths, without the errors of a fit.

Let D be the square roots of the row weights, Q an orthonormal basis of the unpenalised columns times D (including the
intercept's), X and y the other columns and the targets times D with Q projected out, and B = X S^-1/2. Then

    N = I - QQ' - B (I + B'B)^-1 B' = (I + BB')^-1 - QQ'

maps y to the residuals, and left-out rows have the residuals u_i = (Ny)_i / N_ii (each times its D). The loss is
V = 1/2 sum_i u_i^2. Since dN / d log s_j = N b_j b_j' N, with v_i = u_i / N_ii

    dV / d log s_j = (b_j'Nv)(b_j'Ny) - sum_i u_i v_i (Nb_j)_i^2.

If there are as many weights as rows, Ny and the diagonal of N are both close to 0. Computed from fitted weights and from
1 - leverage they suffer from cancellation; here they are sums of terms that do not cancel.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh, lapack, svd

from tikhon.kernels.linalg import cholesky, cholesky_inverse
from tikhon.models.linear.design import Design
from tikhon.objective import Matrix, StrengthCriterion, Vector

EPSILON = float(np.finfo(float).eps)
TRUSTED = 1e-11  # estimated relative error of a leave-one-out loss; above this a more accurate form is used
KERNEL_TRUSTED = 2e-10  # the same for a Cholesky factor of the kernel, where the estimate is a very loose upper bound
COLLINEAR = 1e-11  # singular value of unpenalised columns of norm 1: below it they are combinations of the others
ALONE = 1e-10  # share of a row outside the unpenalised columns: below it the row alone determines one of their weights
CROWDED = (
    1.25  # rows per weight: below it leverages are near 1, and the kernel of the rows is as cheap as a Gram matrix
)
MOST_KERNEL_ROWS = 2000  # limit on a kernel that replaces a Gram matrix only for accuracy
FULL_BASIS_RATIO = 4  # rows per column up to which a singular value decomposition is completed to a basis of the rows


@dataclass(frozen=True, eq=False)
class CentredRows:
    """Rows times the roots of their weights, with the unpenalised columns projected out."""

    columns: Matrix  # n x p, the penalised ones
    target: Matrix  # n x T
    free: Matrix  # n x f, orthonormal: the unpenalised columns
    offset: float  # largest squared norm that the projection removes from a column: its rounding errors remain

    @cached_property
    def alone(self) -> NDArray[np.bool_]:
        """The rows that alone determine an unpenalised weight: without such a row that weight is undefined."""
        return np.asarray(1.0 - np.square(self.free).sum(axis=1) < ALONE)

    @property
    def rank(self) -> int:
        """The largest rank that the columns can have."""
        return int(min(self.columns.shape[1], len(self.columns) - self.free.shape[1]))


def centred_rows(
    X: Matrix, target: Matrix, row_weights: Vector, unpenalised: NDArray[np.bool_], *, intercept: bool
) -> CentredRows:
    """``unpenalised`` marks columns of X; the intercept is unpenalised too."""
    root = np.sqrt(row_weights)[:, None]
    chosen = X[:, ~unpenalised] if unpenalised.any() else X
    total, offset, free = float(row_weights.sum()), 0.0, np.zeros((len(X), 0))
    if intercept:
        means = row_weights @ chosen / total
        offset, free = total * float(np.square(means).max(initial=0.0)), root / np.sqrt(total)
        chosen, target = chosen - means, target - row_weights @ target / total
    if (root != 1.0).any():
        chosen, target = root * chosen, root * target
    if unpenalised.any():
        offset += float(np.einsum("ij,ij->j", chosen, chosen).max(initial=0.0))
        others = root * X[:, unpenalised]
        others = others / np.maximum(np.linalg.norm(others, axis=0), np.finfo(float).tiny)
        for _ in range(2):  # the second time to remove rounding errors
            others = others - free @ (free.T @ others)
        basis, sizes, _ = svd(others, full_matrices=False, check_finite=False)
        free = np.hstack([free, basis[:, sizes > COLLINEAR]])
        chosen, target = chosen - free @ (free.T @ chosen), target - free @ (free.T @ target)
    return CentredRows(chosen, target, free, offset)


@dataclass(frozen=True, eq=False)
class LeftOutSquares:
    """The summed leave-one-out loss, its derivative by each log strength and the estimated relative error of both."""

    value: float
    by_log_strength: Matrix  # one row per penalised column, or per axis; one column per target
    error: float
    by_row: Vector  # contribution of each row to the loss


def _left_out(rows: CentredRows, rest: Vector, pull: Matrix) -> tuple[float, Matrix, Matrix]:
    """V, u and v from the diagonal of N and Ny."""
    if rows.alone.any():
        rest, pull = np.where(rows.alone, 1.0, rest), np.where(rows.alone[:, None], 0.0, pull)
    rest = np.maximum(rest, np.finfo(float).tiny)[:, None]
    residual = pull / rest
    return 0.5 * float(np.square(residual).sum()), residual, residual / rest


def _half_squares(residual: Matrix) -> Vector:
    """The contribution of each row, summed over the targets."""
    return np.asarray(0.5 * np.square(residual).sum(axis=1))


def _amplified(rows: CentredRows, rest: Vector, pull: Matrix) -> float:
    """The amplification of an error of N, of size 1, in the loss: rest and Ny are each relative to their own size."""
    least = float(rest[~rows.alone].min(initial=1.0))
    norm, left = float(np.linalg.norm(rows.target)), float(np.linalg.norm(pull))
    return max(1.0 / max(least, 1e-300), norm / left if left > 0.0 else 1.0)


def left_out_by_kernel(rows: CentredRows, strength: Vector) -> LeftOutSquares:
    """Through a factor of the size of the rows, for strengths that differ; all targets have the same.

    I + BB' is factorised by Cholesky or, if that would cost too many digits, by QR of (B, I)', whose condition number is the
    square root. On Q it would be the identity; kQQ' is added, so that its inverse is small there too and subtracting that
    part does not cancel anything.
    """
    n = len(rows.target)
    scaled = rows.columns / np.sqrt(strength)
    kernel = np.asarray((scaled @ scaled.T).T)  # numpy calls syrk for this
    lift = float(kernel.diagonal().max(initial=0.0))
    matrix = kernel + lift * (rows.free @ rows.free.T)
    matrix.flat[:: n + 1] += 1.0
    try:
        factor = cholesky(matrix)
        condition = _condition(matrix, factor)
    except np.linalg.LinAlgError:
        condition = np.inf
    if np.isfinite(condition):
        inverse, rest, pull = _inverted(rows, factor, lift)
        error = EPSILON * condition * float(rest.max(initial=0.0)) * _amplified(rows, rest, pull)
    if not (np.isfinite(condition) and error <= KERNEL_TRUSTED):
        stacked = np.vstack([scaled.T, np.sqrt(lift) * rows.free.T, np.eye(n)])
        factor = np.asfortranarray(np.triu(lapack.dgeqrf(stacked)[0][:n]).T)
        inverse, rest, pull = _inverted(rows, factor, lift)
        condition = min(np.sqrt(condition), np.sqrt(1.0 + lift * n))
        error = EPSILON * condition * float(rest.max(initial=0.0)) * _amplified(rows, rest, pull)
    value, residual, scaled_residual = _left_out(rows, rest, pull)
    moved = inverse @ scaled  # N B: Q is orthogonal to B
    slopes = (moved.T @ scaled_residual) * (scaled.T @ pull)
    by_log_strength = slopes - np.square(moved).T @ (residual * scaled_residual)
    return LeftOutSquares(value, by_log_strength, error, _half_squares(residual))


def _inverted(rows: CentredRows, factor: Matrix, lift: float) -> tuple[Matrix, Vector, Matrix]:
    """N, its diagonal and Ny from the factor of I + BB' + kQQ'."""
    inverse = cholesky_inverse(factor)
    rest = inverse.diagonal() - np.square(rows.free).sum(axis=1) / (1.0 + lift)
    return inverse, rest, inverse @ rows.target  # the targets are orthogonal to Q


def _condition(matrix: Matrix, factor: Matrix) -> float:
    """LAPACK's estimate, in the 1-norm."""
    reciprocal, _ = lapack.dpocon(factor, float(np.abs(matrix).sum(axis=0).max()), uplo="L")
    return 1.0 / reciprocal if reciprocal > 0.0 else np.inf


class PrincipalAxes:
    """B in its principal axes for one strength s shared by all columns: X = U diag(l)^1/2 V', and N has the eigenvalue
    s / (l_j + s) along the axis u_j. One decomposition serves every s, and each costs a pass over U.

    The eigenvectors of X'X or XX', whichever is smaller, give the axes cheaply, with errors relative to the largest l; if
    these are not accurate enough for some s, a singular value decomposition of X replaces them, whose errors are relative to
    the square root of l.
    """

    def __init__(self, rows: CentredRows, gram: Matrix | None = None) -> None:
        """``gram`` is X'X, if it is known."""
        self.rows, self._gram = rows, gram
        self._accurate = False

    def left_out(self, strength: float) -> LeftOutSquares:
        """One row of derivatives per axis."""
        if not self._accurate:
            found = self._by_squares(strength)
            if found is not None:
                return found
            self._accurate = True  # permanently: strengths that need it tend to be followed by others
        return self._by_singular_values(strength)

    @cached_property
    def eigenvectors(self) -> tuple[Matrix, Matrix | None, Vector]:
        """X V = U diag(l)^1/2 (n x r), U itself if nothing lies outside of it and Q, and l."""
        X, free = self.rows.columns, self.rows.free
        if X.shape[0] > X.shape[1]:
            squares, axes = eigh(X.T @ X if self._gram is None else self._gram, check_finite=False)
            return X @ axes, None, np.maximum(squares, 0.0)
        kernel = X @ X.T
        lifted = kernel + 2.0 * float(np.trace(kernel)) * (
            free @ free.T
        )  # Q takes the last axes, whatever the rank of X
        squares, axes = eigh(lifted, check_finite=False)
        squares, axes = np.maximum(squares[: self.rows.rank], 0.0), axes[:, : self.rows.rank]
        return axes * np.sqrt(squares), axes, squares

    def _by_squares(self, strength: float) -> LeftOutSquares | None:
        Z, axes, squares = self.eigenvectors
        least, largest = float(squares.min(initial=np.inf)), float(squares.max(initial=0.0))
        condition = (largest + self.rows.offset) / (least + strength)
        if EPSILON * condition > TRUSTED:
            return None
        share = strength / (squares + strength)
        if axes is not None:
            rest, pull = np.square(axes) @ share, axes @ (share[:, None] * (axes.T @ self.rows.target))
        else:
            rest = 1.0 - self._squared @ (share / strength) - np.square(self.rows.free).sum(axis=1)
            pull = self.rows.target - Z @ ((share / strength)[:, None] * self._pulled)
        error = EPSILON * condition * _amplified(self.rows, rest, pull) * float(rest.max(initial=0.0))
        if error > TRUSTED:
            return None
        return self._judged(Z, self._squared, self._pulled, share, rest, pull, strength, error)

    @cached_property
    def _squared(self) -> Matrix:
        return np.square(self.eigenvectors[0])

    @cached_property
    def _pulled(self) -> Matrix:
        return self.eigenvectors[0].T @ self.rows.target

    @cached_property
    def _singular(self) -> tuple[Matrix, Vector, Matrix | None]:
        """U, l, and a basis of the complement of U and Q; None if that would be many times the size of X."""
        X, free, rank = self.rows.columns, self.rows.free, self.rows.rank
        n, n_free = free.shape
        if n > FULL_BASIS_RATIO * X.shape[1]:
            vectors, sizes, _ = svd(X, full_matrices=False, check_finite=False)
            return vectors, np.square(sizes), None
        # Q takes the first axes, so that the others are orthogonal to it whatever the rank of X.
        size = 2.0 * float(np.linalg.norm(X)) or 1.0
        wide = n_free + X.shape[1] >= n
        vectors, sizes, _ = svd(np.hstack([size * free, X]), full_matrices=not wide, check_finite=False)
        return vectors[:, n_free:][:, :rank], np.square(sizes[n_free:][:rank]), vectors[:, n_free + rank :]

    def _by_singular_values(self, strength: float) -> LeftOutSquares:
        axes, squares, outside = self._singular
        target = self.rows.target
        share = strength / (squares + strength)
        own = axes.T @ target
        rest, pull = np.square(axes) @ share, axes @ (share[:, None] * own)
        if outside is None:
            rest = rest + (1.0 - np.square(axes).sum(axis=1) - np.square(self.rows.free).sum(axis=1))
            pull = pull + (target - axes @ own)
        else:
            rest, pull = rest + np.square(outside).sum(axis=1), pull + outside @ (outside.T @ target)
        largest = float(squares.max(initial=0.0)) + self.rows.offset
        condition = float(np.sqrt(largest / (float(squares.min(initial=np.inf)) + strength)))
        error = EPSILON * condition * _amplified(self.rows, rest, pull) * float(rest.max(initial=0.0))
        Z = axes * np.sqrt(squares)
        return self._judged(Z, np.square(Z), Z.T @ target, share, rest, pull, strength, error)

    def _judged(
        self, Z: Matrix, squared: Matrix, pulled: Matrix, share: Vector, rest: Vector, pull: Matrix, strength: float,
        error: float,
    ) -> LeftOutSquares:  # fmt: skip
        """With N z_j = share_j z_j."""
        value, residual, scaled_residual = _left_out(self.rows, rest, pull)
        slopes = (Z.T @ scaled_residual) * pulled - squared.T @ (residual * scaled_residual)
        by_log_strength = (np.square(share) / strength)[:, None] * slopes
        return LeftOutSquares(value, by_log_strength, error, _half_squares(residual))


def crowded(design: Design) -> bool:
    """Whether there are so few rows that leverages are near 1."""
    return design.n_rows < CROWDED * design.width


class ClosedLeaveOneOut:
    """The leave-one-out loss of least squares as a function of its strengths, in the form that is accurate and cheap.

    One strength for all: principal axes. Several: the kernel of the rows if there are few; else the Gram matrix
    (``by_columns``), and the kernel if that loses digits.
    """

    def __init__(
        self, design: Design, row_weights: Vector, target: Matrix, unpenalised: NDArray[np.bool_], *, common: bool,
        by_columns: Callable[[Vector], StrengthCriterion | None],
    ) -> None:  # fmt: skip
        """``unpenalised`` is T x (p + 1), the intercept's last."""
        self._design, self._row_weights, self._target = design, row_weights, target
        self._penalised, self._common, self._by_columns = ~unpenalised[:, : design.n_columns], common, by_columns
        self._alike = bool((self._penalised == self._penalised[0]).all())

    def __call__(self, strength: Vector) -> StrengthCriterion:
        if not self._common and not crowded(self._design):
            found = self._by_columns(strength)
            if found is not None and (found.error <= TRUSTED or self._design.n_rows > MOST_KERNEL_ROWS):
                return found
        by_target = self._design.by_output(strength, self._target.shape[1])
        by_strength = np.zeros_like(by_target)
        value, error, by_row, p = 0.0, 0.0, np.zeros(self._design.n_rows), self._design.n_columns
        for part, rows in enumerate(self._parts(by_target)):
            targets = slice(part, part + rows.target.shape[1])
            chosen = np.flatnonzero(self._penalised[part])
            own = by_target[part][chosen]
            if self._common:
                one = self._axes(part, rows).left_out(float(own[0]) if len(own) else 1.0)
                own, chosen = own[: len(one.by_log_strength)], chosen[: len(one.by_log_strength)]
            else:
                one = left_out_by_kernel(rows, own)
            value, error, by_row = value + one.value, max(error, one.error), by_row + one.by_row
            by_strength[targets, chosen] = (one.by_log_strength / own[:, None]).T
        flat = np.append(by_strength[:, :p].ravel(), by_strength[:, p:].ravel())
        return StrengthCriterion(value, flat, error, by_row)

    def _parts(self, by_target: Matrix) -> list[CentredRows]:
        """One for all targets if they have the same strengths, else one each."""
        return self._together if self._alike and bool((by_target == by_target[0]).all()) else self._apart

    def _axes(self, part: int, rows: CentredRows) -> PrincipalAxes:
        """With one strength there is one part, or one per target if their unpenalised weights differ."""
        if part not in self._known_axes:
            self._known_axes[part] = PrincipalAxes(rows)
        return self._known_axes[part]

    @cached_property
    def _known_axes(self) -> dict[int, PrincipalAxes]:
        return {}

    @cached_property
    def _together(self) -> list[CentredRows]:
        return [self._centred(0, self._target)]

    @cached_property
    def _apart(self) -> list[CentredRows]:
        if self._alike:
            rows = self._together[0]
            return [replace(rows, target=rows.target[:, t : t + 1]) for t in range(rows.target.shape[1])]
        return [self._centred(t, self._target[:, t : t + 1]) for t in range(self._target.shape[1])]

    def _centred(self, t: int, target: Matrix) -> CentredRows:
        X = self._design.X.toarray() if self._design.is_sparse else self._design.X
        return centred_rows(X, target, self._row_weights, ~self._penalised[t], intercept=self._design.fit_intercept)
