"""The reader of the LIBSVM folder: on a small folder made here, and on the real one where it is."""

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from tikhon.data.libsvm import Dataset, check_available, data_folder, load, split, subsample
from tikhon.errors import FileFormatError, InputError
from tikhon.harness.libsvm_sets import SETS, file_name


def written(folder: Path, name: str, task: str, features: int, lines: list[str]) -> dict[str, object]:
    (folder / f"{name}.gz").write_bytes(gzip.compress("\n".join(lines).encode() + b"\n"))
    return {"name": name, "file": f"{name}.gz", "task": task, "features": features}


@pytest.fixture
def made(tmp_path: Path) -> Path:
    folder = tmp_path / "libsvm"
    folder.mkdir()
    rng = np.random.default_rng(0)
    dense = [f"{row % 3} " + " ".join(f"{j + 1}:{rng.normal():.3f}" for j in range(3)) for row in range(31)]
    wide = [f"{1 - 2 * (row % 2)} {row % 50 + 1}:1" for row in range(40)]
    entries = [
        written(folder, "flowers", "multiclass", 3, dense),
        written(folder, "wide", "binary", 50, wide),
        written(folder, "splice.train", "binary", 3, ["1 1:1 2:2 3:5", "-1 1:4 2:3 3:5", "1 1:2 2:2 3:5"]),
        written(folder, "splice.test", "binary", 2, ["-1 1:4 2:2", "1 1:7 2:3"]),
        written(folder, "prices", "regression", 1, [f"{row} 1:{row + 1}" for row in range(10)]),
    ]
    np.savez(
        folder / "mnist.npz",
        x_train=rng.integers(0, 256, size=(60, 2, 2), dtype=np.uint8),
        y_train=np.repeat(np.arange(3, dtype=np.uint8), 20),
        x_test=np.full((2, 2, 2), 255, np.uint8),
        y_test=np.array([0, 1], np.uint8),
    )
    entries.append({"name": "mnist", "file": "mnist.npz", "task": "multiclass", "features": 4})
    (folder / "MANIFEST.json").write_text(json.dumps({"datasets": entries}))
    return tmp_path


def test_one_file_is_dense_with_whole_labels(made: Path) -> None:
    dataset = load("flowers", made)
    assert isinstance(dataset.X_train, np.ndarray)
    assert dataset.X_train.shape == (31, 3)
    assert dataset.y_train.dtype == np.int64
    assert (dataset.n_classes, dataset.n_rows, dataset.X_test) == (3, 31, None)


def test_few_non_zeros_stay_sparse(made: Path) -> None:
    X = load("wide", made).X_train
    assert sparse.issparse(X)
    assert X.format == "csr"
    assert (X.shape, X.nnz) == ((40, 50), 40)


def test_a_pair_has_equal_columns_and_splice_is_scaled_by_its_training_rows(made: Path) -> None:
    dataset = load("splice", made)
    # In training columns 1 and 2 run from 1 to 4 and 2 to 3; 7 lies outside; column 3 is constant, absent in the test.
    np.testing.assert_allclose(dataset.X_train, [[-1, -1, -1], [1, 1, -1], [-1 / 3, -1, -1]])
    np.testing.assert_allclose(dataset.X_test[:, :2], [[1, -1], [3, 1]])
    assert dataset.X_test.shape == (2, 3)
    assert split(dataset, seed=3) is dataset


def test_npz_is_scaled_and_drawn_in_proportion(made: Path) -> None:
    dataset = load("mnist", made, train_rows=30, seed=0)
    assert np.bincount(dataset.y_train).tolist() == [10, 10, 10]
    assert dataset.X_train.max() <= 1.0
    np.testing.assert_array_equal(dataset.X_test, np.ones((2, 4)))
    other = load("mnist", made, train_rows=30, seed=1)
    assert not np.array_equal(dataset.X_train, other.X_train)


def test_split_holds_out_three_tenths_by_class(made: Path) -> None:
    whole = load("flowers", made)
    first, again, other = split(whole, 0), split(whole, 0), split(whole, 1)
    assert (len(first.y_train), len(first.y_test)) == (22, 9)  # 9.3 rounded down
    assert np.bincount(first.y_test).tolist() == [3, 3, 3]
    np.testing.assert_array_equal(first.X_test, again.X_test)
    assert not np.array_equal(first.X_test, other.X_test)
    both = np.vstack([first.X_train, first.X_test])
    np.testing.assert_array_equal(np.sort(both, axis=0), np.sort(whole.X_train, axis=0))


def test_split_of_numbers_and_subsample(made: Path) -> None:
    prices = split(load("prices", made), 0)
    assert prices.y_train.dtype == np.float64
    assert (len(prices.y_train), len(prices.y_test)) == (7, 3)
    fewer = subsample(prices, 4, seed=0)
    assert len(fewer.y_train) == 4
    np.testing.assert_array_equal(fewer.X_test, prices.X_test)
    assert subsample(prices, 7, seed=0) is prices


def test_what_is_missing_is_named(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(
        InputError, match=r"'tulips' is not in .*libsvm; there are flowers, mnist, prices, splice, wide"
    ):
        load("tulips", made)
    (made / "libsvm" / "wide.gz").unlink()
    with pytest.raises(InputError, match=r"wide\.gz does not exist.*--data DIR or in TIKHON_DATA"):
        check_available(["flowers", "wide"], made)
    with pytest.raises(InputError, match=r"MANIFEST\.json does not exist.*--data"):
        load("flowers", made / "libsvm")
    with pytest.raises(InputError, match=r"nowhere does not exist.*--data"):
        data_folder(made / "nowhere")
    monkeypatch.delenv("TIKHON_DATA", raising=False)
    with pytest.raises(InputError, match=r"--data DIR or in TIKHON_DATA"):
        data_folder(None)
    monkeypatch.setenv("TIKHON_DATA", str(made))
    assert data_folder(None) == made


def test_damaged_files_are_refused(made: Path) -> None:
    path = made / "libsvm" / "wide.gz"
    path.write_bytes(path.read_bytes()[:-12])
    with pytest.raises(InputError, match=r"wide\.gz"):
        load("wide", made)


def test_a_manifest_of_another_kind_is_refused(tmp_path: Path) -> None:
    (tmp_path / "libsvm").mkdir()
    (tmp_path / "libsvm" / "MANIFEST.json").write_text("{}")
    with pytest.raises(FileFormatError, match="not a manifest"):
        load("wide", tmp_path)


@pytest.mark.parametrize("name", sorted(set(SETS) - {"mnist1", "mnist1-01", "connect-4", "letter", "usps", "w1a"}))
def test_facts_of_the_real_sets(name: str, data_dir: Path) -> None:
    facts = SETS[name]
    dataset: Dataset = load(file_name(name), data_dir)
    assert dataset.X_train.shape == (facts.rows, facts.features)
    assert (dataset.y_test is not None) == facts.supplied_test
    assert dataset.n_classes == facts.classes
    if name == "splice":
        assert (dataset.X_train.min(), dataset.X_train.max()) == (-1.0, 1.0)
