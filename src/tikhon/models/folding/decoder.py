"""Structures of one molecule: of maximum expected accuracy, centroids, the most probable one, and random samples."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tikhon.kernels.folding.inside import Molecule
from tikhon.kernels.folding.pairs import best_pairs
from tikhon.models.folding.passes import average_uses, fold_inside, traced
from tikhon.models.folding.structures import Partners
from tikhon.models.folding.weights import ScoreTables, scores_from, tables_of
from tikhon.objective import Matrix, Vector


@dataclass(frozen=True, eq=False)
class Posterior:
    """log Z and the probabilities of pairs of one molecule, i < j at [i - 1, j - 1]; the letters that are known to pair."""

    log_z: float
    pairs: Matrix
    bound: NDArray[np.bool_]

    @property
    def unpaired(self) -> Vector:
        """The probability of each letter to be unpaired."""
        return np.asarray(1.0 - self.pairs.sum(axis=0) - self.pairs.sum(axis=1))

    def most_accurate(self, gamma: float) -> Partners:
        """The structure with the largest sum of: 1 for a correctly unpaired letter, gamma for a correctly paired one.

        In expectation (Do, Woods, Batzoglou 2006, equation 10): the pair of i and j gains 2 gamma p_ij.
        """
        return self._best(self.unpaired, 2.0 * gamma * self.pairs)

    def centroid(self, gamma: float) -> Partners:
        """The structure with the largest sum of (gamma + 1) p_ij - 1 over its pairs (Hamada et al. 2009)."""
        return self._best(np.zeros(len(self.pairs)), (gamma + 1.0) * self.pairs - 1.0)

    def _best(self, unpaired: Vector, gains: Matrix) -> Partners:
        """The nested possible pairs with the largest gains in which all bound letters pair.

        A pair that gains no more than its letters unpaired is not considered.
        """
        # More than all gains together, so that leaving a bound letter unpaired never pays. Some structure of positive
        # probability pairs all of them.
        dear = 1.0 + float(unpaired.sum()) + 2.0 * len(gains) * float(np.abs(gains).max(initial=0.0))
        worth = np.where(self.bound, -dear, unpaired)
        left, right = np.nonzero((self.pairs > 0.0) & (gains > worth[:, None] + worth[None, :]))
        padded = np.concatenate([[0.0], worth, [0.0]])
        starts = np.searchsorted(left, np.arange(-1, len(worth) + 1)).astype(np.int64)
        partners: NDArray[np.int64] = np.zeros(len(padded), np.int64)
        best_pairs(padded, starts, right + 1, gains[left, right], partners)
        return partners[1:-1]


def posterior(molecule: Molecule, weights: Vector, longest_loop: int, *, n_threads: int = 1) -> Posterior | None:
    """None if no structure agrees with what is known, or none is representable in floating point."""
    folded = fold_inside(molecule, scores_of(molecule, weights), longest_loop, n_threads=n_threads)
    if folded is None:
        return None
    probabilities = np.zeros((molecule.n + 2, molecule.n + 2))
    average_uses(molecule, folded, probabilities, n_threads=n_threads)
    inner, bound = probabilities[1:-1, 1:-1], molecule.is_free[1:-1] == 0.0
    if molecule.counts_parses:  # the molecule is a mirror image
        inner, bound = inner[::-1, ::-1].T, bound[::-1]
    return Posterior(folded.log_z, np.ascontiguousarray(inner), bound)


def log_partition(molecule: Molecule, weights: Vector, longest_loop: int, *, n_threads: int = 1) -> float | None:
    """log Z; None as in ``posterior``."""
    folded = fold_inside(molecule, scores_of(molecule, weights), longest_loop, n_threads=n_threads)
    return None if folded is None else folded.log_z


def scores_of(molecule: Molecule, weights: Vector) -> ScoreTables:
    return tables_of(scores_from(weights, molecule.counts_parses))


def turned_back(molecule: Molecule, partners: Partners) -> Partners:
    """Undoes the mirroring of molecules whose parses are counted."""
    if not molecule.counts_parses:
        return partners
    return np.where(partners > 0, molecule.n + 1 - partners, 0)[::-1]


def best_structure(molecule: Molecule, weights: Vector, longest_loop: int) -> tuple[float, Partners] | None:
    """The score and the partners of the most probable structure; None as in ``posterior``."""
    folded = fold_inside(molecule, scores_of(molecule, weights), longest_loop, best=True)
    return None if folded is None else (folded.log_z, turned_back(molecule, traced(molecule, folded)[1:-1]))


def drawn_structures(
    molecule: Molecule, weights: Vector, longest_loop: int, count: int, generator: np.random.Generator
) -> list[Partners] | None:
    """Independent samples from the distribution of structures; None as in ``posterior``."""
    folded = fold_inside(molecule, scores_of(molecule, weights), longest_loop)
    if folded is None:
        return None
    return [turned_back(molecule, traced(molecule, folded, generator)[1:-1]) for _ in range(count)]
