"""Directions along which neither loss nor penalty of a linear model changes: softmax's common shift, collinear columns.

Only unpenalised weights can be flat. Solvers keep their result orthogonal to these directions, so that all of them return
the minimum-norm solution, from any start. The loss is flat along v exactly if the scores of all rows in use stay constant
(for softmax: shift equally), at any finite weights.
"""

import numpy as np
from numpy.typing import NDArray

from tikhon.models.linear.design import Design
from tikhon.objective import Matrix, Vector

MOST_UNPENALISED = 2000  # a dense eigenproblem of this size takes a second or two
CANDIDATE = 1e-10  # eigenvalues of the scaled Gram matrix below this are examined further
FLAT = 1e-11  # relative change of the scores below which a direction is flat


def flat_directions(
    design: Design, row_weights: Vector, unpenalised: NDArray[np.bool_], n_outputs: int, *, common_shift: bool
) -> Matrix | None:
    """An orthonormal basis, n_weights x d; None if there are too many unpenalised weights to find one.

    With ``common_shift`` the loss is also flat if the scores of all outputs shift equally (softmax).
    """
    position = np.arange(n_outputs * design.n_columns).reshape(n_outputs, -1)
    if design.fit_intercept:
        position = np.column_stack([position, n_outputs * design.n_columns + np.arange(n_outputs)])
    mask = unpenalised[position]
    if common_shift:
        return _embedded(len(unpenalised), [(position, _null(design, row_weights, mask, shift=True))])
    found = {pattern.tobytes(): _null(design, row_weights, pattern[None], shift=False) for pattern in mask}
    return _embedded(len(unpenalised), [(position[k : k + 1], found[mask[k].tobytes()]) for k in range(n_outputs)])


def _null(
    design: Design, row_weights: Vector, mask: NDArray[np.bool_], *, shift: bool
) -> tuple[NDArray[np.intp], Matrix] | None:
    """The unpenalised, flat entries of ``mask``, and a basis over them."""
    chosen = np.flatnonzero(mask)
    n_outputs, width = mask.shape
    if len(chosen) > MOST_UNPENALISED:
        return None
    if len(chosen) == 0:
        return chosen, np.zeros((0, 0))
    if design.fit_intercept and not mask[:, :-1].any():  # intercepts alone, the usual case
        all_move_alike = shift and len(chosen) == n_outputs
        return chosen, np.full((len(chosen), int(all_move_alike)), 1.0 / np.sqrt(n_outputs))
    columns = np.flatnonzero(mask.any(axis=0))
    inside = columns[columns < design.n_columns]
    part = Design(design.X[:, inside], fit_intercept=len(inside) < len(columns))
    used = row_weights > 0
    gram = part.gram(used.astype(float))
    # The curvature of softmax's scores at equal probabilities.
    across: Matrix = np.eye(n_outputs) - (1.0 / n_outputs if shift else 0.0)
    output, column = np.divmod(chosen, width)
    at = np.searchsorted(columns, column)
    # Units must not affect what counts as flat: each column is scaled by its norm.
    size = np.sqrt(np.diag(gram))[at]
    size[size == 0.0] = 1.0
    values, vectors = np.linalg.eigh(across[np.ix_(output, output)] * gram[np.ix_(at, at)] / np.outer(size, size))
    candidates = vectors[:, values <= CANDIDATE * len(size)] / size[:, None]
    if candidates.shape[1] == 0:
        return chosen, candidates
    moved = _squared_changes(part, used, candidates, output, at, n_outputs, shift)
    squares, mixed = np.linalg.eigh(moved)
    return chosen, np.linalg.qr(candidates @ mixed[:, squares <= FLAT**2 * len(size)])[0]


def _squared_changes(
    part: Design, used: NDArray[np.bool_], candidates: Matrix, output: NDArray[np.intp], at: NDArray[np.intp],
    n_outputs: int, shift: bool,
) -> Matrix:  # fmt: skip
    """A'A, where column c of A is the change of the scores of the rows in use along candidate c.

    A Gram matrix of the columns themselves squares their condition number: its eigenvalues cannot distinguish a relative
    change of 1e-7 from zero. The changes, computed from the rows, can.
    """
    n_candidates = candidates.shape[1]
    moves = np.zeros((part.width, n_outputs, n_candidates))
    moves[at, output] = candidates
    total = np.zeros((n_candidates, n_candidates))
    for rows in part.blocks(n_outputs * max(n_candidates, 1)):
        changes = np.tensordot(part.block(rows)[used[rows]], moves, axes=1)
        if shift:
            changes -= changes.mean(axis=1, keepdims=True)
        changes = changes.reshape(-1, n_candidates)
        total += changes.T @ changes
    return total


def _embedded(
    n_weights: int, parts: list[tuple[NDArray[np.intp], tuple[NDArray[np.intp], Matrix] | None]]
) -> Matrix | None:
    bases = []
    for position, found in parts:
        if found is None:
            return None
        chosen, inside = found
        basis = np.zeros((n_weights, inside.shape[1]))
        basis[position.ravel()[chosen]] = inside
        bases.append(basis)
    return np.hstack(bases)
