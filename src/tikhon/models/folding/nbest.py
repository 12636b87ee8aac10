"""The most probable structures of one molecule, with their probabilities."""

from dataclasses import dataclass

import numpy as np

from tikhon.kernels.folding import nbest as kernel
from tikhon.kernels.folding.inside import Molecule
from tikhon.models.folding.decoder import log_partition, scores_of, turned_back
from tikhon.models.folding.passes import fold_inside
from tikhon.models.folding.structures import Partners
from tikhon.objective import Vector

MOST_STRUCTURES = 2**40  # more than fits into memory; the kernel doubles the number, which must not overflow


@dataclass(frozen=True, eq=False)
class Structure:
    """The partners of the letters of one molecule, and the log probability."""

    partners: Partners
    log_probability: float


def several_best(molecule: Molecule, weights: Vector, longest_loop: int, count: int) -> list[Structure] | None:
    """Up to ``count`` structures, the most probable first; None as in ``posterior``.

    Only structures that agree with what is known, which the probabilities are conditional on. With ``counts_parses`` the
    structures with the best parses are selected, as in ``best_structure``, and then sorted by their probabilities, which are
    sums over parses.
    """
    log_z = log_partition(molecule, weights, longest_loop)
    folded = fold_inside(molecule, scores_of(molecule, weights), longest_loop, best=True)
    if log_z is None or folded is None:
        return None
    wanted = min(count, MOST_STRUCTURES)
    found, totals = kernel.several_best(molecule, folded.boltzmann, folded.tables, folded.before, wanted)
    scores = np.minimum.accumulate(totals) + folded.scale * molecule.n  # ties may differ by rounding
    if molecule.counts_parses:
        scores += [kernel.log_parses(one) for one in found]
    return [
        Structure(turned_back(molecule, found[number, 1:-1].astype(np.int64)), float(scores[number] - log_z))
        for number in np.argsort(-scores, kind="stable")
    ]
