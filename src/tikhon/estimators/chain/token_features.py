"""Encoding of token features, in all accepted forms, as numbers.

A sequence is a list of tokens, and a token one of

- a dict from names to values: text makes the feature ``name=text``, a number the feature ``name`` with that value, True the
  feature ``name``, False and None none;
- a list, tuple or set of texts: the features present;

or a sequence is a dense or sparse array with a row per token and a column per feature.
"""

from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from numbers import Real
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tikhon.errors import InputError
from tikhon.estimators.checks import LARGEST_VALUE
from tikhon.estimators.user_warnings import warn_user

UNSEEN = -1  # the number of an unknown feature


@dataclass(frozen=True, eq=False)
class TokenFeatures:
    """Features of the tokens of several sequences, concatenated; values are None if all are 1."""

    starts: NDArray[np.int64]
    pointers: NDArray[np.int64]
    features: NDArray[np.int32]
    values: NDArray[np.float64] | None


class Numbering(dict[str, int]):
    """Numbers names in the order of their first lookup, until ``closed``; lookups of known names run in C."""

    closed = False

    def __missing__(self, name: Any) -> int:
        if not isinstance(name, str):
            raise _NotText(name)
        if self.closed:
            return UNSEEN
        number = self[name] = len(self)
        return number


class _NotText(Exception):
    """A feature in a list that is not text."""


@dataclass(eq=False)
class FeatureEncoder:
    """Numbers for feature names: learned from the training data, then looked up; unknown ones are left out."""

    numbers: Numbering = field(default_factory=Numbering)
    n_columns: int | None = None  # of arrays, which have columns and no names

    @property
    def n_features(self) -> int:
        return len(self.numbers) if self.n_columns is None else self.n_columns

    @property
    def names(self) -> list[str]:
        return list(self.numbers) if self.n_columns is None else [f"x{j}" for j in range(self.n_columns)]

    def names_of(self, features: NDArray[np.int32]) -> list[str]:
        """The names of a few features; for arrays, all names might not fit into memory."""
        if self.n_columns is not None:
            return [f"x{j}" for j in features.tolist()]
        names = self.names
        return [names[number] for number in features.tolist()]

    def encode(self, X: Sequence[Any], *, learn: bool) -> TokenFeatures:
        X = [_without_names(sequence) for sequence in X]
        if len(X) == 0:
            return TokenFeatures(np.zeros(1, np.int64), np.zeros(1, np.int64), np.zeros(0, np.int32), None)
        if _is_array(X[0]):
            return self._encode_arrays(X, learn=learn)
        return self._encode_tokens(X, learn=learn)

    def _encode_tokens(self, X: Sequence[Any], *, learn: bool) -> TokenFeatures:
        if not learn and self.n_columns is not None:
            raise InputError("X holds tokens with named features, but the model was fitted to arrays")
        self.numbers.closed = not learn
        numbered = self.numbers.__getitem__
        starts, pointers, features = array("q", [0]), array("q", [0]), array("i")
        values: array[float] | None = None  # created at the first value other than 1
        for i, sequence in enumerate(X):
            if isinstance(sequence, str | bytes | Mapping) or not isinstance(sequence, Iterable):
                raise InputError(f"sequence {i} is {_shown(sequence)}: a sequence is a list of tokens or an array")
            for t, token in enumerate(sequence):
                if isinstance(token, list | tuple | set | frozenset):
                    try:
                        features.extend(map(numbered, token))
                    except (_NotText, TypeError) as error:
                        raise _bad_feature(token, i, t) from error
                elif isinstance(token, Mapping):
                    names, amounts = _named(token, i, t)
                    if amounts is not None:
                        if values is None:
                            values = array("d", [1.0]) * len(features)
                        values.extend(amounts)
                    features.extend(map(numbered, names))
                else:
                    raise InputError(
                        f"sequence {i}, token {t} is {_shown(token)}: a token is a dict or a list of features"
                    )
                if values is not None and len(values) < len(features):
                    values.extend(repeat(1.0, len(features) - len(values)))
                pointers.append(len(features))
            starts.append(len(pointers) - 1)
        found = TokenFeatures(
            np.frombuffer(starts, np.int64), np.frombuffer(pointers, np.int64),
            np.frombuffer(features, np.int32) if len(features) else np.zeros(0, np.int32),
            None if values is None else np.frombuffer(values, np.float64),
        )  # fmt: skip
        return found if learn else _without_unseen(found)

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
            stacked.indices.astype(np.int32), None if (stacked.data == 1.0).all() else stacked.data,
        )  # fmt: skip


