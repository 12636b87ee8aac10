"""RNA structures in dot-bracket notation: a dot for an unpaired letter, a bracket for a paired one.

Partners are positions of letters from 1, or 0 for an unpaired letter. A partly known structure has other characters too: "?"
for an unknown letter, "|" for one that pairs with an unknown partner.
"""

import numpy as np
from numpy.typing import NDArray

from tikhon.errors import InputError

UNPAIRED, OPEN, CLOSE = ".", "(", ")"
UNKNOWN, PAIRED = "?", "|"
UNKNOWN_PARTNER, SOME_PARTNER = -1, -2
# Brackets of other kinds are pairs that cross those written with ( and ).
CROSSING = {"[": "]", "{": "}", "<": ">"} | {chr(a): chr(a + 32) for a in range(ord("A"), ord("Z") + 1)}
_CLOSING = {OPEN: CLOSE} | CROSSING
_OPENING = {closing: opening for opening, closing in _CLOSING.items()}
# Characters that do not occur in sequences.
STRUCTURE_MARKS = frozenset((UNPAIRED, OPEN, CLOSE, UNKNOWN, PAIRED)) | frozenset(
    mark for mark in (*_CLOSING, *_OPENING) if not mark.isalpha()
)


def partners_of(structure: str) -> NDArray[np.int64]:
    """The partners in a structure; crossing pairs are left out (see ``n_crossing``)."""
    return _partners(structure)


def _partners(structure: str, also: str = "") -> NDArray[np.int64]:
    """``also``: further characters that the error message allows."""
    partners = np.zeros(len(structure), np.int64)
    open_ones: dict[str, list[int]] = {}
    for place, mark in enumerate(structure, 1):
        if mark in _CLOSING:
            open_ones.setdefault(mark, []).append(place)
        elif mark in _OPENING:
            opening = _OPENING[mark]
            if not open_ones.get(opening):
                raise InputError(f"the structure has a {mark!r} at position {place} without an opening bracket")
            partner = open_ones[opening].pop()
            if mark == CLOSE:
                partners[place - 1], partners[partner - 1] = partner, place
        elif mark != UNPAIRED:
            raise InputError(
                f"the structure has {mark!r} at position {place}: write '.', '(', ')'{also}, or brackets of other kinds"
            )
    for opening, places in open_ones.items():
        if places:
            raise InputError(f"the structure has a {opening!r} at position {places[-1]} without a closing bracket")
    return partners


def partly_known_partners(structure: str) -> NDArray[np.int64]:
    """As ``partners_of``, with UNKNOWN_PARTNER for "?" and SOME_PARTNER for "|"."""
    marks = np.array(list(structure), "U1")
    told = _partners(structure.replace(UNKNOWN, UNPAIRED).replace(PAIRED, UNPAIRED), ", '?' (unknown), '|' (paired)")
    return np.where(marks == UNKNOWN, UNKNOWN_PARTNER, np.where(marks == PAIRED, SOME_PARTNER, told))


def n_crossing(structure: str) -> int:
    """The number of pairs in other kinds of brackets: pseudoknots, which nested structures do not have."""
    return sum(structure.count(mark) for mark in CROSSING)


def dot_bracket(partners: NDArray[np.int64]) -> str:
    """The dot-bracket notation of nested partners."""
    places = np.arange(1, len(partners) + 1)
    return "".join(np.where(partners == 0, UNPAIRED, np.where(partners > places, OPEN, CLOSE)))
