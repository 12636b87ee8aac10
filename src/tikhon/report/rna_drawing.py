"""Drawings of RNA secondary structures as self-contained SVG text, without a plotting library or style sheet."""

import re
import textwrap
from collections.abc import Iterable, Iterator
from html import escape
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tikhon.data.dot_bracket import CLOSE, OPEN, UNPAIRED, partners_of
from tikhon.errors import InputError
from tikhon.objective import Vector
from tikhon.report.canvas import BLUE, GREY
from tikhon.report.rna_layout import Places, letter_places

# Stops of viridis, reversed so that high probabilities are dark; lightness falls evenly, visible to any colour vision.
_STOPS = ("#FDE725", "#ADDC30", "#5EC962", "#28AE80", "#21918C", "#2C728E", "#3B528B", "#472D7B")
_STOP_LEVELS = np.array([[int(stop[at : at + 2], 16) for at in (1, 3, 5)] for stop in _STOPS], float)
_INK, _PALE = "#222222", "#DDDDDD"
_MARGIN, _TEXT_SIZE, _LINE_HEIGHT = 12.0, 13.0, 18.0
_NARROWEST = 300.0  # room for the legend and some words of the title

_MOST_LETTERS_SHOWN = 500
_LARGEST_STEP, _SMALLEST_STEP, _USUAL_SIDE = 18.0, 4.0, 1100.0  # pixels
_LETTER_RADIUS = 0.4  # of a step

_NUMBER_TURNS = tuple(np.exp(1j * np.radians((0.0, 35.0, -35.0, 70.0, -70.0))).tolist())

_LEAST_PROBABILITY = 1e-4
_LARGEST_CELL, _PLOT_SIDE = 16.0, 720.0  # pixels
_MOST_LETTERS_ON_EDGES = 150

# What XML 1.0 cannot hold, even as a reference.
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def structure_svg(sequence: str, structure: str, pairs: Any = None, *, title: str = "") -> str:
    """A conventional drawing of a structure: loops round, helices as ladders, letters coloured by probability.

    Parameters
    ----------
    sequence : str
    structure : str
        Its nested structure in dot-bracket: ``(``, ``)`` and ``.`` only.
    pairs : sparse matrix or None, default=None
        The probability that letters i < j (from 0) pair, as ``RNAFolder.predict_pairs`` gives it. A letter's colour is
        the probability of its pair or, of an unpaired one, of being unpaired. None: no colours.
    title : str, default=""

    Returns
    -------
    str
    """
    partners = _checked_partners(sequence, structure)
    probable = None if pairs is None else _letter_probabilities(partners, _checked_pairs(pairs, len(sequence)))
    places, away = letter_places(partners)
    places, away, step, width, height = _on_paper(places, away, title)
    body = [
        _backbone(places, step),
        _pair_lines(sequence, partners, places, step),
        _letters(sequence, partners, probable, places, step),
        _numbers(places, away, step),
        _end_marks(places, away, step),
    ]
    if probable is not None:
        body.append(_legend(_MARGIN, height + 4.0))
        height += 46.0
    n_pairs = int(np.sum(partners >= 0)) // 2
    about = f"Secondary structure of an RNA of {len(sequence)} letters with {n_pairs} base pairs: {structure}"
    return _document(width, height, title, about, body)


