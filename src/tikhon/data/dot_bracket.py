"""Structures of RNA as text: a dot for a letter that is unpaired, a bracket for one that is paired.

Partners are numbers of letters from 1, 0 where a letter is unpaired. A structure that is known in part has other marks too: "?"
for a letter of which nothing is known, "|" for one that pairs, it is not known with which.
"""

import numpy as np
from numpy.typing import NDArray

from tikhon.errors import InputError

UNPAIRED, OPEN, CLOSE = ".", "(", ")"
UNKNOWN, PAIRED = "?", "|"
UNKNOWN_PARTNER, SOME_PARTNER = -1, -2
# Brackets of other kinds are pairs that cross those drawn with ( and ).
CROSSING = {"[": "]", "{": "}", "<": ">"} | {chr(a): chr(a + 32) for a in range(ord("A"), ord("Z") + 1)}
_CLOSING = {OPEN: CLOSE} | CROSSING
_OPENING = {closing: opening for opening, closing in _CLOSING.items()}
# Marks that no sequence has.
STRUCTURE_MARKS = frozenset((UNPAIRED, OPEN, CLOSE, UNKNOWN, PAIRED)) | frozenset(
    mark for mark in (*_CLOSING, *_OPENING) if not mark.isalpha()
)


def partners_of(structure: str) -> NDArray[np.int64]:
    """The partners that a structure says; pairs that cross are left out (see ``n_crossing``)."""
    return _partners(structure)


def _partners(structure: str, also: str = "") -> NDArray[np.int64]:
    """``also``: what more may be written."""
    partners = np.zeros(len(structure), np.int64)
    open_ones: dict[str, list[int]] = {}
    for place, mark in enumerate(structure, 1):
        if mark in _CLOSING:
            open_ones.setdefault(mark, []).append(place)
        elif mark in _OPENING:
            opening = _OPENING[mark]
            if not open_ones.get(opening):
                raise InputError(f"the structure has a {mark!r} at position {place} that nothing opens")
            partner = open_ones[opening].pop()
            if mark == CLOSE:
                partners[place - 1], partners[partner - 1] = partner, place
        elif mark != UNPAIRED:
            raise InputError(
                f"the structure has {mark!r} at position {place}: write '.', '(', ')'{also}, or brackets of other kinds"
            )
    for opening, places in open_ones.items():
        if places:
            raise InputError(f"the structure has a {opening!r} at position {places[-1]} that nothing closes")
    return partners


def partly_known_partners(structure: str) -> NDArray[np.int64]:
    """As ``partners_of``, with UNKNOWN_PARTNER for "?" and SOME_PARTNER for "|"."""
    marks = np.array(list(structure), "U1")
    told = _partners(structure.replace(UNKNOWN, UNPAIRED).replace(PAIRED, UNPAIRED), ", '?' (not known), '|' (paired)")
    return np.where(marks == UNKNOWN, UNKNOWN_PARTNER, np.where(marks == PAIRED, SOME_PARTNER, told))


def n_crossing(structure: str) -> int:
    """How many pairs are drawn with brackets of other kinds: pseudoknots, which no nested structure has."""
    return sum(structure.count(mark) for mark in CROSSING)


def dot_bracket(partners: NDArray[np.int64]) -> str:
    """The text of nested partners."""
    places = np.arange(1, len(partners) + 1)
    return "".join(np.where(partners == 0, UNPAIRED, np.where(partners > places, OPEN, CLOSE)))
