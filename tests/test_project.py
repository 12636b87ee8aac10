"""The project's own files agree with each other, and hold nothing of the machine they were written on."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import tikhon

ROOT = Path(__file__).parents[1]
TEXT = {".py", ".md", ".toml", ".j2", ".txt", ".json", ""}
SKIPPED = {".git", "out", "build", "dist", "__pycache__"}
# Written so that this file does not find itself.
MACHINE = re.compile(r"(?<![\w.])/(?:work|root|home|farm|mnt)/" + r"\w")


def text_files() -> list[Path]:
    found = []
    for path in ROOT.rglob("*"):
        parts = path.relative_to(ROOT).parts
        hidden = any(part in SKIPPED or (part.startswith(".") and part != ".ci") for part in parts[:-1])
        if path.is_file() and not hidden and path.suffix in TEXT and not path.name.startswith("."):
            found.append(path)
    return found


def makefile_targets() -> set[str]:
    return set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))


def test_makefile_has_the_targets_that_the_readme_and_ci_name() -> None:
    named = set()
    for file in ("README.md", ".ci/run"):
        named |= set(re.findall(r"^make ([a-z-]+)", (ROOT / file).read_text(encoding="utf-8"), re.MULTILINE))
    assert {"demo", "test", "test-oldest"} <= named
    assert named <= makefile_targets()
    assert {"demo", "test", "check", "test-oldest", "clean"} <= makefile_targets()


def test_the_readme_starts_with_two_commands() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    first = re.search(r"```bash\n(.*?)```", text, re.DOTALL)
    assert first is not None
    assert [line.split("#")[0].strip() for line in first[1].strip().splitlines()] == ["make demo", "make test"]
    assert text.index("```bash") < 800


def test_the_changelog_knows_this_version() -> None:
    assert re.search(
        rf"^## {re.escape(tikhon.__version__)}\b", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE
    )


def test_no_machine_paths() -> None:
    files = text_files()
    assert ROOT / "src" / "tikhon" / "groups.py" in files
    assert ROOT / "README.md" in files
    found = [
        f"{path.relative_to(ROOT)}: {hit[0]}" for path in files if (hit := MACHINE.search(path.read_text("utf-8")))
    ]
    assert found == []


@pytest.mark.parametrize("line", ["cd /" + "root/x", "'/" + "home/me'", "=/" + "work/main"])
def test_machine_paths_are_seen(line: str) -> None:
    assert MACHINE.search(line)


def test_every_dependency_has_one_lower_bound_and_the_oldest_pins_are_these() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    listed = project["dependencies"] + [r for extra in project["optional-dependencies"].values() for r in extra]
    bounds = {r.replace(">=", "==") for r in listed if not r.startswith("tikhon[")}
    done = subprocess.run(
        [sys.executable, ROOT / "tools" / "oldest.py", ROOT / "pyproject.toml"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert set(done.stdout.split()) == bounds


@pytest.mark.parametrize("dependencies", [["numpy"], ["numpy<2"], ["numpy>=1.26", "numpy>=2.0"]])
def test_a_dependency_without_a_plain_bound_is_refused(dependencies: list[str], tmp_path: Path) -> None:
    written = ", ".join(f'"{requirement}"' for requirement in dependencies)
    pyproject = tmp_path / "pyproject.toml"
    pyproject.write_text(
        f'[project]\nname = "x"\ndependencies = [{written}]\n[project.optional-dependencies]\n', encoding="utf-8"
    )
    done = subprocess.run(
        [sys.executable, ROOT / "tools" / "oldest.py", pyproject], capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert "numpy" in done.stderr


def test_ci_script_is_executable_and_stops_at_the_first_failure() -> None:
    script = ROOT / ".ci" / "run"
    assert script.stat().st_mode & 0o111
    assert "set -euo pipefail" in script.read_text(encoding="utf-8")