def dot_plot_svg(sequence: str, structure: str, pairs: Any, *, title: str = "") -> str:
    """A dot plot: above the diagonal all pairs, as squares of area p; below it those of the structure.

    The parameters are those of ``structure_svg``. Pairs with a probability below 1e-4 are left out.
    """
    partners = _checked_partners(sequence, structure)
    probabilities = _checked_pairs(pairs, len(sequence))
    n_letters = len(sequence)
    cell = min(_LARGEST_CELL, _PLOT_SIDE / n_letters)
    side = cell * n_letters
    edge = _MARGIN + 3.0 * _TEXT_SIZE
    width = max(side + 1.6 * edge, _NARROWEST)
    top = _title_height(title, width) + _MARGIN + _TEXT_SIZE
    shown = probabilities.data >= _LEAST_PROBABILITY
    rows, columns, values = probabilities.row[shown], probabilities.col[shown], probabilities.data[shown]
    opening = np.flatnonzero(partners > np.arange(n_letters))
    body = [
        f'<g transform="translate({edge:.2f} {top:.2f})">',
        _grid(n_letters, cell),
        f'<path class="probabilities" fill="{_INK}" d="{_squares(rows, columns, np.sqrt(values), cell)}"/>',
        f'<path class="structure" fill="{BLUE}" d="{_squares(partners[opening], opening, np.ones(len(opening)), cell)}"/>',
        _edge_letters(sequence, cell) if n_letters <= _MOST_LETTERS_ON_EDGES else "",
        "</g>",
        _text(edge, top + side + edge, "above the diagonal: squares of area p", fill=_INK, anchor="start"),
        _text(edge, top + side + edge + _LINE_HEIGHT, "below: the structure", fill=BLUE, anchor="start"),
    ]
    about = (
        f"Dot plot of an RNA of {n_letters} letters: {len(values)} pairs with a probability of {_LEAST_PROBABILITY:g} or more"
        f" above the diagonal, the {len(opening)} pairs of the structure below it"
    )
    return _document(width, top + side + edge + 2.0 * _LINE_HEIGHT, title, about, body)


def _checked_partners(sequence: str, structure: str) -> NDArray[np.int64]:
    """The partner of each letter, from 0, and -1 where there is none."""
    if not sequence:
        raise InputError("the sequence is empty: a drawing needs at least one letter")
    if len(sequence) != len(structure):
        raise InputError(
            f"the sequence has {len(sequence)} letters, but the structure has {len(structure)}: they must match"
        )
    for position, mark in enumerate(structure, 1):
        if mark not in (UNPAIRED, OPEN, CLOSE):
            raise InputError(f"the structure has {mark!r} at position {position}: only '.', '(' and ')' can be drawn")
    return partners_of(structure) - 1


def _checked_pairs(pairs: Any, n_letters: int) -> sp.coo_array:
    """The probabilities of pairs, each once."""
    shape = np.shape(pairs)
    if shape != (n_letters, n_letters):
        raise InputError(
            f"pairs has shape {shape}: a sequence of {n_letters} letters needs a matrix of {n_letters} x {n_letters}"
        )
    found = sp.coo_array(sp.csr_array(pairs, dtype=np.float64))
    kept = found.data != 0.0
    found = sp.coo_array((found.data[kept], (found.row[kept], found.col[kept])), shape=shape)
    for bad, remedy in (
        (~((found.data >= 0.0) & (found.data <= 1.0 + 1e-6)), "write probabilities, from 0 to 1"),
        (found.row >= found.col, "write each pair once, at row < column"),
    ):
        if bad.any():
            at = int(np.argmax(bad))
            raise InputError(f"pairs[{found.row[at]}, {found.col[at]}] is {found.data[at]:g}: {remedy}")
    return found


def _letter_probabilities(partners: NDArray[np.int64], pairs: sp.coo_array) -> Vector:
    """The probability of each letter's state in the structure: its pair, or being unpaired."""
    n_letters = len(partners)
    paired = np.bincount(pairs.row, pairs.data, n_letters) + np.bincount(pairs.col, pairs.data, n_letters)
    drawn = partners[pairs.row] == pairs.col
    probable = np.where(partners < 0, 1.0 - paired, 0.0)
    probable[pairs.row[drawn]] = probable[pairs.col[drawn]] = pairs.data[drawn]
    return np.asarray(np.clip(probable, 0.0, 1.0))


