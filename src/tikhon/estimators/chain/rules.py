"""Which labels may follow which in decoding: chunk encodings, or pairs listed by the user."""

from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tikhon.errors import InputError
from tikhon.models.chain.decoder import Rules

Allowed: TypeAlias = str | Iterable[tuple[Any, Any]] | None

START = None  # stands before the first label in pairs listed by users
INSIDE, OPEN = ("I", "E"), ("B", "I")  # tags that continue a chunk; tags that leave one open


def rules_of(allowed: Allowed, classes: NDArray[Any]) -> Rules | None:
    """The rules that ``allowed`` stands for; None if any label may follow any other.

    - "bio": I-x continues a chunk after B-x or I-x;
    - "bioes": so does E-x, which ends it; S-x is a chunk of one token, and only I-x and E-x may follow an open chunk;
    - pairs (label, next label): only these; pairs (None, label) list the possible first labels (if there are none: all).
    """
    if allowed is None:
        return None
    labels = classes.tolist()
    if isinstance(allowed, str):
        if allowed not in ("bio", "bioes"):
            raise InputError(f"allowed={allowed!r}: write None, 'bio', 'bioes' or a list of pairs (label, next label)")
        return _by_chunks(labels, closes=allowed == "bioes")
    if not isinstance(allowed, Iterable) or isinstance(allowed, Iterator):
        raise InputError(
            f"allowed is of type {type(allowed).__name__}: write a list of pairs, which can be read repeatedly"
        )
    return _by_pairs(allowed, labels)


def _by_chunks(labels: list[Any], *, closes: bool) -> Rules:
    parts = [str(label).partition("-")[::2] for label in labels]
    steps = np.ones((len(labels), len(labels)), bool)
    for j, (before, kind) in enumerate(parts):
        for k, (after, next_kind) in enumerate(parts):
            goes_on = before in OPEN and kind == next_kind
            if after in INSIDE:
                steps[j, k] = goes_on
            elif closes:
                steps[j, k] = before not in OPEN
    return Rules(np.array([after not in INSIDE for after, _ in parts]), steps)


def _by_pairs(allowed: Iterable[tuple[Any, Any]], labels: list[Any]) -> Rules:
    codes = {label: code for code, label in enumerate(labels)}
    steps, first = np.zeros((len(labels), len(labels)), bool), np.zeros(len(labels), bool)
    for pair in allowed:
        try:
            before, after = pair
            if before is START:
                first[codes[after]] = True
            else:
                steps[codes[before], codes[after]] = True
        except (TypeError, ValueError):
            raise InputError(f"allowed holds {pair!r}: write pairs (label, next label)") from None
        except KeyError as error:
            raise InputError(f"allowed names the label {error.args[0]!r}, which was not seen in training") from None
    return Rules(first if first.any() else np.ones(len(labels), bool), steps)
