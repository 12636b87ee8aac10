"""Folding RNA compared with ViennaRNA, and the cost of training: random sequences and S-151Rfam, CONTRAfold's weights.

ViennaRNA's energies and CONTRAfold's scores are different models of nearly the same structures; both sum over all of them
and compute the probability of every pair. Times are from a string to these probabilities: ``fold_compound`` and ``pf``, after
which ViennaRNA has them in its own memory (converting them to Python tuples takes longer and is not counted), and
``RNAFolder.predict_pairs``, which returns a sparse matrix. All run in alternating turns, on one thread unless stated otherwise.
"""

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np

from tikhon import RNAFolder
from tikhon.bench.limits import in_fresh_process
from tikhon.bench.memory import peak
from tikhon.bench.scale import exponent
from tikhon.data.rna import load_rna, rna_file
from tikhon.errors import MissingExtra
from tikhon.estimators.folding.rna_input import checked_sequences, checked_structures, examples_of
from tikhon.harness.output import heading, number, short, table, today, versions
from tikhon.harness.runner import Evaluation, Experiment, Plan, RowSpec
from tikhon.harness.store import Row
from tikhon.models.folding.objective import Folding
from tikhon.models.folding.structures import Rules
from tikhon.report.canvas import COLOURS, new_figure, tidy

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "Folding RNA compared with ViennaRNA"
PEER = "ViennaRNA"
DATA, WEIGHTS, FOLD = "s151rfam", "contrafold-2", "fold=A"
SEED = 0
REPEATS = {100: 15, 400: 7, 1000: 5, 2000: 3}  # by the number of nucleotides
YARDSTICK = 1000  # nucleotides that ViennaRNA folds, as the unit for the cost of a gradient
TURNS = 7  # of training
LONGEST = 5000  # nucleotides for which memory is measured
QUICK_REPEATS, QUICK_YARDSTICK, QUICK_TURNS, QUICK_LONGEST, QUICK_MOLECULES = {100: 2, 200: 2}, 200, 1, 300, 5
LONG_ENOUGH = 400  # growth is fitted from here on: for shorter sequences, fixed costs matter
CONTESTANTS = {"vienna": PEER, "tikhon": "tikhon"}
# Upper limits for the figures of a full run.
TARGETS = {
    "ratio_vienna_400": 0.25,
    "ratio_vienna_1000": 0.2,
    "fold_a_gradient": 0.15,
    "hessian_product": 2.5,
    "memory_gb_5000": 4.0,
}


def measure(params: dict[str, Any], folder: Path | None) -> Row:
    assert folder is not None
    if params["what"] == "fold":
        return _folding(params["letters"], params["repeats"], folder)
    if params["what"] == "train":
        return _training(params["molecules"], params["yardstick"], params["repeats"], folder)
    row: Row = in_fresh_process(_alone, params["letters"], folder)
    return row


def _folding(letters: int, repeats: int, folder: Path) -> Row:
    sequence, model = random_sequence(letters), _model(folder)
    return in_turns({"vienna": lambda: _vienna(sequence), "tikhon": lambda: model.predict_pairs([sequence])}, repeats)


def _training(molecules: int | None, yardstick: int, repeats: int, folder: Path) -> Row:
    """A loss with its gradient, and a Hessian product, at CONTRAfold's weights; on one thread and on two."""
    records = [record for record in load_rna(DATA, folder) if FOLD in record.about][:molecules]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about molecules that cannot be used, and unknown letters
        sequences = checked_sequences([record.sequence for record in records], LONGEST)
        structures = checked_structures("y", [record.structure for record in records], sequences)
        examples, _ = examples_of(sequences, structures, Rules())
    weights = np.array(list(_model(folder).weights_.values()))
    direction = np.random.default_rng(SEED).normal(size=len(weights))
    sequence = random_sequence(yardstick)
    runs: dict[str, Callable[[], Any]] = {"vienna": lambda: _vienna(sequence)}
    for threads in (1, 2):
        objective = Folding(examples, Rules(), n_threads=threads)
        product = objective.hessian_at(weights)

        def gradient(objective: Folding = objective) -> Any:
            return objective.reweighted(objective.row_weights).loss_gradient(weights)  # a view has empty caches

        def along(product: Callable[[Any], Any] = product) -> Any:
            return product(direction)

        runs |= {f"gradient-{threads}": gradient, f"product-{threads}": along}
    return {"examples": len(examples), "letters": sum(one.free.n for one in examples), **in_turns(runs, repeats)}


