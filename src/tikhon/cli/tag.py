"""``tikhon tag``: label sequences, from files in columns to a model and back."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from tikhon.cli.console import (
    InterruptionError,
    guarded,
    printable,
    progress_bar,
    refuse_overwriting,
    warn,
    write_json,
)
from tikhon.cli.options import TunerName, make_tuner, strengths_by_name
from tikhon.errors import InputError

tag = typer.Typer(
    name="tag", help="Label sequences: a chain CRF with a learned strength for each template of features.",
    no_args_is_help=True,
)  # fmt: skip


class Features(StrEnum):
    auto = "auto"
    window = "window"
    spelling = "spelling"


class Allowed(StrEnum):
    all = "all"
    bio = "bio"
    bioes = "bioes"


class GroupsBy(StrEnum):
    template = "template"
    none = "none"


Model = Annotated[Path, typer.Argument(help="A model file of tikhon tag fit.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]
Jobs = Annotated[int | None, typer.Option(min=1, help="Threads; all cores unless told.")]


@tag.command()
@guarded
def fit(
    train: Annotated[
        Path, typer.Argument(help="A token a line, the label in the last column, empty lines between; also gzipped.")
    ],
    model: Annotated[Path, typer.Option("--model", "-m", help="The model file to write, by custom .safetensors.")],
    template: Annotated[Path | None, typer.Option(help="A CRF++ template file.")] = None,
    features: Annotated[
        Features,
        typer.Option(
            help="window: of words and other columns; spelling: also how words are written; auto: by columns."
        ),
    ] = Features.auto,
    order: Annotated[int, typer.Option(min=1, max=2, help="How many labels back a transition looks.")] = 1,
    groups: Annotated[GroupsBy, typer.Option(help="Which features share a strength.")] = GroupsBy.template,
    tuner: Annotated[TunerName, typer.Option(help="How the strengths are learned.")] = TunerName.auto,
    strength: Annotated[
        list[str] | None, typer.Option(help="Fix a group's strength; repeatable.", metavar="NAME=VALUE")
    ] = None,
    allowed: Annotated[Allowed, typer.Option(help="Which labels may follow which in predictions.")] = Allowed.all,
    cv: Annotated[
        int | None, typer.Option(min=2, help="Folds of the cross-validation; chosen by the tuner unless told.")
    ] = None,
    validation_fraction: Annotated[
        float | None, typer.Option(help="Hold out this share of the sentences instead of cross-validation.")
    ] = None,
    checkpoint: Annotated[
        Path | None, typer.Option(help="Keep each step in this file; a killed run goes on from it.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Seed of the splits.")] = 0,
    jobs: Jobs = None,
    as_json: Json = False,
) -> None:
    """Learn the strengths and the weights of a chain CRF, and write a model file."""
    from tikhon import ChainCRF
    from tikhon.cli.tagging import fitted, read_labelled, recipe, report
    from tikhon.data.files import check_writable

    if cv is not None and validation_fraction is not None:
        raise InputError("--cv and --validation-fraction exclude each other: give one")
    if template is not None and features is not Features.auto:
        raise InputError("--template and --features exclude each other: give one")
    check_writable(model)
    refuse_overwriting(model, [train, *([] if template is None else [template])])
    if checkpoint is not None:
        check_writable(checkpoint)
        refuse_overwriting(checkpoint, [train, model])
    estimator = ChainCRF(
        groups="template" if groups is GroupsBy.template else None,
        tuner=make_tuner(tuner, checkpoint),
        strengths=strengths_by_name(strength or []),
        order=order,
        allowed=None if allowed is Allowed.all else allowed.value,
        cv=None if validation_fraction is not None else cv or "auto",
        validation_fraction=0.2 if validation_fraction is None else validation_fraction,
        random_state=seed,
        n_jobs=jobs,
    )
    with progress_bar() as bar:
        sentences = read_labelled(train, bar)
        maker = recipe(template, features.value, len(sentences[0].columns) - 1)
        messages = fitted(estimator, sentences, maker, train, checkpoint, bar)
    estimator.save(model)
    for message in messages:
        warn(message)
    report(estimator, sentences, model, messages, as_json)
    if estimator.tuning_.status == "interrupted":
        again = "" if checkpoint is None else f"; the same command goes on from {checkpoint}"
        raise InterruptionError(f"the best so far is in {model}{again}")


@tag.command()
@guarded
def predict(
    model: Model,
    data: Annotated[Path, typer.Argument(help="Columns as in training, with or without labels; also gzipped.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The file to write; - or nothing for stdout.")
    ] = None,
    probability: Annotated[
        bool, typer.Option("--probability", help="Also the probability of each predicted label.")
    ] = False,
    jobs: Jobs = None,
) -> None:
    """Add a column with the predicted label to each token."""
    import sys

    from tikhon.cli.tagging import load_tagger, predictions, read_for_tagger, write_columns
    from tikhon.data.files import check_writable, replacing

    destination = None if output is None or str(output) == "-" else output
    if destination is not None:
        check_writable(destination)
        refuse_overwriting(destination, [model, data])
    tagger, maker = load_tagger(model, jobs)
    with progress_bar() as bar:
        sentences = read_for_tagger(data, maker, bar)
        bar.start(None, "labelling")
        columns = predictions(tagger, maker, sentences, probability=probability)
    if destination is None:
        sys.stdout.flush()
        write_columns(sys.stdout.buffer, sentences, columns)
    else:
        with replacing(destination) as file:
            write_columns(file, sentences, columns)
        print(f"{sum(map(len, sentences))} tokens of {len(sentences)} sentences: {printable(str(destination))}")


@tag.command(name="eval")
@guarded
def evaluate(
    model: Model,
    data: Annotated[Path, typer.Argument(help="Columns as in training, with labels; also gzipped.")],
    jobs: Jobs = None,
    as_json: Json = False,
) -> None:
    """Token accuracy, and precision, recall and F1 of chunks as conlleval counts them."""
    from tikhon.cli.tables import print_rows
    from tikhon.cli.tagging import chunk_rows, load_tagger, predictions, read_for_tagger
    from tikhon.data.chunk_scores import chunk_scores

    tagger, maker = load_tagger(model, jobs)
    with progress_bar() as bar:
        sentences = read_for_tagger(data, maker, bar, labelled=True)
        bar.start(None, "labelling")
        (predicted,) = predictions(tagger, maker, sentences)
    truth = [sentence.columns[maker.n_columns] for sentence in sentences]
    scores = chunk_scores(truth, predicted)
    rows: list[dict[str, Any]] = chunk_rows(scores)
    if as_json:
        counts = {"sentences": len(sentences), "tokens": scores.n_tokens, "accuracy": scores.accuracy}
        write_json({"model": str(model), "data": str(data)} | counts | {"chunks": rows})
        return
    print(f"{scores.n_tokens} tokens of {len(sentences)} sentences: {100 * scores.accuracy:.2f} % right")
    print_rows(rows)
