"""What a damaged or hostile file may ask for: lines, unpacked bytes, columns and letters are bounded while they are read."""

import gzip
import io
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest

from tikhon.data.files import LIMITS, NO_LIMITS, _remove_abandoned, reading, replacing
from tikhon.data.pair_tables import Longest
from tikhon.data.rna import stream_rna
from tikhon.data.svmlight import read_svmlight
from tikhon.data.tables import header, read_csv
from tikhon.errors import InputError
from tikhon.groups import NumberedNames

SHORT_LINES = replace(LIMITS, line_bytes=1000)


def test_a_line_without_end_is_refused_while_it_is_read(tmp_path):
    path = tmp_path / "long.csv"
    path.write_bytes(b"a,b\n" + b"1" * 200_000)
    with pytest.raises(InputError, match=r"line 2 has more than 1,000 bytes; .*--no-limits"):
        read_csv(path, target="b", limits=SHORT_LINES)
    with reading(path, SHORT_LINES) as (content, raw):
        with pytest.raises(InputError):
            content.read()
        assert raw.tell() < 150_000  # it has not been read to its end
    with reading(path, NO_LIMITS) as (content, _):
        assert len(content.read()) == 200_004


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_lines_within_the_limit_pass_whatever_ends_them(tmp_path, end):
    path = tmp_path / "lines"
    path.write_bytes((b"x" * 990 + end) * 500)
    with reading(path, SHORT_LINES) as (content, _):
        assert content.read() == path.read_bytes()


def test_the_row_of_a_quoted_table_is_bounded_too(tmp_path):
    path = tmp_path / "quoted.csv"
    path.write_text("a,b\n" + ('"' + "line\n" * 100 + '",') * 30 + "1\n")
    assert header(path, SHORT_LINES) == ("a", "b")
    with pytest.raises(InputError, match="a row has more than 1,000 characters"):
        read_csv(path, target="b", limits=SHORT_LINES)


def test_a_gzip_file_that_explodes_is_refused(tmp_path):
    path = tmp_path / "bomb.csv.gz"
    path.write_bytes(gzip.compress(b"a,b\n" + b"0,1\n" * 2_500_000))
    small = replace(LIMITS, always_unpacked=100_000)
    assert path.stat().st_size * small.expansion < 5_000_000
    with pytest.raises(InputError, match="the gzip file unpacks to more than"):
        read_csv(path, target="b", limits=small)
    with reading(path) as (content, _):  # small enough for any memory
        assert len(content.read()) == 10_000_004


def test_names_of_millions_of_columns_are_made_when_needed(tmp_path):
    path = tmp_path / "wide.svm"
    path.write_text("1 1:1\n")
    read_svmlight(path)  # imports what it needs
    path.write_text("1 16000000:1\n0 1:2\n")
    begun = time.process_time()
    table = read_svmlight(path)
    assert time.process_time() - begun < 1.0
    assert len(table.columns) == table.X.shape[1] == 16_000_000
    assert table.columns[-1] == "f16000000"
    path.write_text("1 100000000:1\n")
    with pytest.raises(InputError, match=r"line 1: the index 100000000, but at most 16,777,216 columns .*--no-limits"):
        read_svmlight(path)
    assert read_svmlight(path, limits=NO_LIMITS).X.shape == (1, 100_000_000)


def test_numbered_names_are_a_sequence():
    names, listed = NumberedNames("f", 1, 12), [f"f{n}" for n in range(1, 13)]
    assert list(names) == listed
    assert names[3] == listed[3]
    assert names[-1] == listed[-1]
    assert names[2:9:3] == listed[2:9:3]
    assert [name in names for name in ("f1", "f12", "f13", "f0", "f01", "f", "x1", 1, "f" + "9" * 5000, "f١")] == [
        True, True, *[False] * 8,
    ]  # fmt: skip
    with pytest.raises(IndexError):
        names[12]
    assert names == NumberedNames("f", 1, 12) != NumberedNames("f", 0, 12)


@pytest.mark.parametrize("index", [b"9" * 4301, b"0" * 4400 + b"7", b"0" * 5000])
def test_an_index_of_thousands_of_digits_is_refused_by_name(tmp_path, index):
    path = tmp_path / "digits.svm"
    path.write_bytes(b"1 1:1\n1 " + index + b":1\nx\n")
    with pytest.raises(InputError, match=r"digits.svm, line [23]"):
        read_svmlight(path)


