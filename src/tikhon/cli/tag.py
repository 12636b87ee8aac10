"""``tikhon tag``: label sequences, from column files to a model and back."""

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from tikhon.cli.console import claim_outputs, guarded, printable, progress_bar, write_json
from tikhon.cli.fitting import (
    Checkpoint,
    Folds,
    HeldOut,
    Json,
    ModelFile,
    Seed,
    Strength,
    Threads,
    TunerOfSequences,
    end_interrupted,
    tuning_parameters,
)
from tikhon.cli.options import NoLimits, SequenceTunerName, TrainerName, make_trainer, reading_limits
from tikhon.errors import InputError

tag = typer.Typer(
    name="tag",
    help="Label sequences: a chain CRF, linear or with hidden units, with a learned strength for each template of features.",
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


class ModelType(StrEnum):
    linear = "linear"
    hidden = "hidden"


class Decoding(StrEnum):
    viterbi = "viterbi"
    marginal = "marginal"


Model = Annotated[Path, typer.Argument(help="A model file of tikhon tag fit.")]


@tag.command()
@guarded
def fit(
    train: Annotated[
        Path,
        typer.Argument(help="One token per line, the label in the last column, empty lines between; also gzipped."),
    ],
    model: ModelFile,
    template: Annotated[Path | None, typer.Option(help="A CRF++ template file.")] = None,
    features: Annotated[
        Features,
        typer.Option(
            help="window: words and other columns; spelling: also the spelling of words; auto: by the columns."
        ),
    ] = Features.auto,
    model_type: Annotated[
        ModelType, typer.Option(help="linear: a chain CRF; hidden: with hidden units between features and labels.")
    ] = ModelType.linear,
    hidden: Annotated[
        int | None, typer.Option(min=1, help="Number of hidden units; default: 100.", show_default=False)
    ] = None,
    order: Annotated[int, typer.Option(min=1, max=2, help="Number of previous labels in a transition.")] = 1,
    trainer: Annotated[
        TrainerName,
        typer.Option(help="lbfgs: fits to convergence, at learned strengths; the others: epochs, without them."),
    ] = TrainerName.lbfgs,
    epochs: Annotated[
        int | None, typer.Option(min=1, help="Number of epochs of a trainer, with early stopping the largest one.")
    ] = None,
    step: Annotated[float | None, typer.Option(help="Step size of a trainer.")] = None,
    rho: Annotated[float | None, typer.Option(help="Margin of the trainer margin.")] = None,
    early_stopping: Annotated[
        bool, typer.Option("--early-stopping", help="Train until held-out sentences say stop.")
    ] = False,
    decoding: Annotated[
        Decoding, typer.Option(help="viterbi: the best labels of a sentence; marginal: of each token.")
    ] = Decoding.viterbi,
    groups: Annotated[GroupsBy, typer.Option(help="Which features share a strength.")] = GroupsBy.template,
    tuner: TunerOfSequences = SequenceTunerName.auto,
    strength: Strength = None,
    allowed: Annotated[Allowed, typer.Option(help="Which labels may follow which in predictions.")] = Allowed.all,
    cv: Folds = None,
    validation_fraction: HeldOut = None,
    checkpoint: Checkpoint = None,
    seed: Seed = 0,
    no_limits: NoLimits = False,
    jobs: Threads = None,
    as_json: Json = False,
) -> None:
    """Learn the strengths and the weights of a chain CRF, and write a model file."""
    from tikhon.cli.tagging import chain_for, fitted_tagger, read_labelled, recipe, report_tagger

    tuning = tuning_parameters(
        tuner=tuner, strength=strength, folds=cv, held_out=validation_fraction, checkpoint=checkpoint, seed=seed, jobs=jobs
    )  # fmt: skip
    if template is not None and features is not Features.auto:
        raise InputError("--template and --features are mutually exclusive: give one")
    claim_outputs(
        [model] if checkpoint is None else [model, checkpoint], [train] if template is None else [train, template]
    )
    training = make_trainer(
        trainer, checkpoint, epochs=epochs, step=step, rho=rho, early_stopping=early_stopping or None
    )  # fmt: skip
    if training is not None:
        tuning["tuner"] = "auto" if tuner is SequenceTunerName.auto else tuning["tuner"]
    estimator = chain_for(
        hidden=hidden, is_hidden=model_type is ModelType.hidden,
        groups="template" if groups is GroupsBy.template else None, order=order,
        allowed=None if allowed is Allowed.all else allowed.value, decoding=decoding.value, trainer=training or "lbfgs",
        **tuning,
    )  # fmt: skip
    with progress_bar() as bar:
        sentences = read_labelled(train, bar, reading_limits(no_limits))
        maker = recipe(template, features.value, len(sentences[0].columns) - 1)
        messages = fitted_tagger(estimator, sentences, maker, train, checkpoint, bar)
    estimator.save(model)
    report_tagger(estimator, sentences, model, messages, as_json)
    end_interrupted(estimator, model, checkpoint)


@tag.command()
@guarded
def predict(
    model: Model,
    data: Annotated[Path, typer.Argument(help="Columns as in training, with or without labels; also gzipped.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The file to write; - or nothing for stdout.")
    ] = None,
    probability: Annotated[
        bool, typer.Option("--probability", help="Also write the probability of each predicted label.")
    ] = False,
    no_limits: NoLimits = False,
    jobs: Threads = None,
) -> None:
    """Add a column with the predicted label to each token."""
    from tikhon.cli.tagging import load_tagger, predictions, read_for_tagger, write_columns
    from tikhon.data.files import replacing

    destination = None if output is None or str(output) == "-" else output
    if destination is not None:
        claim_outputs([destination], [model, data])
    tagger, maker = load_tagger(model, jobs)
    with progress_bar() as bar:
        sentences = read_for_tagger(data, maker, bar, reading_limits(no_limits))
        bar.start(None, "labelling")
        columns = predictions(tagger, maker, sentences, probability=probability)
    if destination is None:
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
    no_limits: NoLimits = False,
    jobs: Threads = None,
    as_json: Json = False,
) -> None:
    """Token accuracy, and precision, recall and F1 of chunks as conlleval counts them."""
    from tikhon.cli.tables import print_rows
    from tikhon.cli.tagging import chunk_rows, load_tagger, predictions, read_for_tagger
    from tikhon.data.chunk_scores import chunk_scores

    tagger, maker = load_tagger(model, jobs)
    with progress_bar() as bar:
        sentences = read_for_tagger(data, maker, bar, reading_limits(no_limits), labelled=True)
        bar.start(None, "labelling")
        (predicted,) = predictions(tagger, maker, sentences)
    truth = [sentence.columns[maker.n_columns] for sentence in sentences]
    scores = chunk_scores(truth, predicted)
    rows: list[dict[str, Any]] = chunk_rows(scores)
    if as_json:
        counts = {"sentences": len(sentences), "tokens": scores.n_tokens, "accuracy": scores.accuracy}
        write_json({"model": str(model), "data": str(data)} | counts | {"chunks": rows})
        return
    print(f"{scores.n_tokens} tokens of {len(sentences)} sentences: {100 * scores.accuracy:.2f} % correct")
    print_rows(rows)
