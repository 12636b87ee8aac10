"""What README and docs show works: Python blocks run, commands and their options exist, links lead somewhere."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
DOCS = sorted((ROOT / "docs").glob("*.md"))
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *DOCS]
BLOCK = re.compile(r"^```(?P<language>\w+)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]+\]\((?!https?://|#)(?P<target>[^)#]+)(#[^)]*)?\)")


def blocks(page: Path, language: str) -> list[str]:
    found = BLOCK.finditer(page.read_text(encoding="utf-8"))
    return [block["body"] for block in found if block["language"] == language]


def with_blocks(language: str) -> list[Any]:
    return [pytest.param(page, id=page.name) for page in PAGES if blocks(page, language)]


def command_lines(text: str) -> list[list[str]]:
    """The command lines of a block, continued lines joined, comments and prompts left out."""
    joined = text.replace("\\\n", " ")
    return [words for line in joined.splitlines() if (words := shlex.split(line.removeprefix("$ "), comments=True))]


@pytest.mark.slow
@pytest.mark.parametrize("page", with_blocks("python"))
def test_python_blocks_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "example"}
    for number, body in enumerate(blocks(page, "python"), start=1):
        exec(compile(body, f"{page.name}, block {number}", "exec"), names)


@pytest.mark.parametrize("page", with_blocks("bash"))
def test_commands_and_options_exist(page: Path) -> None:
    from typer.main import get_command

    from tikhon.cli.app import app

    root: Any = get_command(app)
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    for words in (words for body in blocks(page, "bash") for words in command_lines(body)):
        if words[0] == "make":
            assert set(words[1:]) <= set(targets), words
        elif words[0] == "tikhon":
            command, depth = root, 1
            while hasattr(command, "commands"):  # a group of commands, such as tag
                assert words[depth] in command.commands, words
                command, depth = command.commands[words[depth]], depth + 1
            known = {option for parameter in command.params for option in parameter.opts}
            assert {word for word in words[depth:] if word.startswith("-")} <= known, words
        else:
            assert words[0] in {"pip", "git", "cd"}, f"{words[0]} is not a command that a reader surely has"


@pytest.mark.parametrize("page", [pytest.param(page, id=page.name) for page in PAGES])
def test_links_lead_somewhere(page: Path) -> None:
    missing = [link["target"] for link in LINK.finditer(page.read_text(encoding="utf-8"))]
    assert [target for target in missing if not (page.parent / target).exists()] == []


def test_every_page_of_docs_is_linked_from_the_readme() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert [page.name for page in DOCS if f"docs/{page.name}" not in text] == []
    assert "(CONTRIBUTING.md)" in text


def test_places_that_contributing_names_exist() -> None:
    """Files and folders of the package, in backquotes; others are given from the root."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    named = re.findall(r"`([a-z_]+(?:/[a-z_]+)*(?:/|\.py))`", text)
    assert {"models/", "threads.py", "harness/runner.py"} <= set(named)
    assert [name for name in named if not any((root / name).exists() for root in (ROOT / "src" / "tikhon", ROOT))] == []