def _without_names(sequence: Any) -> Any:
    """The values of a data frame; columns are identified by position, like those of arrays."""
    if not (hasattr(sequence, "columns") and hasattr(sequence, "to_numpy")):
        return sequence
    values = sequence.to_numpy()
    if values.dtype != object:
        return values
    try:
        return values.astype(np.float64)  # mixed numeric types, or a nullable one
    except (TypeError, ValueError):
        return values


def _is_array(sequence: Any) -> bool:
    return bool(sp.issparse(sequence)) or (isinstance(sequence, np.ndarray) and sequence.dtype.kind in "biuf")


def _rows(sequence: Any, i: int) -> Any:
    if not _is_array(sequence):
        raise InputError(
            f"sequence {i} is {_shown(sequence)}, but those before are arrays: all must have the same form"
        )
    if sequence.ndim != 2:
        raise InputError(
            f"sequence {i} has {sequence.ndim} dimensions: an array has a row per token, a column per feature"
        )
    rows = sp.csr_array(sequence, dtype=np.float64)
    if not rows.has_canonical_format:  # a copy: the index arrays may belong to the user's matrix
        rows = rows.copy()
        rows.sum_duplicates()
    bad = ~(np.abs(rows.data) <= LARGEST_VALUE)
    if bad.any():
        place = int(np.argmax(bad))
        row = int(np.searchsorted(rows.indptr, place, side="right")) - 1
        raise _bad_value(f"sequence {i}, token {row}, column {rows.indices[place]}", float(rows.data[place]))
    return rows


def warn_of_no_features(found: TokenFeatures) -> None:
    """Warn if no feature was seen in training, which is usually a mistake."""
    if len(found.pointers) > 1 and len(found.features) == 0:
        warn_user(
            "no token has a feature that was seen in training: predictions depend on transitions alone; check that features "
            "are made in the same way",
            UserWarning,
        )


def _without_unseen(found: TokenFeatures) -> TokenFeatures:
    known = found.features != UNSEEN
    if known.all():
        return found
    pointers = np.concatenate([[0], np.cumsum(known)])[found.pointers]
    return TokenFeatures(
        found.starts, pointers, found.features[known], None if found.values is None else found.values[known]
    )


def _named(token: Mapping[Any, Any], i: int, t: int) -> tuple[list[str], list[float] | None]:
    """Names and values of a token's features; None where all values are 1."""
    names, values, plain = [], [], True
    for name, value in token.items():
        if isinstance(value, str):
            names.append(f"{name}={value}")
            values.append(1.0)
        elif value is True or (isinstance(value, np.bool_) and value):
            names.append(str(name))
            values.append(1.0)
        elif value is not None and value is not False and not isinstance(value, np.bool_):
            number = _number(name, value, i, t)
            names.append(str(name))
            values.append(number)
            plain = plain and number == 1.0
    return names, None if plain else values


def _number(name: Any, value: Any, i: int, t: int) -> float:
    if not isinstance(value, Real):
        raise InputError(f"sequence {i}, token {t}, feature {name!r}: {_shown(value)} is neither text nor a number")
    try:
        number = float(value)
    except OverflowError:
        number = np.inf
    if not abs(number) <= LARGEST_VALUE:
        raise _bad_value(f"sequence {i}, token {t}, feature {name!r}", number)
    return number


def _bad_value(where: str, value: float) -> InputError:
    remedy = "its square overflows; rescale it" if np.isfinite(value) else "values must be finite"
    return InputError(f"{where}: the value is {value:g}; {remedy}")


def _bad_feature(token: Iterable[Any], i: int, t: int) -> InputError:
    wrong = next(name for name in token if not isinstance(name, str))
    return InputError(f"sequence {i}, token {t}: the feature {_shown(wrong)} is not text; for values write a dict")


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
