"""Files of RNA sequences, with or without structures: FASTA and plain lines, plain or gzip.

A record is a header that begins with ">", the sequence on one line or more, and after it, if there is one, the structure in
dot-bracket. Without any header each line is a sequence, or the structure of the one before.
"""

import io
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tikhon.data.dot_bracket import STRUCTURE_MARKS
from tikhon.data.files import reading
from tikhon.data.libsvm import VARIABLE
from tikhon.errors import FileFormatError, InputError

FILES = {
    "s151rfam": "rna/s151rfam.txt.gz",
    "tornado-train-a": "rna/tornado_trainA.txt.gz",
    "tornado-train-b": "rna/tornado_trainB.txt.gz",
    "tornado-test-a": "rna/tornado_testA.txt.gz",
}


@dataclass(frozen=True)
class Record:
    """One RNA: the first word of its header, the rest of it, the sequence, and the structure if there is one."""

    name: str
    about: str
    sequence: str
    structure: str | None


def read_rna(path: Path) -> list[Record]:
    """All records of a file."""
    with reading(path) as (content, _), io.TextIOWrapper(content, encoding="utf-8-sig") as text:
        try:
            return list(records(text, str(path)))
        except UnicodeDecodeError:
            raise FileFormatError(f"{path}: is not text in UTF-8") from None


def records(lines: Iterable[str], source: str) -> Iterator[Record]:
    """Records of lines; ``source`` names them in messages."""
    header, sequence, structure = None, "", ""
    begun, count = False, 0

    def finished() -> Record:
        name, _, about = header.partition(" ") if header else (f"sequence {count}", "", "")
        if not sequence:
            raise FileFormatError(f"{source}: {name} has no sequence")
        if structure and len(structure) != len(sequence):
            raise FileFormatError(
                f"{source}: {name} has {len(sequence)} letters and a structure of {len(structure)}: the same number is needed"
            )
        return Record(name, about.strip(), sequence, structure or None)

    for raw in lines:
        line = raw.strip()
        if not line:
            continue
        is_header = line.startswith(">")
        is_structure = not is_header and not STRUCTURE_MARKS.isdisjoint(line)
        if begun and (is_header or (header is None and not is_structure)):
            yield finished()
            header, sequence, structure, begun = None, "", "", False
        if not begun:
            begun, count = True, count + 1
        if is_header:
            header = line[1:].strip()
        elif is_structure:
            structure += line
        elif structure:
            raise FileFormatError(
                f"{source}: {header or f'sequence {count}'} goes on after its structure: {line[:30]!r}"
            )
        else:
            sequence += line.replace(" ", "")
    if begun:
        yield finished()


def load_rna(name: str, folder: Path) -> list[Record]:
    """The set ``name`` (a key of FILES) of the data folder."""
    path = folder / FILES[name]
    if not path.is_file():
        raise InputError(f"{path} is missing: name the data folder with --data DIR or in {VARIABLE}")
    return read_rna(path)
