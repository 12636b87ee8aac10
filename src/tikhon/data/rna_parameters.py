"""Parameter files of CONTRAfold and EternaFold: a name and a value on each line."""

import math
from collections.abc import Mapping
from pathlib import Path

from tikhon.data.files import reading, replacing
from tikhon.errors import FileFormatError


def read_parameters(path: Path) -> dict[str, float]:
    """Weights by name, in the order of the file."""
    found: dict[str, float] = {}
    with reading(path) as (content, _):
        for number, line in enumerate(content, start=1):
            words = line.decode("utf-8", "replace").split()
            if not words:
                continue
            if len(words) != 2:
                raise FileFormatError(f"{path}, line {number}: has {len(words)} words, a name and a value are needed")
            name, text = words
            if name in found:
                raise FileFormatError(f"{path}, line {number}: {name} is there twice")
            found[name] = _value(text, f"{path}, line {number}")
    return found


def _value(text: str, where: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise FileFormatError(f"{where}: {text!r} is not a finite number")
    return value


def write_parameters(path: Path, weights: Mapping[str, float]) -> None:
    """Written beside and renamed; every bit of the values is kept."""
    with replacing(path) as stream:
        for name, value in weights.items():
            stream.write(f"{name} {value!r}\n".encode())
