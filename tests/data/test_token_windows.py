"""Features from columns: windows, spelling and CRF++ templates."""

import json

import pytest

from tikhon.data.conll import Sentence
from tikhon.data.token_windows import FeatureMaker, read_template, window_features
from tikhon.errors import FileFormatError, InputError

SENTENCE = Sentence((("The", "e-mail", "X23"), ("DT", "NN", "CD"), ("O", "O", "B-x")), 1)


def value(sentence, offset, column, t):
    """What stands at an offset from token t, by hand."""
    place = t + offset
    if place < 0:
        return f"<-{-place}>"
    if place >= len(sentence):
        return f"<+{place - len(sentence) + 1}>"
    return sentence.columns[column][place]


def test_windows_of_words_and_tags_make_the_nineteen_templates_of_chunking():
    maker = window_features(2, spelling=False)
    features = maker.features(SENTENCE)
    assert len(maker.templates) == 19
    for t, token in enumerate(features):
        assert len(token) == 19
        for offset in range(-2, 3):
            assert f"w[{offset}]={value(SENTENCE, offset, 0, t)}" in token
            assert f"p[{offset}]={value(SENTENCE, offset, 1, t)}" in token
        assert f"w[-1]|w[0]={value(SENTENCE, -1, 0, t)}|{value(SENTENCE, 0, 0, t)}" in token
        triple = "|".join(value(SENTENCE, offset, 1, t) for offset in (0, 1, 2))
        assert f"p[0]|p[1]|p[2]={triple}" in token


def test_the_label_is_never_a_feature():
    assert not any("B-x" in name for token in window_features(2, spelling=True).features(SENTENCE) for name in token)


def test_spelling_tells_how_a_word_is_written():
    token = window_features(1, spelling=True).features(SENTENCE)[2]
    for feature in ("lower=x23", "shape=X0", "prefix2=X2", "suffix1=3", "digit=True", "hyphen=False"):
        assert feature in token
    assert "hyphen=True" in window_features(1, spelling=True).features(SENTENCE)[1]


def test_a_template_file_is_read_as_crfpp_reads_it(tmp_path):
    path = tmp_path / "template"
    path.write_text("# words\nU00:%x[-1,0]\n\nU01:%x[0,0]/%x[ +1 , 1 ]\nB\n")
    features = read_template(path, 2).features(SENTENCE)
    assert features[0] == ["U00=<-1>", "U01=The|NN"]
    assert features[2] == ["U00=e-mail", "U01=X23|<+1>"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("U00:%x[0,2]\n", r"line 1: uses column 2, but tokens have 2"),
        ("\nU00:%x[0,0\n", r"line 2: cannot read"),
        ("U00\n", "has no macro"),
        ("B01:%x[0,0]\n", "only a bare B"),
        ("U1:%x[0,0]\nU1:%x[1,0]\n", "line 2: the template 'U1' occurs twice"),
        ("U1:%x[-99999,0]\n", "an offset of 99999 tokens"),
        ("# nothing\n", "holds no templates"),
    ],
)
def test_bad_templates_are_refused_with_their_line(text, message, tmp_path):
    path = tmp_path / "template"
    path.write_text(text)
    with pytest.raises(FileFormatError, match=message):
        read_template(path, 2)


def test_files_that_are_not_there_or_not_text_are_refused(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        read_template(tmp_path / "none", 2)
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(FileFormatError, match="UTF-8"):
        read_template(tmp_path / "binary", 2)
    with pytest.raises(InputError, match="no column"):
        window_features(0, spelling=False)


def test_a_maker_survives_json():
    maker = window_features(3, spelling=True)
    again = FeatureMaker.from_json(json.loads(json.dumps(maker.as_json())))
    assert again == maker
    for bad in ({}, {"templates": [["U", []]], "n_columns": 1, "spelling": False}, {"templates": 3}):
        with pytest.raises((KeyError, TypeError, ValueError)):
            FeatureMaker.from_json(bad)
    with pytest.raises(ValueError, match="U"):
        FeatureMaker.from_json({"templates": [["U", [[0, 5]]]], "n_columns": 1, "spelling": False})


def test_a_byte_order_mark_is_not_part_of_a_template(tmp_path):
    (tmp_path / "template").write_bytes(b"\xef\xbb\xbfU00:%x[0,0]\n")
    assert [one.name for one in read_template(tmp_path / "template", 1).templates] == ["U00"]
