"""The demo's data sets, which come with scikit-learn, with natural groups of columns or added ones."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_wine

from tikhon.objective import Matrix

Task: TypeAlias = Literal["classification", "regression"]
SEED = 20090801


@dataclass(frozen=True, eq=False, kw_only=True)
class Case:
    """A data set, its groups of columns, how it is split, and a description."""

    name: str
    task: Task
    X: Matrix
    y: NDArray[np.float64] | NDArray[np.int64]
    groups: Mapping[str, list[int]]
    about: str
    train_fraction: float = 0.5
    n_splits: int = 5

    @property
    def measure(self) -> str:
        return "log loss" if self.task == "classification" else "mean squared error"


def cases(*, quick: bool = False) -> list[Case]:
    """The data sets of the demo; ``quick`` keeps the two smallest, for tests."""
    return [diabetes(), wine()] if quick else [breast_cancer(), diabetes(), digits(), wine()]


def breast_cancer() -> Case:
    data = load_breast_cancer()
    n_rows = len(data.target)
    noise = np.random.default_rng(SEED).normal(size=(n_rows, 60))
    kinds = {"mean": "mean", "error": "error", "worst": "worst"}
    groups = {kind: [j for j, name in enumerate(data.feature_names) if word in name] for kind, word in kinds.items()}
    return Case(
        name="breast cancer",
        task="classification",
        X=np.hstack([data.data, noise]),
        y=data.target,
        groups={**groups, "noise (added)": list(range(30, 90))},
        about=(
            "569 tumours, benign or malignant. The 30 columns are ten measurements of the cell nuclei, each as its "
            "mean, its standard error and its worst value: three natural groups. We added a fourth of 60 columns of "
            "random numbers, in place of a block of features that turns out to be useless."
        ),
    )


def diabetes() -> Case:
    data = load_diabetes(scaled=False)
    standard = (data.data - data.data.mean(axis=0)) / data.data.std(axis=0)
    first, second = np.triu_indices(10, k=1)
    squares = [j for j in range(10) if len(np.unique(standard[:, j])) > 2]  # the square of a binary column is itself
    X = np.hstack([standard, standard[:, squares] ** 2, standard[:, first] * standard[:, second]])
    n_main, n_squares = 10, len(squares)
    return Case(
        name="diabetes",
        task="regression",
        X=X,
        y=data.target.astype(np.float64),
        groups={
            "main effects": list(range(n_main)),
            "squares (added)": list(range(n_main, n_main + n_squares)),
            "products (added)": list(range(n_main + n_squares, X.shape[1])),
        },
        about=(
            "442 patients, ten measurements, the progress of their disease a year later. We added the columns' "
            "squares and the products of all pairs: a common question is how strongly to shrink interactions relative "
            "to main effects."
        ),
    )


def digits() -> Case:
    data = load_digits()
    images = data.images / 16.0
    beside = (images[:, :, 1:] * images[:, :, :-1]).reshape(len(images), -1)
    below = (images[:, 1:, :] * images[:, :-1, :]).reshape(len(images), -1)
    pixels = images.reshape(len(images), -1)
    noise = np.random.default_rng(SEED + 1).normal(size=(len(images), 64))
    blocks = {"pixels": pixels, "neighbours (added)": np.hstack([beside, below]), "noise (added)": noise}
    return _from_blocks(
        blocks,
        name="digits",
        y=data.target,
        about=(
            "1,797 images of 8 by 8 pixels, ten classes, a third of them for training. We added the products of "
            "neighbouring pixels, which may help, and 64 columns of random numbers, which cannot."
        ),
        train_fraction=1 / 3,
        n_splits=3,
    )


def wine() -> Case:
    data = load_wine()
    shuffled = np.random.default_rng(SEED + 2).permutation(13)
    return Case(
        name="wine",
        task="classification",
        X=data.data,
        y=data.target,
        groups={"one half": sorted(map(int, shuffled[:7])), "other half": sorted(map(int, shuffled[7:]))},
        about=(
            "178 wines of three growers, 13 chemical measurements. The two groups are the columns split at random: "
            "such groups are uninformative, and there is nothing to gain from them."
        ),
    )


def _from_blocks(
    blocks: Mapping[str, Matrix], *, name: str, y: NDArray[np.int64], about: str, train_fraction: float, n_splits: int
) -> Case:
    ends = np.cumsum([block.shape[1] for block in blocks.values()])
    groups = {key: list(range(end - blocks[key].shape[1], end)) for key, end in zip(blocks, ends.tolist(), strict=True)}
    return Case(
        name=name,
        task="classification",
        X=np.hstack(list(blocks.values())),
        y=y,
        groups=groups,
        about=about,
        train_fraction=train_fraction,
        n_splits=n_splits,
    )
