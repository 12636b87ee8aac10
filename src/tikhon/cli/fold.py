"""``tikhon fold``: structures of RNA, from sequences to drawings, and from structures to a model."""

from contextlib import ExitStack, nullcontext
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from tikhon.cli.console import Bar, InterruptionError, claim_outputs, guarded, printable, progress_bar, warn, write_json
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
    fitted,
    report,
    tuning_parameters,
)
from tikhon.cli.options import NoLimits, SequenceTunerName, reading_limits
from tikhon.errors import InputError

fold = typer.Typer(
    name="fold", help="Fold RNA: a log-linear model with a learned strength for each kind of structural feature.",
    no_args_is_help=True,
)  # fmt: skip


class Method(StrEnum):
    mea = "mea"
    viterbi = "viterbi"
    centroid = "centroid"


class DrawingMethod(StrEnum):
    mea = "mea"
    viterbi = "viterbi"
    centroid = "centroid"
    sample = "sample"


class StructureFormat(StrEnum):
    dot_bracket = "dot-bracket"
    bpseq = "bpseq"
    ct = "ct"


class GroupsBy(StrEnum):
    kind = "kind"
    none = "none"


STDOUT = Path("-")
Model = Annotated[
    Path | None,
    typer.Option(
        "--model", "-m", help="A model file of tikhon fold fit, or CONTRAfold or EternaFold parameters; default: tikhon's own."
    ),
]  # fmt: skip
Gamma = Annotated[float, typer.Option(help="mea, centroid: larger values predict more pairs.")]
Longest = Annotated[
    int | None,
    typer.Option(min=1, help="Refuse longer sequences: 6000 letters take 2.7 GB; default: the model's own value."),
]
LeastHairpin = Annotated[
    int | None,
    typer.Option(
        min=0,
        help="Minimum letters between two that pair: 3 for EternaFold. Default: the model's own value; 3 for tikhon's own.",
    ),
]


