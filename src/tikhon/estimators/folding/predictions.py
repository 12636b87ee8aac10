"""Predictions of a fitted RNAFolder: structures, probabilities of pairs, likelihoods and scores."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from tikhon.errors import InputError
from tikhon.estimators.base import cores
from tikhon.estimators.checks import checked_weights, seeded
from tikhon.estimators.folding.rna_input import checked_sequences, checked_structures, texts_of
from tikhon.kernels.folding.inside import NONE, Molecule
from tikhon.models.folding.prediction import (
    METHODS,
    NBEST,
    SAMPLE,
    Prediction,
    Predictor,
    Request,
    in_order,
    out_of_range,
    sampling_seed,
)
from tikhon.models.folding.structures import Rules, pair_counts, share, unknown_molecule
from tikhon.objective import Vector

Found = TypeVar("Found")

LEAST_PROBABILITY = 1e-9  # of a pair that is returned
WHAT_IS_KNOWN = "what is known of it"


class FoldingPredictions:
    """The methods of RNAFolder that need a fitted model."""

    longest_sequence: int
    n_jobs: int | None
    _weights: Vector

    def _rules(self) -> Rules:
        raise NotImplementedError

    def predict(self, X: Any, *, gamma: float = 6.0, method: str = "mea", constraints: Any = None) -> list[str]:
        """The structure of each sequence, in dot-bracket notation.

        Parameters
        ----------
        X : list of str
        gamma : float, default=6.0
            Weight of a correctly paired letter relative to a correctly unpaired one: larger values predict more pairs.
        method : {"mea", "centroid", "viterbi"}, default="mea"
            "mea": maximum expected accuracy. "centroid": the largest sum of (gamma + 1) p - 1 over its pairs. "viterbi":
            the most probable structure, regardless of gamma.
        constraints : list of str or None, default=None
            Known parts of the structures, one string per sequence: "?" for an unconstrained letter, "|" for one that pairs
            with any other, "." for an unpaired one.

        Returns
        -------
        list of str
        """
        if method not in METHODS:
            raise InputError(f"method={method!r}: write one of {', '.join(map(repr, METHODS))}")
        if not isinstance(gamma, int | float | np.integer | np.floating) or not 0.0 < gamma < np.inf:
            raise InputError(f"gamma={gamma!r}: write a finite number larger than 0")
        request = Request(method=method, gamma=gamma)
        return [found.structures[0] for found in self._predictions(X, constraints, request)]

    def sample(self, X: Any, n: int = 1, *, constraints: Any = None, random_state: Any = None) -> list[list[str]]:
        """Sample n structures of each sequence by their probability. ``random_state=None`` means the seed 0."""
        if not isinstance(n, int | np.integer) or isinstance(n, bool) or n < 1:
            raise InputError(f"n={n!r}: write a whole number, 1 or larger")
        request = Request(method=SAMPLE, count=int(n), seed=sampling_seed(seeded(random_state)))
        return [found.structures for found in self._predictions(X, constraints, request)]

    def predict_nbest(self, X: Any, n: int = 5, *, constraints: Any = None) -> list[list[tuple[str, float]]]:
        """Up to n distinct structures of each sequence with their probabilities, the most probable first.

        Parameters
        ----------
        X : list of str
        n : int, default=5
            Fewer are returned if there are fewer. Memory grows with n times the length of a sequence.
        constraints : list of str or None, default=None
            As in ``predict``. Probabilities are then conditional on the constraints.

        Returns
        -------
        list of list of (str, float)
            With ``counts_parses``, the n structures with the most probable parses, ordered by their own probabilities, which
            are sums over parses.

        Examples
        --------
        >>> from tikhon import RNAFolder
        >>> model = RNAFolder(tuner=None, strengths=0.1).fit(["GGGAAAUCCC", "CCAAAAGG"], ["(((....)))", "((....))"])
        >>> [structure for structure, _ in model.predict_nbest(["GGGAAAACCC"], n=3)[0]]
        ['(((....)))', '((......))', '((.....)).']
        """
        if not isinstance(n, int | np.integer) or isinstance(n, bool) or n < 1:
            raise InputError(f"n={n!r}: write a whole number, 1 or larger")
        found = self._predictions(X, constraints, Request(method=NBEST, count=int(n)))
        return [list(zip(one.structures, one.probabilities, strict=True)) for one in found]

    def predict_pairs(self, X: Any, *, constraints: Any = None) -> list[Any]:
        """For each sequence, a sparse matrix of the probabilities, 1e-9 or more, that letters i < j (from 0) pair."""
        request = Request(method=None, least_probability=LEAST_PROBABILITY)
        return [found.pairs for found in self._predictions(X, constraints, request)]

    def log_partition(self, X: Any, *, constraints: Any = None) -> NDArray[np.float64]:
        """log Z of each sequence: over all its structures, or over those that agree with the constraints."""
        return self._log_partitions(self._molecules(X, constraints), constrained=constraints is not None)

    def log_likelihood(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The weighted sum of log p(structure | sequence); unknown parts ("?", "|") are summed over.

        Pairs that the model does not allow, such as GA, are read as unpaired, as in training.
        """
        predictor, sequences = self._predictor(), checked_sequences(texts_of("X", X), self.longest_sequence)
        structures = checked_structures("y", y, sequences)
        row_weights = checked_weights(sample_weight, len(sequences))
        free = [unknown_molecule(letters, predictor.rules) for letters in sequences]
        known = [predictor.agreeing(letters, partners) for letters, partners in zip(sequences, structures, strict=True)]
        return float(row_weights @ (self._log_partitions(known, constrained=True) - self._log_partitions(free)))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The weighted mean over molecules of the F1 score of predicted pairs; 1 if there are no pairs and none predicted.

        Predicted pairs of two letters whose partners are unknown ("?", "|") count neither as right nor as wrong, and
        molecules without any known letter ("." or a bracket) are ignored.
        """
        X = texts_of("X", X)
        sequences = checked_sequences(X, self.longest_sequence)
        truth = checked_structures("y", y, sequences)
        found = checked_structures("the prediction", self.predict(X), sequences)
        told = np.array([bool((known >= NONE).any()) for known in truth])
        row_weights = checked_weights(sample_weight, len(sequences)) * told
        if not row_weights.any():
            raise InputError(
                "y has no known letter to score by: write '.', '(' and ')' for unpaired and paired letters"
            )
        counts = [pair_counts(known, guess) for known, guess in zip(truth, found, strict=True)]
        f1 = [share(2 * right, true + told) for right, true, told in counts]
        return float(np.average(f1, weights=row_weights))

    def _predictor(self) -> Predictor:
        check_is_fitted(self)
        return Predictor(self._weights, self._rules())

    def _molecules(self, X: Any, constraints: Any) -> list[Molecule]:
        predictor, sequences = self._predictor(), checked_sequences(X, self.longest_sequence)
        if constraints is None:
            return [unknown_molecule(letters, predictor.rules) for letters in sequences]
        known = checked_structures("constraints", constraints, sequences)
        return [
            predictor.molecule(letters, partners, f"structure {number} of constraints")
            for number, (letters, partners) in enumerate(zip(sequences, known, strict=True))
        ]

    def _predictions(self, X: Any, constraints: Any, request: Request) -> list[Prediction]:
        predictor = self._predictor()
        known_as = None if constraints is None else WHAT_IS_KNOWN

        def one(known: Molecule, number: int, threads: int) -> Prediction:
            return predictor.predict(
                known, request, number, where=f"sequence {number}", known=known_as, n_threads=threads
            )

        return self._each(self._molecules(X, constraints), one)

    def _log_partitions(self, molecules: Sequence[Molecule], *, constrained: bool = False) -> NDArray[np.float64]:
        predictor = self._predictor()

        def one(known: Molecule, number: int, threads: int) -> float:
            log_z = predictor.log_partition(known, n_threads=threads)
            if log_z is None:
                raise out_of_range(f"sequence {number}", WHAT_IS_KNOWN if constrained else None)
            return log_z

        return np.array(self._each(molecules, one))

    def _each(self, molecules: Sequence[Molecule], function: Callable[[Molecule, int, int], Found]) -> list[Found]:
        """Apply a function to each molecule, its number and the number of threads that it may use."""
        n_threads = cores(self.n_jobs)
        shared = max(1, n_threads // len(molecules))  # surplus threads are shared among the molecules
        numbers = range(len(molecules))
        found = in_order(
            lambda number: function(molecules[number], number, shared), numbers, n_threads, ahead=len(molecules)
        )
        return list(found)
