"""Tagged sentences for the experiments and benchmarks, from ``--data DIR`` or ``TIKHON_DATA``. Nothing is downloaded.

The first column is the word, the last the label; chunking and Spanish entities have parts of speech in between.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tikhon.data.conll import Sentence, read_conll
from tikhon.data.libsvm import check_paths
from tikhon.data.token_windows import FeatureMaker, window_features

FILES = {
    "conll2000": ("chunking/conll2000_train.tsv.gz", "chunking/conll2000_test.tsv.gz"),
    "wnut17": ("ner/wnut17_train.tsv.gz", "ner/wnut17_test.tsv.gz"),
    "conll2002-es": ("ner/conll2002_esp_train.tsv.gz", "ner/conll2002_esp_testb.tsv.gz"),
}


@dataclass(frozen=True, eq=False)
class Tagged:
    """Training and test sentences."""

    train: list[Sentence]
    test: list[Sentence]


def load_tagged(name: str, folder: Path) -> Tagged:
    """The set ``name`` (a key of FILES) of the data folder."""
    check_tagged([name], folder)
    train, test = (read_conll(folder / path) for path in FILES[name])
    return Tagged(train, test)


def usual_features(name: str) -> FeatureMaker:
    """Windows of words and parts of speech for chunking (19 templates), of words with their spelling for entities (17)."""
    return window_features(2, spelling=False) if name == "conll2000" else window_features(1, spelling=True)


def as_lists(name: str, sentences: Sequence[Sentence]) -> tuple[list[list[list[str]]], list[list[str]]]:
    """The usual features and the labels of sentences of the set ``name``, as Python lists."""
    maker = usual_features(name)
    return [maker.features(sentence) for sentence in sentences], [list(one.columns[-1]) for one in sentences]


def check_tagged(names: Sequence[str], folder: Path) -> None:
    """Raise an InputError for the first missing file."""
    check_paths([path for name in names for path in FILES[name]], folder)
