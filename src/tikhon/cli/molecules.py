"""Molecules from files, directories and stdin, and constraints on their structures, for ``tikhon fold``."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tikhon.data.dot_bracket import n_crossing, partly_known_partners
from tikhon.data.files import ReadingLimits
from tikhon.data.pair_tables import Longest
from tikhon.data.rna import OTHER_CODES, STDIN, Record, stream_rna
from tikhon.errors import FileFormatError, InputError
from tikhon.models.folding.passes import table_bytes
from tikhon.models.folding.structures import Partners

ENDINGS = (".bpseq", ".ct", ".dbn", ".db", ".fa", ".fasta")  # of files that are read from a directory


@dataclass(frozen=True)
class Given:
    """A record, and its place for messages: file, line and name."""

    where: str
    record: Record

    @property
    def label(self) -> str:
        """The name as one word, without characters that are unsafe in files and terminals."""
        return "".join(mark if mark.isprintable() and mark != " " else "_" for mark in self.record.name)

    @property
    def n_unknown(self) -> int:
        return sum(letter in OTHER_CODES for letter in self.record.sequence)

    @property
    def work(self) -> int:
        """Relative time of folding: loops of 30 letters around each pair, of which there are n^2 / 2."""
        return len(self.record.sequence) ** 2


@dataclass(frozen=True)
class Molecules:
    """The molecules of a file, a directory, or stdin (once only), read lazily."""

    path: Path
    longest: int
    limits: ReadingLimits

    def __iter__(self) -> Iterator[Given]:
        for file in files_of(self.path):
            name = "stdin" if file == STDIN else str(file)
            for record in stream_rna(file, longest=self._limit, limits=self.limits):
                yield Given(f"{name}, line {record.line}: {record.name}", record)

    @property
    def _limit(self) -> Longest:
        advice = (
            f"--longest {self.longest} is the limit, where tables take {table_bytes(self.longest) / 1e9:.2g} GB: "
            "leave the molecule out, or raise --longest if memory allows"
        )
        return Longest(self.longest, advice)


def files_of(path: Path) -> list[Path]:
    """The file itself, or those of a directory."""
    if path.exists() and not path.is_file() and not path.is_dir():
        raise InputError(f"{path}: is not a file; write - to read stdin")
    if not path.is_dir():
        return [path]
    found = sorted(one for one in path.iterdir() if one.name.lower().removesuffix(".gz").endswith(ENDINGS))
    if not found:
        raise InputError(f"{path}: no file in this directory ends in {', '.join(ENDINGS)}, or one of these and .gz")
    return found


def with_structures(molecules: Iterable[Given]) -> list[Given]:
    """All molecules; each must have a structure that can be read."""
    found = list(molecules)
    for given in found:
        if given.record.structure is None:
            raise FileFormatError(f"{given.where} has no structure: write it below the sequence, or give bpseq or ct")
        checked_structure(given.record.structure, given.where)
    return found


def checked_structure(structure: str, where: str) -> Partners:
    """Its partners, including "?" and "|"; crossing pairs are left out."""
    try:
        return partly_known_partners(structure)
    except InputError as error:
        raise FileFormatError(f"{where}: {error}") from None


def warnings_about(n_unknown: int, crossing: int) -> list[str]:
    """Warnings about input that was reinterpreted."""
    found = []
    if n_unknown:
        found.append(f"letters other than A, C, G and U: {n_unknown}; they pair with nothing and have score 0")
    if crossing:
        found.append(f"pairs in brackets other than ( and ): {crossing}; pseudoknots are read as unpaired")
    return found


def crossing_pairs(molecules: Iterable[Given]) -> int:
    return sum(n_crossing(given.record.structure or "") for given in molecules)


class Constraints:
    """Known parts of structures, matched by name if the file has names, else in the order of the molecules."""

    def __init__(self, path: Path, limits: ReadingLimits) -> None:
        self.path = path
        self.given = [
            Given(f"{path}, line {record.line}: {record.name}", record)
            for record in stream_rna(path, needs_sequence=False, limits=limits)
        ]
        self.crossing = crossing_pairs(self.given)
        self.in_order = all(given.record.name == f"sequence {n}" for n, given in enumerate(self.given, 1))
        self.by_name: dict[str, Given] = {}
        for given in self.given:
            if given.record.structure is None:
                raise FileFormatError(
                    f"{given.where} has no structure: write one, with '?' for unknown letters and '|' for letters that pair"
                )
            if given.label in self.by_name:
                raise FileFormatError(f"{given.where} occurs twice: constraints are matched by name")
            self.by_name[given.label] = given

    def of(self, number: int, given: Given) -> Given | None:
        """The constraint of a molecule with its number, from 0; None if there is none."""
        if self.in_order and number >= len(self.given):
            raise InputError(
                f"{self.path}: has {len(self.given)} structures without names, but there are more sequences: write one for "
                "each, or give them names"
            )
        known = self.given[number] if self.in_order else self.by_name.get(given.label)
        if known is None:
            return None
        n, sequence = len(given.record.sequence), known.record.sequence
        if sequence and _plain(sequence) != _plain(given.record.sequence):
            raise InputError(f"{known.where} has another sequence than {given.where}: they must be the same")
        if len(known.record.structure or "") != n:
            raise InputError(
                f"{known.where} has {len(known.record.structure or '')} characters, but {given.where} has {n} letters: write "
                "one character for each letter"
            )
        return known

    def check_all_used(self, names: set[str], count: int) -> None:
        """Refuse constraints that belong to no molecule."""
        if self.in_order and len(self.given) > count:
            raise InputError(f"{self.path}: has {len(self.given)} structures, but there are {count} sequences")
        unused = [] if self.in_order else [given for label, given in self.by_name.items() if label not in names]
        if unused:
            raise InputError(
                f"{unused[0].where} matches the name of no sequence ({len(unused)} in total): correct it or leave it out"
            )


def _plain(sequence: str) -> str:
    return sequence.upper().replace("T", "U")


def with_names(message: str, molecules: Sequence[Given]) -> str:
    """The message with the numbers of left-out molecules replaced by their names."""
    start, found, listed = message.partition("left out: ")
    named = re.sub(r"(^|\), )([0-9]{1,9})(?= \()", lambda m: f"{m[1]}{molecules[int(m[2])].record.name}", listed)
    return start + found + named
