"""Features of tokens, in all the forms that people have them in, as numbers.

A sequence is a list of tokens, and a token one of

- a dict from names to values: text makes the feature ``name=text``, a number the feature ``name`` with that value, True the
  feature ``name``, False and None none;
- a list, tuple or set of texts: features that are there;

or a sequence is a dense or sparse array with a row per token and a column per feature.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tikhon.errors import InputError


@dataclass(frozen=True, eq=False)
class TokenFeatures:
    """Features of the tokens of some sequences, one after the other; values are None where all are 1."""

    starts: NDArray[np.int64]
    pointers: NDArray[np.int64]
    features: NDArray[np.int64]
    values: NDArray[np.float64] | None


@dataclass(eq=False)
class FeatureEncoder:
    """Numbers for the names of features: learned from the first data, then looked up; unknown ones are left out."""

    numbers: dict[str, int] = field(default_factory=dict)
    n_columns: int | None = None  # of arrays, which have columns and no names

    @property
    def n_features(self) -> int:
        return len(self.numbers) if self.n_columns is None else self.n_columns

    @property
    def names(self) -> list[str]:
        return list(self.numbers) if self.n_columns is None else [f"x{j}" for j in range(self.n_columns)]

    def encode(self, X: Sequence[Any], *, learn: bool) -> TokenFeatures:
        if len(X) > 0 and _is_array(X[0]):
            return self._encode_arrays(X, learn=learn)
        return self._encode_tokens(X, learn=learn)

    def _encode_tokens(self, X: Sequence[Any], *, learn: bool) -> TokenFeatures:
        if not learn and self.n_columns is not None:
            raise InputError("X holds tokens with named features, but the model was fitted to arrays")
        numbers = self.numbers
        starts, pointers, features, values = [0], [0], [], []
        for i, sequence in enumerate(X):
            if isinstance(sequence, str | bytes | Mapping) or not isinstance(sequence, Iterable):
                raise InputError(f"sequence {i} is {_shown(sequence)}: a sequence is a list of tokens or an array")
            for t, token in enumerate(sequence):
                for name, value in _named(token, i, t):
                    number = numbers.setdefault(name, len(numbers)) if learn else numbers.get(name)
                    if number is not None:
                        features.append(number)
                        values.append(value)
                pointers.append(len(features))
            starts.append(len(pointers) - 1)
        weights = np.array(values, np.float64)
        return TokenFeatures(
            np.array(starts, np.int64), np.array(pointers, np.int64), np.array(features, np.int64),
            None if (weights == 1.0).all() else weights,
        )  # fmt: skip

    def _encode_arrays(self, X: Sequence[Any], *, learn: bool) -> TokenFeatures:
        if not learn and self.n_columns is None:
            raise InputError("X holds arrays, but the model was fitted to tokens with named features")
        rows = [_rows(sequence, i) for i, sequence in enumerate(X)]
        expected = rows[0].shape[1] if learn else self.n_columns
        for i, sequence in enumerate(rows):
            if sequence.shape[1] != expected:
                where = "sequence 0" if learn else "the data that the model was fitted to"
                raise InputError(f"sequence {i} has {sequence.shape[1]} columns, {where} {expected}")
        if learn:
            self.n_columns = expected
        stacked = sp.vstack(rows, format="csr")
        lengths = [sequence.shape[0] for sequence in rows]
        return TokenFeatures(
            np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64), stacked.indptr.astype(np.int64),
            stacked.indices.astype(np.int64), None if (stacked.data == 1.0).all() else stacked.data,
        )  # fmt: skip


def _is_array(sequence: Any) -> bool:
    return bool(sp.issparse(sequence)) or (isinstance(sequence, np.ndarray) and sequence.dtype.kind in "biuf")


def _rows(sequence: Any, i: int) -> Any:
    if not _is_array(sequence):
        raise InputError(f"sequence {i} is {_shown(sequence)}, and those before are arrays: all must be of one form")
    if sequence.ndim != 2:
        raise InputError(
            f"sequence {i} has {sequence.ndim} dimensions: an array has a row per token, a column per feature"
        )
    rows = sp.csr_array(sequence, dtype=np.float64)
    rows.sum_duplicates()
    bad = ~np.isfinite(rows.data)
    if bad.any():
        place = int(np.argmax(bad))
        row = int(np.searchsorted(rows.indptr, place, side="right")) - 1
        raise InputError(
            f"sequence {i}, token {row}, column {rows.indices[place]}: the value is {rows.data[place]}; values must be finite"
        )
    return rows


def _named(token: Any, i: int, t: int) -> Iterable[tuple[str, float]]:
    if isinstance(token, Mapping):
        return [pair for name, value in token.items() for pair in _feature(name, value, i, t)]
    if isinstance(token, list | tuple | set | frozenset):
        wrong = [name for name in token if not isinstance(name, str)]
        if wrong:
            raise InputError(
                f"sequence {i}, token {t}: the feature {_shown(wrong[0])} is not text; for values write a dict"
            )
        return [(name, 1.0) for name in token]
    raise InputError(f"sequence {i}, token {t} is {_shown(token)}: a token is a dict or a list of features")


def _feature(name: Any, value: Any, i: int, t: int) -> list[tuple[str, float]]:
    if isinstance(value, str):
        return [(f"{name}={value}", 1.0)]
    if value is None or value is False:
        return []
    if value is True:
        return [(str(name), 1.0)]
    if isinstance(value, Real):
        number = float(value)
        if not np.isfinite(number):
            raise InputError(f"sequence {i}, token {t}, feature {name!r}: the value is {number}; values must be finite")
        return [(str(name), number)]
    raise InputError(f"sequence {i}, token {t}, feature {name!r}: {_shown(value)} is neither text nor a number")


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
