"""The LIBSVM data sets of the experiments, from the folder ``libsvm`` of ``--data DIR`` or ``TIKHON_DATA``.

The folder's MANIFEST.json lists each file, its task and its number of features. A data set is one file, a pair
``NAME.train`` and ``NAME.test``, or an npz with both. Nothing is downloaded.
"""

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import train_test_split

from tikhon.data.svmlight import read_svmlight
from tikhon.errors import FileFormatError, InputError

Task: TypeAlias = Literal["binary", "multiclass", "regression"]
Features: TypeAlias = Any  # a float64 array, or a scipy CSR matrix if less than a tenth is non-zero

DENSE_FROM = 0.1  # the share of non-zeros from which dense arithmetic is faster
TEST_SHARE = 0.3
SCALED_HERE = frozenset({"splice"})  # published unscaled; the experiments scale it to [-1, 1]
VARIABLE = "TIKHON_DATA"


@dataclass(frozen=True, eq=False, kw_only=True)
class Dataset:
    """Training rows and, if supplied or split off, test rows."""

    name: str
    task: Task
    X_train: Features
    y_train: NDArray[Any]
    X_test: Features | None = None
    y_test: NDArray[Any] | None = None

    @property
    def n_rows(self) -> int:
        """All rows, including test rows."""
        return len(self.y_train) + (0 if self.y_test is None else len(self.y_test))

    @property
    def n_classes(self) -> int:
        return 1 if self.task == "regression" else len(np.unique(self.y_train))


def data_folder(data: Path | None) -> Path:
    """The folder of real data: the one given, or the one that the environment variable TIKHON_DATA names."""
    if data is None:
        named = os.environ.get(VARIABLE)
        if not named:
            raise InputError(f"this needs real data: name its folder with --data DIR or in {VARIABLE}")
        data = Path(named)
    if not data.is_dir():
        raise InputError(f"the data folder {data} does not exist: name another with --data DIR or in {VARIABLE}")
    return data


def check_available(names: list[str], data_dir: Path) -> None:
    """Raise an InputError for the first missing data set, so that a long run does not fail late."""
    for name in names:
        for entry in _parts(name, data_dir).values():
            _existing(data_dir, entry["file"])


def load(name: str, data_dir: Path, *, train_rows: int | None = None, seed: int = 0) -> Dataset:
    """The data set, including supplied test rows.

    ``train_rows`` keeps only this number of training rows, drawn with ``seed`` and stratified by class.
    """
    parts = _parts(name, data_dir)
    first = next(iter(parts.values()))
    task: Task = first["task"]
    arrays = _read_npz(data_dir, first) if first["file"].endswith(".npz") else _read_svmlight(data_dir, parts)
    X_train: Any
    X_train, y_train, X_test, y_test = arrays
    if train_rows is not None and train_rows < len(y_train):
        chosen = _drawn_rows(y_train, train_rows, seed, stratified=task != "regression")
        X_train, y_train = X_train[chosen], y_train[chosen]
    if first["file"].endswith(".npz"):
        X_train, X_test = X_train / 255.0, X_test / 255.0  # grey levels
    if not isinstance(X_train, np.ndarray) and X_train.nnz >= DENSE_FROM * X_train.shape[0] * X_train.shape[1]:
        X_train = X_train.toarray()
        X_test = None if X_test is None else X_test.toarray()
    if name in SCALED_HERE:
        low, high = X_train.min(axis=0), X_train.max(axis=0)
        span = np.where(high > low, high - low, 1.0)
        X_train = 2.0 * (X_train - low) / span - 1.0
        X_test = 2.0 * (X_test - low) / span - 1.0
    kind = np.float64 if task == "regression" else np.int64
    y_train = y_train.astype(kind)
    y_test = None if y_test is None else y_test.astype(kind)
    return Dataset(name=name, task=task, X_train=X_train, y_train=y_train, X_test=X_test, y_test=y_test)


