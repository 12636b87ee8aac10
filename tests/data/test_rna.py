"""Files of RNA, and structures as text."""

import gzip

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tikhon.data.dot_bracket import dot_bracket, n_crossing, partly_known_partners, partners_of
from tikhon.data.rna import load_rna, read_rna
from tikhon.errors import FileFormatError, InputError


def joined(parts):
    return st.lists(parts, max_size=4).map("".join)


nested = st.recursive(st.just("."), lambda inner: joined(inner) | joined(inner).map(lambda text: f"({text})"))


@given(nested)
def test_partners_and_text_are_the_same(structure):
    partners = partners_of(structure)
    assert dot_bracket(partners) == structure
    paired = np.flatnonzero(partners)
    np.testing.assert_array_equal(partners[partners[paired] - 1], paired + 1)


@given(nested, st.data())
def test_what_is_not_known_has_marks_of_its_own(structure, data):
    partners = partners_of(structure)
    marks = list(structure)
    for place in data.draw(st.sets(st.integers(0, len(marks)))) - {len(marks)}:
        both = (place, int(partners[place]) - 1) if partners[place] > 0 else (place,)
        for one in both:  # a bracket alone would be none
            marks[one] = data.draw(st.sampled_from("?|"))
            partners[one] = {"?": -1, "|": -2}[marks[one]]
    np.testing.assert_array_equal(partly_known_partners("".join(marks)), partners)
    if not {"?", "|"}.isdisjoint(marks):
        with pytest.raises(InputError, match="at position"):  # of a structure that should be known
            partners_of("".join(marks))


def test_pairs_that_cross_are_left_out_and_counted():
    assert partners_of("((.[[A))]]a").tolist() == [8, 7, 0, 0, 0, 0, 2, 1, 0, 0, 0]
    assert n_crossing("((.[[A))]]a") == 3


@pytest.mark.parametrize(
    ("structure", "said"),
    [
        ("(()", "'\\(' at position 1 without a closing bracket"),
        ("())", "'\\)' at position 3 without an opening bracket"),
        ("(.!)", "'!' at position 3: write '.', '\\(', '\\)', or brackets"),
        ("(.x)", "'x' at position 3 without an opening bracket"),
        ("<.(>)<", "'<' at position 6 without a closing bracket"),
        ("GGAACC", "'[GAC]' at position [0-9] without a closing bracket"),
    ],
)
def test_structures_that_are_none(structure, said):
    with pytest.raises(InputError, match=said):
        partners_of(structure)


def test_comments_and_names_of_bprna(tmp_path):
    path = tmp_path / "one.dbn"
    path.write_text("#Name: bpRNA_1 of a set\n#Length: 4\nGGAACC\n((..))\n# and\n#Name: two\nACGU\n")
    records = read_rna(path)
    assert [(one.name, one.about, one.sequence, one.structure) for one in records] == [
        ("bpRNA_1", "of a set", "GGAACC", "((..))"), ("two", "", "ACGU", None),
    ]  # fmt: skip


@pytest.mark.parametrize("zipped", [False, True])
def test_records_with_and_without_structures(tmp_path, zipped):
    text = ">one first of all\nGGAA\nACC\n((...))\n\n>two\nACGU\n"
    path = tmp_path / "some.fa"
    path.write_bytes(gzip.compress(text.encode()) if zipped else text.encode())
    one, two = read_rna(path)
    assert (one.name, one.about, one.sequence, one.structure) == ("one", "first of all", "GGAAACC", "((...))")
    assert (two.name, two.about, two.sequence, two.structure) == ("two", "", "ACGU", None)


def test_plain_lines_are_sequences(tmp_path):
    path = tmp_path / "plain.txt"
    path.write_text("GGAAACC\n((...))\nACGU\nAAAA\n")
    assert [(one.name, one.sequence, one.structure) for one in read_rna(path)] == [
        ("sequence 1", "GGAAACC", "((...))"), ("sequence 2", "ACGU", None), ("sequence 3", "AAAA", None),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (">a\n>b\nACGU\n", "a has no sequence"),
        (">a\nACGU\n((.\n", "a has 4 letters, but its structure has 3"),
        (">a\nACGU\n(..)\nACGU\n", "a continues after its structure"),
        ("\xff\xfe", "is not UTF-8 text"),
    ],
)
def test_damaged_files_say_where(tmp_path, text, said):
    path = tmp_path / "bad.fa"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(FileFormatError, match=said):
        read_rna(path)


def test_the_folds_of_s151(data_dir):
    records = load_rna("s151rfam", data_dir)
    folds = [one.about.split()[0] for one in records]
    assert (folds.count("fold=A"), folds.count("fold=B")) == (75, 76)
    assert sum(len(one.sequence) for one in records) == 20581
    assert sum(int((partners_of(one.structure) > 0).sum()) for one in records) == 2 * 4977


def test_a_set_that_is_missing_says_how_to_name_the_folder(tmp_path):
    with pytest.raises(InputError, match="TIKHON_DATA"):
        load_rna("s151rfam", tmp_path)
