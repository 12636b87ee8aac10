"""Write pip constraints that pin every dependency in pyproject.toml to its lower bound.

The bounds are written once, in pyproject.toml; ``make test-oldest`` installs exactly them::

    python tools/oldest.py pyproject.toml > constraints.txt
"""

import re
import sys
import tomllib
from pathlib import Path
from typing import Any

BOUND = re.compile(r"^(?P<name>[A-Za-z0-9._-]+)\s*>=\s*(?P<version>[0-9][0-9.]*)$")


def constraints(project: dict[str, Any]) -> list[str]:
    """``name==lower bound`` for each requirement of the project and of its extras, sorted."""
    listed = [*project["dependencies"]]
    for extra in project["optional-dependencies"].values():
        listed += [requirement for requirement in extra if not requirement.startswith(project["name"])]
    pins = set()
    for requirement in listed:
        found = BOUND.match(requirement)
        if found is None:
            raise SystemExit(f"{requirement!r} has no plain lower bound: write it as name>=version")
        pins.add(f"{found['name']}=={found['version']}")
    names = [pin.split("==")[0] for pin in pins]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise SystemExit(f"{repeated[0]} has two lower bounds: write it once")
    return sorted(pins)


if __name__ == "__main__":
    pyproject = tomllib.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    sys.stdout.write("\n".join(constraints(pyproject["project"])) + "\n")
