"""The four tasks of van der Maaten, Welling, Saul 2011, section 4.1: features, labels and splits, from the data folder."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tikhon.data.files import reading

Sequenced: TypeAlias = tuple[list[Any], list[Any]]  # X and y
Indices: TypeAlias = NDArray[np.intp]

N_FOLDS = 10
WINDOW = 6  # positions of a protein on either side
AFFIX = 4  # characters of prefixes and suffixes


@dataclass(frozen=True)
class Task:
    """A task with its files in the data folder."""

    title: str
    n_hidden: int
    files: tuple[str, ...]
    load: Callable[[Path], Sequenced]
    paper: dict[tuple[str, int], float]  # errors that its text and Table 1 tell, by model and order


def _ocr(folder: Path) -> Sequenced:
    """Pixels as -1 and 1."""
    with np.load(folder / OCR.files[0]) as stored:
        pixels = 2.0 * np.unpackbits(stored["pixels"], axis=1) - 1.0
        return _cut(pixels, stored["offsets"]), _cut(stored["labels"], stored["offsets"])


def shipped_folds(folder: Path) -> NDArray[np.uint8]:
    """The fold of each word, as it comes with the OCR data."""
    with np.load(folder / OCR.files[0]) as stored:
        return np.asarray(stored["folds"])


def _faq(folder: Path) -> Sequenced:
    """The 24 features of a line and all their products, 1 where present and -1 where not (stored the other way round)."""
    with np.load(folder / FAQ.files[0]) as stored:
        lines = 1.0 - 2.0 * np.unpackbits(stored["features"], axis=1)
        products = (lines[:, :, None] * lines[:, None, :]).reshape(len(lines), -1)
        return _cut(np.hstack([lines, products]), stored["offsets"]), _cut(stored["labels"], stored["offsets"])


def _proteins(folder: Path) -> Sequenced:
    """Profiles in [-1, 1] in a window of 13 positions, 0 beyond the ends."""
    with np.load(folder / PROTEINS.files[0]) as stored:
        profiles = _cut(stored["profile"] / 5.0 - 1.0, stored["offsets"])
        labels = _cut(stored["labels"], stored["offsets"])
    X = []
    for profile in profiles:
        margin = np.zeros((WINDOW, profile.shape[1]))
        wide = np.vstack([margin, profile, margin])
        X.append(np.hstack([wide[first : first + len(profile)] for first in range(2 * WINDOW + 1)]))
    return X, labels


def _cut(rows: NDArray[Any], offsets: NDArray[np.int32]) -> list[NDArray[Any]]:
    return [rows[start:end] for start, end in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)]


def _sentences(*names: str) -> Callable[[Path], Sequenced]:
    def load(folder: Path) -> Sequenced:
        X, y = [], []
        for name in names:
            for words, tags in _tagged_words(folder / name):
                X.append(tag_features(words))
                y.append(tags)
        return X, y

    return load


def _tagged_words(path: Path) -> Iterator[tuple[list[str], list[str]]]:
    """Words and tags, in the first and last columns; lines without a tab name documents."""
    with reading(path) as (content, _):
        text = content.read().decode("utf-8")
    for sentence in text.split("\n\n"):
        rows = [line.split("\t") for line in sentence.split("\n") if "\t" in line]
        if rows:
            yield [row[0] for row in rows], [row[-1] for row in rows]


def tag_features(words: Sequence[str]) -> list[list[str]]:
    """Words, prefixes and suffixes of four characters, and four marks, each of a word and its neighbours."""
    own = [_of_word(word) for word in words]
    return [
        [f"{back:+d}:{feature}" for back in (-1, 0, 1) if 0 <= t + back < len(own) for feature in own[t + back]]
        for t in range(len(own))
    ]


def _of_word(word: str) -> list[str]:
    marks = {
        "hyphen": "-" in word,
        "capital": any(letter.isupper() for letter in word),
        "number": any(letter.isdigit() for letter in word),
        "ing": word.endswith("ing"),
    }
    found = [f"word={word}", *(mark for mark, is_present in marks.items() if is_present)]
    return [*found, f"prefix={word[:AFFIX]}", f"suffix={word[-AFFIX:]}"] if len(word) > AFFIX else found


EWT_TEST = "pos/ud_english_ewt_test.tsv.gz"
OCR = Task("handwritten letters (OCR)", 500, ("ocr/ocr_letters.npz",), _ocr, {("hidden", 1): 4.05, ("hidden", 2): 1.99})
FAQ = Task(
    "questions and answers (FAQ)", 100, ("faq/faq.npz",), _faq, {("linear", 1): 6.54, ("hidden", 1): 4.43}
)  # fmt: skip
PROTEINS = Task(
    "protein secondary structure (CB513)", 200, ("cb513/cb513_psiblast.npz",), _proteins, {("hidden", 1): 20.2}
)  # fmt: skip
EWT = Task(
    "parts of speech (UD English EWT)",
    100,
    ("pos/ud_english_ewt_train.tsv.gz", "pos/ud_english_ewt_dev.tsv.gz", EWT_TEST),
    _sentences("pos/ud_english_ewt_train.tsv.gz"),
    {("linear", 1): 3.04, ("hidden", 1): 2.83, ("hidden", 2): 2.68},  # on the whole Penn Treebank
)
PTB = Task(
    "parts of speech (Penn Treebank sample)", 100, ("pos/ptb_sample.tsv.gz",), _sentences("pos/ptb_sample.tsv.gz"), EWT.paper
)  # fmt: skip
TASKS = {"ocr": OCR, "faq": FAQ, "proteins": PROTEINS, "ewt": EWT, "ptb": PTB}


@lru_cache(maxsize=1)
def loaded(name: str, folder: Path) -> Sequenced:
    return TASKS[name].load(folder)


@lru_cache(maxsize=1)
def development_and_test(folder: Path) -> tuple[Sequenced, Sequenced]:
    """Of EWT, whose split is official."""
    development, test = (_sentences(path)(folder) for path in EWT.files[1:])
    return development, test


def random_folds(n: int) -> NDArray[np.intp]:
    """The fold of each sequence; the same for all models and trainers."""
    return np.random.default_rng(0).permutation(np.arange(n) % N_FOLDS)


def calibration(rows: Indices, share: float) -> tuple[Indices, Indices]:
    """Rows to train on and rows to choose settings on, from the training part of a fold."""
    order = np.random.default_rng(1).permutation(rows)
    n_held = max(1, round(share * len(rows)))
    return np.sort(order[n_held:]), np.sort(order[:n_held])
