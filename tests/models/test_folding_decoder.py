"""Structures from probabilities, against all structures there are."""

import numpy as np
import pytest
from tests import naive

from tikhon.data.dot_bracket import SOME_PARTNER
from tikhon.models.folding.decoder import best_structure, drawn_structures, posterior
from tikhon.models.folding.passes import average_uses, fold_inside
from tikhon.models.folding.structures import (
    Rules,
    contradiction,
    encoded,
    known_uses,
    lonely,
    molecule,
    unknown_molecule,
)
from tikhon.models.folding.weights import folding_weights, score_matrix, tables_of

LENGTH = 12
PAIRS = [set("AU"), set("CG"), set("GU")]


@pytest.fixture
def found(rng):
    """A sequence, its structures (partners from 1), their probabilities by enumeration, and the posterior."""
    sequence = "".join(rng.choice(list("ACGU"), LENGTH, p=[0.2, 0.3, 0.3, 0.2]))
    weights = 0.7 * rng.normal(size=708)
    by_name = dict(zip(folding_weights().names, weights, strict=True))
    structures = list(naive.foldings(sequence))
    scores = np.array(
        [sum(by_name[name] * n for name, n in naive.folding_counts(sequence, one).items()) for one in structures]
    )
    free = unknown_molecule(encoded(sequence), Rules())
    return (
        sequence,
        weights,
        np.array(structures) + 1,
        np.exp(scores - np.logaddexp.reduce(scores)),
        posterior(free, weights, 30),
    )


def pair_matrix(partners):
    matrix = np.zeros((LENGTH, LENGTH))
    for i, j in enumerate(partners):
        if j - 1 > i:
            matrix[i, j - 1] = 1.0
    return matrix


def test_probabilities_are_those_of_enumeration(found):
    _, _, structures, shares, after = found
    expected = sum(share * pair_matrix(one) for one, share in zip(structures, shares, strict=True))
    np.testing.assert_allclose(after.pairs, expected, atol=1e-12)
    np.testing.assert_allclose(after.unpaired, shares @ (structures == 0), atol=1e-12)


@pytest.mark.parametrize("gamma", [2.0**-5, 1.0, 6.0, 2.0**10])
def test_no_structure_is_expected_to_be_more_accurate(found, gamma):
    _, _, structures, shares, after = found

    def accuracy(one):
        """Expected letters that are rightly unpaired, and gamma times those rightly paired."""
        agrees = structures == one
        return float(shares @ np.where(one == 0, agrees, gamma * agrees).sum(axis=1))

    best = after.most_accurate(gamma)
    assert (structures == best).all(axis=1).any()
    assert accuracy(best) == pytest.approx(max(map(accuracy, structures)), rel=1e-12)


@pytest.mark.parametrize("gamma", [0.5, 1.0, 4.0])
def test_no_structure_is_more_central(found, gamma):
    _, _, structures, _, after = found

    def value(one):
        return float((((gamma + 1.0) * after.pairs - 1.0) * pair_matrix(one)).sum())

    assert value(after.centroid(gamma)) == pytest.approx(max(map(value, structures)), abs=1e-12)


def test_what_is_known_is_kept(found, rng):
    sequence, weights, structures, shares, _ = found
    known = np.where(rng.random(LENGTH) < 0.4, structures[rng.integers(len(structures))], -1)
    agrees = ((structures == known) | (known == -1)).all(axis=1)
    one = molecule(encoded(sequence), Rules(), known)
    after = posterior(one, weights, 30)
    np.testing.assert_allclose(
        after.unpaired, shares[agrees] @ (structures[agrees] == 0) / shares[agrees].sum(), atol=1e-12
    )


def test_letters_that_must_pair_do(found):
    sequence, weights, structures, shares, _ = found
    place = int(np.argmax((structures > 0).sum(axis=0)))
    known = np.where(np.arange(LENGTH) == place, SOME_PARTNER, -1)
    after = posterior(molecule(encoded(sequence), Rules(), known), weights, 30)
    agrees = structures[:, place] > 0
    np.testing.assert_allclose(
        after.unpaired, shares[agrees] @ (structures[agrees] == 0) / shares[agrees].sum(), atol=1e-12
    )


@pytest.mark.parametrize("counts_parses", [False, True])
@pytest.mark.parametrize("gamma", [2.0**-5, 1.0, 6.0])
def test_the_best_structures_pair_letters_that_must(found, gamma, counts_parses, rng):
    """Of all structures in which they do, none is better: in the accuracy that the probabilities tell, and as a centroid."""
    sequence, weights, structures, _, _ = found
    for one in structures[rng.permutation(len(structures))[:20]]:
        chosen = (one > 0) & (rng.random(LENGTH) < 0.5)
        known = np.where(chosen, SOME_PARTNER, -1)
        after = posterior(molecule(encoded(sequence), Rules(counts_parses=counts_parses), known), weights, 30)
        agreeing = [other for other in structures if (other[chosen] > 0).all()]

        def accuracy(other, after=after):
            return float((2.0 * gamma * after.pairs * pair_matrix(other)).sum() + after.unpaired[other == 0].sum())

        def centrality(other, after=after):
            return float((((gamma + 1.0) * after.pairs - 1.0) * pair_matrix(other)).sum())

        for best, value in ((after.most_accurate(gamma), accuracy), (after.centroid(gamma), centrality)):
            assert (best[chosen] > 0).all()
            assert value(best) == pytest.approx(max(map(value, agreeing)), abs=1e-10)


