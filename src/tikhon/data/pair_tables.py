"""RNA structures as tables with one letter per line: bpseq and ct.

A bpseq line has the number of a letter, the letter and the number of its partner. A ct structure starts with its number of
letters and a title; its lines have number, letter, the previous and the next number, partner, and the number again. Numbers
start from 1; a partner of 0 means unpaired, -1 unknown. A file can have several structures, which in bpseq are separated by
lines that are not rows (comments, empty lines).
"""

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tikhon.data.dot_bracket import CLOSE, CROSSING, OPEN, UNKNOWN, UNKNOWN_PARTNER, UNPAIRED
from tikhon.errors import FileFormatError, InputError

Lines = Iterable[tuple[int, str]]  # with their numbers
Partners = NDArray[np.int64]

CT_COLUMNS = 6
_BPSEQ_ROW = re.compile(r"\s*[0-9]+\s+[A-Za-z]\s+-?[0-9]+\s*")
_CT_ROW = re.compile(r"\s*[0-9]+\s+[A-Za-z](\s+-?[0-9]+){4,}\s*")
_BEGINS_WITH_NUMBER = re.compile(r"\s*-?[0-9]")
NAME_LINE = re.compile(r"#?\s*(?:file)?name:\s*(\S+)\s*(.*)", re.IGNORECASE)
_ENERGY = re.compile(r"^(?:energy|dg)\s*=\s*\S+\s*", re.IGNORECASE)


@dataclass(frozen=True)
class Longest:
    """The most letters of a molecule, and what to do about longer ones, which are refused while they are read."""

    letters: float = math.inf
    advice: str = ""

    def check(self, n_letters: int, where: str) -> None:
        if n_letters > self.letters:
            raise InputError(f"{where} has more than {self.letters:,} letters: {self.advice}")


ANY_LENGTH = Longest()


@dataclass(frozen=True, eq=False)
class PairTable:
    """One structure; the name is empty if the file gives none. ``lines`` are the line numbers of the letters."""

    name: str
    about: str
    sequence: str
    partners: Partners
    lines: tuple[int, ...]


def kind_of_row(line: str) -> str | None:
    """bpseq or ct, if the line is a row of one of them; no line of FASTA or of plain sequences is."""
    if _BPSEQ_ROW.fullmatch(line):
        return "bpseq"
    return "ct" if _CT_ROW.fullmatch(line) else None


def read_bpseq(lines: Lines, source: str, longest: Longest = ANY_LENGTH) -> Iterator[PairTable]:
    """The structures of a bpseq file; ``source`` names it in messages."""
    rows = _Rows(source, longest)
    name, about = "", ""
    for number, line in lines:
        if not _BEGINS_WITH_NUMBER.match(line):  # a comment, a line of the header, or nothing
            if rows.letters:
                yield rows.finished(name, about)
                rows, name, about = _Rows(source, longest), "", ""
            if not name and (said := NAME_LINE.match(line.strip())):
                name, about = said[1], said[2]
            continue
        words = line.split()
        if len(words) != 3:
            raise FileFormatError(
                f"{source}, line {number}: has {_columns(words)}: write the number of a letter, the letter and the number of "
                "its partner"
            )
        rows.add(number, words[0], words[1], words[2])
    if rows.letters:
        yield rows.finished(name, about)


def read_ct(lines: Lines, source: str, longest: Longest = ANY_LENGTH) -> Iterator[PairTable]:
    """The structures of a ct file; ``source`` names it in messages."""
    rows, wanted, title = _Rows(source, longest), 0, ""
    for number, line in lines:
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if not wanted:
            first, *rest = line.split(maxsplit=1)
            wanted = _whole(first, f"{source}, line {number}: the number of letters")
            if wanted < 1:
                raise FileFormatError(f"{source}, line {number}: a structure of {wanted} letters: leave it out")
            title = _ENERGY.sub("", rest[0].strip()) if rest else ""
            continue
        words = line.split()
        if len(words) < CT_COLUMNS:
            raise FileFormatError(
                f"{source}, line {number}: has {_columns(words)}, but {CT_COLUMNS} are needed: number, letter, previous and "
                "next number, partner, number"
            )
        rows.add(number, words[0], words[1], words[4])
        if len(rows.letters) == wanted:
            name, _, about = title.partition(" ")
            yield rows.finished(name, about.strip())
            rows, wanted, title = _Rows(source, longest), 0, ""
    if wanted:
        raise FileFormatError(
            f"{source}: the last structure should have {wanted} letters, but has {len(rows.letters)}: the file is truncated"
        )


