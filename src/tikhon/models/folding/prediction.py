"""From weights and molecules to structures, pair probabilities and log Z, for both ``RNAFolder`` and ``tikhon fold``.

scikit-learn is not imported here, SciPy only for pair probabilities: importing them takes longer than folding a molecule of
a hundred letters.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from tikhon.data.dot_bracket import dot_bracket
from tikhon.errors import InputError
from tikhon.kernels.folding.inside import Molecule
from tikhon.models.folding.decoder import Posterior, best_structure, drawn_structures, log_partition, posterior
from tikhon.models.folding.structures import (
    Letters,
    Partners,
    Rules,
    contradiction,
    known_pairs,
    molecule,
    unknown_molecule,
)
from tikhon.objective import Matrix, Vector
from tikhon.threads import ThreadPool

Item = TypeVar("Item")
Found = TypeVar("Found")

LONGEST_SEQUENCE = 6000  # default limit on the length: 2.7 GB of tables
METHODS = ("mea", "centroid", "viterbi")  # for one structure
SAMPLE, NBEST = "sample", "nbest"  # for several
AHEAD = 4  # molecules per thread that may be folded ahead of the next result


@dataclass(frozen=True, kw_only=True)
class Request:
    """The request for each molecule."""

    method: str | None = "mea"  # one of METHODS, SAMPLE or NBEST; None: no structures
    gamma: float = 6.0  # of mea and centroid
    count: int = 1  # structures of SAMPLE and NBEST
    seed: int = 0  # of SAMPLE, as ``sampling_seed`` gives it
    least_probability: float | None = None  # threshold on reported pairs; None: no pairs


@dataclass(frozen=True, eq=False, kw_only=True)
class Prediction:
    """The prediction for one molecule."""

    structures: list[str]  # in dot-bracket; one, none or several, as requested
    probabilities: list[float] = field(default_factory=list)  # of these structures, with NBEST
    pairs: Any = None  # if requested: a sparse matrix, the probability that letters i < j (from 0) pair
    log_z: float | None = None  # if it was computed on the way


@dataclass(frozen=True, eq=False)
class Predictor:
    """Weights, and the rules of possible structures."""

    weights: Vector
    rules: Rules

    def molecule(self, letters: Letters, known: Partners | None, where: str) -> Molecule:
        """A sequence with what is known of its structure, which ``where`` names in messages."""
        if known is None:
            return unknown_molecule(letters, self.rules)
        if (why := contradiction(letters, known, self.rules)) is not None:
            raise InputError(f"{where} {why}")
        return molecule(letters, self.rules, known)

    def agreeing(self, letters: Letters, partners: Partners) -> Molecule:
        """A sequence with a structure; pairs that the rules do not allow are read as unpaired, as in training."""
        return molecule(letters, self.rules, known_pairs(letters, partners, self.rules))

    def log_partition(self, one: Molecule, *, n_threads: int = 1) -> float | None:
        """log Z; None if no structure agrees with what is known, or sums are out of range."""
        return log_partition(one, self.weights, self.rules.longest_loop, n_threads=n_threads)

    def predict(
        self, one: Molecule, request: Request, number: int, *, where: str, known: str | None, n_threads: int = 1
    ) -> Prediction:
        """The prediction for one molecule and its number. ``where`` and ``known`` name it and its constraints in messages.

        One posterior serves both the structure and the probabilities. Otherwise idle threads can share a molecule.
        """
        after = None
        if request.least_probability is not None or request.method in ("mea", "centroid"):
            after = posterior(one, self.weights, self.rules.longest_loop, n_threads=n_threads)
            if after is None:
                raise out_of_range(where, known)
        found = self._structures(one, request, number, after)
        if found is None:
            raise out_of_range(where, known)
        structures, probabilities = found
        return Prediction(
            structures=[dot_bracket(partners) for partners in structures],
            probabilities=probabilities,
            pairs=None if after is None else _sparse(after.pairs, request.least_probability),
            log_z=None if after is None else after.log_z,
        )

    def _structures(
        self, one: Molecule, request: Request, number: int, after: Posterior | None
    ) -> tuple[list[Partners], list[float]] | None:
        """Structures, and with NBEST their probabilities; None as in ``log_partition``."""
        if request.method is None:
            return [], []
        longest_loop = self.rules.longest_loop
        if request.method == "viterbi":
            best = best_structure(one, self.weights, longest_loop)
            return None if best is None else ([best[1]], [])
        if request.method == SAMPLE:
            # One generator per molecule: samples do not depend on the number of threads.
            generator = np.random.default_rng([request.seed, number])
            drawn = drawn_structures(one, self.weights, longest_loop, request.count, generator)
            return None if drawn is None else (drawn, [])
        if request.method == NBEST:
            from tikhon.models.folding.nbest import several_best  # a kernel that the other methods do not need

            several = several_best(one, self.weights, longest_loop, request.count)
            if several is None:
                return None
            return [each.partners for each in several], [float(np.exp(each.log_probability)) for each in several]
        assert after is not None
        best_one = after.most_accurate if request.method == "mea" else after.centroid
        return [best_one(request.gamma)], []


def sampling_seed(generator: np.random.RandomState) -> int:
    """The seed of SAMPLE derived from a generator."""
    return int(generator.randint(2**31))


def in_order(
    function: Callable[[Item], Found], items: Iterable[Item], n_threads: int, *, ahead: int | None = None
) -> Iterator[Found]:
    """The results of the function for all items, multithreaded.

    ``ahead`` bounds the number of items in flight, and so memory; by default AHEAD per thread.
    """
    with ThreadPool(n_threads) as pool:
        yield from pool.in_order(function, items, AHEAD * n_threads if ahead is None else ahead)


def out_of_range(where: str, known: str | None) -> InputError:
    """The error about a molecule that cannot be folded; ``known`` names what is known of it, or is None."""
    why = "" if known is None else f"no structure agrees with {known}, or "
    return InputError(f"{where}: {why}sums over its structures are out of the range of floating point")


def _sparse(probabilities: Matrix, least: float | None) -> Any:
    if least is None:
        return None
    import scipy.sparse as sp  # not needed for structures alone: it takes a fifth of their time

    return sp.csr_array(np.where(probabilities >= least, probabilities, 0.0))
