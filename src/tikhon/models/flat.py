"""Directions in which a linear model's loss is flat and no penalty acts: softmax's common shift, collinear columns.

Only unpenalised weights can be flat. A solver keeps its answer orthogonal to these directions, so that the answer of
least norm is the one it ends in, whatever the solver and the start. The loss is flat along v exactly where the scores
of all rows in use stay (for softmax: shift alike), at any finite weights.
"""

import numpy as np
from numpy.typing import NDArray

from tikhon.kernels.linalg import null_space
from tikhon.models.design import Design
from tikhon.objective import Matrix, Vector

MOST_UNPENALISED = 2000  # a dense eigenproblem of this size takes a second or two


def flat_directions(
    design: Design, row_weights: Vector, unpenalised: NDArray[np.bool_], n_outputs: int, *, common_shift: bool
) -> Matrix | None:
    """An orthonormal basis, n_weights x d; None where too many weights are unpenalised to find one.

    With ``common_shift`` the loss is also flat where the scores of all outputs move alike (softmax).
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
    """Which entries of ``mask`` are unpenalised, flat, and a basis over them."""
    chosen = np.flatnonzero(mask)
    n_outputs, width = mask.shape
    if len(chosen) > MOST_UNPENALISED:
        return None
    if len(chosen) == 0:
        return chosen, np.zeros((0, 0))
    if design.fit_intercept and not mask[:, :-1].any():  # intercepts alone, as nearly always
        all_move_alike = shift and len(chosen) == n_outputs
        return chosen, np.full((len(chosen), int(all_move_alike)), 1.0 / np.sqrt(n_outputs))
    columns = np.flatnonzero(mask.any(axis=0))
    inside = columns[columns < design.n_columns]
    with_ones = len(inside) < len(columns)
    gram = Design(design.X[:, inside], with_ones).gram((row_weights > 0).astype(float))
    # The curvature of softmax's scores at equal probabilities.
    across: Matrix = np.eye(n_outputs) - (1.0 / n_outputs if shift else 0.0)
    output, column = np.divmod(chosen, width)
    place = output * len(columns) + np.searchsorted(columns, column)
    return chosen, null_space(np.asarray(np.kron(across, gram)[np.ix_(place, place)], np.float64))


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