def _on_paper(places: Places, away: Places, title: str) -> tuple[Places, Places, float, float, float]:
    """Places and directions in pixels, downwards; pixels per step; the size of the drawing with its title."""
    marked = [0, *range(9, len(places), 10), len(places) - 1]
    taken = np.append(places, places[marked] + 1.8 * away[marked])  # these letters have numbers or marks next to them
    left, right, low, high = taken.real.min(), taken.real.max(), taken.imag.min(), taken.imag.max()
    step = float(np.clip(_USUAL_SIDE / max(right - left, high - low, 1.0), _SMALLEST_STEP, _LARGEST_STEP))
    room = _MARGIN + 0.6 * step
    drawn_width = step * float(right - left) + 2.0 * room
    width = max(drawn_width, _NARROWEST)
    top = _title_height(title, width) + room
    x = step * (places.real - left) + room + 0.5 * (width - drawn_width)
    y = step * (high - places.imag) + top
    return x + 1j * y, away.conj(), step, width, top + step * float(high - low) + room


def _backbone(places: Places, step: float) -> str:
    points = " ".join(f"{place.real:.2f},{place.imag:.2f}" for place in places.tolist())
    return (
        f'<polyline class="backbone" points="{points}" fill="none" stroke="#999999" stroke-width="{0.1 * step:.2f}"/>'
    )


def _pair_lines(sequence: str, partners: NDArray[np.int64], places: Places, step: float) -> str:
    """A line for each pair, with a dot on those of G and U."""
    lines, dots = [], []
    for first in np.flatnonzero(partners > np.arange(len(partners))).tolist():
        second = int(partners[first])
        a, b = complex(places[first]), complex(places[second])
        lines.append(f'<line class="pair" x1="{a.real:.2f}" y1="{a.imag:.2f}" x2="{b.real:.2f}" y2="{b.imag:.2f}"/>')
        if {sequence[first].upper(), sequence[second].upper()} in ({"G", "U"}, {"G", "T"}):
            middle = 0.5 * (a + b)
            dots.append(f'<circle class="wobble" cx="{middle.real:.2f}" cy="{middle.imag:.2f}" r="{0.13 * step:.2f}"/>')
    return f'<g stroke="{_INK}" fill="{_INK}" stroke-width="{0.12 * step:.2f}">{"".join(lines)}{"".join(dots)}</g>'


def _letters(sequence: str, partners: NDArray[np.int64], probable: Vector | None, places: Places, step: float) -> str:
    """A circle with a tooltip for each letter; the letters themselves if there is room."""
    lettered = len(sequence) <= _MOST_LETTERS_SHOWN
    shapes = []
    for at, place in enumerate(places.tolist()):
        x, y = f"{place.real:.2f}", f"{place.imag:.2f}"
        fill = "#FFFFFF" if probable is None else _colour(float(probable[at]))
        shape = f'<circle cx="{x}" cy="{y}" r="{_LETTER_RADIUS * step:.2f}" fill="{fill}"/>'
        if lettered:
            hint = f"<title>{_inert(_hint(sequence, partners, probable, at))}</title>"
            style = f'fill="{_ink_on(fill)}" stroke="none"'
            base = place.imag + 0.19 * step
            shape = f'{hint}{shape}<text x="{x}" y="{base:.2f}" {style}>{_inert(sequence[at])}</text>'
        shapes.append(f'<g class="letter">{shape}</g>')
    style = f'stroke="#777777" stroke-width="{0.05 * step:.2f}"'
    return f'<g {style} font-size="{0.54 * step:.2f}" text-anchor="middle">{"".join(shapes)}</g>'


def _hint(sequence: str, partners: NDArray[np.int64], probable: Vector | None, at: int) -> str:
    partner = int(partners[at])
    state = "unpaired" if partner < 0 else f"pairs with {sequence[partner]} {partner + 1}"
    return f"{sequence[at]} {at + 1}: {state}" + ("" if probable is None else f", probability {probable[at]:.3f}")


