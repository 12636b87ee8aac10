"""Files of RNA sequences, with or without structures: FASTA, plain lines, bpseq and ct, detected by content; plain or gzip.

A record is a header that starts with ">", the sequence on one or more lines, and optionally the structure in dot-bracket
notation. Without any header each line is a sequence, or the structure of the previous one. Lines that start with "#" are
comments, except that "#Name: ..." is a header, as in bpRNA's files.
"""

import gzip
import io
import re
import sys
import zlib
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import IO, Any

from tikhon.data.dot_bracket import STRUCTURE_MARKS
from tikhon.data.files import LIMITS, ReadingLimits, limited, reading
from tikhon.data.pair_tables import (
    ANY_LENGTH,
    NAME_LINE,
    Lines,
    Longest,
    PairTable,
    brackets_of,
    kind_of_row,
    read_bpseq,
    read_ct,
)
from tikhon.errors import FileFormatError, InputError

STDIN = Path("-")
NUCLEOTIDES = frozenset("ACGUTacgut")
OTHER_CODES = frozenset("NRYSWKMBDHVXnryswkmbdhvx")  # of unknown letters
_LETTERS = NUCLEOTIDES | OTHER_CODES
_ENERGY = re.compile(r"\s+\(\s*-?[0-9]+(\.[0-9]+)?\)$")  # after a structure, as written by other programs
_TABLE_ENDING = re.compile(r"\.(bpseq|ct)(\.gz)?$", re.IGNORECASE)
_GZIP_MAGIC = b"\x1f\x8b"
MOST_UNTOLD = 10_000  # empty lines and comments at the beginning, from which the format cannot be told

PRETRAINED = Path(__file__).with_name("rna_pretrained.safetensors")  # made by tools/pack_rna_model.py
FILES = {
    "s151rfam": "rna/s151rfam.txt.gz",
    "tornado-train-a": "rna/tornado_trainA.txt.gz",
    "tornado-test-a": "rna/tornado_testA.txt.gz",
    "contrafold-2": "rna/contrafold_v2.complementary.params.gz",  # weights, not records
}


@dataclass(frozen=True)
class Record:
    """One RNA: the first word of its header, the rest of the header, sequence, structure if any, number of its first line."""

    name: str
    about: str
    sequence: str
    structure: str | None
    line: int = 0


def read_rna(path: Path) -> list[Record]:
    """All records of a file, with any letters."""
    return list(stream_rna(path, any_letter=True))


def stream_rna(
    path: Path,
    *,
    any_letter: bool = False,
    needs_sequence: bool = True,
    longest: Longest = ANY_LENGTH,
    limits: ReadingLimits = LIMITS,
) -> Iterator[Record]:
    """The records of a file, or of stdin for ``-``, as they are read.

    Letters that are not nucleotide codes are refused unless ``any_letter``. Without ``needs_sequence`` a record may consist
    of a structure only.
    """
    source = "stdin" if path == STDIN else str(path)
    opened = _stdin(limits) if path == STDIN else reading(path, limits)
    with opened as (content, _), closing(_decoded(content, source)) as lines:
        seen, kind = _kind(lines)
        every = chain(seen, lines)
        kind = kind or _kind_by_name(path)
        if kind in (None, "plain"):
            found = records(every, source, any_letter=any_letter, needs_sequence=needs_sequence, longest=longest)
        else:
            tables = (read_bpseq if kind == "bpseq" else read_ct)(every, source, longest)
            found = _records_of_tables(tables, source, any_letter=any_letter)
        first = next(found, None)
        if first is None:
            raise FileFormatError(f"{source}: holds no sequences")
        yield first
        yield from found


def records(
    lines: Lines,
    source: str,
    *,
    any_letter: bool = False,
    needs_sequence: bool = True,
    longest: Longest = ANY_LENGTH,
) -> Iterator[Record]:
    """Records of lines with their numbers, in FASTA or plain; ``source`` names them in messages."""
    header, sequence, structure = None, _Text(), _Text()
    begun, count, first_line = False, 0, 0

    def name() -> str:
        return header.split(maxsplit=1)[0] if header else f"sequence {count}"

    def finished() -> Record:
        where = f"{source}, line {first_line}"
        if not sequence and (needs_sequence or not structure):
            raise FileFormatError(f"{where}: {name()} has no sequence: write one, or leave it out")
        if sequence and structure and len(structure) != len(sequence):
            raise FileFormatError(
                f"{where}: {name()} has {len(sequence)} letters, but its structure has {len(structure)}: they must match"
            )
        about = " ".join(header.split()[1:]) if header else ""
        return Record(name(), about, str(sequence), str(structure) or None, first_line)

    for number, raw in lines:
        line = raw.strip()
        if named := NAME_LINE.fullmatch(line):
            line = f">{named[1]} {named[2]}"
        if not line or line.startswith("#"):
            continue
        is_header = line.startswith(">")
        is_structure = not is_header and not STRUCTURE_MARKS.isdisjoint(line)
        # Without headers a structure that is complete, or has no sequence, is not continued.
        is_next = not is_structure or 0 < len(structure) >= len(sequence)
        if begun and (is_header or (header is None and is_next)):
            yield finished()
            header, sequence, structure, begun = None, _Text(), _Text(), False
        if not begun:
            begun, count, first_line = True, count + 1, number
        if is_header:
            header = line[1:].strip()
        elif is_structure:
            structure.add(_ENERGY.sub("", line))
            longest.check(len(structure), f"{source}, line {first_line}: the structure of {name()}")
        elif structure:
            raise FileFormatError(
                f"{source}, line {number}: {name()} continues after its structure: {line[:30]!r}; begin a new record with '>'"
            )
        else:
            letters = "".join(line.split())
            if not any_letter:
                _check_letters(letters, f"{source}, line {number}: {name()}", len(sequence))
            sequence.add(letters)
            longest.check(len(sequence), f"{source}, line {first_line}: {name()}")
    if begun:
        yield finished()


