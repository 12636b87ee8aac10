"""Layout of the letters in drawings of RNA secondary structures: loops round, helices as ladders.

Positions ("places") are complex numbers, with one step of the backbone as the unit and the imaginary axis upwards. A
molecule runs clockwise: from the left end of the exterior loop, up the left side of a helix, and down its right side.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.spatial import KDTree

from tikhon.objective import Vector

Places = NDArray[np.complex128]

# Less than the square root of 2, so that the centre of every loop lies inside it, also for the triangle "(.)".
PAIR_WIDTH = 1.4
# A loop between two helices keeps them in line unless its letters would then lean over the neighbouring pairs.
_STEEPEST = 0.5 * np.pi
# Letters of different loops that are nearer than this overlap.
_NEAR = 0.85
# The cost of an overlap, in units of the drawing's size.
_PRICE = 4.0
# Maximum number of overlaps examined at a time.
_WATCHED = 200
# The factor by which a loop's steps grow at a time, their maximum, and the maximum in the exterior loop.
_GROWTH, _LARGEST, _WIDEST = 1.3, 4.0, 25.0
_TURNS = tuple(np.radians((0.0, 60.0, 120.0, 180.0, 240.0, 300.0)))
# Maximum number of letters placed in search of a better drawing, for each turn of the exterior loop.
_EFFORT = 12_000
# The same for bending loops, by these angles; placing is cheaper then.
_BENDING_EFFORT = 100_000
_BENDS = tuple(np.radians((0.0, 20.0, -20.0, 40.0, -40.0, 60.0, -60.0, 80.0, -80.0)))
_BETWEEN_HELICES = 2.0
# An exterior loop of this length, or of half the drawing's size, stays straight.
_SHORT = 20.0
# A drawing that is more than this many times as high as wide is laid on its side.
_LONG = 1.6


@dataclass(frozen=True)
class Loop:
    """The letters around one loop, in order; the first and the last close it, except in the exterior loop."""

    members: tuple[int, ...]
    parent: int  # the loop on the other side of the closing pair; -1 for the exterior loop
    pair_follows: NDArray[np.bool_]  # whether the line from a member to the next one is a pair, not backbone
    n_helices: int

    @property
    def is_exterior(self) -> bool:
        return self.parent < 0


def loops_of(partners: NDArray[np.int64]) -> list[Loop]:
    """The loops of nested partners (from 0, -1 for none), the exterior one first, each after the one around it."""
    loops: list[Loop] = []
    waiting = [(-1, len(partners), -1)]  # no recursion: a hairpin of 5,000 pairs is 5,000 loops deep
    while waiting:
        first, last, parent = waiting.pop()
        members, pair_follows = ([first], [False]) if parent >= 0 else ([], [])
        place = first + 1
        while place < last:
            members.append(place)
            partner = int(partners[place])
            pair_follows.append(partner >= 0)
            if partner >= 0:
                members.append(partner)
                pair_follows.append(False)
                waiting.append((place, partner, len(loops)))
                place = partner
            place += 1
        if parent >= 0:
            members.append(last)
        else:
            pair_follows.pop()
        loops.append(Loop(tuple(members), parent, np.array(pair_follows, bool), sum(pair_follows) + (parent >= 0)))
    return loops


def letter_places(partners: NDArray[np.int64]) -> tuple[Places, Places]:
    """For nested partners (from 0, -1 for none): each letter's place, and the direction from it where a label has room.

    The drawing is oriented as is customary for such molecules.
    """
    loops = loops_of(partners)
    places = _clear_places(loops, len(partners))
    away = _outward(places, partners, list(loops[0].members))
    if np.ptp(places.imag) > _LONG * (1.0 + np.ptp(places.real)):
        return places * -1j, away * -1j  # a long hairpin lies on its side, its 5' strand above
    branched = any(loop.n_helices > 2 for loop in loops[1:])
    if loops[0].n_helices == 1 and branched and np.ptp(places[list(loops[0].members)].imag) < 1e-9:
        return places.conj(), away.conj()  # a cloverleaf hangs from its ends
    return places, away


def _clear_places(loops: list[Loop], n_letters: int) -> Places:
    """Places with few overlaps in a small drawing.

    The exterior loop is a line if that suffices; otherwise it is bent to an arc, which spreads the helices on it and
    keeps long ones compact.
    """
    tried = []
    for turn in _TURNS:
        cost, places = _disentangled(loops, *_untangled(loops, n_letters, turn))
        tried.append((cost, places))
        width = float(np.ptp(places[list(loops[0].members)].real))
        is_clear = cost == _extent(places)
        if width <= max(_SHORT, 0.5 * _extent(places)) and (is_clear or loops[0].n_helices < 2):
            break  # bending the line further could not make the drawing much better
    least = min(cost for cost, _ in tried)
    return next(places for cost, places in tried if cost <= 1.15 * least)


def _untangled(loops: list[Loop], n_letters: int, turn: float) -> tuple[float, Places]:
    """The cheapest places found by widening loops, and their cost: the size plus a price for each overlap.

    Where helices meet, the loop from which both branch is widened; the exterior loop only between them.
    """
    steps, gaps = np.ones(len(loops)), _first_gaps(loops[0])
    home, depth = _homes(loops, n_letters)
    best: tuple[float, Places] | None = None
    for _ in range(1 + _EFFORT // n_letters):
        places = _places(loops, n_letters, steps, gaps, turn)
        meeting, cost = _overlaps(places)
        if best is None or cost < best[0]:
            best = cost, places
        growing, opening = set(), np.zeros(len(gaps), bool)
        for a, b in meeting:
            growing.update(_growing(loops, _way(loops, depth, home[a], home[b])))
            opening |= _gaps_between(loops[0], a, b)
        growing = {loop for loop in growing if steps[loop] * _GROWTH <= _LARGEST}
        opening &= gaps * _GROWTH <= _WIDEST
        if not growing and not opening.any():
            break
        steps[list(growing)] *= _GROWTH
        gaps[opening] *= _GROWTH
    assert best is not None
    return best


def _homes(loops: list[Loop], n_letters: int) -> tuple[list[int], list[int]]:
    """The loop of each letter (the outer one of a paired letter) and the depth of each loop."""
    home, depth = [0] * n_letters, [0] * len(loops)
    for number, loop in enumerate(loops):
        inside = loop.members if loop.is_exterior else loop.members[1:-1]
        for letter in inside:
            home[letter] = number
        depth[number] = 0 if loop.is_exterior else depth[loop.parent] + 1
    return home, depth


def _way(loops: list[Loop], depth: list[int], a: int, b: int) -> list[int]:
    """The loops on the path from loop a to loop b, both included; the one that encloses all of them is the last."""
    way = []
    while a != b:
        if depth[a] < depth[b]:
            a, b = b, a
        way.append(a)
        a = loops[a].parent
    return [*way, a]


def _growing(loops: list[Loop], way: list[int]) -> list[int]:
    """The enclosing loop of the path if it has several helices to spread, else those loops on the path that have."""
    if loops[way[-1]].n_helices > 2 and not loops[way[-1]].is_exterior:
        return way[-1:]
    return [loop for loop in way[:-1] if loops[loop].n_helices > 2]


def _overlaps(places: Places) -> tuple[list[tuple[int, int]], float]:
    """Pairs of letters that overlap, themselves or with a line to the next letter (a sample, if many), and the cost."""
    steps = np.diff(places)
    # A widened step is checked at points on it, at least a usual step apart; they count as the letter before.
    parts = np.maximum(np.abs(steps).astype(np.int64), 1)
    owners = np.repeat(np.arange(len(steps)), parts)
    numbers = np.arange(len(owners)) - np.repeat(np.cumsum(parts) - parts, parts)
    points = np.append(places[owners] + steps[owners] * (numbers / parts[owners]), places[-1])
    near = KDTree(np.column_stack([points.real, points.imag])).query_pairs(_NEAR, output_type="ndarray")
    meeting = np.append(owners, len(steps))[near]
    some = meeting[:: 1 + len(meeting) // _WATCHED]
    return [(int(a), int(b)) for a, b in some], _extent(places) + _PRICE * len(meeting)


def _disentangled(loops: list[Loop], cost: float, places: Places) -> tuple[float, Places]:
    """Bend loops between two helices, the best one first, while that improves the drawing."""
    home, depth = _homes(loops, len(places))
    trials = _BENDING_EFFORT // len(places)
    meeting, _ = _overlaps(places)
    while meeting and trials > 0:
        on_ways = sorted({loop for a, b in meeting for loop in _way(loops, depth, home[a], home[b])})
        supple = [loops[loop] for loop in on_ways if loops[loop].n_helices == 2 and len(loops[loop].members) > 4]
        bends = ((loop, bend) for loop in supple for bend in _BENDS)
        bent = [new for one in islice(bends, trials) if (new := _with_bend(places, *one)) is not None]
        trials -= len(bent)
        costs = [_overlaps(new)[1] for new in bent]
        if not costs or min(costs) >= cost:
            break
        cost, places = min(costs), bent[int(np.argmin(costs))]
        meeting, _ = _overlaps(places)
    return cost, places


def _with_bend(places: Places, loop: Loop, bend: float) -> Places | None:
    """The places after a loop between two helices bends: everything beyond it moves as one piece."""
    members = np.array(loop.members)
    inner = _bent(loop, bend, places[members[0]], places[members[-1]]) if not loop.is_exterior else None
    if inner is None:
        return None
    at = int(np.flatnonzero(loop.pair_follows)[0])
    first, last = members[at], members[at + 1]
    beyond = slice(first, last + 1)
    turned = (inner[at] - inner[at - 1]) / (places[last] - places[first])
    moved = places.copy()
    moved[beyond] = inner[at - 1] + turned * (places[beyond] - places[first])
    moved[members[1:-1]] = inner
    return moved


def _first_gaps(exterior: Loop) -> Vector:
    """Steps of the exterior loop: the usual ones, but wider between helices that would touch."""
    paired = np.concatenate([[False], exterior.pair_follows, [False]])
    return np.where(paired[:-2] & paired[2:], _BETWEEN_HELICES, 1.0)


def _gaps_between(exterior: Loop, a: int, b: int) -> NDArray[np.bool_]:
    """Which steps of the exterior loop lie between two letters or the helices that they are in."""
    first, last = np.searchsorted(exterior.members, [min(a, b), max(a, b)], side="right") - 1
    numbers = np.arange(len(exterior.members) - 1)
    return np.asarray((numbers >= first) & (numbers < last) & ~exterior.pair_follows)


def _extent(places: Places) -> float:
    """The longer side of the drawing."""
    return 1.0 + float(max(np.ptp(places.real), np.ptp(places.imag)))


def _places(loops: list[Loop], n_letters: int, steps: Vector, gaps: Vector, turn: float) -> Places:
    """Each letter's place, with a separate length of steps for each loop and for each gap of the exterior one."""
    places = np.zeros(n_letters, complex)
    for loop, step in zip(loops, steps.tolist(), strict=True):
        members = np.array(loop.members)
        if loop.is_exterior:
            places[members] = _exterior(loop, gaps, turn)
        elif len(members) > 2:
            start, end = places[members[0]], places[members[-1]]
            in_line = _bent(loop, 0.0, start, end) if loop.n_helices == 2 else None
            places[members[1:-1]] = _around(loop, step, start, end) if in_line is None else in_line
    return places


