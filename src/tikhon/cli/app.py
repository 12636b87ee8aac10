"""The application with all its commands."""

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from tikhon.cli.bench import bench
from tikhon.cli.console import BAD_INPUT, INTERRUPTED, UNEXPECTED, complain
from tikhon.cli.demo import demo
from tikhon.cli.fit import fit
from tikhon.cli.fold import fold
from tikhon.cli.inspect import inspect
from tikhon.cli.predict import predict
from tikhon.cli.reproduce import reproduce
from tikhon.cli.search import search
from tikhon.cli.stdout import named_stdout
from tikhon.cli.tag import tag
from tikhon.errors import TikhonError

app = typer.Typer(
    name="tikhon",
    help="Learn how strongly to regularise: one L2 strength for each group of columns.",
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for _command in (fit, predict, inspect, search, demo, reproduce, bench):
    app.command()(_command)
app.add_typer(tag)
app.add_typer(fold)


def _print_version(wanted: bool) -> None:
    if wanted:
        from tikhon._version import __version__

        print(f"tikhon {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    pass


def run(arguments: Sequence[str] | None = None) -> int:
    """Run a command line and return the exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    with named_stdout():
        return _run(given)


def _run(given: Sequence[str]) -> int:
    try:
        code = app(given or ["--help"], prog_name="tikhon", standalone_mode=False)
        sys.stdout.flush()
    except typer.Exit as stop:
        return stop.exit_code
    except BrokenPipeError:  # of the help; commands handle their own
        return UNEXPECTED
    except TikhonError as error:
        complain(str(error))
        return BAD_INPUT
    except (KeyboardInterrupt, typer.Abort):
        complain("interrupted")
        return INTERRUPTED
    except Exception as error:
        # An error in the command line itself. Its class has moved between releases of typer; its method has not.
        if not hasattr(error, "format_message"):
            raise
        complain(f"{error.format_message()} (see tikhon {_subcommand(given)}--help)")
        return BAD_INPUT
    return code if isinstance(code, int) else 0


def _subcommand(arguments: Sequence[str]) -> str:
    """The part of the command line that names the command, for a hint."""
    names = {command.callback.__name__ for command in app.registered_commands if command.callback is not None}
    if arguments and arguments[0] in (tag.info.name, fold.info.name):
        is_known = arguments[1:] and arguments[1] in ("fit", "predict", "eval")
        return f"{arguments[0]} {arguments[1]} " if is_known else f"{arguments[0]} "
    return f"{arguments[0]} " if arguments and arguments[0] in names else ""
