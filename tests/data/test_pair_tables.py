"""bpseq and ct: what is written is read again, and what is wrong is named with its line."""

import gzip

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tikhon.data.dot_bracket import CROSSING, n_crossing, partners_of
from tikhon.data.pair_tables import bpseq_text, brackets_of, ct_text, kind_of_row, read_bpseq, read_ct
from tikhon.data.rna import read_rna, stream_rna
from tikhon.errors import FileFormatError


def joined(parts):
    return st.lists(parts, max_size=4).map("".join)


nested = st.recursive(
    st.sampled_from(".?"), lambda inner: joined(inner) | joined(inner).map(lambda text: f"({text})")
).filter(bool)


@st.composite
def any_partners(draw):
    """Pairs of any two letters, most of them crossing."""
    n = draw(st.integers(1, 24))
    order = draw(st.permutations(range(1, n + 1)))
    partners = np.zeros(n, np.int64)
    for k in range(draw(st.integers(0, n // 2))):
        i, j = order[2 * k], order[2 * k + 1]
        partners[i - 1], partners[j - 1] = j, i
    return partners


def numbered(text):
    return list(enumerate(text.splitlines(), 1))


def partners_by_kind(structure):
    """All pairs, each kind of bracket with a stack of its own."""
    closing = {close: mark for mark, close in {"(": ")", **CROSSING}.items()}
    partners, stacks = np.zeros(len(structure), np.int64), {}
    for place, mark in enumerate(structure, 1):
        if mark in closing:
            other = stacks[closing[mark]].pop()
            partners[place - 1], partners[other - 1] = other, place
        elif mark in closing.values():
            stacks.setdefault(mark, []).append(place)
    assert not any(stacks.values())
    return partners


@given(structure=nested, data=st.data())
def test_nested_structures_survive_both_formats(structure, data):
    sequence = data.draw(st.text("ACGUNacgut", min_size=len(structure), max_size=len(structure)))
    partners = np.where(np.array(list(structure)) == "?", -1, partners_of(structure.replace("?", ".")))
    for write, read, kind in ((bpseq_text, read_bpseq, "bpseq"), (ct_text, read_ct, "ct")):
        text = write("one", "of some", sequence, partners)
        (table, again) = read(numbered(text + text), "file")
        assert (table.name, table.about, table.sequence) == ("one", "of some", sequence)
        assert brackets_of(table.partners) == brackets_of(again.partners) == structure
        assert kind_of_row(text.splitlines()[1]) == kind


@given(any_partners())
def test_pairs_that_cross_are_drawn_with_other_brackets(partners):
    structure = brackets_of(partners)
    np.testing.assert_array_equal(partners_by_kind(structure), partners)
    n_pairs = int((partners > 0).sum()) // 2
    assert n_crossing(structure) + structure.count("(") == n_pairs
    kept = partners_of(structure)  # those in round brackets are nested, or this would not read them
    assert int((kept > 0).sum()) // 2 == structure.count("(")
    # Nothing is taken out that could stay: each other pair crosses one in round brackets.
    for i, j in ((i, int(j)) for i, j in enumerate(partners, 1) if j > i and kept[i - 1] == 0):
        inside = kept[i : j - 1]
        assert np.any((inside > 0) & ((inside < i) | (inside > j)))


def test_the_longer_helix_stays():
    #          1234567890123
    structure = "((.[[[..))]]]"
    turned = brackets_of(partners_by_kind(structure))
    assert turned == "[[.(((..]])))"


def test_files_of_other_programs(tmp_path):
    web = tmp_path / "crw.bpseq"
    web.write_text(
        "Filename: d.5.e.bpseq\nOrganism: E. coli\nAccession Number: 1\nCitation: none\n1 g 4\n2 A 0\n3 A 0\n4 c 1\n"
    )
    (one,) = read_rna(web)
    assert (one.name, one.sequence, one.structure) == ("d.5.e.bpseq", "gAAc", "(..)")
    unnamed = tmp_path / "rna.bpseq.gz"
    unnamed.write_bytes(gzip.compress(b"# made by hand\r\n1 G 3\r\n2 A -1\r\n3 C 1\r\n"))
    (one,) = read_rna(unnamed)
    assert (one.name, one.sequence, one.structure) == ("rna", "GAC", "(?)")
    folded = tmp_path / "two.ct"
    rows = "1 G 0 2 3 1 0 0\n    2 A 1 3 0 2 0 0\n 3 C 2 0 1 3 0 0\n"
    free = rows.replace("0 2 3 ", "0 2 0 ").replace("2 0 1", "2 0 0")
    folded.write_text(f"# RNA\n  3  ENERGY = -1.5  first one\n{rows}\n  3 dG = -1.2 \n{free}")
    first, second = read_rna(folded)
    assert (first.name, first.about, first.structure) == ("first", "one", "(.)")
    assert (second.name, second.structure) == ("two_2", "...")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("1 G 3\n2 A 0\n3 C 0\n", "bad, line 1: letter 1 has the partner 3, but letter 3 .line 3. has the partner 0"),
        ("1 G 3\n2 A 3\n3 C 1\n", "line 2: letter 2 has the partner 3, but letter 3 .line 3. has the partner 1"),
        ("1 G 9\n2 A 0\n", "line 1: letter 1 has the partner 9, but there are 2 letters"),
        ("1 G -2\n2 A 0\n", "line 1: letter 1 has the partner -2"),
        ("1 G 1\n2 A 0\n", "line 1: letter 1 is its own partner"),
        ("1 G 0\n3 A 0\n", "line 2: letter 3 instead of 2"),
        ("1 G 0\n1 A 0\n", "line 2: letter 1 instead of 2"),
        ("0 G 0\n1 A 0\n", "line 1: letter 0 instead of 1"),
        ("1 G 0\n2 A\n", "line 2: has 2 columns"),
        ("1 G 0\n2 A 0 0\n", "line 2: has 4 columns"),
        ("1 G 0\n2 A x\n", "line 2: the partner is 'x'"),
        ("1 G 0\n2 AA 0\n", "line 2: 'AA' is not a letter"),
        ("1 G 0\n2 J 0\n", "line 2: bad has 'J' at position 2"),
        (f"1 G 0\n2 A {'9' * 5000}\n", "line 2: the partner is '999"),
        ("2 x\n1 G 0 2 0 1\n", "bad: the last structure should have 2 letters, but has 1"),
        ("2 x\n1 G 0 2 0 1\n2 A 1 0\n", "line 3: has 4 columns, but 6 are needed"),
        ("2 x\n1 G 0 2 2 1\n2 A 1 0 0 2\n", "line 2: letter 1 has the partner 2, but letter 2 .line 3."),
        ("0 x\n1 G 0 2 2 1\n", "line 1: a structure of 0 letters"),
        ("title\n1 G 0 2 2 1\n", "line 1: the number of letters is 'title'"),
        ("", "bad: holds no sequences"),
        ("\n# nothing\n", "'#' at position 1|holds no sequences"),
    ],
)  # fmt: skip
def test_tables_that_are_wrong_say_where(tmp_path, monkeypatch, text, said):
    monkeypatch.chdir(tmp_path)
    path = tmp_path.relative_to(tmp_path) / "bad"
    path.write_text(text)
    with pytest.raises(FileFormatError, match=said):
        list(stream_rna(path))


@pytest.mark.parametrize(
    ("name", "said"), [("a.bpseq", "line 1: has 2 columns"), ("a.CT", "line 1: the number of letters")]
)
def test_the_ending_tells_what_a_damaged_table_was(tmp_path, name, said):
    (tmp_path / name).write_text("1G ACG\n")
    with pytest.raises(FileFormatError, match=said):
        read_rna(tmp_path / name)


def test_more_ways_to_cross_than_brackets(tmp_path):
    n = 80
    partners = [(place + n // 2) % n + 1 for place in range(n)]
    path = tmp_path / "knot.bpseq"
    path.write_text("".join(f"{i} A {j}\n" for i, j in enumerate(partners, 1)))
    with pytest.raises(FileFormatError, match="line 1: knot: pairs cross in more ways"):
        read_rna(path)
