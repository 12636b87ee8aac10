"""Chunks counted as conlleval does, against a token-by-token rendering of its rules."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tikhon.data.chunk_scores import chunk_scores, chunks
from tikhon.errors import InputError

LABELS = ["O", "B-x", "I-x", "B-y", "I-y"]
sequences = st.lists(st.sampled_from(LABELS), min_size=1, max_size=8)


def by_rules(labels):
    """Chunks found by conlleval's two questions, asked between each token and the next."""
    found, start = set(), None
    before_tag, before_kind = "O", ""
    for t, label in enumerate([*labels, "O"]):
        tag, kind = label[0], label[2:]
        ends = (
            (before_tag in "BI" and tag in "BO")
            or (before_tag != "O" and before_kind != kind)
        )  # fmt: skip
        if ends and start is not None:
            found.add((start, t - 1, before_kind))
            start = None
        begins = tag == "B" or (tag == "I" and before_tag == "O") or (tag != "O" and before_kind != kind)
        if begins:
            start = t
        before_tag, before_kind = tag, kind
    return found


@given(sequences)
def test_chunks_are_those_of_the_rules(labels):
    assert chunks(labels) == by_rules(labels)


def test_ends_and_singles_are_chunks_too():
    assert chunks(["B-x", "I-x", "E-x", "S-x", "E-x", "O", "S-y"]) == {
        (0, 2, "x"), (3, 3, "x"), (4, 4, "x"), (6, 6, "y"),
    }  # fmt: skip


def test_scores_of_a_small_example():
    truth = [["B-x", "I-x", "O", "B-y"], ["O", "B-x"]]
    guess = [["B-x", "I-x", "O", "B-x"], ["B-x", "I-x"]]
    scores = chunk_scores(truth, guess)
    assert scores.accuracy == pytest.approx(3 / 6)
    assert (scores.all.true, scores.all.predicted, scores.all.right) == (3, 3, 1)
    assert scores.all.f1 == pytest.approx(1 / 3)
    assert scores.by_kind["x"].precision == pytest.approx(1 / 3)
    assert scores.by_kind["y"].recall == 0.0
    assert chunk_scores([["O"]], [["O"]]).all.f1 == 0.0


@given(st.lists(sequences, min_size=1, max_size=4))
def test_a_perfect_guess_has_perfect_scores(truth):
    scores = chunk_scores(truth, truth)
    assert scores.accuracy == 1.0
    assert scores.all.f1 == (1.0 if any(label != "O" for labels in truth for label in labels) else 0.0)


def test_different_lengths_are_refused():
    with pytest.raises(InputError, match="1 sequences of true labels, but 2"):
        chunk_scores([["O"]], [["O"], ["O"]])
    with pytest.raises(InputError, match="sequence 0 has 1 true labels, but 2"):
        chunk_scores([["O"]], [["O", "O"]])