def _numbers(places: Places, away: Places, step: float) -> str:
    """The position of every tenth letter, or of fewer where letters are too small to count."""
    n_letters = len(places)
    every = 10 if n_letters <= _MOST_LETTERS_SHOWN else _round_step(n_letters / 20.0)
    size = max(0.6 * step, 9.0 if n_letters > _MOST_LETTERS_SHOWN else 0.0)
    marks = []
    for at in range(every - 1, n_letters - 1, every):
        start, end, middle = _number_place(places, complex(away[at]), at, step, size)
        marks.append(f'<line x1="{start.real:.2f}" y1="{start.imag:.2f}" x2="{end.real:.2f}" y2="{end.imag:.2f}"/>')
        marks.append(_text(middle.real, middle.imag + 0.35 * size, str(at + 1), fill=GREY, size=size))
    return f'<g class="numbers" stroke="{GREY}" stroke-width="{0.06 * step:.2f}">{"".join(marks)}</g>'


def _number_place(places: Places, away: complex, at: int, step: float, size: float) -> tuple[complex, complex, complex]:
    """The ends of the line to a number and the number's middle, clear of letters or as clear as possible."""
    place = complex(places[at])
    best, widest = (place, place, place), -1.0
    for turn in _NUMBER_TURNS:
        direction = away * turn
        end = place + 0.8 * step * direction
        # The middle of a number is placed further off at the sides, by half its width.
        middle = end + (0.3 * size * len(str(at + 1)) * abs(direction.real) + 0.45 * size) * direction
        clear = float(np.abs(places - middle).min())
        if clear > widest + 1e-6:
            best, widest = (place + 0.45 * step * direction, end, middle), clear
        if clear >= 0.8 * step:
            break
    return best


def _end_marks(places: Places, away: Places, step: float) -> str:
    """5′ and 3′ next to the first and the last letter."""
    size = max(0.8 * step, 10.0)
    marks = []
    before = -away[0] if len(places) == 1 else away[0]  # a single letter has both ends
    for at, text, direction in ((0, "5′", before), (-1, "3′", away[-1])):
        middle = places[at] + (0.5 * step + 0.6 * size) * direction
        marks.append(_text(middle.real, middle.imag + 0.35 * size, text, fill=_INK, size=size, weight="bold"))
    return f'<g class="ends">{"".join(marks)}</g>'


def _legend(left: float, top: float) -> str:
    """The colour scale from 0 to 1."""
    count, width, height = 50, 200.0, 10.0
    parts = [
        f'<rect x="{left + width * at / count:.2f}" y="{top:.2f}" width="{width / count + 0.3:.2f}" height="{height}"'
        f' fill="{_colour((at + 0.5) / count)}"/>'
        for at in range(count)
    ]
    for value in (0.0, 0.5, 1.0):
        anchor = {0.0: "start", 1.0: "end"}.get(value, "middle")
        parts.append(
            _text(left + width * value, top + height + 11.0, f"{value:g}", fill=_INK, size=10.0, anchor=anchor)
        )
    words = "probability of the pair, or of being unpaired"
    parts.append(_text(left, top + height + 24.0, words, fill=_INK, size=10.0, anchor="start"))
    return f'<g class="legend">{"".join(parts)}</g>'


def _grid(n_letters: int, cell: float) -> str:
    """The frame, the diagonal, and lines with their positions."""
    side = cell * n_letters
    every = 5 if n_letters < 20 else 10 if n_letters <= 200 else _round_step(n_letters / 15.0)
    gap = (cell if n_letters <= _MOST_LETTERS_ON_EDGES else 0.0) + 4.0
    lines, numbers = [], []
    for position in range(every, n_letters + 1, every):
        at = cell * (position - 0.5)
        lines.append(f'<path d="M{at:.2f} 0V{side:.2f}M0 {at:.2f}H{side:.2f}"/>')
        numbers.append(_text(at, side + gap + 10.0, str(position), fill=GREY, size=10.0))
        numbers.append(_text(-gap, at + 3.5, str(position), fill=GREY, size=10.0, anchor="end"))
    return (
        f'<g class="grid" fill="none" stroke="{_PALE}" stroke-width="0.7">{"".join(lines)}</g>'
        f'<path class="frame" fill="none" stroke="{GREY}" d="M0 0H{side:.2f}V{side:.2f}H0ZL{side:.2f} {side:.2f}"/>'
        f'<g class="ticks">{"".join(numbers)}</g>'
    )


