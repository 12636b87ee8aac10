"""The LIBSVM sets, named as in Foo, Do, Ng 2009: facts for planning a run before they are read, and loading."""

from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from tikhon.data.libsvm import Dataset, load, split

MANY_ROWS = 10_000  # from here on, three random splits suffice instead of ten
RELATIVE_COST = {"lr": 0.02, "mm": 1.0, "direct": 2.0, "gradient": 9.0, "grid": 9.0}


@dataclass(frozen=True)
class SetFacts:
    """Rows (training rows if a test set is supplied), features, classes."""

    rows: int
    features: int
    classes: int = 1
    supplied_test: bool = False

    @property
    def n_splits(self) -> int:
        if self.supplied_test:
            return 1
        return 3 if self.rows > MANY_ROWS else 10

    @property
    def n_weights(self) -> int:
        return self.features * (self.classes if self.classes > 2 else 1)

    def cost(self, method: str) -> int:
        """Roughly proportional to the time of one fit, for the ETA and the order of work."""
        return max(1, round(1.6e-6 * RELATIVE_COST.get(method, 1.0) * self.rows * self.n_weights))


SETS = {
    "abalone": SetFacts(4177, 8),
    "bodyfat": SetFacts(252, 14),
    "cpusmall": SetFacts(8192, 12),
    "housing": SetFacts(506, 13),
    "mg": SetFacts(1385, 6),
    "mpg": SetFacts(392, 7),
    "pyrim": SetFacts(74, 27),
    "space": SetFacts(3107, 6),
    "triazines": SetFacts(186, 60),
    "australian": SetFacts(690, 14, 2),
    "breast-cancer": SetFacts(683, 10, 2),
    "diabetes": SetFacts(768, 8, 2),
    "german-numer": SetFacts(1000, 24, 2),
    "heart": SetFacts(270, 13, 2),
    "ionosphere": SetFacts(351, 34, 2),
    "liver-disorders": SetFacts(345, 6, 2),
    "mushrooms": SetFacts(8124, 112, 2),
    "sonar": SetFacts(208, 60, 2),
    "splice": SetFacts(1000, 60, 2, supplied_test=True),
    "w1a": SetFacts(2477, 300, 2, supplied_test=True),
    "connect-4": SetFacts(67557, 126, 3),
    "dna": SetFacts(2000, 180, 3, supplied_test=True),
    "glass": SetFacts(214, 9, 6),
    "iris": SetFacts(150, 4, 3),
    "letter": SetFacts(15000, 16, 26, supplied_test=True),
    "mnist1": SetFacts(10_000, 784, 10, supplied_test=True),
    "mnist1-01": SetFacts(10_000, 784, 10, supplied_test=True),
    "satimage": SetFacts(4435, 36, 6, supplied_test=True),
    "segment": SetFacts(2310, 19, 7),
    "svmguide2": SetFacts(391, 20, 3),
    "usps": SetFacts(7291, 256, 10, supplied_test=True),
    "vehicle": SetFacts(846, 18, 4),
    "vowel": SetFacts(528, 10, 11, supplied_test=True),
    "wine": SetFacts(178, 13, 3),
}

# The paper does not say how it scaled the grey levels of mnist1: to [-1, 1], like its other sets, or to [0, 1]. Both
# are run; the second has its own name.
VARIANTS = {"mnist1-01": "mnist1"}

FILES = {"german-numer": "german.numer", "mnist1": "mnist", "mnist1-01": "mnist", "space": "space_ga"}
TRAIN_ROWS = {"mnist1": 10_000, "mnist1-01": 10_000}  # drawn with seed 0; all supplied test rows are kept
CLASSIFICATION = tuple(name for name, facts in SETS.items() if facts.classes > 1 and name not in VARIANTS)


def file_name(name: str) -> str:
    """The file name of the data set that the paper calls ``name``."""
    return FILES.get(name, name)


@lru_cache(maxsize=1)
def data_set(name: str, folder: Path) -> Dataset:
    """The data set that the paper calls ``name``; the last one is cached, since consecutive rows use it."""
    dataset = load(file_name(name), folder, train_rows=TRAIN_ROWS.get(name))
    if name == "mnist1":  # read as [0, 1]; the variant mnist1-01 stays there
        X_test: Any = dataset.X_test
        return replace(dataset, X_train=2.0 * dataset.X_train - 1.0, X_test=2.0 * X_test - 1.0)
    return dataset


@lru_cache(maxsize=1)
def split_set(name: str, folder: Path, seed: int) -> Dataset:
    """The data set with test rows, drawn with ``seed`` if none are supplied."""
    return split(data_set(name, folder), seed)


def shape_of(dataset: Dataset) -> dict[str, int]:
    assert dataset.y_test is not None
    return {
        "n_train": len(dataset.y_train),
        "n_test": len(dataset.y_test),
        "n_features": dataset.X_train.shape[1],
        "n_classes": dataset.n_classes,
    }
