"""Readers of csv and svmlight, against the csv module and scikit-learn, and against hostile input."""

import csv
import gzip
import io
import os
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

from tikhon.data import tables
from tikhon.data.files import replacing
from tikhon.data.svmlight import read_svmlight
from tikhon.data.tables import header, is_svmlight, read_csv, write_csv
from tikhon.errors import FileFormatError, InputError


def written(folder: Path, content: bytes | str, name: str = "table.csv") -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


@given(
    values=st.lists(
        st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=3, max_size=3), min_size=1, max_size=20
    ),
    delimiter=st.sampled_from(",;\t"),
    quoting=st.sampled_from([csv.QUOTE_ALL, csv.QUOTE_MINIMAL]),
    end=st.sampled_from(["\n", "\r\n"]),
    mark=st.booleans(),
    zipped=st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_every_dialect_gives_the_same_bits(values, delimiter, quoting, end, mark, zipped):
    text = io.StringIO()
    writer = csv.writer(text, delimiter=delimiter, quoting=quoting, lineterminator=end)
    writer.writerow(["a", f"b{delimiter}c", "élan"])
    writer.writerows(values)
    content = (b"\xef\xbb\xbf" if mark else b"") + text.getvalue().encode()
    with tempfile.TemporaryDirectory() as folder:
        path = written(Path(folder), gzip.compress(content) if zipped else content)
        table = read_csv(path, target="a")
        assert table.columns == (f"b{delimiter}c", "élan")
        np.testing.assert_array_equal(table.X, np.array(values)[:, 1:])
        np.testing.assert_array_equal(np.asarray(table.target, float), np.array(values)[:, 0])


def test_agrees_with_pandas_across_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "_CELLS_PER_BLOCK", 16)
    random = np.random.default_rng(0)
    frame = pd.DataFrame(random.normal(size=(57, 5)), columns=list("abcde"))
    frame.to_csv(tmp_path / "table.csv", index=False)
    seen: list[tuple[int, int]] = []
    table = read_csv(tmp_path / "table.csv", target="c", on_bytes=lambda *place: seen.append(place))
    np.testing.assert_array_equal(table.X, frame[["a", "b", "d", "e"]].to_numpy())
    np.testing.assert_array_equal(table.target, frame["c"].to_numpy())
    assert len(seen) == 19
    assert seen[-1][0] == seen[-1][1] == os.path.getsize(tmp_path / "table.csv")


def test_columns_are_taken_by_name_in_the_order_asked_for(tmp_path):
    path = written(tmp_path, "a,text,b\n1,x_y,2\n3,z,4\n")
    np.testing.assert_array_equal(read_csv(path, columns=["b", "a"]).X, [[2, 1], [4, 3]])
    np.testing.assert_array_equal(read_csv(path, columns=["b"]).X, [[2], [4]])
    np.testing.assert_array_equal(read_csv(path, target="b", ignore=["text"]).X, [[1], [3]])
    assert header(path) == ("a", "text", "b")


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["1", "0", "-3"], np.array([1, 0, -3])),
        (["1", "0.5", "2e3"], np.array([1.0, 0.5, 2000.0])),
        (["yes", "no", "1"], np.array(["yes", "no", "1"], dtype=object)),
        (["007", "010", "1"], np.array([7.0, 10.0, 1.0])),
    ],
)
def test_targets_are_numbers_where_all_are(tmp_path, cells, expected):
    path = written(tmp_path, "a,y\n" + "".join(f"1,{cell}\n" for cell in cells))
    target = read_csv(path, target="y").target
    assert target is not None
    assert target.dtype == expected.dtype
    assert target.tolist() == expected.tolist()


def test_lines_are_counted_through_quotes_and_blank_lines(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "_CELLS_PER_BLOCK", 4)
    path = written(tmp_path, 'a,note\n1,"two\nlines"\n\n2,x\n3,x\n4,x\nbad,x\n6,x\n7,x\n')
    with pytest.raises(InputError, match=r"line 8, column 'a': 'bad' is text"):
        read_csv(path, columns=["a"])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a,b\n1,2\n3,4,5\n", r"line 3: 3 fields, but the header has 2"),
        ("a;b\n1;2,5\n1;2\n1;2\n", r"'2,5' is text, but a number is needed; write decimals with a point"),
        ("a,b\n1,1_000\n1,1\n1,1\n", r"line 2, column 'b': '1_000' is text"),
        ("a,b\n1,-inf\n", r"line 2, column 'b': the value is '-inf'"),
        ("a,b\n1, \n", r"line 2, column 'b': the field is empty"),
        ("1,2\n3,4\n", r"is the header row missing\?"),
        ("a,b\n" + "x" * 300 + ",1\n", r"'x{40}…'"),
        ('a,b\n"1"x,2\n', r"line 2"),
        ("\n\n", r"empty"),
    ],
)
def test_errors_name_place_and_value(tmp_path, content, message):
    path = written(tmp_path, content)
    with pytest.raises(InputError, match=message):
        read_csv(path, columns=["a", "b"])


def test_many_missing_columns_are_listed_in_part(tmp_path):
    path = written(tmp_path, ",".join(f"c{place}" for place in range(40)) + "\n")
    with pytest.raises(InputError, match=r"no columns 'd0', .* and 4 more; columns are 'c0', .* and 32 more"):
        read_csv(path, columns=[f"d{place}" for place in range(12)])


def test_kind_is_told_by_name(tmp_path):
    assert not is_svmlight(Path("a.csv.gz"))
    assert not is_svmlight(Path("a.TSV"))
    assert all(
        is_svmlight(Path(f"a{end}{gz}")) for end in (".svm", ".svmlight", ".libsvm", ".txt") for gz in ("", ".gz")
    )
    with pytest.raises(InputError, match=r"a\.parquet.*\.csv"):
        is_svmlight(Path("a.parquet"))