def _exterior(loop: Loop, gaps: Vector, turn: float) -> Places:
    """Along a line, or along an arc that turns to the right by ``turn`` in all."""
    lengths = np.where(loop.pair_follows, PAIR_WIDTH, gaps)
    if turn == 0.0 or len(lengths) < 2:
        return np.append(0.0, np.cumsum(lengths)).astype(complex)
    chords, counts = np.unique(lengths, return_counts=True)
    angles = 2.0 * np.arcsin(0.5 * lengths / _radius(tuple(zip(counts.tolist(), chords.tolist(), strict=True)), turn))
    heading = 0.5 * turn - np.cumsum(angles) + 0.5 * angles
    return np.append(0.0, np.cumsum(lengths * np.exp(1j * heading)))


def _around(loop: Loop, step: float, start: complex, end: complex) -> Places:
    """The inner members on the circle through the closing pair whose chords are the steps and pairs of the loop."""
    n_pairs = int(loop.pair_follows.sum())
    radius = _radius(((len(loop.pair_follows) - n_pairs, step), (n_pairs + 1, PAIR_WIDTH)))
    upwards = 1j * (end - start) / abs(end - start)
    centre = 0.5 * (start + end) + upwards * np.sqrt(max(radius**2 - 0.25 * PAIR_WIDTH**2, 0.0))
    angles = 2.0 * np.arcsin(0.5 * np.where(loop.pair_follows, PAIR_WIDTH, step) / radius)
    return np.asarray(centre + (start - centre) * np.exp(-1j * np.cumsum(angles)[:-1]))


