"""Predictions of folding models: what is told of one molecule agrees with the list of all its structures."""

import numpy as np
import pytest

from tikhon.data.dot_bracket import partly_known_partners, partners_of
from tikhon.errors import InputError
from tikhon.models.folding.prediction import METHODS, NBEST, SAMPLE, Predictor, Request, in_order
from tikhon.models.folding.structures import Rules, encoded
from tikhon.models.folding.weights import folding_weights

SEQUENCE = "GGCAAAAGCUC"
ALL = 10**6  # more structures than there are


@pytest.fixture
def predictor(rng):
    return Predictor(rng.normal(scale=0.5, size=folding_weights().count), Rules(least_hairpin=2))


def asked(predictor, known=None, number=0, **request):
    partners = None if known is None else partly_known_partners(known)
    one = predictor.molecule(encoded(SEQUENCE), partners, "the constraint")
    return predictor.predict(one, Request(**request), number, where="the molecule", known=known)


@pytest.mark.parametrize("known", [None, "??|????????", "..?????????"])
def test_probabilities_of_pairs_are_sums_over_all_structures(predictor, known):
    every = asked(predictor, known, method=NBEST, count=ALL)
    assert sum(every.probabilities) == pytest.approx(1.0)
    assert len(set(every.structures)) == len(every.structures) > 2
    pairs = np.zeros((len(SEQUENCE), len(SEQUENCE)))
    for structure, probability in zip(every.structures, every.probabilities, strict=True):
        partners = partners_of(structure)
        for i in np.flatnonzero(partners - 1 > np.arange(len(partners))):
            pairs[i, partners[i] - 1] += probability
    found = asked(predictor, known, method=None, least_probability=1e-3)
    np.testing.assert_allclose(found.pairs.toarray(), np.where(pairs >= 1e-3, pairs, 0.0), atol=1e-12)
    assert found.structures == []


def test_structures_and_log_z_agree_with_the_list(predictor):
    every = asked(predictor, method=NBEST, count=ALL)
    assert asked(predictor, method="viterbi").structures == every.structures[:1]
    one = asked(predictor, method="mea", gamma=3.0, least_probability=1e-9)
    assert one.pairs is not None
    free = predictor.molecule(encoded(SEQUENCE), None, "")
    assert one.log_z == pytest.approx(predictor.log_partition(free))
    best = predictor.agreeing(encoded(SEQUENCE), partners_of(every.structures[0]))
    assert np.exp(predictor.log_partition(best) - one.log_z) == pytest.approx(every.probabilities[0])
    for method in METHODS:
        assert asked(predictor, method=method).structures[0] in every.structures


def test_draws_depend_on_the_seed_and_the_number_of_the_molecule_alone(predictor):
    first = asked(predictor, method=SAMPLE, count=20, seed=3, number=1).structures
    assert first == asked(predictor, method=SAMPLE, count=20, seed=3, number=1).structures
    assert first != asked(predictor, method=SAMPLE, count=20, seed=3, number=2).structures
    assert first != asked(predictor, method=SAMPLE, count=20, seed=4, number=1).structures


def test_errors_name_what_they_are_about(predictor):
    with pytest.raises(InputError, match="the constraint pairs G at 1 with G at 8"):
        asked(predictor, "(??????)???")
    with pytest.raises(InputError, match=r"the molecule: no structure agrees with \|\|\."):
        asked(predictor, "||......?..", method="viterbi")


@pytest.mark.parametrize("ahead", [None, 1, 100])
def test_results_come_in_the_order_of_the_items(ahead):
    assert list(in_order(lambda number: number**2, range(40), 3, ahead=ahead)) == [number**2 for number in range(40)]
