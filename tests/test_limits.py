"""Files and functions stay small, and nothing is written twice."""

import ast
import re
from collections import defaultdict
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "tikhon"
MOST_LINES_OF_A_FILE, MOST_LINES_OF_A_BODY, MOST_FILES_OF_MODELS, MOST_LINES_TWICE = 450, 80, 8, 10
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def sources() -> list[tuple[str, str]]:
    return [
        (path.relative_to(SOURCE).as_posix(), path.read_text(encoding="utf-8")) for path in sorted(SOURCE.rglob("*.py"))
    ]


def docstring_of(node: ast.AST) -> ast.stmt | None:
    first = node.body[0] if isinstance(node, Definition | ast.Module) and node.body else None
    is_text = (
        isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str)
    )
    return first if is_text else None


def long_bodies(text: str) -> list[tuple[str, int]]:
    """Functions whose body, from the first statement after the docstring to the end, is too long."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            statements = node.body[1:] if docstring_of(node) else node.body
            if statements and (lines := (node.end_lineno or 0) - statements[0].lineno + 1) > MOST_LINES_OF_A_BODY:
                found.append((node.name, lines))
    return found


def counted_lines(name: str, text: str) -> list[tuple[int, str]]:
    """Number and text of the lines that count for repetitions: not blank, no comment, no import.

    scikit-learn wants every parameter of an estimator in the signature of its ``__init__``, stored there and nothing else
    done, and described in the docstring of the class, whatever other estimators have as well: these do not count either.
    """
    left_out: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        skipped: ast.stmt | None = node if isinstance(node, ast.Import | ast.ImportFrom) else None
        if name.startswith("estimators/"):
            if isinstance(node, ast.FunctionDef) and node.name == "__init__":
                skipped = node
            elif isinstance(node, ast.ClassDef):
                skipped = docstring_of(node)
        if skipped is not None:
            left_out.update(range(skipped.lineno, (skipped.end_lineno or 0) + 1))
    lines = enumerate(map(str.strip, text.splitlines()), 1)
    return [(number, line) for number, line in lines if line and line[0] != "#" and number not in left_out]


def repetitions(files: list[tuple[str, str]]) -> list[str]:
    """Where runs of more lines than are allowed stand for the second time."""
    places: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for name, text in files:
        lines = counted_lines(name, text)
        for start in range(len(lines) - MOST_LINES_TWICE):
            run = lines[start : start + MOST_LINES_TWICE + 1]
            places[tuple(line for _, line in run)].append(f"{name}:{run[0][0]}")
    return [" and ".join(found) for found in places.values() if len(found) > 1]


def test_files_are_short() -> None:
    lengths = {name: text.count("\n") for name, text in sources()}
    assert len(lengths) > 100
    assert {name: length for name, length in lengths.items() if length > MOST_LINES_OF_A_FILE} == {}


def test_functions_are_short_but_for_kernels() -> None:
    found = {name: long_bodies(text) for name, text in sources() if not name.startswith("kernels/")}
    assert {name: bodies for name, bodies in found.items() if bodies} == {}


def test_models_has_few_files_at_its_top() -> None:
    assert len([path for path in (SOURCE / "models").iterdir() if path.is_file()]) <= MOST_FILES_OF_MODELS


def test_no_block_of_more_than_ten_lines_stands_twice() -> None:
    assert repetitions(sources()) == []


def test_there_is_one_pool_of_threads() -> None:
    """Others would have to learn anew that Ctrl-C may leave them hanging. Searches use joblib's workers, as users set them."""
    pools = re.compile(r"ThreadPoolExecutor|multiprocessing\.(pool|dummy)|joblib import|joblib\.Parallel")
    assert [name for name, text in sources() if pools.search(text)] == ["search/workers.py", "threads.py"]


@pytest.mark.parametrize(("n", "is_seen"), [(80, False), (81, True)])
def test_long_bodies_are_seen(n: int, is_seen: bool) -> None:
    text = 'def long():\n    """Says what\n\n    it does."""\n\n' + "    x = 1\n" * n
    assert bool(long_bodies(text)) is is_seen


@pytest.mark.parametrize(("n", "is_seen"), [(10, False), (11, True)])
def test_blocks_that_stand_twice_are_seen(n: int, is_seen: bool) -> None:
    block = "".join(f"x{number} = {number}\n" for number in range(n))
    assert (
        bool(
            repetitions([("a.py", "import os\n" + block), ("b.py", block.replace("x2", "\n# comment\nx2") + "y = 1\n")])
        )
        is is_seen
    )
