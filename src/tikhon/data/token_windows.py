"""Features of tokens from the columns of a sentence: built-in windows, or a CRF++ template file.

A feature is the text ``template=values``; several values are separated by "|". Positions outside the sentence have the
values ``<-1>``, ``<-2>`` before it and ``<+1>``, ``<+2>`` after it.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tikhon.data.conll import Sentence
from tikhon.data.files import reading
from tikhon.data.values import Flag, ListOf, Mismatch, Record, Row, Text, Whole, shown
from tikhon.errors import FileFormatError, InputError

SPELLING = ("lower", "shape", "prefix1", "prefix2", "prefix3", "suffix1", "suffix2", "suffix3", "digit", "hyphen")
MACRO = re.compile(r"%x\[\s*([+-]?[0-9]{1,9})\s*,\s*([0-9]{1,9})\s*\]")
FARTHEST = 1000  # tokens away


_PLACE = Row(Whole(-FARTHEST, FARTHEST), Whole(at_least=0))  # an offset and a column
_RECIPE = Record(  # the result of ``FeatureMaker.as_json``
    {
        "templates": ListOf(Row(Text(), ListOf(_PLACE, at_least=1))),
        "n_columns": Whole(at_least=1),
        "spelling": Flag(),
    }
)


@dataclass(frozen=True)
class Template:
    """A name, and the (offset, column) positions whose joined values are the feature."""

    name: str
    places: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class FeatureMaker:
    """Makes features from the first ``n_columns`` columns of a sentence; those after them, labels, are not read."""

    templates: tuple[Template, ...]
    n_columns: int
    spelling: bool = False  # of the first column

    def as_json(self) -> dict[str, Any]:
        return {
            "templates": [[one.name, [list(place) for place in one.places]] for one in self.templates],
            "n_columns": self.n_columns,
            "spelling": self.spelling,
        }

    @staticmethod
    def from_json(stored: Mapping[str, Any]) -> "FeatureMaker":
        """The inverse of ``as_json``; raises a ``FileFormatError`` that names the bad field."""
        try:
            _RECIPE.check(stored, "recipe", {})
            for number, (name, places) in enumerate(stored["templates"]):
                last = max(column for _, column in places)
                if last >= stored["n_columns"]:
                    raise Mismatch(
                        f"recipe.templates[{number}]",
                        f"{shown(name)} of column {last}",
                        f"columns below {stored['n_columns']}",
                    )
        except Mismatch as wrong:
            raise FileFormatError(str(wrong)) from None
        templates = (
            Template(name, tuple((offset, column) for offset, column in places)) for name, places in stored["templates"]
        )
        return FeatureMaker(tuple(templates), stored["n_columns"], stored["spelling"])

    def features(self, sentence: Sentence) -> list[list[str]]:
        """A list of features for each token."""
        length = len(sentence)
        padded = _Padded(sentence, max((abs(offset) for one in self.templates for offset, _ in one.places), default=0))
        by_template = [[f"{one.name}={value}" for value in padded.values(one.places, length)] for one in self.templates]
        if self.spelling:
            by_template += _spelling(sentence.columns[0])
        if not by_template:
            return [[] for _ in range(length)]
        return [list(token) for token in zip(*by_template, strict=True)]


class _Padded:
    """The columns of a sentence, padded with values for the positions beyond its ends."""

    def __init__(self, sentence: Sentence, reach: int) -> None:
        before = [f"<-{distance}>" for distance in range(reach, 0, -1)]
        behind = [f"<+{distance}>" for distance in range(1, reach + 1)]
        self._reach = reach
        self._columns = [[*before, *column, *behind] for column in sentence.columns]

    def values(self, places: Sequence[tuple[int, int]], length: int) -> list[str]:
        parts = [
            self._columns[column][self._reach + offset : self._reach + offset + length] for offset, column in places
        ]
        return parts[0] if len(parts) == 1 else ["|".join(token) for token in zip(*parts, strict=True)]


def window_features(n_columns: int, *, spelling: bool) -> FeatureMaker:
    """Windows of words (two each way, and pairs with the neighbours) and of other columns (also all pairs and triples).

    With words and parts of speech these are the 19 templates customary for chunking.
    """
    if n_columns < 1:
        raise InputError("there is no column to make features from: a line needs a word and a label")
    templates = [_window("w", 0, [offset]) for offset in range(-2, 3)]
    templates += [_window("w", 0, [-1, 0]), _window("w", 0, [0, 1])]
    for column in range(1, n_columns):
        name = "p" if n_columns == 2 else f"c{column}"
        templates += [_window(name, column, [offset]) for offset in range(-2, 3)]
        templates += [_window(name, column, [offset, offset + 1]) for offset in range(-2, 2)]
        templates += [_window(name, column, [offset, offset + 1, offset + 2]) for offset in range(-2, 1)]
    return FeatureMaker(tuple(templates), n_columns, spelling)


def read_template(path: Path, n_columns: int) -> FeatureMaker:
    """The templates of a CRF++ file: lines ``U01:%x[-1,0]/%x[0,0]``, empty ones and comments (#), and ``B``.

    A bare ``B`` requests transitions, which a chain always has; with macros they would depend on tokens.
    """
    with reading(path) as (content, _):
        text = content.read()
    try:
        lines = text.decode("utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise FileFormatError(f"{path}: is not UTF-8 text") from None
    templates: dict[str, Template] = {}
    for number, raw in enumerate(lines, start=1):
        line = raw.strip()
        if not line or line.startswith("#") or line == "B":
            continue
        where = f"{path}, line {number}"
        if not line.startswith("U"):
            raise FileFormatError(
                f"{where}: {line!r} is not a token template: write U01:%x[0,0]; for transitions only a bare B is supported"
            )
        one = _parsed(line, n_columns, where)
        if one.name in templates:
            raise FileFormatError(f"{where}: the template {one.name!r} occurs twice: give each its own name")
        templates[one.name] = one
    if not templates:
        raise FileFormatError(f"{path}: holds no templates")
    return FeatureMaker(tuple(templates.values()), n_columns)


def _parsed(line: str, n_columns: int, where: str) -> Template:
    name, _, pattern = line.partition(":")
    places = tuple((int(offset), int(column)) for offset, column in MACRO.findall(pattern))
    if pattern and MACRO.sub("", pattern).count("%x"):
        raise FileFormatError(
            f"{where}: cannot read {pattern!r}: write %x[row,column], with rows relative to the token"
        )
    if not places:
        raise FileFormatError(f"{where}: {line!r} has no macro: write for example {name}:%x[0,0]")
    for offset, column in places:
        if column >= n_columns:
            raise FileFormatError(
                f"{where}: uses column {column}, but tokens have {n_columns} before the label, counted from 0"
            )
        if abs(offset) > FARTHEST:
            raise FileFormatError(f"{where}: uses an offset of {abs(offset)} tokens: at most {FARTHEST} are possible")
    return Template(name, places)


def _window(name: str, column: int, offsets: Sequence[int]) -> Template:
    return Template("|".join(f"{name}[{offset}]" for offset in offsets), tuple((offset, column) for offset in offsets))


def _spelling(words: Sequence[str]) -> list[list[str]]:
    """Spelling features of words, a list for each kind of feature."""
    kinds: dict[str, Callable[[str], str]] = {
        "lower": str.lower,
        "shape": _shape,
        **{f"prefix{n}": (lambda word, n=n: word[:n]) for n in (1, 2, 3)},  # type: ignore[misc]
        **{f"suffix{n}": (lambda word, n=n: word[-n:]) for n in (1, 2, 3)},  # type: ignore[misc]
        "digit": lambda word: str(any(character.isdigit() for character in word)),
        "hyphen": lambda word: str("-" in word),
    }
    return [[f"{name}={kinds[name](word)}" for word in words] for name in SPELLING]


def _shape(word: str) -> str:
    """Capitals as X, small letters as x, digits as 0; runs of one kind are shortened to one."""
    kinds = "".join(
        "X" if character.isupper() else "x" if character.islower() else "0" if character.isdigit() else character
        for character in word
    )
    return re.sub(r"(.)\1+", r"\1", kinds)
