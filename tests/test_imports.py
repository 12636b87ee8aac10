"""Imports point one way: the order of docs/architecture.md, read from the source of every module."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "tikhon"
LAYERS = (
    {"_version", "lazy", "objective", "groups", "results", "errors", "threads"},
    {"kernels", "data"},
    {"models", "solvers"},
    {"tuners", "testing"},
    {"trainers"},
    {"estimators"},
    {"search"},
    {"report"},
    {"harness"},
    {"experiments", "bench"},
    {"cli"},
    {"__main__"},
)
LEVEL = {part: level for level, parts in enumerate(LAYERS) for part in parts}
NEVER = ({"models", "tuners"}, {"bench", "experiments"})


def part_of(module: str) -> str:
    """The first name below the package: "tikhon.tuners.grid" belongs to "tuners", "tikhon" to "tikhon"."""
    names = module.split(".")
    return names[1] if len(names) > 1 else names[0]


def modules() -> dict[str, ast.Module]:
    found = {}
    for path in sorted(SOURCE.rglob("*.py")):
        names = ["tikhon", *path.relative_to(SOURCE).with_suffix("").parts]
        if names[-1] == "__init__":
            names.pop()
        found[".".join(names)] = ast.parse(path.read_text(encoding="utf-8"))
    return found


def imported(tree: ast.Module) -> Iterator[str]:
    """Every module imported anywhere in the file, in functions and under TYPE_CHECKING too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield "." * node.level + (node.module or "")


def complaint(importer: str, target: str) -> str | None:
    """What is wrong with this import, or None."""
    if target.startswith("."):
        return f"{importer} imports {target}: relative imports are not used"
    if target.split(".")[0] != "tikhon" or importer == "tikhon":
        return None
    here, there = part_of(importer), part_of(target)
    if there == "tikhon":
        below = LEVEL[here] <= LEVEL["estimators"]  # the package itself gathers the estimators and what is below them
        return f"{importer} imports the package itself: import from the module with the name" if below else None
    if {here, there} in NEVER:
        return f"{importer} imports {target}: {here} and {there} never import each other"
    if LEVEL[there] > LEVEL[here]:
        return f"{importer} imports {target}, which stands above it"
    return None


def edges() -> Iterator[tuple[str, str]]:
    for importer, tree in modules().items():
        for target in imported(tree):
            yield importer, target


def test_every_module_has_a_layer() -> None:
    parts = {part_of(name) for name in modules()} - {"tikhon"}
    assert parts <= LEVEL.keys()
    assert {"objective", "groups", "errors", "results"} <= parts


def test_imports_point_one_way() -> None:
    assert [text for importer, target in edges() if (text := complaint(importer, target))] == []


def test_parts_of_one_layer_do_not_import_each_other_in_a_circle() -> None:
    graph: dict[str, set[str]] = {}
    for importer, target in edges():
        if importer != "tikhon" and target.startswith("tikhon.") and part_of(importer) != part_of(target):
            graph.setdefault(part_of(importer), set()).add(part_of(target))
    while leaves := [part for part in graph if not graph[part] & graph.keys()]:
        for part in leaves:
            del graph[part]
    assert graph == {}


@pytest.mark.parametrize(
    ("importer", "target"),
    [
        ("tikhon.objective", "tikhon.errors.x.y"),
        ("tikhon.tuners.grid", "tikhon.solvers"),
        ("tikhon.cli.app", "tikhon.report.demo"),
        ("tikhon", "tikhon.estimators"),
        ("tikhon.groups", "numpy"),
        ("tikhon.cli.fit", "tikhon"),
        ("tikhon.bench.glm", "tikhon.harness.runner"),
        ("tikhon.harness.fitting", "tikhon"),
    ],
)
def test_good_imports_pass(importer: str, target: str) -> None:
    assert complaint(importer, target) is None


@pytest.mark.parametrize(
    ("importer", "target"),
    [
        ("tikhon.objective", "tikhon.solvers"),
        ("tikhon.models.linear.softmax", "tikhon.tuners.base"),
        ("tikhon.tuners.grid", "tikhon.models"),
        ("tikhon.estimators.linear.ridge", "tikhon.report"),
        ("tikhon.groups", ".errors"),
        ("tikhon.estimators.linear.ridge", "tikhon"),
        ("tikhon.bench.glm", "tikhon.experiments.paper"),
        ("tikhon.experiments.mm_table1", "tikhon.bench.peers"),
        ("tikhon.harness.runner", "tikhon.bench"),
    ],
)
def test_bad_imports_are_seen(importer: str, target: str) -> None:
    assert complaint(importer, target) is not None
