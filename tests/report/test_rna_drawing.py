"""Drawings of structures: valid and inert XML, loops with letters at equal steps, and nothing on top of anything else."""

import time
import xml.etree.ElementTree as ET

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from tikhon.data.dot_bracket import partners_of
from tikhon.errors import InputError
from tikhon.report.rna_drawing import dot_plot_svg, structure_svg
from tikhon.report.rna_layout import PAIR_WIDTH, letter_places, loops_of

TRNA = "GCGGAUUUAGCUCAGUUGGGAGAGCGCCAGACUGAAGAUCUGGAGGUCCUGUGUUCGAUCCACAGAAUUCGCACCA"
CLOVERLEAF = "(((((((..((((........)))).((((.........)))).....(((((.......))))))))))))...."
HOSTILE = "</title></svg><script>alert('a & b')</script>\x00\ud800"
SVG = "{http://www.w3.org/2000/svg}"


def pair_matrix(structure: str, probability: float = 0.8) -> sp.csr_array:
    partners = partners_of(structure) - 1
    rows = np.flatnonzero(partners > np.arange(len(partners)))
    shape = (len(partners), len(partners))
    return sp.csr_array((np.full(len(rows), probability), (rows, partners[rows])), shape=shape)


def of_class(drawing: str, name: str) -> list[ET.Element]:
    return [element for element in ET.fromstring(drawing).iter() if element.get("class") == name]


def places_of(structure: str) -> np.ndarray:
    return letter_places(partners_of(structure) - 1)[0]


def least_distance(places: np.ndarray) -> float:
    distances = np.abs(places[:, None] - places[None, :])
    return float(distances[np.triu_indices(len(places), 1)].min())


@st.composite
def structures(draw: st.DrawFn) -> str:
    """Nested structures of up to 60 letters, hairpins without a loop among them."""
    marks, n_open = [], 0
    for wish in draw(st.lists(st.sampled_from("((..))"), min_size=1, max_size=40)):
        mark = "." if wish == ")" and n_open == 0 else wish
        n_open += (mark == "(") - (mark == ")")
        marks.append(mark)
    return ("".join(marks) + ")" * n_open)[:60] if len(marks) + n_open <= 60 else "." * 60


@pytest.mark.parametrize("pairs", [None, pair_matrix(CLOVERLEAF)])
def test_a_drawing_has_each_pair_letter_and_tenth_number(pairs):
    drawing = structure_svg(TRNA, CLOVERLEAF, pairs, title="tRNA")
    assert len(of_class(drawing, "pair")) == CLOVERLEAF.count("(")
    letters = of_class(drawing, "letter")
    assert "".join(letter.find(f"{SVG}text").text for letter in letters) == TRNA
    (numbers,) = of_class(drawing, "numbers")
    assert [text.text for text in numbers.iter(f"{SVG}text")] == ["10", "20", "30", "40", "50", "60", "70"]
    (ends,) = of_class(drawing, "ends")
    assert [text.text for text in ends] == ["5′", "3′"]
    assert len(of_class(drawing, "legend")) == (pairs is not None)


def test_colours_are_those_of_the_pair_or_of_being_unpaired():
    pairs = sp.csr_array(([1.0, 0.5], ([0, 1], [4, 3])), shape=(5, 5))
    fills = [
        letter.find(f"{SVG}circle").get("fill") for letter in of_class(structure_svg("GAAAC", "(...)", pairs), "letter")
    ]
    certain, half = fills[0], fills[1]
    assert fills == [certain, half, certain, half, certain]
    assert certain != half


@given(structures())
@settings(max_examples=150, deadline=None)
def test_neighbours_around_a_loop_are_one_step_apart(structure):
    places = places_of(structure)
    for loop in loops_of(partners_of(structure) - 1):
        members = np.array(loop.members)
        lengths = np.abs(np.diff(places[members]))
        np.testing.assert_allclose(lengths[loop.pair_follows], PAIR_WIDTH, atol=1e-8)
        if loop.is_exterior:  # wider between helices that would meet
            assert np.all(lengths >= 1.0 - 1e-8)
        elif len(members) > 2:
            steps = lengths[~loop.pair_follows]
            np.testing.assert_allclose(steps, steps[0], atol=1e-8)
        if len(members) > 1:
            assert least_distance(places[members]) > 0.6


def test_a_hairpin_loop_is_round():
    places = places_of("((.......))")[1:10]
    centre = places.mean()
    for _ in range(50):  # the point at equal distances from all
        offsets = places - centre
        centre += np.mean(offsets * (1.0 - np.abs(offsets).mean() / np.abs(offsets)))
    assert np.ptp(np.abs(places - centre)) < 1e-3


def test_a_transfer_rna_is_a_cloverleaf():
    places = places_of(CLOVERLEAF)
    assert least_distance(places) > 0.95
    # Acceptor above, then the arms of D, of the anticodon and of T: left, below, right.
    middle = places[[6, 7, 9, 24, 25, 26, 42, 43, 44, 45, 46, 47, 48, 64, 65]].mean()
    acceptor, d_arm, anticodon, t_arm = (places[at] - middle for at in (0, 16, 34, 56))
    assert acceptor.imag > 3.0
    assert d_arm.real < -3.0
    assert anticodon.imag < -3.0
    assert t_arm.real > 3.0


