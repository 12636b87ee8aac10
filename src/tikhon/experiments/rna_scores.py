"""Agreement of predicted and known pairs, for all gammas from one posterior (Do, Woods, Batzoglou 2006, section 3).

Sensitivity is the share of known pairs that are predicted, PPV the share of predicted pairs that are known; each is 1 for a
molecule where its denominator is 0. Only AU, CG and GU pairs count as known.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tikhon import RNAFolder
from tikhon.data.dot_bracket import partners_of
from tikhon.data.rna import Record
from tikhon.models.folding.decoder import Posterior
from tikhon.models.folding.structures import Rules, encoded, known_pairs
from tikhon.objective import Matrix, Vector

GAMMAS = tuple(2.0**k for k in range(-5, 11))
N_BOOTSTRAP = 2000


@dataclass(frozen=True, eq=False)
class Counts:
    """Numbers of pairs of each molecule: known, and for each gamma predicted and correct (both)."""

    known: NDArray[np.int64]
    predicted: NDArray[np.int64]
    right: NDArray[np.int64]

    @property
    def sensitivity(self) -> Matrix:
        return _share(self.right, self.known[:, None])

    @property
    def ppv(self) -> Matrix:
        return _share(self.right, self.predicted)

    @property
    def f1(self) -> Matrix:
        return _share(2 * self.right, self.predicted + self.known[:, None])

    def as_json(self) -> dict[str, Any]:
        return {"known": self.known.tolist(), "predicted": self.predicted.tolist(), "right": self.right.tolist()}

    @staticmethod
    def from_json(stored: dict[str, Any]) -> "Counts":
        return Counts(*(np.array(stored[name], np.int64) for name in ("known", "predicted", "right")))

    def with_those_of(self, other: "Counts") -> "Counts":
        return Counts(
            np.concatenate([self.known, other.known]),
            np.concatenate([self.predicted, other.predicted]),
            np.concatenate([self.right, other.right]),
        )


def _share(part: NDArray[np.int64], whole: NDArray[np.int64]) -> Matrix:
    return np.divide(part, whole, out=np.ones(part.shape), where=whole > 0)


def known_partners(record: Record) -> NDArray[np.int64]:
    """Partners in the record's structure, 0 if there is none or the pair is not AU, CG or GU."""
    assert record.structure is not None
    return known_pairs(encoded(record.sequence), partners_of(record.structure), Rules())


def counted(model: RNAFolder, records: Sequence[Record], gammas: Sequence[float] = GAMMAS) -> Counts:
    """Counts for the MEA structures of all gammas."""
    known, predicted, right = [], [], []
    for record in records:  # one by one: a matrix of probabilities is large
        (pairs,) = model.predict_pairs([record.sequence])
        after, truth = Posterior(np.nan, pairs.toarray(), np.zeros(pairs.shape[0], bool)), known_partners(record)
        found = np.array([after.most_accurate(gamma) for gamma in gammas])
        known.append(np.count_nonzero(truth) // 2)
        predicted.append(np.count_nonzero(found, axis=1) // 2)
        right.append(np.count_nonzero((found == truth) & (truth > 0), axis=1) // 2)
    return Counts(np.array(known), np.array(predicted), np.array(right))


def roc_area(ppv: Vector, sensitivity: Vector) -> float:
    """Area under sensitivity over PPV by the trapezoid rule, from PPV 0 (sensitivity of the first point) to the largest PPV."""
    order = np.lexsort((-sensitivity, ppv))
    x, y = np.append(0.0, ppv[order]), np.append(sensitivity[order][:1], sensitivity[order])
    return float(np.sum(np.diff(x) * (y[1:] + y[:-1]) / 2.0))


def area(counts: Counts) -> float:
    """The area for means over molecules, one point for each gamma."""
    return roc_area(counts.ppv.mean(axis=0), counts.sensitivity.mean(axis=0))


def bootstrap_areas(counts: Counts, seed: int = 0) -> Vector:
    """Areas of bootstrap samples of the molecules; the same seed draws the same molecules for every model."""
    n = len(counts.known)
    draws = np.random.default_rng(seed).multinomial(n, np.full(n, 1.0 / n), size=N_BOOTSTRAP) / n
    return np.array([roc_area(*point) for point in zip(draws @ counts.ppv, draws @ counts.sensitivity, strict=True)])


def interval(values: Vector) -> tuple[float, float]:
    """The central 95 % interval."""
    low, high = np.quantile(values, (0.025, 0.975))
    return float(low), float(high)
