"""Rows on the disk: kept, refused, and rid of a cut last line."""

from pathlib import Path

import pytest

from tikhon.errors import FileFormatError, InputError
from tikhon.harness.store import RowStore


@pytest.fixture
def store(tmp_path: Path) -> RowStore:
    return RowStore(tmp_path / "deep" / "x.rows.jsonl", "x", '{"folds": 5}')


def test_rows_come_back(store: RowStore) -> None:
    assert store.open() == []
    store.append({"key": "a", "value": 0.1})
    store.append({"key": "b", "value": None})
    assert store.open() == [{"key": "a", "value": 0.1}, {"key": "b", "value": None}]


def test_no_number_that_json_lacks(store: RowStore) -> None:
    store.open()
    with pytest.raises(ValueError, match="JSON compliant"):
        store.append({"key": "a", "value": float("nan")})
    assert store.open() == []


@pytest.mark.parametrize("tail", [b'{"key": "b", "va', b"\0\0\0\0\n", b'{"key": "b"'])
def test_a_cut_last_line_is_dropped_and_does_not_spoil_the_next(store: RowStore, tail: bytes) -> None:
    store.open()
    store.append({"key": "a"})
    with open(store.path, "ab") as file:
        file.write(tail)
    assert store.open() == [{"key": "a"}]
    store.append({"key": "c"})
    assert store.open() == [{"key": "a"}, {"key": "c"}]


def test_every_cut_of_the_file_opens(store: RowStore) -> None:
    store.open()
    for key in ("a", "b"):
        store.append({"key": key})
    whole = store.path.read_bytes()
    for length in range(len(whole)):
        store.path.write_bytes(whole[:length])
        kept = [row["key"] for row in store.open()]
        assert kept == ["a", "b"][: whole[:length].count(b"\n") - 1 if whole[:length].count(b"\n") else 0]


def test_other_rows_are_refused(store: RowStore) -> None:
    store.open()
    store.append({"key": "a"})
    before = store.path.read_bytes()
    with pytest.raises(InputError, match="another configuration"):
        RowStore(store.path, "x", '{"folds": 3}').open()
    with pytest.raises(FileFormatError, match="does not hold rows of y"):
        RowStore(store.path, "y", '{"folds": 5}').open()
    assert store.path.read_bytes() == before


def test_a_broken_line_within_is_named(store: RowStore) -> None:
    store.open()
    with open(store.path, "ab") as file:
        file.write(b'nonsense\n{"key": "a"}\n')
    with pytest.raises(FileFormatError, match="line 2 is not a row"):
        store.open()
