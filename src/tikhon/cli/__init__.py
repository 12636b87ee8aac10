"""The ``tikhon`` command; the only part that prints.

Data goes to stdout, all else to stderr. Exit codes: 0, 1 for unexpected errors, 2 for bad input, 130 for Ctrl-C.
"""

from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit."""
    try:
        from tikhon.cli.app import run

        code = run(arguments)
    except KeyboardInterrupt:  # while modules are still being loaded
        code = 130
    raise SystemExit(code)