def split(dataset: Dataset, seed: int) -> Dataset:
    """The data set with its supplied test rows, or else with 30 % of its rows held out, drawn with ``seed``.

    The number of held-out rows is rounded down, as in Foo, Do, Ng 2009 according to the fractions in their tables.
    """
    if dataset.y_test is not None:
        return dataset
    train, test = train_test_split(
        np.arange(len(dataset.y_train)),
        test_size=int(TEST_SHARE * len(dataset.y_train)),
        stratify=None if dataset.task == "regression" else dataset.y_train,
        random_state=seed,
    )
    X, y = dataset.X_train, dataset.y_train
    return replace(dataset, X_train=X[train], y_train=y[train], X_test=X[test], y_test=y[test])


def subsample(dataset: Dataset, train_rows: int, seed: int) -> Dataset:
    """The data set with at most this number of training rows, drawn with ``seed``; the test rows are unchanged."""
    if train_rows >= len(dataset.y_train):
        return dataset
    chosen = _drawn_rows(dataset.y_train, train_rows, seed, stratified=dataset.task != "regression")
    return replace(dataset, X_train=dataset.X_train[chosen], y_train=dataset.y_train[chosen])


def _drawn_rows(y: NDArray[Any], n_rows: int, seed: int, *, stratified: bool) -> NDArray[np.intp]:
    rows = np.arange(len(y))
    chosen, _ = train_test_split(rows, train_size=n_rows, stratify=y if stratified else None, random_state=seed)
    return np.sort(chosen)


def _read_npz(data_dir: Path, entry: dict[str, Any]) -> tuple[Any, Any, Any, Any]:
    with np.load(_existing(data_dir, entry["file"])) as arrays:
        X_train, X_test = (arrays[key].reshape(len(arrays[key]), -1) for key in ("x_train", "x_test"))
        return X_train, arrays["y_train"], X_test, arrays["y_test"]


def _read_svmlight(data_dir: Path, parts: dict[str, dict[str, Any]]) -> tuple[Any, Any, Any, Any]:
    n_features = max(entry["features"] for entry in parts.values())  # a test file may lack the last columns
    read: dict[str, tuple[Any, Any]] = {}
    for part, entry in parts.items():
        table = read_svmlight(_existing(data_dir, entry["file"]), n_features=n_features, first_index=1)
        read[part] = table.X, table.target
    X_train, y_train = read["train"]
    X_test, y_test = read.get("test", (None, None))
    return X_train, y_train, X_test, y_test


def _parts(name: str, data_dir: Path) -> dict[str, dict[str, Any]]:
    """The manifest's entries of a data set: "train" and, where supplied, "test"."""
    entries = _manifest(data_dir)
    if name in entries:
        return {"train": entries[name]}
    parts = {part: entries[f"{name}.{part}"] for part in ("train", "test") if f"{name}.{part}" in entries}
    if "train" not in parts:
        known = sorted({entry.removesuffix(".train").removesuffix(".test") for entry in entries})
        raise InputError(f"the data set {name!r} is not in {_folder(data_dir)}; there are {', '.join(known)}")
    return parts


def _folder(data_dir: Path) -> Path:
    return data_dir / "libsvm"


def _existing(data_dir: Path, file: str) -> Path:
    path = _folder(data_dir) / file
    if not path.is_file():
        raise InputError(
            f"{path} does not exist: name the folder that holds libsvm/{file} with --data DIR or in {VARIABLE}"
        )
    return path


def _manifest(data_dir: Path) -> dict[str, dict[str, Any]]:
    return _read_manifest(_existing(data_dir, "MANIFEST.json"))


@lru_cache(maxsize=4)
def _read_manifest(path: Path) -> dict[str, dict[str, Any]]:
    try:
        return {entry["name"]: entry for entry in json.loads(path.read_text(encoding="utf-8"))["datasets"]}
    except (ValueError, KeyError, TypeError) as problem:
        raise FileFormatError(f"{path} is not a manifest of data sets ({problem}): fetch the folder again") from None


def check_paths(paths: Sequence[str], folder: Path) -> None:
    """Raise an InputError for the first missing file, so that a long run does not fail late."""
    for path in paths:
        if not (folder / path).is_file():
            raise InputError(f"{folder / path} is missing: name the data folder with --data DIR or in {VARIABLE}")
