"""Features of tokens in all forms, and what is refused and where."""

import numpy as np
import pytest
import scipy.sparse as sp

from tikhon.errors import InputError
from tikhon.estimators.chain.token_features import FeatureEncoder


def decoded(encoder, found):
    """Per sequence and token, a dict from the names of its features to their values."""
    values = np.ones(len(found.features)) if found.values is None else found.values
    tokens = [
        {encoder.names[found.features[p]]: values[p] for p in range(start, end)}
        for start, end in zip(found.pointers[:-1], found.pointers[1:], strict=True)
    ]
    return [tokens[start:end] for start, end in zip(found.starts[:-1], found.starts[1:], strict=True)]


def test_dicts_and_lists_give_named_features():
    encoder = FeatureEncoder()
    X = [
        [{"word": "the", "length": 3, "upper": True, "digit": False, "tag": None}, ["bias", "word=cat"]],
        [{"word": "the", "length": 0.5}],
        [{}],
    ]
    found = encoder.encode(X, learn=True)
    assert decoded(encoder, found) == [
        [{"word=the": 1.0, "length": 3.0, "upper": 1.0}, {"bias": 1.0, "word=cat": 1.0}],
        [{"word=the": 1.0, "length": 0.5}],
        [{}],
    ]
    assert encoder.n_features == 5


def test_values_are_left_out_where_all_are_one():
    assert FeatureEncoder().encode([[["a"], {"b": "c", "d": 1}]], learn=True).values is None


def test_unknown_features_are_left_out_later():
    encoder = FeatureEncoder()
    encoder.encode([[["a", "b"]]], learn=True)
    assert decoded(encoder, encoder.encode([[["b", "new"], ["new"]]], learn=False)) == [[{"b": 1.0}, {}]]
    assert encoder.names == ["a", "b"]


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array, sp.coo_matrix])
def test_arrays_have_columns(form, rng):
    arrays = [rng.integers(0, 3, size=(n, 4)).astype(float) for n in (3, 1, 0)]
    encoder = FeatureEncoder()
    found = encoder.encode([form(one) for one in arrays], learn=True)
    assert found.starts.tolist() == [0, 3, 4, 4]
    expected = [[{f"x{j}": v for j, v in enumerate(row) if v} for row in one] for one in arrays]
    assert decoded(encoder, found) == expected


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (["text"], "sequence 0 is 'text': a sequence is a list of tokens"),
        ([[["a"]], 3], "sequence 1 is 3"),
        ([[["a"], "b"]], "sequence 0, token 1 is 'b': a token is a dict or a list"),
        ([[["a", 1]]], "sequence 0, token 0: the feature 1 is not text"),
        ([[{"a": [1]}]], r"sequence 0, token 0, feature 'a': \[1\] is neither text nor a number"),
        ([[{"a": 1.0}], [{}, {"b": float("nan")}]], "sequence 1, token 1, feature 'b': the value is nan"),
        ([np.zeros((2, 3)), np.zeros((2, 4))], "sequence 1 has 4 columns, sequence 0 3"),
        ([np.zeros((2, 3)), [["a"]]], "sequence 1 is .* all must have the same form"),
        ([np.zeros(3)], "sequence 0 has 1 dimensions"),
        ([np.array([[0.0, np.inf]])], "sequence 0, token 0, column 1: the value is inf"),
    ],
)
def test_bad_sequences_are_refused_with_the_place(X, message):
    with pytest.raises(InputError, match=message):
        FeatureEncoder().encode(X, learn=True)


def test_the_form_must_be_that_of_the_fit():
    named, columns = FeatureEncoder(), FeatureEncoder()
    named.encode([[["a"]]], learn=True)
    columns.encode([np.ones((2, 3))], learn=True)
    with pytest.raises(InputError, match="fitted to tokens with named features"):
        named.encode([np.ones((2, 3))], learn=False)
    with pytest.raises(InputError, match="fitted to arrays"):
        columns.encode([[["a"]]], learn=False)
    with pytest.raises(InputError, match="sequence 0 has 2 columns, the data that the model was fitted to 3"):
        columns.encode([np.ones((2, 2))], learn=False)