def _alone(letters: int, folder: Path) -> Row:
    """Seconds, and the peak memory of the process, with Python and the libraries."""
    model, sequence = _model(folder), random_sequence(letters)
    start = time.perf_counter()
    model.predict_pairs([sequence])
    return {"tikhon": time.perf_counter() - start, "memory_gb": peak() * 2**20 / 1e9}


def random_sequence(letters: int) -> str:
    return "".join(np.random.default_rng([SEED, letters]).choice(list("ACGU"), letters))


def in_turns(runs: Mapping[str, Callable[[], Any]], repeats: int) -> dict[str, float]:
    """The median seconds of each."""
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(repeats):
        for name, run in runs.items():
            start = time.perf_counter()
            run()
            seconds[name].append(time.perf_counter() - start)
    return {name: median(values) for name, values in seconds.items()}


def _vienna(sequence: str) -> None:
    import RNA

    RNA.fold_compound(sequence).pf()


def _model(folder: Path) -> RNAFolder:
    """A model whose code is compiled."""
    model = RNAFolder.from_parameters(rna_file(WEIGHTS, folder), n_jobs=1)
    model.predict_pairs(["GGGAAAUCCC"])
    return model


def warm_up() -> None:
    try:
        import RNA
    except ImportError as error:
        raise MissingExtra(f"this benchmark needs ViennaRNA: pip install {PEER}") from error
    RNA.fold_compound("GGGAAAUCCC").pf()


def plan(quick: bool) -> Plan:
    repeats = QUICK_REPEATS if quick else REPEATS
    yardstick, longest = (QUICK_YARDSTICK, QUICK_LONGEST) if quick else (YARDSTICK, LONGEST)
    turns, molecules = (QUICK_TURNS, QUICK_MOLECULES) if quick else (TURNS, None)
    training = {"what": "train", "molecules": molecules, "yardstick": yardstick, "repeats": turns}
    rows = [
        RowSpec(
            key=f"{letters} letters",
            batch="all",
            params={"what": "fold", "letters": letters, "repeats": count},
            cost=1 + count * letters**3 // 10**8,
        )
        for letters, count in repeats.items()
    ]
    rows += [
        RowSpec(key="training", batch="all", params=training, cost=40),
        RowSpec(key=f"{longest} letters alone", batch="all", params={"what": "memory", "letters": longest}, cost=50),
    ]
    config = {"repeats": list(repeats.items()), "training": training, "longest": longest, "seed": SEED}
    return Plan(config=config, rows=rows, rnas=[DATA, WEIGHTS], quick=quick)


def evaluate(made: Plan, rows: list[Row]) -> Evaluation:
    folds, training, alone = ([row for row in rows if row["what"] == what] for what in ("fold", "train", "memory"))
    summary: dict[str, Any] = {f"ratio_vienna_{row['letters']}": row["tikhon"] / row["vienna"] for row in folds}
    for row in training:
        summary["fold_a_gradient"] = row["gradient-2"] / row["vienna"]
        summary["hessian_product"] = row["product-2"] / row["gradient-2"]
        summary["hessian_product_1"] = row["product-1"] / row["gradient-1"]
    for row in alone:
        summary[f"memory_gb_{row['letters']}"] = row["memory_gb"]
        summary[f"seconds_{row['letters']}"] = row["tikhon"]
    long = [row for row in folds if row["letters"] >= LONG_ENOUGH]
    summary["growth"] = {
        name: exponent([row["letters"] for row in long], [row[name] for row in long]) for name in CONTESTANTS
    }
    summary["met"] = {name: summary.get(name, np.inf) <= most for name, most in TARGETS.items()}
    return Evaluation(summary=summary, aggregates=folds, markdown=_render(made, folds, training, alone, summary))