class _Text:
    """A text put together from many lines, in linear time."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._length = 0

    def add(self, part: str) -> None:
        self._parts.append(part)
        self._length += len(part)

    def __len__(self) -> int:
        return self._length

    def __str__(self) -> str:
        return "".join(self._parts)


def _records_of_tables(tables: Iterable[PairTable], source: str, *, any_letter: bool) -> Iterator[Record]:
    """Tables without a name are named after the file."""
    stem = _TABLE_ENDING.sub("", Path(source).name)
    for number, table in enumerate(tables, 1):
        name = table.name or (stem if number == 1 else f"{stem}_{number}")
        if not any_letter:
            for place, (letter, line) in enumerate(zip(table.sequence, table.lines, strict=True)):
                _check_letters(letter, f"{source}, line {line}: {name}", place)
        try:
            structure = brackets_of(table.partners)
        except FileFormatError as error:
            raise FileFormatError(f"{source}, line {table.lines[0]}: {name}: {error}") from None
        yield Record(name, table.about, table.sequence, structure, table.lines[0])


def _check_letters(letters: str, where: str, before: int) -> None:
    if _LETTERS.issuperset(letters):
        return
    place, letter = next((place, letter) for place, letter in enumerate(letters, 1) if letter not in _LETTERS)
    raise FileFormatError(
        f"{where} has {letter!r} at position {before + place}: write A, C, G, U (or T), or N for an unknown letter"
    )


def _kind(lines: Lines) -> tuple[list[tuple[int, str]], str | None]:
    """Whether the lines are rows of bpseq or ct, or plain (None: undecided), and the lines that had to be read for this."""
    seen = []
    for number, line in lines:
        seen.append((number, line))
        if len(seen) > MOST_UNTOLD:
            return seen, "plain"
        kind, text = kind_of_row(line), line.strip()
        if kind is not None:
            return seen, kind
        if text.startswith(">") or (text and (_LETTERS.issuperset(text) or STRUCTURE_MARKS.issuperset(text))):
            return seen, "plain"
    return seen, None


def _kind_by_name(path: Path) -> str | None:
    """For a table that is too damaged to be recognised by its rows."""
    ending = _TABLE_ENDING.search(path.name)
    return ending[1].lower() if ending else None


def _decoded(content: IO[bytes], source: str) -> Generator[tuple[int, str], None, None]:
    """Lines with their numbers."""
    text = io.TextIOWrapper(content, encoding="utf-8-sig", errors="surrogateescape")
    try:
        for number, line in enumerate(text, start=1):
            if not line.isascii() and (odd := re.search("[\udc80-\udcff]", line)):
                raise FileFormatError(
                    f"{source}, line {number}: is not UTF-8 text (byte 0x{ord(odd[0]) - 0xDC00:02x} at position "
                    f"{odd.start() + 1})"
                )
            yield number, line
    finally:
        text.detach()  # closed where it was opened


@contextmanager
def _stdin(limits: ReadingLimits) -> Iterator[tuple[IO[bytes], IO[bytes]]]:
    """As ``reading`` for a file."""
    raw: Any = sys.stdin.buffer
    peekable = raw if hasattr(raw, "peek") else io.BufferedReader(raw)
    zipped = peekable.peek(2)[:2] == _GZIP_MAGIC
    try:
        yield limited(peekable, "stdin", zipped=zipped, size=0, limits=limits), peekable
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise FileFormatError(f"stdin: the gzip data are truncated or damaged ({error})") from None


def load_rna(name: str, folder: Path) -> list[Record]:
    """The set ``name`` (a key of FILES) of the data folder."""
    return read_rna(rna_file(name, folder))


def rna_file(name: str, folder: Path) -> Path:
    """The file of a key of FILES; raises an InputError if it is missing."""
    path = folder / FILES[name]
    if not path.is_file():
        from tikhon.data.libsvm import VARIABLE  # imports scikit-learn, which reading files does not need

        raise InputError(f"{path} is missing: name the data folder with --data DIR or in {VARIABLE}")
    return path
