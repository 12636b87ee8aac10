"""Validation of sequences and labels in the users' forms, and encoding of labels as numbers."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import pairwise
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tikhon.errors import InputError
from tikhon.estimators.checks import as_input_error, is_sparse
from tikhon.models.chain.sequences import UNKNOWN

Codes = NDArray[np.int32]
SHOWN = 8  # labels in a message
MOST_LABELS = 2**16  # the kernels use 16-bit label numbers
WHAT_LABELS_ARE = "labels must be text or numbers, or None if unknown"


def as_sequences(name: str, values: Any, lengths: Any) -> Sequence[Any]:
    """One entry per sequence: the values as given or, with ``lengths``, split into runs of these lengths."""
    if lengths is None:
        if isinstance(values, str | bytes | Mapping) or is_sparse(values) or not isinstance(values, Iterable):
            raise InputError(
                f"{name} is a {type(values).__name__}: write a list with an entry per sequence, or give lengths as well"
            )
        if isinstance(values, np.ndarray) and values.ndim != 1 and values.dtype.kind in "biuf":
            raise InputError(
                f"{name} is one array of shape {values.shape}: write a list with an array per sequence, or give lengths"
            )
        return list(values)
    ends = np.cumsum(checked_lengths(lengths))
    n_tokens = values.shape[0] if hasattr(values, "shape") else len(values)
    if (total := int(ends[-1]) if len(ends) else 0) != n_tokens:
        raise InputError(f"lengths sum to {total}, but {name} has {n_tokens} tokens")
    if is_sparse(values):
        values = values.tocsr()
    return [values[start:end] for start, end in pairwise([0, *ends.tolist()])]


def checked_lengths(lengths: Any) -> NDArray[np.int64]:
    found = np.asarray(lengths)
    if found.ndim != 1 or (found.size and found.dtype.kind not in "iu") or (found < 1).any():
        raise InputError(
            "lengths must be a flat list of whole numbers, 1 or larger: the number of tokens of each sequence"
        )
    return found.astype(np.int64)


class LabelCodes:
    """Numbers for labels, in the order of ``classes``."""

    def __init__(self, classes: NDArray[Any]) -> None:
        self.classes = classes
        self._codes: dict[Any, int] = {label: code for code, label in enumerate(classes.tolist())}

    def encode(self, labels: Sequence[Any], starts: NDArray[np.int64], *, unseen: int | None = None) -> Codes:
        """One code per token, UNKNOWN for None; a label without a code is an error, or becomes ``unseen``."""
        check_labels(labels, starts)
        codes = np.full(int(starts[-1]), UNKNOWN, np.int32)
        place = 0
        for i, sequence in enumerate(labels):
            for t, label in enumerate(sequence):
                if label is not None:
                    try:
                        code = self._codes.get(label, unseen)
                    except TypeError:
                        code = None
                    if code is None:
                        raise InputError(
                            f"label {label!r} (sequence {i}, token {t}) was not seen in training; labels are "
                            f"{_listed(self.classes.tolist())}"
                        )
                    codes[place] = code
                place += 1
        return codes

    def decode(self, codes: Codes, starts: NDArray[np.int64]) -> list[list[Any]]:
        """Labels, a list per sequence."""
        flat = self.classes[codes].tolist()
        return [flat[start:end] for start, end in pairwise(starts.tolist())]


def label_codes(labels: Sequence[Any], starts: NDArray[np.int64], counted: NDArray[np.bool_]) -> LabelCodes:
    """Numbers for the labels of the ``counted`` sequences."""
    check_labels(labels, starts)
    seen: dict[Any, None] = {}
    for i in np.flatnonzero(counted).tolist():
        try:
            seen.update(dict.fromkeys(labels[i]))
        except TypeError:
            raise InputError(f"y, sequence {i}: {WHAT_LABELS_ARE}") from None
    seen.pop(None, None)
    for label in seen:
        if not isinstance(label, str | bytes | Real | np.bool_) or label != label:
            raise InputError(f"y holds the label {label!r}: {WHAT_LABELS_ARE}")
    with as_input_error(None, None):
        classes = np.unique(np.array(sorted(seen), dtype=None if _of_one_kind(seen) else object))
    if len(classes) < 2:
        raise InputError(f"y holds only {_listed(list(seen)) or 'None'}: at least two labels are needed")
    if len(classes) > MOST_LABELS:
        raise InputError(f"y holds {len(classes):,} labels: at most {MOST_LABELS:,} are possible; are they quantities?")
    return LabelCodes(classes)


def check_labels(labels: Sequence[Any], starts: NDArray[np.int64]) -> None:
    """A label, or None, for every token."""
    lengths = np.diff(starts)
    if len(labels) != len(lengths):
        raise InputError(f"there are {len(lengths)} sequences, but labels for {len(labels)}")
    for i, (sequence, length) in enumerate(zip(labels, lengths.tolist(), strict=True)):
        if isinstance(sequence, str | bytes) or not isinstance(sequence, Collection):
            raise InputError(f"y, sequence {i} is {sequence!r}: write a list with a label, or None, per token")
        if len(sequence) != length:
            raise InputError(f"sequence {i} has {length} tokens, but {len(sequence)} labels")


def refuse_empty(starts: NDArray[np.int64]) -> None:
    empty = np.flatnonzero(np.diff(starts) == 0)
    if len(empty):
        raise InputError(f"sequence {empty[0]} is empty: leave out sequences without tokens, and their labels")


def _of_one_kind(labels: Iterable[Any]) -> bool:
    kinds = {str if isinstance(label, str) else type(label) for label in labels}
    return len(kinds) <= 1


def _listed(labels: Sequence[Any]) -> str:
    shown = ", ".join(repr(label) for label in labels[:SHOWN])
    return shown if len(labels) <= SHOWN else f"{shown} and {len(labels) - SHOWN} more"
