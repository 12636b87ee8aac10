"""Finished rows of a long run, one JSON line each, flushed to disk as soon as they are written.

The first line names the experiment and a fingerprint of its configuration: rows of another configuration are refused,
not mixed in. A line that was truncated when the run was killed is dropped, and its row is measured again.
"""

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from tikhon.errors import FileFormatError, InputError

Row: TypeAlias = dict[str, Any]

FORMAT = 1


@dataclass(frozen=True)
class RowStore:
    """A file of rows; ``config`` holds all settings that must be equal for rows to belong together."""

    path: Path
    experiment: str
    config: str  # JSON

    @property
    def fingerprint(self) -> str:
        return hashlib.sha256(self.config.encode()).hexdigest()[:16]

    def open(self) -> list[Row]:
        """Create the file, or drop a truncated last line from it; return the rows that it holds."""
        lines = self._whole_lines()
        if not lines:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            header = {"format": FORMAT, "experiment": self.experiment, "fingerprint": self.fingerprint}
            self._write(json.dumps(header), mode="wb")
            return []
        header = self._parsed(lines[0], 1)
        if header.get("format") != FORMAT or header.get("experiment") != self.experiment:
            raise FileFormatError(
                f"{self.path} does not hold rows of {self.experiment}: move it away or name another --out"
            )
        if header.get("fingerprint") != self.fingerprint:
            raise InputError(
                f"{self.path} holds rows of another configuration or version of {self.experiment}: "
                "move it away to start afresh, or name another --out"
            )
        return [self._parsed(line, number) for number, line in enumerate(lines[1:], start=2)]

    def append(self, row: Row) -> None:
        """Add one row; it is on disk when this returns."""
        self._write(json.dumps(row, allow_nan=False), mode="ab")

    def _write(self, line: str, mode: str) -> None:
        with open(self.path, mode) as file:
            file.write(line.encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())

    def _whole_lines(self) -> list[bytes]:
        """The complete lines; a truncated line after them is cut off, since the next row would be appended to it."""
        if not self.path.exists():
            return []
        content = self.path.read_bytes()
        lines = content.split(b"\n")
        lines.pop()  # empty after a complete last line, else the truncated one
        if lines and not _is_json(lines[-1]):  # a power cut may leave a line of zeros
            lines.pop()
        keep = sum(len(line) + 1 for line in lines)
        if keep < len(content):
            os.truncate(self.path, keep)
        return lines

    def _parsed(self, line: bytes, number: int) -> Row:
        try:
            row = json.loads(line)
        except ValueError:
            row = None
        if not isinstance(row, dict):
            raise FileFormatError(f"{self.path}, line {number} is not a row: remove the line and start again")
        return row


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except ValueError:
        return False
    return True