def _render(
    made: Plan, folds: Sequence[Row], training: Sequence[Row], alone: Sequence[Row], summary: Mapping[str, Any]
) -> str:
    about = (
        "Random sequences, the same for both; from string to the probabilities of all pairs, set-up included, one thread. "
        "ViennaRNA: fold_compound and pf, without the transfer of its probabilities to Python; ours: predict_pairs with the "
        f"weights of CONTRAfold 2. In turns; medians of {', '.join(str(count) for _, count in made.config['repeats'])}."
    )
    body = [
        [str(row["letters"]), *(short(row[name]) for name in CONTESTANTS), number(row["tikhon"] / row["vienna"], 3)]
        for row in folds
    ]
    body += [[f"{row['letters']}, alone", "", short(row["tikhon"]), ""] for row in alone]
    parts = [table(["nucleotides", *(f"{words} (s)" for words in CONTESTANTS.values()), "ratio"], body)]
    parts += [f"Memory: {row['letters']} nucleotides take {row['memory_gb']:.2f} GB, with Python.\n" for row in alone]
    for row in training:
        parts.append(
            f"Training: fold A of S-151Rfam, {row['examples']} molecules with {row['letters']:,} nucleotides, at CONTRAfold's "
            f"weights; relative to one run of ViennaRNA on {row['yardstick']} nucleotides, {short(row['vienna'])} s, in the "
            f"same turns. Medians of {row['repeats']}.\n"
        )
        work = [
            [
                words,
                *(short(row[f"{name}-{threads}"]) for threads in (1, 2)),
                number(row[f"{name}-2"] / row["vienna"], 3),
            ]
            for name, words in (("gradient", "loss and gradient"), ("product", "Hessian product"))
        ]
        parts.append(table(["", "1 thread (s)", "2 threads (s)", "2 threads / ViennaRNA"], work))
    growth = ", ".join(f"{CONTESTANTS[name]} {short(value)}" for name, value in summary["growth"].items())
    parts.append(f"Exponent of time in the number of nucleotides, from {LONG_ENOUGH} on: {growth}.\n")
    if not made.quick:
        asked = [
            [name, short(summary.get(name)), str(most), "met" if summary["met"][name] else "**not met** ⚠"]
            for name, most in TARGETS.items()
        ]
        parts += [
            table(["figure", "found", "at most", ""], asked),
            "fold_a_gradient is the time of loss and gradient on fold A, two threads, over ViennaRNA's in the same row; "
            "hessian_product is the time of a product over that of a gradient, two threads.\n",
        ]
    top = heading(TITLE, [about], quick=made.quick, date=today(), used=versions() | {PEER: version(PEER)})
    return "\n".join([top, *parts])


def draw(evaluation: Evaluation) -> "Figure":
    """Seconds against nucleotides, on logarithmic axes."""
    figure = new_figure(6.4, 4.2)
    axes = figure.subplots()
    letters = [row["letters"] for row in evaluation.aggregates]
    for (name, words), colour in zip(CONTESTANTS.items(), COLOURS, strict=False):
        axes.plot(letters, [row[name] for row in evaluation.aggregates], "o-", color=colour, label=words)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xticks(letters, [f"{count:,}" for count in letters])
    axes.minorticks_off()
    axes.legend(frameon=False)
    tidy(axes, x_label="nucleotides", y_label="seconds to the probabilities of all pairs")
    return figure


BENCH = Experiment(name="rna", summary=TITLE, plan=plan, measure=measure, evaluate=evaluate, draw=draw, warm_up=warm_up)
