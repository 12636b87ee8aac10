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
_CROSSING_MARKS = frozenset(CROSSING) | frozenset(CROSSING.values())
# Marks that no sequence has.
STRUCTURE_MARKS = frozenset((UNPAIRED, OPEN, CLOSE, UNKNOWN, PAIRED)) | frozenset(
    mark for mark in _CROSSING_MARKS if not mark.isalpha()
)


def partners_of(structure: str) -> NDArray[np.int64]:
    """The partners that a structure says; pairs that cross are left out (see ``n_crossing``)."""
    partners = np.zeros(len(structure), np.int64)
    open_ones: list[int] = []
    for place, mark in enumerate(structure, 1):
        if mark == OPEN:
            open_ones.append(place)
        elif mark == CLOSE:
            if not open_ones:
                raise InputError(f"the structure has a ')' at position {place} that nothing opens")
            partner = open_ones.pop()
            partners[place - 1], partners[partner - 1] = partner, place
        elif mark != UNPAIRED and mark not in _CROSSING_MARKS:
            raise InputError(
                f"the structure has {mark!r} at position {place}: write '.', '(' or ')', or brackets of other kinds"
            )
    if open_ones:
        raise InputError(f"the structure has a '(' at position {open_ones[-1]} that nothing closes")
    return partners


def partly_known_partners(structure: str) -> NDArray[np.int64]:
    """As ``partners_of``, with UNKNOWN_PARTNER for "?" and SOME_PARTNER for "|"."""
    marks = np.array(list(structure), "U1")
    told = partners_of(structure.replace(UNKNOWN, UNPAIRED).replace(PAIRED, UNPAIRED))
    return np.where(marks == UNKNOWN, UNKNOWN_PARTNER, np.where(marks == PAIRED, SOME_PARTNER, told))


def n_crossing(structure: str) -> int:
    """How many pairs are drawn with brackets of other kinds: pseudoknots, which no nested structure has."""
    return sum(structure.count(mark) for mark in CROSSING)


def dot_bracket(partners: NDArray[np.int64]) -> str:
    """The text of nested partners."""
    places = np.arange(1, len(partners) + 1)
    return "".join(np.where(partners == 0, UNPAIRED, np.where(partners > places, OPEN, CLOSE)))
