"""Which labels may follow which when a chain is decoded: codes of chunks, or pairs that the user lists."""

from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tikhon.errors import InputError
from tikhon.models.chain.decoder import Rules

Allowed: TypeAlias = str | Iterable[tuple[Any, Any]] | None

START = None  # stands before the first label in pairs that users list
INSIDE, OPEN = ("I", "E"), ("B", "I")  # go on with a chunk; leave one open


def rules_of(allowed: Allowed, classes: NDArray[Any]) -> Rules | None:
    """The rules that ``allowed`` stands for; None where everything may follow everything.

    - "bio": I-x goes on with a chunk that B-x or I-x has begun;
    - "bioes": so does E-x, which ends it; S-x is a chunk of one token, and no chunk is left open for another;
    - pairs (label, next label): these only; a pair (None, label) lists what may come first, without any all labels may.
    """
    if allowed is None:
        return None
    labels = classes.tolist()
    if isinstance(allowed, str):
        if allowed not in ("bio", "bioes"):
            raise InputError(f"allowed={allowed!r}: write None, 'bio', 'bioes' or a list of pairs (label, next label)")
        return _by_chunks(labels, closes=allowed == "bioes")
    if not isinstance(allowed, Iterable) or isinstance(allowed, Iterator):
        raise InputError(f"allowed is a {type(allowed).__name__}, which can be read once only: write a list of pairs")
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
