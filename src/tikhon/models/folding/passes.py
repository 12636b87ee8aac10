"""One molecule, one set of scores: partition function, expected uses and pair probabilities, at a suitable scale."""

import threading
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tikhon.kernels.folding.best import best_exterior, best_inside
from tikhon.kernels.folding.inside import (
    ANY,
    LONGEST,
    SIDE,
    Boltzmann,
    Molecule,
    Tables,
    Tile,
    exterior,
    inside,
    table_side,
)
from tikhon.kernels.folding.outside import LONGEST_HAIRPIN, outside
from tikhon.kernels.folding.rates import moving_exterior, moving_inside, moving_outside
from tikhon.kernels.folding.trace import trace
from tikhon.models.folding.tiles import diagonals, each
from tikhon.models.folding.weights import N_SCORES, OTHER, ScoreTables, tables_of, uses_of
from tikhon.objective import Vector

FIRST_SCALE = 0.3  # approximate log Z per letter at trained weights
SHORT = 300  # up to this length Z stays within floating point at nearly any scale
BEGINNING = 8  # the scale of a longer molecule comes from the first 1 / BEGINNING of it
LEAST_Z, MOST_Z = 1e-200, 1e200  # limits of scaled sums: their products with outside values stay in range
WIDEST = 600.0  # the first move of the scale changes log Z by this
MOST_TRIES = 60
MOST_KEPT = 2**23  # limit on the tables that a thread keeps, in numbers: about 900 letters, 64 MB


class Folded(NamedTuple):
    """The results of an inside pass. An outside pass overwrites the tables, and so does the thread's next molecule."""

    log_z: float
    scale: float
    boltzmann: Boltzmann
    tables: Tables
    before: NDArray[np.float64]
    after: NDArray[np.float64]


class _Room(threading.local):
    """Memory for tables in each thread, reused between molecules: allocating takes as long as folding a short one."""

    def __init__(self) -> None:
        self._kept: dict[int, NDArray[np.float64]] = {}

    def tables(self, n: int, number: int = 0) -> Tables:
        """Tables of zeros; ``number`` distinguishes those needed at the same time."""
        side = table_side(n)
        shape = (len(Tables._fields), side, side)
        size = int(np.prod(shape))
        if size > MOST_KEPT:
            return Tables(*np.zeros(shape))
        kept = self._kept.get(number)
        if kept is None or len(kept) < size:
            kept = self._kept[number] = np.empty(size)
        tables = kept[:size].reshape(shape)
        tables.fill(0.0)
        return Tables(*tables)


_room = _Room()


def table_bytes(n: int) -> int:
    """Memory of the tables of n letters."""
    return 8 * len(Tables._fields) * table_side(n) ** 2


def boltzmann_of(scores: ScoreTables, n: int, scale: float, longest_loop: int = LONGEST) -> Boltzmann:
    """exp(score - scale times the number of letters of an element); infinite if that is out of range."""
    with np.errstate(over="ignore"):
        return _boltzmann_of(scores, n, scale, longest_loop)


def _boltzmann_of(scores: ScoreTables, n: int, scale: float, longest_loop: int) -> Boltzmann:
    left, right = np.indices(scores.loop.shape)
    loop = np.zeros((SIDE, SIDE))
    fits = (left + right > 0) & (left + right <= longest_loop)
    loop[:-1, :-1][fits] = np.exp(scores.loop - scale * (left + right + 2))[fits]
    bulge_left, bulge_right, internal = (
        np.exp(scores.loop[place] - scale * (sum(place) + 2) + by_letters)
        if longest_loop >= sum(place)
        else 0.0 * by_letters
        for place, by_letters in (((1, 0), scores.bulge), ((0, 1), scores.bulge), ((1, 1), scores.internal))
    )
    loop[1, 0] = loop[0, 1] = loop[1, 1] = 0.0  # these depend on letters
    lengths = np.arange(n + 1)
    base, unpaired, paired = (float(score) for score in scores.multi)
    return Boltzmann(
        pair=np.exp(scores.pair),
        stack=np.exp(scores.stack - 2.0 * scale).ravel(),
        closing=np.exp(scores.closing).ravel(),
        branch=np.exp(scores.branch).ravel(),
        loop=loop,
        turned_loop=np.ascontiguousarray(loop[:, ::-1]),
        bulge_left=bulge_left,
        bulge_right=bulge_right,
        internal=internal,
        hairpin=np.exp(scores.hairpin[np.minimum(lengths, LONGEST_HAIRPIN)] - scale * (lengths + 2)),
        multi_closing=float(np.exp(base + paired - 2.0 * scale)),
        multi_unpaired=float(np.exp(unpaired - scale)),
        multi_pair=float(np.exp(paired)),
        external_unpaired=float(np.exp(scores.external[0] - scale)),
        external_pair=float(np.exp(scores.external[1])),
    )


