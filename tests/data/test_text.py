"""The reader of the text sets: on small files made here, and on the real ones where they are."""

import json
import lzma
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tikhon.data.text import check_texts, load_imdb, load_newsgroups, load_texts, read_json_lines
from tikhon.errors import FileFormatError, InputError


def written(path: Path, entries: list[Any]) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(lzma.compress("".join(json.dumps(entry) + "\n" for entry in entries).encode()))
    return path


def test_both_parts_in_the_order_of_the_files(tmp_path: Path) -> None:
    posts = [{"id": 1, "label": "sci.med", "text": "a\n\tb"}, {"id": 2, "label": "alt.atheism", "text": "é\u2028x"}]
    written(tmp_path / "text" / "newsgroups20_train.jsonl.xz", posts)
    written(tmp_path / "text" / "newsgroups20_test.jsonl.xz", posts[:1])
    texts, labels, test_texts, test_labels = load_newsgroups(tmp_path)
    assert (texts, labels.tolist()) == (["a\n\tb", "é\u2028x"], ["sci.med", "alt.atheism"])
    assert (test_texts, test_labels.tolist()) == (["a\n\tb"], ["sci.med"])


def test_the_class_of_a_review_is_its_polarity(tmp_path: Path) -> None:
    for part in ("train", "test"):
        review = {"polarity": "neg", "rating": 2, "text": part}
        written(tmp_path / "text" / f"imdb_{part}.jsonl.xz", [review])
    read = load_imdb(tmp_path)
    assert (read.train_texts, read.test_texts) == (["train"], ["test"])
    assert read.train_labels.tolist() == ["neg"]


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    written(tmp_path / "text" / "imdb_train.jsonl.xz", [{"polarity": "neg", "text": "x"}])
    with pytest.raises(InputError, match=r"imdb_test\.jsonl\.xz does not exist: .* --data DIR"):
        check_texts(["imdb"], tmp_path)
    with pytest.raises(InputError, match="unknown text set 'yelp': write one of newsgroups20, imdb"):
        load_texts("yelp", tmp_path)


@pytest.mark.parametrize("entry", [{"text": "x"}, {"text": "x", "label": 3}, "text", ["text"], None])
def test_a_line_without_its_text_is_named(tmp_path: Path, entry: Any) -> None:
    path = written(tmp_path / "text" / "a.jsonl.xz", [{"text": "x", "label": "y"}, entry])
    with pytest.raises(FileFormatError, match=r"a\.jsonl\.xz, line 2: .*text and label"):
        read_json_lines(path, ("text", "label"))


def test_damage_is_told(tmp_path: Path) -> None:
    path = written(tmp_path / "text" / "a.jsonl.xz", [{"text": "x" * 100}] * 100)
    whole = path.read_bytes()
    assert len(read_json_lines(path, ("text",))["text"]) == 100
    for content, said in (
        (whole[:-20], "truncated or damaged"),
        (b"plain text", "truncated or damaged"),
        (lzma.compress(b'{"text": "\xff"}\n'), "truncated or damaged"),
        (lzma.compress(b""), "is empty"),
        (lzma.compress(b"{\n"), "line 1"),
    ):
        path.write_bytes(content)
        with pytest.raises(FileFormatError, match=said):
            read_json_lines(path, ("text",))


def test_the_real_newsgroups(data_dir: Path) -> None:
    if not (data_dir / "text" / "newsgroups20_train.jsonl.xz").is_file():
        pytest.skip("the data folder has no 20 newsgroups")
    read = load_newsgroups(data_dir)
    counts = Counter(read.train_labels.tolist())
    assert len(counts) == 20
    assert (counts["sci.med"], counts["talk.religion.misc"]) == (594, 377)  # as the manifest has them
    assert (len(read.train_texts), len(read.test_texts)) == (11314, 7532)
    assert all("Subject:" in text for text in read.train_texts[:100])