@fold.command()
@guarded
def predict(
    file: Annotated[Path, typer.Argument(help="FASTA, one sequence per line, bpseq or ct; also gzipped; - for stdin.")],
    model: Model = None,
    method: Annotated[
        DrawingMethod,
        typer.Option(help="Maximum expected accuracy, most probable, centroid, or sampled by probability."),
    ] = DrawingMethod.mea,
    gamma: Gamma = 6.0,
    samples: Annotated[
        int | None, typer.Option(min=1, help="sample: number of structures per sequence; default: 1.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="sample: seed of the sampling.")] = 0,
    constraints: Annotated[
        Path | None,
        typer.Option(
            help="Structures, by name (of a table or its file) or in order: '.' unpaired, '?' unknown, '|' paired."
        ),
    ] = None,
    file_format: Annotated[
        StructureFormat, typer.Option("--format", help="Output format of structures.")
    ] = StructureFormat.dot_bracket,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The file to write; - or nothing for stdout.")
    ] = None,
    probabilities: Annotated[
        Path | None,
        typer.Option(
            help="Write pairs of letters with a probability of 1e-6 or more: name, i, j, probability; - for stdout."
        ),
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(help="Draw the structure to this .svg file; for several sequences, to FILE-NAME.svg each."),
    ] = None,
    dot_plot: Annotated[
        Path | None, typer.Option(help="Draw the probabilities of pairs to this .svg file, or to FILE-NAME.svg each.")
    ] = None,
    longest: Longest = None,
    least_hairpin: LeastHairpin = None,
    no_limits: NoLimits = False,
    jobs: Threads = None,
) -> None:
    """Predict the structure of each sequence."""
    import sys

    from tikhon.cli import folding
    from tikhon.cli.molecules import Constraints, Molecules, files_of, warnings_about
    from tikhon.data.files import replacing
    from tikhon.data.rna import STDIN
    from tikhon.models.folding.prediction import in_order
    from tikhon.threads import available_cores

    _check_gamma(gamma)
    if samples is not None and method is not DrawingMethod.sample:
        raise InputError(f"--samples: --method {method} gives one structure: write --method sample")
    if probabilities == STDOUT and output in (None, STDOUT):
        raise InputError("--probabilities -: structures go to stdout as well: name a file for them with --output")
    inputs = [*files_of(file), *(path for path in (model, constraints) if path is not None)]
    named = (output, probabilities, plot, dot_plot)
    claim_outputs([path for path in named if path is not None and path != STDOUT], inputs)
    if constraints == STDIN:
        raise InputError("--constraints -: stdin is for sequences: give the name of a file")

    folder = folding.read_folder(model, longest=longest, least_hairpin=least_hairpin)
    molecules: Any = Molecules(file, folder.longest, reading_limits(no_limits))
    known = None if constraints is None else Constraints(constraints, reading_limits(no_limits))
    drawings = []
    if plot is not None or dot_plot is not None:
        from tikhon.report.rna_drawing import dot_plot_svg, structure_svg

        molecules = folding.few(molecules)
        for option, svg, draw in (("--plot", plot, structure_svg), ("--dot-plot", dot_plot, dot_plot_svg)):
            if svg is not None:
                drawings.append((folding.Plots(option, svg, molecules), draw))
    pairs, n_threads = probabilities is not None or bool(drawings), jobs or available_cores()
    request = folding.request_for(method=method.value, gamma=gamma, samples=samples or 1, seed=seed, pairs=pairs)
    # stdin is folded as it arrives; a file is read twice, so that errors in it are reported before any work.
    total = None if file == STDIN and not drawings else _surveyed(molecules, folder, known)
    n_unknown, n_done, n_structures, names = 0, 0, 0, set()

    def one(job: tuple[int, Any]) -> Any:
        number, given = job
        constraint = None if known is None else known.of(number, given)
        return folding.fold(folder, request, number, given, constraint, n_threads)

    to_stdout = output in (None, STDOUT)
    try:
        with ExitStack() as stack:
            bar = stack.enter_context(
                nullcontext(Bar(None)) if to_stdout and sys.stdout.isatty() else progress_bar()
            )  # the structures themselves show the progress
            stdout = sys.stdout.buffer
            out: Any = stdout if to_stdout else stack.enter_context(replacing(output or STDOUT))
            table: Any = None
            if probabilities is not None:
                table = stdout if probabilities == STDOUT else stack.enter_context(replacing(probabilities))
                table.write(folding.PROBABILITY_HEADER.encode())
            bar.start(total, "folding")
            for folded in in_order(one, enumerate(molecules), n_threads):
                drawn = method is DrawingMethod.sample
                out.write(folding.structure_text(folded, file_format.value, drawn=drawn).encode())
                if table is not None:
                    table.write(folding.probability_rows(folded).encode())
                for plots, draw in drawings:
                    plots.write(n_done, folded, draw)
                stdout.flush()
                n_unknown += folded.given.n_unknown
                n_structures += len(folded.found.structures)
                n_done += 1
                names.add(folded.given.label)
                bar.advance(folded.given.work, f"folding: {n_done} done")
            if known is not None:
                known.check_all_used(names, n_done)
    except KeyboardInterrupt:
        raise InterruptionError(
            f"the structures of {n_done} sequences were printed" if to_stdout else "no structures were written"
        ) from None
    for message in warnings_about(n_unknown, 0 if known is None else known.crossing):
        warn(message)
    if not to_stdout and probabilities != STDOUT:
        print(f"{n_structures} structures of {n_done} sequences: {printable(str(output))}")


@fold.command()
@guarded
def fit(
    train: Annotated[
        Path,
        typer.Argument(
            help="Dot-bracket below each sequence, bpseq or ct, also gzipped; or a directory of such files."
        ),
    ],
    model: ModelFile,
    groups: Annotated[GroupsBy, typer.Option(help="Which weights share a strength.")] = GroupsBy.kind,
    tuner: TunerOfSequences = SequenceTunerName.auto,
    strength: Strength = None,
    cv: Folds = None,
    validation_fraction: HeldOut = None,
    checkpoint: Checkpoint = None,
    least_hairpin: Annotated[int, typer.Option(min=0, help="Minimum letters between two that pair.")] = 0,
    longest_loop: Annotated[
        int, typer.Option(min=0, max=30, help="Maximum unpaired letters of a bulge or internal loop.")
    ] = 30,
    all_pairs: Annotated[
        bool, typer.Option("--all-pairs", help="Any two letters may pair, not only AU, CG and GU.")
    ] = False,
    longest: Annotated[
        int, typer.Option(min=1, help="Refuse longer sequences: 6000 letters take 2.7 GB per thread.")
    ] = 6000,
    export_parameters: Annotated[
        Path | None, typer.Option(help="Also write the weights as a CONTRAfold parameter file.")
    ] = None,
    seed: Seed = 0,
    no_limits: NoLimits = False,
    jobs: Threads = None,
    as_json: Json = False,
) -> None:
    """Learn the strengths and the weights of a folding model from known structures, and write a model file."""
    from tikhon import RNAFolder
    from tikhon.cli.molecules import Molecules, files_of, with_names, with_structures

    tuning = tuning_parameters(
        tuner=tuner, strength=strength, folds=cv, held_out=validation_fraction, checkpoint=checkpoint, seed=seed, jobs=jobs
    )  # fmt: skip
    claim_outputs([path for path in (model, checkpoint, export_parameters) if path is not None], files_of(train))
    estimator = RNAFolder(
        groups="kind" if groups is GroupsBy.kind else None,
        least_hairpin=least_hairpin,
        longest_loop=longest_loop,
        all_pairs=all_pairs,
        longest_sequence=longest,
        **tuning,
    )
    with progress_bar() as bar:
        bar.start(None, f"reading {train.name}")
        molecules = with_structures(Molecules(train, longest, reading_limits(no_limits)))
        sequences = [given.record.sequence for given in molecules]
        structures = [given.record.structure for given in molecules]
        messages = fitted(
            estimator, sequences, structures, train, checkpoint, bar, lambda message: with_names(message, molecules)
        )
    estimator.save(model)
    if export_parameters is not None:
        estimator.save_parameters(export_parameters)
    n_letters = sum(map(len, sequences))
    report(
        estimator,
        title=f"folding: {len(molecules)} molecules, {n_letters} letters, {len(estimator.weights_)} weights",
        about={"molecules": len(molecules), "letters": n_letters},
        files={"model": model, "parameters": export_parameters},
        messages=messages,
        as_json=as_json,
    )
    end_interrupted(estimator, model, checkpoint)


@fold.command(name="eval")
@guarded
def evaluate(
    data: Annotated[
        Path,
        typer.Argument(
            help="Dot-bracket below each sequence, bpseq or ct, also gzipped; or a directory of such files."
        ),
    ],
    model: Model = None,
    method: Annotated[Method, typer.Option(help="Maximum expected accuracy, most probable, or centroid.")] = Method.mea,
    gamma: Gamma = 6.0,
    longest: Longest = None,
    least_hairpin: LeastHairpin = None,
    no_limits: NoLimits = False,
    jobs: Threads = None,
    as_json: Json = False,
) -> None:
    """Sensitivity, PPV and F1 of predicted pairs and the log loss of structures, as means over molecules.

    Pairs that the model does not allow (not AU, CG or GU) count as missed; for the log loss they are read as unpaired, as in
    training. Predicted pairs of two letters that are '?' (unknown) or '|' (paired with an unknown partner) count neither as
    right nor as wrong; a molecule with only such letters counts for the log loss only.
    """
    from tikhon.cli import folding
    from tikhon.cli.molecules import Molecules, crossing_pairs, warnings_about, with_structures
    from tikhon.models.folding.prediction import in_order
    from tikhon.threads import available_cores

    _check_gamma(gamma)
    folder = folding.read_folder(model, longest=longest, least_hairpin=least_hairpin)
    request = folding.request_for(method=method.value, gamma=gamma)
    found = []
    with progress_bar() as bar:
        bar.start(None, f"reading {data.name}")
        molecules = with_structures(Molecules(data, folder.longest, reading_limits(no_limits)))
        bar.start(sum(given.work for given in molecules), "folding")
        scored = in_order(lambda one: folding.scores(folder, request, one), molecules, jobs or available_cores())
        for given, scores in zip(molecules, scored, strict=True):
            found.append(scores)
            bar.advance(given.work, f"folding: {len(found)} of {len(molecules)}")
    n_unknown = sum(given.n_unknown for given in molecules)
    messages = warnings_about(n_unknown, crossing_pairs(molecules))
    if n_odd := sum(scores.n_odd for scores in found):
        messages.append(f"pairs that the model does not allow: {n_odd}; in the log loss they are read as unpaired")
    for message in messages:
        warn(message)

    told = [scores for scores in found if scores.told]
    losses = [scores.log_loss for scores in found if scores.log_loss is not None]
    means = {
        name: sum(getattr(scores, name) for scores in told) / len(told) if told else None
        for name in ("sensitivity", "ppv", "f1")
    } | {"log_loss": sum(losses) / len(losses) if losses else None}
    n_letters = sum(len(given.record.sequence) for given in molecules)
    counts = {"molecules": len(found), "letters": n_letters, "with_pairs": len(told), "with_log_loss": len(losses)}
    if as_json:
        options = {"method": method.value, "gamma": gamma}
        source = "packaged" if model is None else str(model)
        write_json({"model": source, "data": str(data)} | options | counts | means | {"warnings": messages})
        return
    print(f"{len(found)} molecules, {n_letters} letters; means over molecules:")
    some = "" if len(told) == len(found) else f" (over the {len(told)} molecules with a known letter)"
    for name in ("sensitivity", "ppv", "f1"):
        print(f"{name:<12} " + (f"{means[name]:.4f}{some}" if told else "none: no letter is known"))
    missing = "" if len(losses) == len(found) else f" (over the {len(losses)} molecules that the model has a parse for)"
    print(f"{'log loss':<12} " + (f"{means['log_loss']:.4f}{missing}" if losses else "none: no molecule has a parse"))


def _check_gamma(gamma: float) -> None:
    if not 0.0 < gamma < float("inf"):
        raise InputError(f"--gamma {gamma}: write a finite number larger than 0")


def _surveyed(molecules: Any, folder: Any, known: Any) -> int:
    """Read everything once to find errors, and return the total work."""
    work, count, names = 0, 0, set()
    for number, given in enumerate(molecules):
        if known is not None and (constraint := known.of(number, given)) is not None:
            folder.molecule(given, constraint)
        work, count = work + given.work, count + 1
        names.add(given.label)
    if known is not None:
        known.check_all_used(names, count)
    return work
