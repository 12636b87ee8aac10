"""Shared by ``tikhon fit``, ``tag fit`` and ``fold fit``: options, checks before the work, the fit, the report."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tikhon.cli.console import Bar, InterruptionError, warn, write_json
from tikhon.cli.options import SequenceTunerName, TunerName, make_tuner, strengths_by_name
from tikhon.errors import InputError

if TYPE_CHECKING:
    from tikhon.results import Step

ModelFile = Annotated[Path, typer.Option("--model", "-m", help="The model file to write, conventionally .safetensors.")]
Tuner = Annotated[TunerName, typer.Option(help="How the strengths are learned.")]
TunerOfSequences = Annotated[SequenceTunerName, typer.Option(help="How the strengths are learned.")]
Strength = Annotated[
    list[str] | None, typer.Option(help="Fix a group's strength (repeatable), or VALUE for all.", metavar="NAME=VALUE")
]
Folds = Annotated[
    int | None, typer.Option("--cv", min=2, help="Number of cross-validation folds; default: chosen by the tuner.")
]
HeldOut = Annotated[
    float | None,
    typer.Option("--validation-fraction", help="Hold out this fraction of the data instead of cross-validation."),
]
Checkpoint = Annotated[Path | None, typer.Option(help="Save each step to this file; a killed run resumes from it.")]
Seed = Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Seed of the splits.")]
Threads = Annotated[int | None, typer.Option("--jobs", min=1, help="Number of threads; default: all cores.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]


def tuning_parameters(
    *, tuner: TunerName | SequenceTunerName, strength: Sequence[str] | None, folds: int | None, held_out: float | None,
    checkpoint: Path | None, seed: int, jobs: int | None,
) -> dict[str, Any]:  # fmt: skip
    """The estimator parameters for these options."""
    if folds is not None and held_out is not None:
        raise InputError("--cv and --validation-fraction are mutually exclusive: give one")
    return {
        "tuner": make_tuner(tuner, checkpoint),
        "strengths": strengths_by_name(strength or []),
        "cv": None if held_out is not None else folds or "auto",
        "validation_fraction": 0.2 if held_out is None else held_out,
        "random_state": seed,
        "n_jobs": jobs,
    }


def fitted(
    estimator: Any, X: Any, y: Any, source: Path | str, checkpoint: Path | None, bar: Bar,
    in_words: Callable[[str], str] = str,
) -> list[str]:  # fmt: skip
    """Fit in place and return the distinct warnings. ``in_words`` replaces row or column numbers by names from the file."""
    estimator._on_step = show_step(bar, estimator.tuner, getattr(estimator, "trainer", None))
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            estimator.fit(X, y)
    except KeyboardInterrupt as interrupt:
        if not interrupt.args:  # estimators give a reason if they kept the best result so far
            raise InterruptionError(f"no model was written{_how_to_go_on(checkpoint)}") from None
    except ValueError as error:
        raise InputError(f"{source}: {in_words(str(error))}") from error
    finally:
        del estimator._on_step
    estimator.tuning_ = replace(estimator.tuning_, warnings=tuple(map(in_words, estimator.tuning_.warnings)))
    return list(dict.fromkeys(in_words(str(warning.message)) for warning in caught))


def show_step(bar: Bar, tuner: Any, trainer: Any = None) -> Callable[["Step"], None]:
    # A grid, or a training without early stopping, has a known number of steps; a descent mostly ends long before its limit.
    name, most, criterion = "fitting", None, "criterion"
    if not (trainer is None or isinstance(trainer, str)):
        most = None if trainer.early_stopping else trainer.n_rounds
        name, criterion = f"training ({trainer.name})", "held-out error" if trainer.early_stopping else "loss"
    elif tuner is not None:
        name, most = f"tuning ({tuner.name})", len(getattr(tuner, "values", ())) or None
    bar.start(most, name)

    def show(step: "Step") -> None:
        note = f", {step.note}" if trainer is not None and step.note else ""
        bar.advance(1, f"{name}: step {step.number}, {criterion} {step.criterion:.6g}{note}")

    return show


def report(
    estimator: Any, *, title: str, about: Mapping[str, Any], files: Mapping[str, Path | None], messages: Sequence[str],
    as_json: bool,
) -> None:  # fmt: skip
    """Print what was learned, from which data, and the files written."""
    from tikhon.cli.tables import group_rows, print_groups, print_tuning, tuning_dict

    for message in messages:
        warn(message)
    rows = group_rows(estimator)
    if as_json:
        written = {kind: None if path is None else str(path) for kind, path in files.items()}
        tuning = tuning_dict(estimator.tuning_)
        write_json({**written, **about, "groups": rows, "tuning": tuning, "warnings": list(messages)})
        return
    print(title)
    print_groups(rows)
    print_tuning(estimator.tuning_)
    for kind, path in files.items():
        if path is not None:
            print(f"{kind}: {path}")


def end_interrupted(estimator: Any, model: Path, checkpoint: Path | None) -> None:
    """Exit as after Ctrl-C if the tuning was interrupted."""
    if estimator.tuning_.status == "interrupted":
        raise InterruptionError(f"the best so far is in {model}{_how_to_go_on(checkpoint)}")


def _how_to_go_on(checkpoint: Path | None) -> str:
    """Nothing if the run was killed before its first step."""
    return "" if checkpoint is None or not checkpoint.exists() else f"; the same command resumes from {checkpoint}"