class _Rows:
    """The rows of one structure, added one by one."""

    def __init__(self, source: str, longest: Longest) -> None:
        self.source, self._longest = source, longest
        self.letters: list[str] = []
        self.partners: list[int] = []
        self.lines: list[int] = []

    def add(self, line: int, number: str, letter: str, partner: str) -> None:
        where, expected = f"{self.source}, line {line}", len(self.letters) + 1
        if _whole(number, f"{where}: the number of a letter") != expected:
            raise FileFormatError(
                f"{where}: letter {number} instead of {expected}: number the letters 1, 2, 3 ... without gaps"
            )
        if len(letter) != 1 or not letter.isalpha():
            raise FileFormatError(f"{where}: {letter!r} is not a letter: write A, C, G, U (or T), or N")
        self._longest.check(expected, f"{where}: the structure")
        self.letters.append(letter)
        self.partners.append(_whole(partner, f"{where}: the partner"))
        self.lines.append(line)

    def finished(self, name: str, about: str) -> PairTable:
        n = len(self.letters)
        for i, j in enumerate(self.partners, 1):
            if j in (0, UNKNOWN_PARTNER):
                continue
            where = f"{self.source}, line {self.lines[i - 1]}"
            if j == i:
                raise FileFormatError(f"{where}: letter {i} is its own partner: write 0 if it is unpaired")
            if not 0 < j <= n:
                raise FileFormatError(
                    f"{where}: letter {i} has the partner {j}, but there are {n} letters: it is wrong, or the file is truncated"
                )
            if self.partners[j - 1] != i:
                raise FileFormatError(
                    f"{where}: letter {i} has the partner {j}, but letter {j} (line {self.lines[j - 1]}) has the partner "
                    f"{self.partners[j - 1]}: partners must name each other"
                )
        return PairTable(name, about, "".join(self.letters), np.array(self.partners, np.int64), tuple(self.lines))


def brackets_of(partners: Partners) -> str:
    """The dot-bracket notation of any partners: "?" for an unknown letter, other kinds of brackets for crossing pairs.

    Helices, longest first and leftmost first among equals, are written with ( and ) unless they cross one that already is; the
    rest is written with [ and ] in the same way, and so on. Raises a ``FileFormatError`` if the kinds do not suffice.
    """
    marks = np.where(partners == UNKNOWN_PARTNER, UNKNOWN, UNPAIRED)
    left = _helices(partners)
    for opening, closing in ((OPEN, CLOSE), *CROSSING.items()):
        drawn = _not_crossing(left)
        for i, j, length in drawn:
            marks[i - 1 : i - 1 + length], marks[j - length : j] = opening, closing
        done = set(drawn)
        left = [helix for helix in left if helix not in done]
        if not left:
            return "".join(marks)
    raise FileFormatError(f"pairs cross in more ways than the {1 + len(CROSSING)} kinds of brackets can represent")


Helix = tuple[int, int, int]  # the outermost pair i < j, and the number of pairs stacked on it


def _helices(partners: Partners) -> list[Helix]:
    """Longest first, then from the left."""
    found, i, n = [], 1, len(partners)
    while i <= n:
        j, length = int(partners[i - 1]), 1
        if j > i:
            while i + length < j - length and partners[i - 1 + length] == j - length:
                length += 1
            found.append((i, j, length))
        i += length
    return sorted(found, key=lambda helix: (-helix[2], helix[0]))


def _not_crossing(helices: Sequence[Helix]) -> list[Helix]:
    """Greedily, the helices that cross none selected before; helices cross if their outermost pairs do."""
    taken: list[Helix] = []
    left, right = np.zeros((2, len(helices)), np.int64)
    for i, j, length in helices:
        a, b = left[: len(taken)], right[: len(taken)]
        if not np.any(((i < a) & (a < j) & (j < b)) | ((a < i) & (i < b) & (b < j))):
            left[len(taken)], right[len(taken)] = i, j
            taken.append((i, j, length))
    return taken


def bpseq_text(name: str, about: str, sequence: str, partners: Partners) -> str:
    """One structure; the empty line at the end separates it from the next."""
    rows = (f"{i} {letter} {j}\n" for i, (letter, j) in enumerate(zip(sequence, partners.tolist(), strict=True), 1))
    return f"#Name: {_title(name, about)}\n{''.join(rows)}\n"


def ct_text(name: str, about: str, sequence: str, partners: Partners) -> str:
    """One structure."""
    n = len(sequence)
    rows = (
        f"{i} {letter} {i - 1} {i + 1 if i < n else 0} {j} {i}\n"
        for i, (letter, j) in enumerate(zip(sequence, partners.tolist(), strict=True), 1)
    )
    return f"{n} {_title(name, about)}\n{''.join(rows)}"


def _title(name: str, about: str) -> str:
    return f"{name} {about}".strip()


def _whole(text: str, what: str) -> int:
    try:
        return int(text)
    except ValueError:  # also raised by Python for too many digits
        raise FileFormatError(f"{what} is {text[:30]!r}: write a whole number") from None


def _columns(words: Sequence[str]) -> str:
    return "1 column" if len(words) == 1 else f"{len(words)} columns"
