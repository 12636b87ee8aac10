"""RNAFolder.predict_nbest: what it returns and refuses; which structures these are is tested with the model."""

import sys

import numpy as np
import pytest

from tikhon import InputError, RNAFolder

SEQUENCES = ["GGGAAAUCCC", "GCGCAAGCGC", "CCAAAAGG", "GGCUUCGGCC", "GGGGAAAACCCC", "AGCCAAAGGCA"]
STRUCTURES = ["(((....)))", "((((..))))", "((....))", "(((....)))", "((((....))))", ".(((...)))."]


@pytest.fixture(scope="module", params=[False, True])
def model(request):
    return RNAFolder(tuner=None, strengths=0.1, counts_parses=request.param).fit(SEQUENCES, STRUCTURES)


def test_the_first_is_the_most_probable(model):
    found = model.predict_nbest(SEQUENCES)
    assert [len(each) for each in found] == [5] * len(SEQUENCES)
    assert [each[0][0] for each in found] == model.predict(SEQUENCES, method="viterbi") == STRUCTURES


def test_probabilities_are_those_of_the_model(model):
    (found,) = model.predict_nbest(["GGGAAAACCCAC"], n=20)
    structures, probabilities = zip(*found, strict=True)
    assert len(set(structures)) == 20
    assert list(probabilities) == sorted(probabilities, reverse=True)
    alone = model.log_partition(["GGGAAAACCCAC"] * 20, constraints=structures)
    np.testing.assert_allclose(np.log(probabilities), alone - model.log_partition(["GGGAAAACCCAC"]), atol=1e-10)


@pytest.mark.parametrize("n", [np.int64(10), sys.maxsize, 10**30])
def test_there_may_be_fewer(model, n):
    found = model.predict_nbest(["AAAA", "GAAAC"], n=n)
    assert found[0] == [("....", pytest.approx(1.0))]
    assert sorted(structure for structure, _ in found[1]) == ["(...)", "....."]
    assert sum(probability for _, probability in found[1]) == pytest.approx(1.0, abs=1e-10)


def test_constraints_are_kept(model):
    (found,) = model.predict_nbest(["GGGAAAACCC"], n=1000, constraints=["(????????)"])
    assert len(found) > 5
    assert all(structure[0] + structure[-1] == "()" for structure, _ in found)
    assert sum(probability for _, probability in found) == pytest.approx(1.0, abs=1e-10)
    with pytest.raises(InputError, match="pairs A at 1 with A at 4, which the model does not allow"):
        model.predict_nbest(["AAAA"], constraints=["(..)"])


@pytest.mark.parametrize("n", [0, -1, 1.5, "3", True, None])
def test_n_is_a_whole_number(model, n):
    with pytest.raises(InputError, match="write a whole number, 1 or larger"):
        model.predict_nbest(["GGGAAAACCC"], n=n)