@pytest.mark.parametrize("zero_based", [True, False])
def test_svmlight_agrees_with_scikit_learn(tmp_path, zero_based):
    random = np.random.default_rng(1)
    X = np.where(random.random((30, 7)) < 0.4, random.normal(size=(30, 7)), 0.0)
    X[0, [0, 6]] = 1.0
    path = tmp_path / "rows.svm"
    dump_svmlight_file(X, np.arange(30) % 3, str(path), zero_based=zero_based, comment="a comment")
    table = read_svmlight(path)
    expected, target = load_svmlight_file(str(path), zero_based=zero_based)
    np.testing.assert_array_equal(table.X.toarray(), expected.toarray())
    assert table.target is not None
    assert table.target.dtype == np.int64
    np.testing.assert_array_equal(table.target, target)
    assert table.columns[0] == ("f0" if zero_based else "f1")
    assert read_svmlight(path, n_features=9, first_index=table.first_index).X.shape == (30, 9)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "no rows"),
        ("1 1:2\n# note\nx 1:2\n", r"line 3: 'x' is text, but the target"),
        ("1 1:2 1:3\n", r"line 1: '1:3': indices must increase"),
        ("1 1:two\n", r"line 1: '1:two': the value is text"),
        ("1 1\n", r"line 1: '1' is not of the form index:value"),
        ("1 -1:2\n", r"line 1: '-1:2': the index"),
        ("1 1:1\n\n1 3:nan\n", r"line 3: the value of column 3 is nan"),
        ("1 1:1\ninf 3:1\n", r"line 2: the target is inf"),
        ("1 1:1\n1 2000000000:1\n", r"line 2: the index 2000000000, but at most 16,777,216 columns"),
        ("1\n0\n", r"has no index:value pairs"),
    ],
)
def test_bad_svmlight_is_named_by_line(tmp_path, content, message):
    with pytest.raises(InputError, match=message):
        read_svmlight(written(tmp_path, content, "rows.svm"))


def test_svmlight_must_fit_the_model(tmp_path):
    path = written(tmp_path, "1 0:1 4:1\n", "rows.svm")
    with pytest.raises(InputError, match="counted from 1"):
        read_svmlight(path, n_features=5, first_index=1)
    with pytest.raises(InputError, match=r"line 1: the index 4, but the model has 3 columns, 0 to 2"):
        read_svmlight(path, n_features=3, first_index=0)


@given(content=st.binary(max_size=300) | st.text(alphabet="01:. -#\nqid,xe\t", max_size=80).map(str.encode))
@settings(max_examples=200, deadline=None)
def test_any_bytes_are_read_or_refused(content):
    with tempfile.TemporaryDirectory() as folder:
        for name, read in (("t.csv", read_csv), ("t.svm", read_svmlight), ("t.csv", header)):
            path = written(Path(folder), content, name)
            complaint = ""
            try:
                result = read(path)
            except InputError as error:
                complaint = str(error)
            if complaint:
                assert complaint.startswith(str(path))
            else:
                assert isinstance(result, tuple) or np.isfinite(result.X.max())


def test_cut_gzip(tmp_path):
    content = gzip.compress(b"a,b\n" + b"1,2\n" * 5000)
    for length in (10, 20, len(content) - 1):
        with pytest.raises(FileFormatError, match="gzip file is truncated or damaged"):
            read_csv(written(tmp_path, content[:length], "t.csv.gz"), columns=["a"])


def test_written_numbers_and_text_are_read_back(tmp_path):
    random = np.random.default_rng(2)
    columns = {"label": np.array(["a,b", 'say "x"', "é"], dtype=object), "p": random.random(3), "n": np.arange(3)}
    for name in ("out.csv", "out.csv.gz"):
        with replacing(tmp_path / name) as file:
            write_csv(file, columns)
        frame = pd.read_csv(tmp_path / name, dtype=str)
        assert frame["label"].tolist() == columns["label"].tolist()
        np.testing.assert_array_equal([float(cell) for cell in frame["p"]], columns["p"])
        assert frame["n"].tolist() == ["0", "1", "2"]
    assert sorted(os.listdir(tmp_path)) == ["out.csv", "out.csv.gz"]


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path, error):
    path = written(tmp_path, "old")

    def interrupted_write() -> None:
        with replacing(path) as file:
            file.write(b"half")
            raise error

    with pytest.raises(error):
        interrupted_write()
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["table.csv"]


def test_a_link_is_written_through(tmp_path):
    real = written(tmp_path, "old", "real.csv")
    link = tmp_path / "link.csv"
    link.symlink_to(real)
    with replacing(link) as file:
        file.write(b"new")
    assert link.is_symlink()
    assert real.read_text() == "new"


def test_blank_lines_before_the_header_are_counted(tmp_path):
    with pytest.raises(InputError, match="line 5"):
        read_csv(written(tmp_path, "\n\na,b\n1,2\n1,x\n"))
    with pytest.raises(InputError, match="line 3: the name 'a'"):
        read_csv(written(tmp_path, "\n\na,a\n1,2\n"))


@pytest.mark.parametrize("content", ['a,b\n1,2\n3,"4\n', '"a,b\n1,2\n'])
def test_a_quote_that_is_not_closed_is_told_in_words(tmp_path, content):
    path = tmp_path / "x.csv"
    path.write_text(content)
    with pytest.raises(InputError, match=r"x\.csv, line \d: a quoted value is not closed"):
        read_csv(path)