def _bent(loop: Loop, bend: float, start: complex, end: complex) -> Places | None:
    """The inner members of a loop between two helices, the second of which bends to the left; None if it cannot.

    The two pairs are the equal sides of a trapezium; along its parallel sides letters stand on arcs, a step apart.
    """
    left = int(np.flatnonzero(loop.pair_follows)[0])  # steps on the left side
    right = len(loop.pair_follows) - 1 - left
    longer = 2.0 * PAIR_WIDTH * math.sin(0.5 * bend)  # how much longer the right side of the trapezium is
    least, most = max(1.0, 1.0 - longer), min(float(left), right - longer)
    if least > most + 1e-9:
        return None
    round_one = math.sqrt(4.0 * _radius(((left + right, 1.0), (2, PAIR_WIDTH))) ** 2 - PAIR_WIDTH**2)
    height = min(max(round_one - 0.5 * longer, least), most)
    left_turn, right_turn = _half_turn(left, height), _half_turn(right, height + longer)
    steepest = max((left - 1) * left_turn + 0.5 * bend, (right - 1) * right_turn - 0.5 * bend)
    if steepest > _STEEPEST + 1e-9:
        return None
    upwards = 1j * (end - start) / abs(end - start) * np.exp(0.5j * bend)
    corner = end + (height + longer) * upwards
    up, down = _arc(left, left_turn, start, upwards), _arc(right, right_turn, corner, -upwards)
    return np.concatenate([up, [corner], down[:-1]])


