"""RNA folding, generalisation to other families: learned on S-151Rfam and on TORNADO TrainA, tested on TORNADO TestA.

The sets are those of Rivas, Lang, Eddy 2012. The model that ships with tikhon is the grouped one learned on TrainA: its row
holds the weights, from which tools/pack_rna_model.py makes the packaged file.
"""

import time
import warnings
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tikhon import MM, RNAFolder
from tikhon.data.dot_bracket import partners_of
from tikhon.data.rna import Record, load_rna, rna_file
from tikhon.errors import MissingExtra
from tikhon.experiments.rna_scores import GAMMAS, Counts, counted, interval, known_partners
from tikhon.harness.output import heading, number, table, today, versions
from tikhon.harness.runner import Evaluation, Experiment, Plan, RowSpec
from tikhon.harness.store import Row
from tikhon.report.canvas import COLOURS, new_figure, tidy

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "RNA folding: learned on S-151Rfam and TORNADO TrainA, tested on TORNADO TestA"
TEST, ANCHOR, RIVAL = "tornado-test-a", "contrafold-2", "viennarna"
LONGEST = {"s151rfam": None, "tornado-train-a": 300}  # nucleotides: the cost of a pass is cubic in the length
METHODS = {
    "tornado-train-a/grouped": "TrainA, a strength for each kind",
    "s151rfam/grouped": "S-151Rfam, a strength for each kind",
    "s151rfam/single": "S-151Rfam, one strength",
    ANCHOR: "CONTRAfold 2's weights",
    RIVAL: "ViennaRNA, minimum free energy",
}
# Nucleotides between two that pair, in predictions of the packaged model. Real hairpins have three or more; the family
# structures used for training have fewer where a sequence lacks nucleotides of its family.
LEAST_HAIRPIN = {"tornado-train-a": 3}
MM_TOL = 2e-2  # of log strengths: they keep drifting along nearly flat directions of the likelihood
N_CHOOSING = 300  # training molecules on which gamma is chosen
QUICK_LONGEST, QUICK_ONE_IN = 80, 10


def measure(params: dict[str, Any], folder: Path | None) -> Row:
    """Learn, choose gamma on training molecules, test."""
    assert folder is not None
    test = _records(folder, TEST, params["longest_test"], params["one_in"])
    if params["method"] == RIVAL:
        start = time.perf_counter()
        return {"f1": _f1_of_rival(test), "test_seconds": time.perf_counter() - start}
    data, _, tying = params["method"].partition("/")
    row: Row = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about molecules left out: the page counts them
        if data == ANCHOR:
            model = RNAFolder.from_parameters(rna_file(ANCHOR, folder), n_jobs=params["threads"])
            choosing = _records(folder, "s151rfam", params["longest"], params["one_in"])
        else:
            records = _records(folder, data, params["longest"], params["one_in"])
            tested = {one.sequence for one in load_rna(TEST, folder)}
            train = [one for one in records if one.sequence not in tested]  # the sets share a few
            start = time.perf_counter()
            model = RNAFolder("kind" if tying == "grouped" else None, MM(tol=MM_TOL), n_jobs=params["threads"])
            model.fit([one.sequence for one in train], [one.structure for one in train])
            row |= {
                "seconds": time.perf_counter() - start, "n_train": len(train), "n_shared": len(records) - len(train),
                "n_steps": len(model.tuning_.trace),
                "status": model.tuning_.status, "strengths": model.strengths_, "weights": model.weights_,
            }  # fmt: skip
            model.set_params(least_hairpin=LEAST_HAIRPIN.get(data, 0))
            row["least_hairpin"] = model.least_hairpin
            choosing = train
        apart = np.linspace(0, len(choosing) - 1, min(N_CHOOSING, len(choosing))).astype(int)
        gamma = GAMMAS[int(np.argmax(counted(model, [choosing[k] for k in apart]).f1.mean(axis=0)))]
        start = time.perf_counter()
        counts = counted(model, test)
    chosen = GAMMAS.index(gamma)
    return row | {
        "gamma": gamma, "f1": counts.f1[:, chosen].tolist(), "sensitivity": counts.sensitivity[:, chosen].tolist(),
        "ppv": counts.ppv[:, chosen].tolist(), "by_gamma": counts.f1.mean(axis=0).tolist(),
        "test_seconds": time.perf_counter() - start,
    }  # fmt: skip


def _records(folder: Path, name: str, longest: int | None, one_in: int) -> list[Record]:
    records = load_rna(name, folder)[::one_in]
    return [record for record in records if longest is None or len(record.sequence) <= longest]