@pytest.mark.parametrize(
    "content",
    [">a\n" + "GCGC\n" * 100, "G" * 400, "".join(f"{n} A 0\n" for n in range(1, 401)), "400 x\n" + "".join(
        f"{n} A 0 0 0 {n}\n" for n in range(1, 401)
    ), "." * 400],
)  # fmt: skip
def test_a_sequence_is_refused_as_soon_as_it_is_too_long(tmp_path, content):
    path = tmp_path / "long.fa"
    path.write_text(content)
    longest = Longest(300, "leave it out")
    with pytest.raises(InputError, match="has more than 300 letters: leave it out"):
        list(stream_rna(path, longest=longest, needs_sequence=False))


def test_reading_takes_time_in_proportion_to_the_size():
    """100,000 columns took half a minute, and 100,000 lines of a sequence eight seconds."""
    from tikhon.bench.reading import READERS, measure

    for reader in READERS:
        seconds = [
            measure({"reader": reader, "size": size, "repeats": 3}, None)["cpu_seconds"] for size in (2_000, 40_000)
        ]
        assert seconds[1] < 20 * 2.5 * seconds[0], reader


def test_a_misspelt_column_among_many_is_named_at_once(tmp_path):
    path = tmp_path / "wide.csv"
    path.write_text(",".join(f"column_{n}" for n in range(100_000)) + "\n" + ",".join(["1"] * 100_000) + "\n")
    begun = time.process_time()
    with pytest.raises(InputError, match="there is no target column 'colum_7'"):
        read_csv(path, target="colum_7")
    assert time.process_time() - begun < 5.0


# Unfinished files.

KILLED = """
import os, sys
from tikhon.data.files import replacing
with replacing(sys.argv[1]) as file:
    file.write(b"half")
    file.flush()
    print("writing", flush=True)
    sys.stdin.readline()
    os.kill(os.getpid(), 9)
"""


def test_what_a_killed_save_left_is_removed_by_the_next_one(tmp_path):
    path = tmp_path / "model"
    other = tmp_path / ".model.notes.part"  # not one of ours
    other.write_text("mine")
    writer = subprocess.Popen([sys.executable, "-c", KILLED, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert writer.stdout is not None
    assert writer.stdin is not None
    assert writer.stdout.readline() == b"writing\n"
    unfinished = [part for part in tmp_path.glob(".model.*.part") if part != other]
    assert len(unfinished) == 1
    with replacing(path) as file:  # the other process is alive: its file stays
        file.write(b"first")
    assert unfinished[0].exists()
    writer.stdin.write(b"\n")
    writer.stdin.close()
    assert writer.wait() == -9
    writer.stdout.close()
    assert unfinished[0].exists()
    with replacing(path) as file:
        file.write(b"second")
    assert not unfinished[0].exists()
    assert other.exists()
    assert path.read_bytes() == b"second"


def test_names_with_wildcards_only_match_themselves(tmp_path):
    (tmp_path / f".ab.{'0' * 12}.part").write_bytes(b"")
    _remove_abandoned(tmp_path / "a[b]")
    _remove_abandoned(tmp_path / "a*")
    assert (tmp_path / f".ab.{'0' * 12}.part").exists()
    _remove_abandoned(tmp_path / "ab")
    assert not (tmp_path / f".ab.{'0' * 12}.part").exists()


def test_a_pipe_is_read_as_it_comes(tmp_path, monkeypatch):
    """Not in blocks of 64 KB: structures appear as sequences arrive."""
    from tikhon.data.rna import STDIN

    class Drip(io.RawIOBase):
        def __init__(self):
            self.left = [b">a\nGGAACC\n", b">b\nGC\n", b">c\nA\n"]

        def readable(self):
            return True

        def readinto(self, buffer):
            if not self.left:
                raise AssertionError("read before what came was used")
            block = self.left.pop(0)
            buffer[: len(block)] = block
            return len(block)

    class Text:
        buffer = io.BufferedReader(Drip())

    monkeypatch.setattr(sys, "stdin", Text)
    first = next(stream_rna(STDIN))
    assert (first.name, first.sequence) == ("a", "GGAACC")


def test_limits_do_not_change_what_is_read(tmp_path):
    path = tmp_path / "table.csv"
    X = np.random.default_rng(0).normal(size=(50, 3))
    path.write_text("a,b,c\n" + "".join(f"{a!r},{b!r},{c!r}\n" for a, b, c in X.tolist()))
    np.testing.assert_array_equal(read_csv(path).X, X)
    np.testing.assert_array_equal(read_csv(path, limits=NO_LIMITS).X, X)