def _arc(n_steps: int, half_turn: float, start: complex, towards: complex) -> Places:
    """The ends of unit steps that set out to the left of a direction and turn right by two halves at each letter."""
    headings = half_turn * (n_steps - 1 - 2 * np.arange(n_steps))
    return np.asarray(start + towards * np.cumsum(np.exp(1j * headings)))


@lru_cache(maxsize=4096)
def _half_turn(n_steps: int, distance: float) -> float:
    """Half the turn h between unit steps along an arc whose ends are at this distance: sin(n h) / sin(h) = distance."""
    if distance >= n_steps - 1e-9:
        return 0.0
    return float(brentq(lambda half: math.sin(n_steps * half) / math.sin(half) - distance, 1e-9, math.pi / n_steps))


@lru_cache(maxsize=4096)
def _radius(chords: tuple[tuple[int, float], ...], turn: float = 2.0 * np.pi) -> float:
    """The radius of the circle on which chords, given as (how many, how long), turn by ``turn`` one after the other."""

    def excess(radius: float) -> float:
        return sum(2.0 * count * math.asin(min(0.5 * chord / radius, 1.0)) for count, chord in chords) - turn

    length = sum(count * chord for count, chord in chords)
    least = max(0.5 * chord for _, chord in chords)
    # A chord is at least 2/pi of its arc; the two ends therefore bracket the answer.
    return (
        least if excess(least) <= 0.0 else float(brentq(excess, least, 0.5 * np.pi * length / turn + least, xtol=1e-13))
    )


def _outward(places: Places, partners: NDArray[np.int64], exterior: list[int]) -> Places:
    """For each letter a direction, of length 1, out of its loop or helix; from the exterior loop, away from helices."""
    steps = np.diff(places)
    steps = steps / np.abs(steps)
    before, after = np.append(0.0, -steps), np.append(steps, 0.0)  # directions to the neighbours
    # Halfway from the one before to the one after, clockwise: letters run clockwise, so the outside is on their left.
    halfway = before * np.exp(-0.5j * (np.angle(before * after.conj()) % (2.0 * np.pi)))
    away = np.where(np.abs(halfway) > 0.5, halfway, 0.0)
    free = [letter for letter in exterior if partners[letter] < 0]
    away[free] *= -1.0
    bound = [letter for letter in exterior if partners[letter] >= 0]
    across = places[partners[bound]] - places[bound]
    away[bound] = -(before[bound] + after[bound] + across / np.abs(across))
    # The marks of the two ends are placed where the molecule would continue.
    for end, direction in ((0, -1.0), (len(places) - 1, 1.0)):
        if partners[end] < 0:
            away[end] = direction if len(places) == 1 else -(before[end] + after[end])
    lengths = np.abs(away)
    return np.asarray(np.where(lengths > 1e-6, away, -1j) / np.where(lengths > 1e-6, lengths, 1.0))
