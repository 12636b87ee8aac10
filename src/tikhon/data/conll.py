"""Column files: one token per line, columns separated by tabs or spaces, an empty line after each sentence."""

from dataclasses import dataclass
from pathlib import Path

from tikhon.data.files import LIMITS, OnBytes, ReadingLimits, reading
from tikhon.errors import FileFormatError

DOCUMENT = "-DOCSTART-"  # lines of CoNLL-2003 that separate documents; they are not tokens
REPORT_EVERY = 4096  # lines


@dataclass(frozen=True)
class Sentence:
    """The columns of a sentence, each with an entry per token, and the number of its first line."""

    columns: tuple[tuple[str, ...], ...]
    line: int

    def __len__(self) -> int:
        return len(self.columns[0])


def read_conll(path: Path, *, on_bytes: OnBytes | None = None, limits: ReadingLimits = LIMITS) -> list[Sentence]:
    """All sentences of a file, which may be gzipped. All tokens must have the same number of columns.

    Columns are separated by tabs if a line has any, else by runs of white space.
    """
    sentences: list[Sentence] = []
    columns: list[list[str]] = []  # of the sentence; a list for each token would keep the garbage collector busy
    width, first_line, line_number = 0, 0, 0

    def close() -> None:
        if columns and columns[0]:
            sentences.append(Sentence(tuple(map(tuple, columns)), first_line))
            for column in columns:
                column.clear()

    with reading(path, limits) as (content, raw):
        size = path.stat().st_size
        for line_number, encoded in enumerate(content, start=1):
            if on_bytes is not None and line_number % REPORT_EVERY == 0:
                on_bytes(raw.tell(), size)
            try:
                line = encoded.decode("utf-8-sig" if line_number == 1 else "utf-8").rstrip("\r\n")
            except UnicodeDecodeError as error:
                raise FileFormatError(
                    f"{path}, line {line_number}: is not UTF-8 text (byte {error.start + 1} of the line)"
                ) from None
            if not line.strip():
                close()
                continue
            row = line.split("\t") if "\t" in line else line.split()
            if row[0] == DOCUMENT:
                close()
                continue
            if width == 0:
                width = len(row)
                columns += ([] for _ in row)
            if len(row) != width:
                raise FileFormatError(
                    f"{path}, line {line_number}: has {_columns(len(row))}, but the lines before have {width}: each token "
                    "needs all columns, separated by tabs or spaces"
                )
            if not columns[0]:
                first_line = line_number
            for column, value in zip(columns, row, strict=True):
                column.append(value)
    close()
    if not sentences:
        raise FileFormatError(f"{path}: holds no tokens")
    return sentences


def _columns(count: int) -> str:
    return "1 column" if count == 1 else f"{count} columns"
