"""Parameter files of CONTRAfold and EternaFold: a name and a value on each line."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

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
                raise FileFormatError(f"{path}, line {number}: has {len(words)} words; write a name and a value")
            name, text = words
            if name in found:
                raise FileFormatError(f"{path}, line {number}: {name} occurs twice")
            found[name] = _value(text, f"{path}, line {number}")
    return found


def read_weights(path: Path, names: Sequence[str]) -> NDArray[np.float64]:
    """The values of these names, which must be exactly those in the file."""
    given = read_parameters(path)
    missing, unknown = [name for name in names if name not in given], sorted(given.keys() - set(names))
    for what, odd in (("lacks", missing), ("has the unknown", unknown)):
        if odd:
            raise FileFormatError(
                f"{path}: {what} weight {odd[0]!r} ({len(odd)} in total): give a model file of tikhon fold fit, or all "
                f"{len(names)} parameters of CONTRAfold or EternaFold"
            )
    return np.array([given[name] for name in names])


def _value(text: str, where: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise FileFormatError(f"{where}: {text!r} is not a finite number")
    return value


def write_parameters(path: Path, weights: Mapping[str, float]) -> None:
    """Write the weights in full precision; the file is replaced atomically."""
    with replacing(path) as stream:
        for name, value in weights.items():
            stream.write(f"{name} {value!r}\n".encode())