@pytest.mark.parametrize("least_hairpin", [0, 3])
def test_what_single_letters_tell_is_told(found, least_hairpin, rng):
    """Nothing agrees with what is a contradiction; that a letter has nobody to pair with is found whatever surrounds it."""
    sequence, _, structures, _, _ = found
    rules, letters = Rules(least_hairpin=least_hairpin), encoded(sequence)
    n_lonely = 0
    for _ in range(200):
        one = structures[rng.integers(len(structures))]
        known = np.where(rng.random(LENGTH) < 0.5, one, -1)
        known[(known > 0) & (known[known - 1] <= 0)] = -1  # a bracket alone is none
        known[rng.random(LENGTH) < 0.2] = SOME_PARTNER
        known[(known > 0) & (known[known - 1] <= 0)] = -1
        places = np.arange(LENGTH)
        spans = np.where(structures > 0, np.abs(structures - 1 - places) - 1, LENGTH).min(axis=1)
        fits = (known == -1) | (structures == known) | ((known == SOME_PARTNER) & (structures > 0))
        agrees = fits.all(axis=1) & (spans >= least_hairpin)
        said = contradiction(letters, known, rules)
        if said is not None:
            assert not agrees.any()
        alone = [
            place for place in np.flatnonzero(known == SOME_PARTNER) if lonely_by_hand(sequence, known, place, rules)
        ]
        assert lonely(letters, known, rules).tolist() == alone
        n_lonely += len(alone)
    assert n_lonely > 10


def lonely_by_hand(sequence, known, i, rules):
    """Would a pair with any letter cross a known one, be too short, or be of the wrong letters?"""
    for j in range(len(sequence)):
        crossed = any(
            (i < a < j) != (i < b - 1 < j) if i < j else (j < a < i) != (j < b - 1 < i)
            for a, b in enumerate(known)
            if b > 0
        )
        if known[j] < 0 and not crossed and abs(i - j) > rules.least_hairpin and {sequence[i], sequence[j]} in PAIRS:
            return False
    return True


def test_nothing_agrees_with_what_cannot_be():
    assert posterior(molecule(encoded("AAAA"), Rules(), np.full(4, SOME_PARTNER)), np.zeros(708), 30) is None


def test_the_most_probable_structure_is_found(found):
    sequence, weights, structures, shares, after = found
    free = unknown_molecule(encoded(sequence), Rules())
    score, partners = best_structure(free, weights, 30)
    np.testing.assert_array_equal(partners, structures[np.argmax(shares)])
    assert np.exp(score - after.log_z) == pytest.approx(shares.max(), rel=1e-10)


def test_structures_are_drawn_by_their_probability(found):
    """Frequencies of the ten most probable, of pairs and of nothing else, within five standard errors."""
    sequence, weights, structures, shares, after = found
    free = unknown_molecule(encoded(sequence), Rules())
    count = 20_000
    drawn = np.array(drawn_structures(free, weights, 30, count, np.random.default_rng(0)))
    for place in np.argsort(-shares)[:10]:
        frequency = (drawn == structures[place]).all(axis=1).mean()
        assert frequency == pytest.approx(shares[place], abs=5.0 * np.sqrt(shares[place] / count))
    np.testing.assert_allclose((drawn == 0).mean(axis=0), after.unpaired, atol=5.0 * np.sqrt(0.25 / count))


def test_long_structures_are_nested_and_the_best_scores_what_it_says(rng):
    """Multiloops and all sizes of loops: their scores are those of the features that they have."""
    sequence = "".join(rng.choice(list("ACGU"), 120))
    weights = 0.3 * rng.normal(size=708)
    free = unknown_molecule(encoded(sequence), Rules())
    score, partners = best_structure(free, weights, 30)
    scores = folding_weights().scores @ weights
    assert float(known_uses(encoded(sequence), partners, Rules()) @ scores) == pytest.approx(score, rel=1e-10)
    for one in drawn_structures(free, weights, 30, 20, rng):
        assert float(known_uses(encoded(sequence), one, Rules()) @ scores) <= score + 1e-9


@pytest.mark.parametrize("counts_parses", [False, True])
def test_tiles_and_threads_change_nothing(counts_parses, rng, monkeypatch):
    """Tiles of 16 letters beside tables in one piece; and the same bits on one thread and two."""
    sequence = "".join(rng.choice(list("ACGU"), 90))
    partners = np.full(90, -1)
    partners[[10, 40]] = 0
    known = molecule(encoded(sequence), Rules(counts_parses=counts_parses), partners)
    weights = 0.5 * rng.normal(size=folding_weights().count)
    whole = posterior(known, weights, 30)
    scores = tables_of(score_matrix(counts_parses) @ weights)
    uses = average_uses(known, fold_inside(known, scores))
    monkeypatch.setattr("tikhon.models.folding.tiles.WHOLE", 20)
    monkeypatch.setattr("tikhon.models.folding.tiles.SIDE_OF_TILE", 16)
    one, two = (posterior(known, weights, 30, n_threads=n) for n in (1, 2))
    assert one.log_z == pytest.approx(whole.log_z, rel=1e-13)
    np.testing.assert_allclose(one.pairs, whole.pairs, rtol=1e-9, atol=1e-15)
    np.testing.assert_allclose(average_uses(known, fold_inside(known, scores)), uses, rtol=1e-9, atol=1e-13)
    assert two.log_z == one.log_z
    np.testing.assert_array_equal(two.pairs, one.pairs)
