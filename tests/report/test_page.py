"""The page is one whole file that needs nothing from elsewhere, and shows what it was given."""

import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from tikhon.errors import InputError, MissingExtra
from tikhon.groups import Groups
from tikhon.report import Section, Table, model_section, plot_strengths, write_page
from tikhon.report.page import format_cell
from tikhon.results import Step, TuneResult

VOID = {"meta", "img", "br", "hr", "link", "input"}


class Reader(HTMLParser):
    """Checks that tags close in order, and collects text, table cells and addresses."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.rows: list[list[str]] = []
        self.addresses: list[str] = []
        self.text = ""
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.addresses += [value or "" for name, value in attrs if name in {"src", "href"}]
        if tag == "tr":
            self.rows.append([])
        if tag in {"td", "th"}:
            self.rows[-1].append("")
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data
        if self.open and self.open[-1] in {"td", "th"}:
            self.rows[-1][-1] += data


def fitted(n_groups: int) -> SimpleNamespace:
    names = tuple(f"g{k}" for k in range(n_groups))
    strengths = {name: float(k + 1) for k, name in enumerate(names)}
    groups = Groups(np.append(np.arange(n_groups).repeat(2), -1), names, np.full(n_groups, np.nan))
    result = TuneResult(
        tuner="mm",
        strengths=strengths,
        weights=np.append(np.tile([3.0, 4.0], n_groups), 100.0),
        criterion_name="negative log posterior",
        criterion=1.0,
        train_loss=1.0,
        status="converged",
        reason="small change",
        worst_residual=0.0,
        relative_gap=0.0,
        gap_is_bound=True,
        trace=(Step(number=1, strengths=np.array(list(strengths.values())), criterion=1.0),),
        n_fits=1,
        seconds=0.1,
        notes=("a note",),
        warnings=("a warning",),
    )
    return SimpleNamespace(strengths_=strengths, tuning_=result, groups_=groups)


def test_page_shows_tables_text_and_plots_and_needs_no_network(tmp_path: Path) -> None:
    table = Table(("name", "value"), [("a", 0.123456), ("b", None), ("c", 12345)], "caption", frozenset({1}))
    section = Section("Heading", ["words"], [table], [("a plot", plot_strengths({"a": 1.0}))])
    path = write_page(tmp_path / "deep" / "page.html", "Title", [section])
    text = path.read_text(encoding="utf-8")
    page = Reader(text)
    assert page.rows == [["name", "value"], ["a", "0.1235"], ["b", ""], ["c", "12,345"]]
    for words in ("Title", "Heading", "words", "caption", "a plot"):
        assert words in page.text
    assert [address[:22] for address in page.addresses] == ["data:image/png;base64,"]
    assert not re.search(r"https?://|<script|@import|url\(", text)
    assert "prefers-color-scheme: dark" in text


def test_markup_in_names_is_escaped(tmp_path: Path) -> None:
    evil = "<script>alert('x')</script>"
    section = Section(evil, [evil], [Table((evil,), [(evil,)], evil)], [(f'"{evil}', plot_strengths({evil: 1.0}))])
    text = write_page(tmp_path / "page.html", evil, [section]).read_text(encoding="utf-8")
    assert "<script" not in text
    assert Reader(text).text.count(evil) >= 6


def test_model_section_lists_groups_by_strength_with_their_sizes_and_norms(tmp_path: Path) -> None:
    section = model_section("Model", fitted(3))
    assert [tuple(row) for row in section.tables[0].rows] == [
        ("g2", 3.0, 2, 5.0),
        ("g1", 2.0, 2, 5.0),
        ("g0", 1.0, 2, 5.0),
    ]
    assert len(section.figures) == 2
    text = Reader(write_page(tmp_path / "p.html", "t", [section]).read_text(encoding="utf-8")).text
    assert "a note" in text
    assert "Warning: a warning" in text


def test_model_section_of_many_groups_lists_the_largest() -> None:
    table = model_section("Model", fitted(500)).tables[0]
    assert len(table.rows) == 200
    assert table.rows[0][0] == "g499"
    assert "500" in table.caption


def test_several_models_get_links_between_them(tmp_path: Path) -> None:
    sections = [model_section(f"Model {k}", fitted(2)) for k in range(3)]
    page = Reader(write_page(tmp_path / "p.html", "t", sections).read_text(encoding="utf-8"))
    assert [address for address in page.addresses if address.startswith("#")] == ["#s1", "#s2", "#s3"]


def test_page_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text("old", encoding="utf-8")

    class Broken:
        def savefig(self, *args: object, **kwargs: object) -> None:
            raise RuntimeError("cannot draw")

    with pytest.raises(RuntimeError, match="cannot draw"):
        write_page(path, "t", [Section("s", figures=[("broken", Broken())])])  # type: ignore[list-item]
    assert path.read_text(encoding="utf-8") == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_place_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(InputError, match="file"):
        write_page(tmp_path / "file" / "page.html", "t", [])


def test_without_jinja2_the_extra_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(MissingExtra, match=r"tikhon\[plot\]"):
        write_page(tmp_path / "page.html", "t", [])
    assert not (tmp_path / "page.html").exists()


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, ""), (1.0, "1"), (0.000123456, "0.0001235"), (12345, "12,345"), (True, "True"), ("x", "x")],
)
def test_cells(value: object, text: str) -> None:
    assert format_cell(value) == text
