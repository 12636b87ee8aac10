"""Files in columns: what is read, and what is refused and where."""

import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tikhon.data.conll import read_conll
from tikhon.errors import FileFormatError, InputError

TEXT = "-DOCSTART- -X- O\n\nThe\tDT\tB-NP\ncat\tNN\tI-NP\n\n\n  \nSleeps\tVBZ\tB-VP\r\n"


def written(tmp_path, text, name="train.tsv"):
    path = tmp_path / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def test_sentences_are_read_column_by_column(tmp_path):
    sentences = read_conll(written(tmp_path, TEXT))
    assert [sentence.columns for sentence in sentences] == [
        (("The", "cat"), ("DT", "NN"), ("B-NP", "I-NP")),
        (("Sleeps",), ("VBZ",), ("B-VP",)),
    ]
    assert [sentence.line for sentence in sentences] == [3, 8]
    assert [len(sentence) for sentence in sentences] == [2, 1]


def test_gzip_and_spaces_do_as_well(tmp_path):
    spaced = TEXT.replace("\t", "  ").encode()
    path = written(tmp_path, gzip.compress(spaced), "train.gz")
    assert [s.columns for s in read_conll(path)] == [s.columns for s in read_conll(written(tmp_path, TEXT))]


def test_a_byte_order_mark_is_not_part_of_the_first_word(tmp_path):
    for text in (TEXT, TEXT.partition("\n\n")[2]):
        marked = read_conll(written(tmp_path, b"\xef\xbb\xbf" + text.encode()))
        assert [sentence.columns for sentence in marked] == [
            sentence.columns for sentence in read_conll(written(tmp_path, text))
        ]


def test_an_empty_field_between_tabs_is_kept(tmp_path):
    assert read_conll(written(tmp_path, "a\t\tO\n"))[0].columns == (("a",), ("",), ("O",))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a O\nb\n", r"train.tsv, line 2: has 1 column, but the lines before have 2"),
        ("a O\n\nb c O\n", r"line 3: has 3 columns, but the lines before have 2"),
        ("\n \n", "holds no tokens"),
        ("", "holds no tokens"),
        (b"a O\n\xff\xfe O\n", "line 2: is not UTF-8 text .byte 1"),
    ],
)
def test_bad_files_are_refused_with_the_place(text, message, tmp_path):
    with pytest.raises(FileFormatError, match=message):
        read_conll(written(tmp_path, text))


def test_cut_and_missing_files_are_refused(tmp_path):
    cut = written(tmp_path, gzip.compress(TEXT.encode() * 100)[:-20], "cut.gz")
    with pytest.raises(FileFormatError, match="truncated or damaged"):
        read_conll(cut)
    with pytest.raises(InputError, match="there is no such file"):
        read_conll(tmp_path / "none.tsv")


def test_progress_is_told_in_bytes(tmp_path):
    path = written(tmp_path, "word\tO\n" * 20_000)
    seen = []
    read_conll(path, on_bytes=lambda done, size: seen.append((done, size)))
    assert seen == sorted(seen)
    assert all(size == path.stat().st_size for _, size in seen)
    assert len(seen) >= 4


@given(st.binary(max_size=300))
def test_any_bytes_are_read_or_refused(tmp_path_factory, content):
    path = written(tmp_path_factory.mktemp("any"), content)
    try:
        sentences = read_conll(path)
    except FileFormatError:
        return
    widths = {len(sentence.columns) for sentence in sentences}
    assert len(widths) == 1
    assert all(len(sentence) > 0 for sentence in sentences)
