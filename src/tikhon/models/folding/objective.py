"""RNA folding: a conditional log-linear model of structures given sequences (Do, Woods, Batzoglou 2006)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tikhon.kernels.folding.inside import NONE, Molecule
from tikhon.models.folding.passes import average_uses, boltzmann_of, fold_inside, traced, use_rates
from tikhon.models.folding.structures import (
    Letters,
    Partners,
    Rules,
    known_uses,
    molecule,
    structure_uses,
    unknown_molecule,
)
from tikhon.models.folding.weights import (
    N_SCORES,
    FoldingWeights,
    ScoreTables,
    folding_weights,
    score_matrix,
    tables_of,
)
from tikhon.models.memo import LastPoint
from tikhon.objective import Hints, Matrix, Product, Vector
from tikhon.threads import ThreadPool

Found = TypeVar("Found")

LBFGS_GAP = 1e-10  # relative gap down to which fits use gradients alone
DRAWN, FEW_DRAWN, ENOUGH_DRAWN = (
    32,
    4,
    3000,
)  # sampled structures per molecule for a sketch of the Hessian, at most and at least, and in total


class _Folded(NamedTuple):
    log_z: float
    uses: Vector  # of scores, on average
    scale: float


class _Point(NamedTuple):
    """The results of one pass at some weights."""

    losses: Vector  # of the molecules of non-zero weight, times their weights
    gradient: Vector
    expected: Vector  # counts of features
    scales: dict[int, tuple[float, float]]  # of each molecule, free and constrained


@dataclass(frozen=True, eq=False)
class Example:
    """A sequence with its structure: fully known, by its uses, or partly known, as a molecule with constraints."""

    free: Molecule
    uses: Vector | None
    constrained: Molecule | None


def example(letters: Letters, partners: Partners, rules: Rules) -> Example:
    """Unknown partners are below NONE; a ValueError says why no structure agrees with them."""
    free = unknown_molecule(letters, rules)
    if (partners >= NONE).all():
        uses = known_uses(letters, partners, rules)
        if not rules.counts_parses:  # otherwise a structure has more than one parse
            return Example(free, uses, None)
    constrained = molecule(letters, rules, partners)
    if fold_inside(constrained, tables_of(np.zeros(N_SCORES)), rules.longest_loop) is None:
        raise ValueError("no structure agrees with what is known")
    return Example(free, None, constrained)


class Folding:
    """sum_i a_i [log Z(x_i) - log Z(x_i, y_i)] over molecules, with row weights a.

    Z(x) sums exp(score) over all structures of a sequence, Z(x, y) over those that agree with what is known: one, or more
    if a structure is partly known. A score is the sum of the weights of a structure's features; the gradient is the
    expected count of each feature less its expectation given y (Do, Foo, Ng 2008, section 5).
    """

    def __init__(
        self, examples: Sequence[Example], rules: Rules, *, row_weights: Vector | None = None,
        left_out: NDArray[np.bool_] | None = None, n_threads: int = 1,
    ) -> None:  # fmt: skip
        """Weights that are ``left_out`` have no effect."""
        weights = np.ones(len(examples)) if row_weights is None else row_weights
        matrix = score_matrix(rules.counts_parses)
        if left_out is not None and left_out.any():
            matrix = (matrix @ sp.diags_array(1.0 - left_out)).tocsr()
        self._begin(tuple(examples), rules, matrix, weights, n_threads)

    def _begin(
        self, examples: tuple[Example, ...], rules: Rules, matrix: Any, row_weights: Vector, n_threads: int
    ) -> None:
        self._examples, self._rules, self.row_weights, self.n_threads = examples, rules, row_weights, n_threads
        self._matrix = matrix  # scores by weights
        self._point = LastPoint(self._at)
        self._sketch = LastPoint(self._sketched)

    def reweighted(self, row_weights: Vector) -> "Folding":
        view = object.__new__(Folding)
        view._begin(self._examples, self._rules, self._matrix, row_weights, self.n_threads)
        return view

    @property
    def layout(self) -> FoldingWeights:
        return folding_weights()

    @property
    def n_weights(self) -> int:
        return self.layout.count

    @property
    def n_rows(self) -> int:
        return len(self._examples)

    @property
    def is_convex(self) -> bool:
        return all(one.uses is not None for one, a in zip(self._examples, self.row_weights, strict=True) if a > 0.0)

    @cached_property
    def hints(self) -> Hints:
        """A product costs two gradients; with a sketch of the Hessian, L-BFGS takes fewer passes than Newton's method."""
        return Hints(
            hessian_diagonal=self.hessian_diagonal,
            hessian_sketch=self.hessian_sketch,
            lbfgs_gap=LBFGS_GAP,
            row_losses=self.row_losses,
        )

    def loss_gradient(self, weights: Vector) -> tuple[float, Vector]:
        point = self._point.at(weights)
        return float(sum(point.losses.tolist())), point.gradient.copy()

    def row_losses(self, weights: Vector) -> Vector:
        return self._point.at(weights).losses.copy()

    def hessian_diagonal(self, weights: Vector) -> Vector:
        """Approximately the expected counts, as if features were independent and rare: accurate enough for a preconditioner."""
        return self._point.at(weights).expected.copy()

    def _at(self, weights: Vector) -> _Point:
        flat = self._matrix @ weights
        scores = tables_of(flat)
        losses, expected, given = [], np.zeros_like(flat), np.zeros_like(flat)
        scales = {}
        for place, (free, known) in self._mapped(lambda place: self._free_and_known(place, flat, scores)):
            a = float(self.row_weights[place])
            losses.append(a * (free.log_z - known.log_z))
            expected += a * free.uses
            given += a * known.uses
            scales[place] = free.scale, known.scale
        if not np.isfinite(losses).all():
            nothing = np.zeros(self.n_weights)
            return _Point(np.full(len(losses), np.inf), nothing, nothing, {})
        counts = np.asarray(self._matrix.T @ expected)
        return _Point(np.array(losses), counts - self._matrix.T @ given, counts, scales)

    def _free_and_known(self, place: int, flat: Vector, scores: ScoreTables) -> tuple[_Folded, _Folded]:
        """All structures of a molecule, and those that agree with what is known."""
        found = self._examples[place]
        free = _folded(found.free, scores, self._rules)
        if found.constrained is not None:
            return free, _folded(found.constrained, scores, self._rules)
        assert found.uses is not None
        return free, _Folded(float(found.uses @ flat), found.uses, 0.0)

    def add_gradient(self, weights: Vector, rows: NDArray[np.intp], out: Vector, scale: float = 1.0) -> float:
        """Infinite, with nothing added, if scores are out of range."""
        flat = self._matrix @ weights
        scores = tables_of(flat)
        places, counts = np.unique(np.asarray(rows, np.intp), return_counts=True)
        counted = {int(place): float(n * self.row_weights[place]) for place, n in zip(places, counts, strict=True)}
        loss, uses = 0.0, np.zeros_like(flat)
        found = self._mapped(
            lambda place: self._free_and_known(place, flat, scores), [place for place, a in counted.items() if a > 0.0]
        )
        for place, (free, known) in found:
            loss += counted[place] * (free.log_z - known.log_z)
            uses += counted[place] * (free.uses - known.uses)
        if not np.isfinite(loss):
            return np.inf
        out += scale * (self._matrix.T @ uses)
        return loss

    def support(self, rows: NDArray[np.intp]) -> NDArray[np.intp]:
        """All weights: they are few, and a molecule has structures with most of their features."""
        return np.arange(self.n_weights if len(rows) else 0)

    def hessian_at(self, weights: Vector) -> Product:
        """Keeps the scales of the molecules; their tables are recomputed for each product."""
        scores = tables_of(self._matrix @ weights)
        scales = self._point.at(weights).scales

        def product(v: Vector) -> Vector:
            moves = tables_of(self._matrix @ v)

            def rates(molecule: Molecule, scale: float) -> Vector:
                return use_rates(molecule, boltzmann_of(scores, molecule.n, scale, self._rules.longest_loop), moves)

            def one(place: int) -> Vector:
                found, (free, known) = self._examples[place], scales[place]
                if found.constrained is None:
                    return rates(found.free, free)
                return rates(found.free, free) - rates(found.constrained, known)

            total = np.zeros(N_SCORES)
            for place, found in self._mapped(one):
                total += self.row_weights[place] * found
            return np.asarray(self._matrix.T @ total)

        return product

    def hessian_sketch(self, weights: Vector) -> Matrix:
        """The covariance of features among sampled structures, whose expectation is the Hessian.

        It costs about as much as two gradients. Every molecule has its own seed: the same weights give the same sketch.
        """
        return self._sketch.at(weights)

    def _sketched(self, weights: Vector) -> Matrix:
        scores = tables_of(self._matrix @ weights)
        count = int(np.clip(ENOUGH_DRAWN // np.count_nonzero(self.row_weights), FEW_DRAWN, DRAWN))

        def one(place: int) -> Matrix | None:
            drawn = _features_drawn(self._examples[place].free, scores, self._rules, self._matrix, count, place)
            return None if drawn is None else np.sqrt(self.row_weights[place] / (count - 1)) * drawn

        spread = [found for _, found in self._mapped(one) if found is not None]
        rows = np.concatenate([np.zeros((1, self.n_weights)), *spread])
        return np.asarray(rows.T @ rows)

    def _mapped(self, function: Callable[[int], Found], places: list[int] | None = None) -> list[tuple[int, Found]]:
        """The results of a function, which should release the GIL, for these examples, or all of non-zero weight, in order.

        Sums over them then do not depend on the number of threads.
        """
        if places is None:
            places = [int(place) for place in np.flatnonzero(self.row_weights)]
        longest_first = sorted(places, key=lambda place: -self._examples[place].free.n)
        with ThreadPool(self.n_threads) as pool:
            found = dict(zip(longest_first, pool.map(function, longest_first), strict=True))
        return [(place, found[place]) for place in places]


def _folded(one: Molecule, scores: ScoreTables, rules: Rules) -> _Folded:
    folded = fold_inside(one, scores, rules.longest_loop)
    if folded is None:
        return _Folded(np.inf, np.zeros(N_SCORES), 0.0)
    return _Folded(folded.log_z, average_uses(one, folded), folded.scale)


def _features_drawn(
    one: Molecule, scores: ScoreTables, rules: Rules, matrix: Any, count: int, seed: int
) -> Matrix | None:
    """Counts of the features of sampled structures, less their means."""
    folded = fold_inside(one, scores, rules.longest_loop)
    if folded is None:
        return None
    generator = np.random.default_rng(seed)
    drawn = structure_uses(one.letters, np.array([traced(one, folded, generator) for _ in range(count)]))
    counts = np.asarray(matrix.T @ drawn.T).T
    return np.asarray(counts - counts.mean(axis=0))
