"""The most probable structures in turn, against all structures there are."""

import itertools
import math

import numpy as np
import pytest
from tests import naive

from tikhon.data.dot_bracket import SOME_PARTNER
from tikhon.models.folding.decoder import best_structure, log_partition
from tikhon.models.folding.nbest import several_best
from tikhon.models.folding.structures import Rules, encoded, molecule, unknown_molecule
from tikhon.models.folding.weights import folding_weights

ALL = 10**9
RULES = [Rules(), Rules(least_hairpin=3), Rules(longest_loop=2), Rules(counts_parses=True)]


def drawn_sequence(rng, length):
    return "".join(rng.choice(list("ACGU"), length, p=[0.2, 0.3, 0.3, 0.2]))


def parses(structure):
    """How often CONTRAfold's grammar parses a structure: letters after the last pair of a loop may go to all but two pairs."""
    count = 1
    for (_, j), branches, _ in naive.loops_of([partner - 1 for partner in structure]):
        if len(branches) > 1:
            after = j - branches[-1][1] - 1
            count *= math.comb(after + len(branches) - 2, len(branches) - 2)
    return count


def enumerated(sequence, weights, rules):
    """All structures (partners from 1), the score of a parse, the logarithm of how often each is counted."""
    by_name = dict(zip(folding_weights().names, weights, strict=True))
    structures = list(naive.foldings(sequence, rules.least_hairpin, rules.longest_loop))
    scores = [sum(by_name[name] * n for name, n in naive.folding_counts(sequence, one).items()) for one in structures]
    structures = np.array(structures) + 1
    logs = [math.log(parses(one)) if rules.counts_parses else 0.0 for one in structures]
    return structures, np.array(scores), np.array(logs)


def check_best(found, count, structures, scores, logs):
    """Are these the structures with the best parses, as many as there are, each with its share, in order?

    Structures with the same features are equals: any of them will do.
    """
    places = {tuple(one): place for place, one in enumerate(structures.tolist())}
    chosen = [places[tuple(one.partners.tolist())] for one in found]
    assert len(set(chosen)) == len(chosen) == min(count, len(structures))
    np.testing.assert_allclose(np.sort(scores[chosen]), np.sort(scores)[-len(chosen) :], atol=1e-10)
    shares = [one.log_probability for one in found]
    np.testing.assert_allclose(shares, (scores + logs)[chosen] - np.logaddexp.reduce(scores + logs), atol=1e-10)
    assert all(one >= after for one, after in itertools.pairwise(shares))
    if count == ALL:
        assert np.exp(shares).sum() == pytest.approx(1.0, abs=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("length", [1, 4, 9, 14])
@pytest.mark.parametrize("rules", RULES)
@pytest.mark.parametrize("count", [1, 2, 7, 40, ALL])
def test_they_are_those_of_enumeration(rng, length, rules, count):
    sequence, weights = drawn_sequence(rng, length), rng.normal(size=708)
    found = several_best(unknown_molecule(encoded(sequence), rules), weights, rules.longest_loop, count)
    check_best(found, count, *enumerated(sequence, weights, rules))


@pytest.mark.parametrize("rules", RULES)
@pytest.mark.parametrize("count", [1, 5, ALL])
def test_what_is_known_is_kept(rng, rules, count):
    """Probabilities are shares of the structures that agree."""
    sequence, weights = drawn_sequence(rng, 13), rng.normal(size=708)
    every = enumerated(sequence, weights, rules)
    structures = every[0]
    known = np.where(rng.random(13) < 0.3, structures[rng.integers(len(structures))], -1)
    agrees = ((structures == known) | (known == -1)).all(axis=1)
    one = molecule(encoded(sequence), rules, known)
    check_best(several_best(one, weights, rules.longest_loop, count), count, *(each[agrees] for each in every))


def test_letters_that_must_pair_do(rng):
    sequence, weights = "GGCAAAGCCACGU", rng.normal(size=708)
    every = enumerated(sequence, weights, Rules())
    must_pair = np.isin(np.arange(13), [1, 7])
    agrees = (every[0][:, must_pair] > 0).all(axis=1)
    assert agrees.sum() > 1
    one = molecule(encoded(sequence), Rules(), np.where(must_pair, SOME_PARTNER, -1))
    check_best(several_best(one, weights, 30, ALL), ALL, *(each[agrees] for each in every))


@pytest.mark.parametrize("count", [3, 20, ALL])
def test_probabilities_of_structures_with_several_parses_are_sums_over_them(rng, count):
    """Letters after the last of three hairpins or more in a loop."""
    sequence, rules = "GGCGCGCGCAAC", Rules(counts_parses=True)
    weights = rng.normal(size=708)
    every = enumerated(sequence, weights, rules)
    assert {0.0, math.log(3.0), math.log(6.0)} <= set(every[2])
    check_best(several_best(unknown_molecule(encoded(sequence), rules), weights, 30, count), count, *every)


@pytest.mark.parametrize("counts_parses", [False, True])
def test_long_molecules(rng, counts_parses):
    """Different structures in descending order, the first that of Viterbi, each with the value of its own sum."""
    letters, rules = encoded(drawn_sequence(rng, 200)), Rules(counts_parses=counts_parses)
    weights = 0.3 * rng.normal(size=708)
    free = unknown_molecule(letters, rules)
    found = several_best(free, weights, 30, 200)
    assert len({tuple(one.partners.tolist()) for one in found}) == 200
    assert all(one.log_probability >= after.log_probability for one, after in itertools.pairwise(found))
    best, log_z = best_structure(free, weights, 30), log_partition(free, weights, 30)
    assert any(np.array_equal(one.partners, best[1]) for one in (found if counts_parses else found[:1]))
    for one in found:
        alone = log_partition(molecule(letters, rules, one.partners), weights, 30)
        assert alone - log_z == pytest.approx(one.log_probability, abs=1e-8)


def test_the_next_best_are_as_good_however_many_are_wanted(rng):
    """What is given up for want of a place among the best is not needed later."""
    free, weights = unknown_molecule(encoded(drawn_sequence(rng, 60)), Rules(least_hairpin=3)), rng.normal(size=708)
    many = [one.log_probability for one in several_best(free, weights, 30, 700)]
    for count in (1, 3, 65, 300):
        few = [one.log_probability for one in several_best(free, weights, 30, count)]
        np.testing.assert_allclose(few, many[:count], atol=1e-10)


def test_equally_probable_structures_are_each_found_once():
    found = several_best(unknown_molecule(encoded("GGGCCCGGGCCC"), Rules()), np.zeros(708), 30, ALL)
    structures = list(naive.foldings("GGGCCCGGGCCC"))
    assert len({tuple(one.partners.tolist()) for one in found}) == len(found) == len(structures)
    np.testing.assert_allclose([np.exp(one.log_probability) for one in found], 1.0 / len(structures), rtol=1e-10)


def test_nothing_agrees_with_what_cannot_be():
    assert several_best(molecule(encoded("AAAA"), Rules(), np.full(4, SOME_PARTNER)), np.zeros(708), 30, 3) is None