def _f1_of_rival(records: Sequence[Record]) -> list[float]:
    """F1 of ViennaRNA's minimum free energy structures, with the same counts."""
    try:
        import RNA
    except ImportError as error:
        raise MissingExtra("this experiment needs ViennaRNA: pip install 'tikhon[peers]'") from error
    found = []
    for record in records:
        truth, partners = known_partners(record), partners_of(RNA.fold(record.sequence)[0])
        right = np.count_nonzero((truth == partners) & (truth > 0)) // 2
        sizes = (np.array([np.count_nonzero(one) // 2]) for one in (truth, partners))
        known, predicted = sizes
        found.append(float(Counts(known, predicted[:, None], np.array([[right]])).f1[0, 0]))
    return found


def warm_up() -> None:
    RNAFolder(tuner=None, n_jobs=1).fit(["GGGAAAACCC"], ["(((....)))"]).predict(["GGGAAAACCC"])


def plan(quick: bool) -> Plan:
    methods = ["s151rfam/grouped", ANCHOR] if quick else list(METHODS)
    rows = [
        RowSpec(
            key=method,
            batch=method,
            params={
                "method": method, "longest": QUICK_LONGEST if quick else LONGEST.get(method.partition("/")[0]),
                "longest_test": QUICK_LONGEST if quick else None, "one_in": QUICK_ONE_IN if quick else 1,
                "threads": 1 if quick else 2,
            },
            cost=100 if "tornado" in method else 10,
        )
        for method in methods
    ]  # fmt: skip
    config = {"longest": LONGEST, "choosing": N_CHOOSING, "mm_tol": MM_TOL, "least_hairpin": LEAST_HAIRPIN}
    return Plan(config=config, rows=rows, rnas=["s151rfam", "tornado-train-a", TEST, ANCHOR], quick=quick)


def evaluate(made: Plan, rows: list[Row]) -> Evaluation:
    summary = {row["method"]: _summarised(row) for row in rows}
    return Evaluation(summary=summary, aggregates=rows, markdown=_render(made, rows, summary))


def _summarised(row: Row) -> dict[str, Any]:
    f1 = np.array(row["f1"])
    draws = np.random.default_rng(0).integers(len(f1), size=(2000, len(f1)))
    return {"f1": float(f1.mean()), "interval": interval(f1[draws].mean(axis=1)), "gamma": row.get("gamma")}


def _render(made: Plan, rows: Sequence[Row], summary: Mapping[str, Any]) -> str:
    n_test = max((len(row["f1"]) for row in rows), default=0)
    about = (
        f"{n_test} molecules of TestA. F1 of base pairs, averaged over molecules; in brackets a 95 % bootstrap interval over "
        "molecules. Strengths by MM (alpha = 0, beta = 1, until no log strength changes by more than "
        f"{made.config['mm_tol']:g}); of TrainA the molecules of at most "
        f"{made.config['longest']['tornado-train-a']} nucleotides. Sequences that are also in TestA are not used for training: "
        f"{sum(row.get('n_shared', 0) for row in rows if 'grouped' in row['method'])} in all. Gamma of MEA structures is the "
        f"one with the best F1 on {made.config['choosing']} of the training molecules (S-151Rfam for CONTRAfold's "
        "weights). Predictions of the model learned on TrainA have "
        f"{made.config['least_hairpin']['tornado-train-a']} nucleotides or more between two that pair; the others have no such "
        "rule, nor has training."
    )
    header = ["learned on", "molecules", "minutes", "gamma", "F1", "sensitivity", "PPV"]
    body = []
    for row in rows:
        found = summary[row["method"]]
        low, high = found["interval"]
        shares = [number(float(np.mean(row[name])), 3) if name in row else "" for name in ("sensitivity", "ppv")]
        body.append(
            [
                METHODS[row["method"]],
                str(row.get("n_train", "")),
                number(row["seconds"] / 60.0, 1) if "seconds" in row else "",
                f"{row['gamma']:g}" if "gamma" in row else "",
                f"{found['f1']:.4f} ({low:.3f} to {high:.3f})",
                *shares,
            ]
        )
    used = versions()
    if RIVAL in summary:
        used |= {"ViennaRNA": version("ViennaRNA")}
    return "\n".join([heading(TITLE, [about], quick=made.quick, date=today(), used=used), table(header, body)])


def draw(evaluation: Evaluation) -> "Figure":
    """F1 against gamma; the rival has no gamma."""
    figure = new_figure(6.4, 4.2)
    axes = figure.subplots()
    for row, colour in zip(evaluation.aggregates, COLOURS, strict=False):
        if "by_gamma" in row:
            axes.plot(GAMMAS, row["by_gamma"], ".-", color=colour, label=METHODS[row["method"]])
            axes.plot([row["gamma"]], [row["by_gamma"][GAMMAS.index(row["gamma"])]], "o", color=colour)
        else:
            axes.axhline(float(np.mean(row["f1"])), color=colour, linestyle="--", label=METHODS[row["method"]])
    axes.set_xscale("log", base=2)
    axes.legend(frameon=False)
    tidy(axes, x_label="gamma (chosen: large dot)", y_label="F1 on TestA")
    return figure


EXPERIMENT = Experiment(
    name="rna-generalise", summary=TITLE, plan=plan, measure=measure, evaluate=evaluate, draw=draw, warm_up=warm_up
)
