"""The text data sets of the benchmarks, from the folder ``text`` of ``--data DIR`` or ``TIKHON_DATA``.

Each set is a pair of files ``NAME_train.jsonl.xz`` and ``NAME_test.jsonl.xz``: one JSON object per line, with the
document under "text" and its class under a key that depends on the set. Nothing is downloaded.
"""

import json
import lzma
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tikhon.data.libsvm import VARIABLE
from tikhon.errors import FileFormatError, InputError

LABEL_KEYS = {"newsgroups20": "label", "imdb": "polarity"}
PARTS = ("train", "test")


class Texts(NamedTuple):
    """Documents and their classes, as supplied: training rows and test rows."""

    train_texts: list[str]
    train_labels: NDArray[np.str_]
    test_texts: list[str]
    test_labels: NDArray[np.str_]


def load_newsgroups(folder: Path) -> Texts:
    """20 newsgroups by date, headers, quotes and signatures included; the labels are the groups' names."""
    return load_texts("newsgroups20", folder)


def load_imdb(folder: Path) -> Texts:
    """The film reviews of Maas et al. 2011; the labels are "neg" and "pos". Line breaks are in HTML."""
    return load_texts("imdb", folder)


def load_texts(name: str, folder: Path) -> Texts:
    """The set ``name`` (a key of LABEL_KEYS) of the data folder, in the order of its files."""
    key = _label_key(name)
    train, test = (read_json_lines(_existing(name, part, folder), ("text", key)) for part in PARTS)
    return Texts(train["text"], np.array(train[key]), test["text"], np.array(test[key]))


def check_texts(names: list[str], folder: Path) -> None:
    """Raise an InputError for the first missing file, so that a long run does not fail late."""
    for name in names:
        _label_key(name)
        for part in PARTS:
            _existing(name, part, folder)


def read_json_lines(path: Path, keys: tuple[str, ...]) -> dict[str, list[str]]:
    """The values of some keys on each line of an xz-compressed file of JSON objects; all of them must be text."""
    try:
        with lzma.open(path, "rt", encoding="utf-8") as lines:
            rows = [_values(line, keys, f"{path}, line {number}") for number, line in enumerate(lines, start=1)]
    except (lzma.LZMAError, EOFError, UnicodeDecodeError) as problem:
        raise FileFormatError(f"{path}: the file is truncated or damaged ({problem}): fetch it again") from None
    if not rows:
        raise FileFormatError(f"{path}: the file is empty: fetch it again")
    return {key: [row[place] for row in rows] for place, key in enumerate(keys)}


def _values(line: str, keys: tuple[str, ...], where: str) -> list[str]:
    try:
        entry = json.loads(line)
        values = [entry[key] for key in keys]
    except (ValueError, KeyError, TypeError, IndexError):
        values = []
    if not values or not all(isinstance(value, str) for value in values):
        raise FileFormatError(
            f"{where}: this is not a JSON object with text under {' and '.join(keys)}: fetch the file again"
        )
    return values


def _label_key(name: str) -> str:
    if name not in LABEL_KEYS:
        raise InputError(f"unknown text set {name!r}: write one of {', '.join(LABEL_KEYS)}")
    return LABEL_KEYS[name]


def _existing(name: str, part: str, folder: Path) -> Path:
    file = f"{name}_{part}.jsonl.xz"
    path = folder / "text" / file
    if not path.is_file():
        raise InputError(
            f"{path} does not exist: name the folder that holds text/{file} with --data DIR or in {VARIABLE}"
        )
    return path