def _squares(rows: NDArray[Any], columns: NDArray[Any], sides: Vector, cell: float) -> str:
    """One path of squares, each in the middle of its cell."""
    x = cell * (columns + 0.5 - 0.5 * sides)
    y = cell * (rows + 0.5 - 0.5 * sides)
    pixels = cell * sides
    return "".join(
        f"M{a:.2f} {b:.2f}h{c:.3f}v{c:.3f}h-{c:.3f}z"
        for a, b, c in zip(x.tolist(), y.tolist(), pixels.tolist(), strict=True)
    )


def _edge_letters(sequence: str, cell: float) -> str:
    side, size = cell * len(sequence), min(0.85 * cell, _TEXT_SIZE)
    letters = []
    for at, letter in enumerate(sequence):
        middle = cell * (at + 0.5)
        for x, y in (
            (middle, -0.6 * cell),
            (middle, side + 0.6 * cell),
            (-0.6 * cell, middle),
            (side + 0.6 * cell, middle),
        ):
            letters.append(_text(x, y + 0.35 * size, letter, fill=_INK, size=size))
    return f'<g class="sequence">{"".join(letters)}</g>'


def _round_step(at_least: float) -> int:
    """The smallest of 1, 2, 5, 10, 20, 50 ... that is large enough."""
    power = int(10 ** np.floor(np.log10(max(at_least, 1.0))))
    return next(power * factor for factor in (1, 2, 5, 10) if power * factor >= at_least)


def _colour(probability: float) -> str:
    """The colour of a probability, interpolated between the two nearest stops."""
    at = probability * (len(_STOPS) - 1)
    levels = [np.interp(at, np.arange(len(_STOPS)), _STOP_LEVELS[:, channel]) for channel in range(3)]
    return "#" + "".join(f"{round(float(level)):02X}" for level in levels)


def _ink_on(fill: str) -> str:
    """Black or white, whichever is easier to read on this colour."""
    red, green, blue = (int(fill[at : at + 2], 16) for at in (1, 3, 5))
    return "#FFFFFF" if 0.299 * red + 0.587 * green + 0.114 * blue < 130 else "#000000"


def _text(
    x: float,
    y: float,
    words: str,
    *,
    fill: str,
    size: float = _TEXT_SIZE,
    anchor: str = "middle",
    weight: str = "normal",
) -> str:
    return (
        f'<text x="{x:.2f}" y="{y:.2f}" font-size="{size:.2f}" font-weight="{weight}" text-anchor="{anchor}"'
        f' fill="{fill}" stroke="none">{_inert(words)}</text>'
    )


def _inert(words: str) -> str:
    """Text escaped for XML, whatever it contains."""
    return escape(_NOT_XML.sub("\ufffd", words))


def _title_lines(title: str, width: float) -> list[str]:
    """The title, wrapped to a width in pixels; letters are about half as wide as high."""
    return textwrap.wrap(title, max(int((width - 2.0 * _MARGIN) / (0.62 * _TEXT_SIZE)), 10))


def _title_height(title: str, width: float) -> float:
    return _LINE_HEIGHT * len(_title_lines(title, width)) + (0.5 * _MARGIN if title else 0.0)


def _title_text(title: str, width: float) -> Iterator[str]:
    for number, line in enumerate(_title_lines(title, width)):
        yield _text(_MARGIN, _MARGIN + 8.0 + _LINE_HEIGHT * number, line, fill=_INK, anchor="start", weight="bold")


def _document(width: float, height: float, title: str, about: str, body: Iterable[str]) -> str:
    """The whole drawing, with a title and a description for screen readers."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.2f} {height:.2f}" width="{width:.0f}"'
        f' height="{height:.0f}" role="img" font-family="Helvetica, Arial, sans-serif">\n'
        f"<title>{_inert(title or 'RNA secondary structure')}</title>\n<desc>{_inert(about)}</desc>\n"
        f'<rect width="100%" height="100%" fill="#FFFFFF"/>\n'
        + "\n".join([*_title_text(title, width), *body])
        + "\n</svg>\n"
    )