def test_a_long_hairpin_lies_on_its_side():
    places = places_of("(" * 20 + "...." + ")" * 20)
    assert np.ptp(places.real) > 5.0 * np.ptp(places.imag)
    assert places[0].imag > places[-1].imag


def test_helices_side_by_side_do_not_meet():
    assert least_distance(places_of("((((..((((....))))..((((....))))..))))" * 3)) > 0.8


@pytest.mark.parametrize("drawing", [structure_svg, dot_plot_svg])
def test_hostile_text_is_inert(drawing):
    text = drawing("<&>\"'", ".....", sp.csr_array((5, 5)), title=HOSTILE)
    root = ET.fromstring(text)
    assert not [element for element in root.iter() if "script" in element.tag]
    assert root.find(f"{SVG}title").text.startswith("</title></svg><script>alert('a & b')")
    assert root.find(f"{SVG}desc").text
    text.encode("utf-8")


@pytest.mark.parametrize("n_letters", [1, 2, 3, 60, 700])
@pytest.mark.parametrize("with_pairs", [False, True])
def test_unpaired_letters_alone_can_be_drawn(n_letters, with_pairs):
    pairs = sp.csr_array((n_letters, n_letters)) if with_pairs else None
    drawing = structure_svg("A" * n_letters, "." * n_letters, pairs)
    assert len(of_class(drawing, "letter")) == n_letters
    assert not of_class(drawing, "pair")
    assert "nan" not in drawing


def test_a_long_line_of_letters_is_bent():
    width, height = (
        float(word) for word in ET.fromstring(structure_svg("A" * 700, "." * 700)).get("viewBox").split()[2:]
    )
    assert max(width, height) < 1.5 * min(width, height)


def test_a_hairpin_of_5000_pairs_is_drawn_in_time():
    structure = "(" * 5000 + "...." + ")" * 5000
    started = time.perf_counter()
    drawing = structure_svg("A" * len(structure), structure)
    assert time.perf_counter() - started < 2.0
    assert drawing.count('class="pair"') == 5000
    assert ">A</text>" not in drawing


@given(structures())
@settings(max_examples=50, deadline=None)
def test_any_nested_structure_can_be_drawn(structure):
    for drawing in (
        structure_svg("A" * len(structure), structure, pair_matrix(structure)),
        dot_plot_svg("A" * len(structure), structure, pair_matrix(structure)),
    ):
        ET.fromstring(drawing)
        assert "nan" not in drawing


def test_a_dot_plot_has_squares_of_area_p_above_and_the_structure_below():
    pairs = sp.csr_array(([0.25, 1e-6], ([0, 1], [5, 4])), shape=(6, 6))
    drawing = dot_plot_svg("GGAACC", "((..))", pairs)
    (probabilities,), (structure,) = of_class(drawing, "probabilities"), of_class(drawing, "structure")
    # Cells of 16 pixels: the square of p = 0.25 is 8 wide, in the middle of row 0 and column 5.
    assert probabilities.get("d") == "M84.00 4.00h8.000v8.000h-8.000z"
    assert structure.get("d").count("M") == 2
    assert structure.get("d").startswith("M0.00 80.00h16")
    (letters,) = of_class(drawing, "sequence")
    assert len(letters) == 4 * 6


def test_a_long_dot_plot_has_few_lines_and_no_letters():
    drawing = dot_plot_svg("A" * 1000, "." * 1000, sp.csr_array((1000, 1000)))
    assert not of_class(drawing, "sequence")
    (grid,) = of_class(drawing, "grid")
    assert len(grid) == 10


@pytest.mark.parametrize("drawing", [structure_svg, dot_plot_svg])
@pytest.mark.parametrize(
    ("sequence", "structure", "pairs", "message"),
    [
        ("", "", sp.csr_array((1, 1)), "the sequence is empty"),
        ("GAC", "()", sp.csr_array((3, 3)), "3 letters, but the structure has 2"),
        ("GAC", "(.(", sp.csr_array((3, 3)), r"'\(' at position 3 without a closing bracket"),
        ("GAC", ".))", sp.csr_array((3, 3)), r"'\)' at position 2 without an opening bracket"),
        ("GAC", "[.]", sp.csr_array((3, 3)), r"'\[' at position 1"),
        ("GAC", "(.)", sp.csr_array((2, 3)), r"shape \(2, 3\).*3 x 3"),
        ("GAC", "(.)", sp.csr_array(([0.5], ([2], [0])), shape=(3, 3)), r"pairs\[2, 0\] is 0.5: .*row < column"),
        ("GAC", "(.)", sp.csr_array(([1.5], ([0], [2])), shape=(3, 3)), r"pairs\[0, 2\] is 1.5"),
        ("GAC", "(.)", sp.csr_array(([np.nan], ([0], [2])), shape=(3, 3)), r"pairs\[0, 2\] is nan"),
    ],
)
def test_bad_input_is_named(drawing, sequence, structure, pairs, message):
    with pytest.raises(InputError, match=message):
        drawing(sequence, structure, pairs)