def boltzmann_rates(boltzmann: Boltzmann, moves: ScoreTables) -> Boltzmann:
    """The derivatives of the Boltzmann factors in a direction of the scores."""
    loop = boltzmann.loop * np.pad(moves.loop, (0, 1))
    lengths = np.minimum(np.arange(len(boltzmann.hairpin)), LONGEST_HAIRPIN)
    base, unpaired, paired = (float(move) for move in moves.multi)
    return Boltzmann(
        pair=boltzmann.pair * moves.pair,
        stack=boltzmann.stack * moves.stack.ravel(),
        closing=boltzmann.closing * moves.closing.ravel(),
        branch=boltzmann.branch * moves.branch.ravel(),
        loop=loop,
        turned_loop=np.ascontiguousarray(loop[:, ::-1]),
        bulge_left=boltzmann.bulge_left * (moves.loop[1, 0] + moves.bulge),
        bulge_right=boltzmann.bulge_right * (moves.loop[0, 1] + moves.bulge),
        internal=boltzmann.internal * (moves.loop[1, 1] + moves.internal),
        hairpin=boltzmann.hairpin * moves.hairpin[lengths],
        multi_closing=boltzmann.multi_closing * (base + paired),
        multi_unpaired=boltzmann.multi_unpaired * unpaired,
        multi_pair=boltzmann.multi_pair * paired,
        external_unpaired=boltzmann.external_unpaired * float(moves.external[0]),
        external_pair=boltzmann.external_pair * float(moves.external[1]),
    )


def fold_inside(
    molecule: Molecule, scores: ScoreTables, longest_loop: int = LONGEST, *, best: bool = False, n_threads: int = 1
) -> Folded | None:
    """The inside pass, at a scale that depends on the molecule and the scores alone; None if no scale works.

    A long molecule starts from the scale of its beginning; if Z leaves the range of floating point, the scale is adjusted.
    With ``best``, maxima replace sums, and Z is exp of the best structure's score.
    """
    n, scale = molecule.n, FIRST_SCALE
    if n > SHORT:
        beginning = _beginning(molecule)
        folded = fold_inside(beginning, scores, longest_loop, best=best)
        scale = FIRST_SCALE if folded is None else folded.log_z / beginning.n
    step, last_turn = WIDEST / max(n, 1), 0.0
    for _ in range(MOST_TRIES):
        boltzmann = boltzmann_of(scores, n, scale, longest_loop)
        tables, before, after = _room.tables(n), np.zeros(n + 2), np.zeros(n + 2)
        if best:
            best_inside(molecule, boltzmann, tables)
            z = best_exterior(molecule, boltzmann, tables.pairs, before)
        else:
            fill = _filled(molecule, boltzmann, tables)
            for tiles in diagonals(n):
                each(fill, tiles, n_threads)
            z = exterior(molecule, boltzmann, tables.pairs, before, after)
        if LEAST_Z < z < MOST_Z:
            return Folded(float(np.log(z)) + scale * n, scale, boltzmann, tables, before, after)
        turn = -1.0 if z <= LEAST_Z else 1.0  # infinities times zeros give NaN
        step = step / 2.0 if turn == -last_turn else step
        scale, last_turn = scale + turn * step, turn
    return None


def _filled(molecule: Molecule, boltzmann: Boltzmann, tables: Tables) -> Callable[[Tile], None]:
    def one(tile: Tile) -> None:
        inside(tile, molecule, boltzmann, tables)

    return one


def _beginning(molecule: Molecule) -> Molecule:
    """The first letters, with all constraints removed."""
    n = max(SHORT // 3, molecule.n // BEGINNING)
    letters = molecule.letters[: n + 2].copy()
    letters[n + 1] = OTHER
    free = np.full(n + 2, LONGEST)
    return molecule._replace(
        n=n, letters=letters, partners=np.full(n + 2, ANY), is_free=np.ones(n + 2), free_after=free, free_before=free,
        bound=np.zeros(n + 2, np.int64),
    )  # fmt: skip


def average_uses(
    molecule: Molecule, folded: Folded, probabilities: NDArray[np.float64] | None = None, *, n_threads: int = 1
) -> Vector:
    """The expected uses of each score; fills the pair probabilities (n + 2 square) if requested."""
    n, boltzmann, before, after = molecule.n, folded.boltzmann, folded.before, folded.after
    wanted = np.zeros((0, 0)) if probabilities is None else probabilities
    ones, total = np.zeros(n + 2), np.zeros(N_SCORES)

    def one(tile: Tile) -> Vector:
        flat = np.zeros(N_SCORES)
        outside(tile, molecule, boltzmann, folded.tables, before, after, ones, uses_of(flat), wanted)
        return flat

    for tiles in reversed(diagonals(n)):
        for found in each(one, tiles, n_threads):
            total += found
    unpaired = before[:n] * molecule.is_free[1 : n + 1] * after[2:]
    tables_of(total).external[0] += boltzmann.external_unpaired * float(unpaired.sum()) / before[n]
    return total


def traced(molecule: Molecule, folded: Folded, generator: np.random.Generator | None = None) -> NDArray[np.int64]:
    """Partners (0 if unpaired) of a sampled structure; without a generator, of the best one.

    There are n + 2 of them, one beyond each end.
    """
    partners = np.zeros(molecule.n + 2, np.int64)
    drawn = generator is not None
    unused = np.random.default_rng(0) if generator is None else generator
    trace(molecule, folded.boltzmann, folded.tables, folded.before, unused, drawn, partners)
    return partners


def use_rates(molecule: Molecule, boltzmann: Boltzmann, moves: ScoreTables) -> Vector:
    """The derivatives of expected uses in a direction of the scores."""
    n, flat = molecule.n, np.zeros(N_SCORES)
    rates = boltzmann_rates(boltzmann, moves)
    tables, d_tables = _room.tables(n), _room.tables(n, 1)
    before, d_before, after, d_after = np.zeros((4, n + 2))
    moving_inside(molecule, boltzmann, rates, tables, d_tables)
    moving_exterior(molecule, boltzmann, rates, tables, d_tables, before, d_before, after, d_after)
    moving_outside(molecule, boltzmann, rates, tables, d_tables, before, d_before, after, d_after, uses_of(flat))
    return flat
