"""RNA folding with one strength, with one for each kind of feature, and with one for each weight: S-151Rfam, two folds.

Do, Foo, Ng 2008, Figure 3 (gradients of held-out loss) and Foo, Do, Ng 2009, Tables 3(b) and 4 (majorization-minimization and
direct optimisation). Learned on one fold, tested on the other. Every round of MM is tested with a fit at its strengths.
"""

import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tikhon import MM, Direct, Gradient, Grid, RNAFolder
from tikhon.data.rna import Record, load_rna, rna_file
from tikhon.estimators.folding.rna_input import checked_sequences, checked_structures, examples_of
from tikhon.experiments.rna_scores import area, counted
from tikhon.experiments.rna_strengths_report import draw, evaluate
from tikhon.harness.runner import Experiment, Plan, RowSpec
from tikhon.harness.store import Row
from tikhon.models.folding.objective import Folding
from tikhon.models.folding.structures import Rules
from tikhon.tuners import Tuner

TITLE = "RNA folding, S-151Rfam: one strength, one for each kind of feature, one for each weight"
DATA, ANCHOR = "s151rfam", "contrafold-2"
OTHER = {"A": "B", "B": "A"}
TYINGS = {"single": None, "grouped": "kind", "separate": "separate"}
METHODS = (  # tuner, tying, whether a structure counts once per parse of CONTRAfold's grammar
    ("mm", "grouped", False),
    ("mm", "single", False),
    ("gradient", "grouped", False),
    ("gradient", "single", False),
    ("direct", "grouped", False),
    ("direct", "single", False),
    ("grid", "single", False),
    ("mm", "grouped", True),
    ("gradient", "separate", False),
)
GRID = tuple(2.0**k for k in range(-3, 4))
FOLDS = 5
GRADIENT_TOL, GRADIENT_STEPS, SEPARATE_STEPS = 5e-4, 15, 6  # 708 strengths hardly improve any further
MM_TOL, MM_ROUNDS = 2e-2, 15
QUICK_LENGTH, QUICK_STEPS = 45, 3
QUICK = (("gradient", "grouped", False), ("mm", "grouped", False), ("mm", "single", False))


def measure(params: dict[str, Any], folder: Path | None) -> Row:
    """Learn on one fold, test on the other."""
    assert folder is not None
    train, test = (fold_of(folder, fold, params["longest"]) for fold in (params["fold"], OTHER[params["fold"]]))
    settings = {"counts_parses": params["counts_parses"], "n_jobs": params["threads"]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about molecules left out: the page describes them
        if params["tuner"] == ANCHOR:
            model = RNAFolder.from_parameters(rna_file(ANCHOR, folder), **settings)
            return {"test": _tested(model, test, params["threads"]), "seconds": 0.0}
        tying, cv = TYINGS[params["tying"]], params["cv"]
        start = time.perf_counter()
        model = RNAFolder(tying, _tuner(params["tuner"], params["max_steps"]), cv=cv, **settings)
        model.fit(*_columns(train))
        seconds = time.perf_counter() - start
        tuning = model.tuning_
        rounds = []
        if params["tuner"] == "mm":
            for step in tuning.trace:
                strengths = dict(zip(model.groups_.names, step.strengths.tolist(), strict=True))
                one = RNAFolder(tying, None, strengths, **settings).fit(*_columns(train))
                rounds.append({"strengths": strengths, "test": _tested(one, test, params["threads"])})
        return {
            "test": _tested(model, test, params["threads"]), "seconds": seconds, "strengths": model.strengths_,
            "criterion": tuning.criterion, "status": tuning.status, "n_steps": len(tuning.trace), "n_fits": tuning.n_fits,
            "train_loss": tuning.train_loss, "rounds": rounds,
        }  # fmt: skip


def fold_of(folder: Path, fold: str, longest: int | None = None) -> list[Record]:
    """The records of one fold, up to this length."""
    records = [record for record in load_rna(DATA, folder) if f"fold={fold}" in record.about.split()]
    return [record for record in records if longest is None or len(record.sequence) <= longest]


def _columns(records: Sequence[Record]) -> tuple[list[str], list[str | None]]:
    return [record.sequence for record in records], [record.structure for record in records]


def _tuner(name: str, max_steps: int) -> Tuner:
    if name == "grid":
        return Grid(values=GRID, refine=1)
    if name == "gradient":
        return Gradient(rough_start=True, tol=GRADIENT_TOL, max_steps=max_steps)
    if name == "direct":
        return Direct(tol=1e-4)
    return MM(accelerate=False, tol=MM_TOL, max_steps=max_steps)


def _tested(model: RNAFolder, records: Sequence[Record], threads: int) -> Row:
    """Pair counts of every molecule, and the summed log loss of those whose structure has a parse."""
    counts = counted(model, records)
    rules = Rules(counts_parses=model.counts_parses)
    sequences = checked_sequences([record.sequence for record in records], model.longest_sequence)
    structures = checked_structures("y", [record.structure for record in records], sequences)
    examples, kept = examples_of(sequences, structures, rules)
    weights = np.array(list(model.weights_.values()))
    loss = Folding(examples, rules, n_threads=threads).loss_gradient(weights)[0]
    return {"counts": counts.as_json(), "area": area(counts), "log_loss": loss, "n_parsed": len(kept)}


def warm_up() -> None:
    RNAFolder(tuner=None, n_jobs=1).fit(["GGGAAAACCC"], ["(((....)))"]).predict(["GGGAAAACCC"])


def _most_steps(tuner: str, tying: str) -> int:
    if tuner == "mm":
        return MM_ROUNDS
    return SEPARATE_STEPS if tying == "separate" else GRADIENT_STEPS


def plan(quick: bool) -> Plan:
    methods = QUICK if quick else METHODS
    anchors = [(ANCHOR, "none", parses) for parses in (False, True)]
    rows = [
        RowSpec(
            key=f"{tuner}/{tying}{'/parses' if parses else ''}/{fold}",
            batch=fold,
            params={
                "tuner": tuner, "tying": tying, "counts_parses": parses, "fold": fold, "cv": 2 if quick else FOLDS,
                "longest": QUICK_LENGTH if quick else None, "threads": 1 if quick else 2,
                "max_steps": QUICK_STEPS if quick else _most_steps(tuner, tying),
            },
            cost={"gradient": 10, "grid": 10, "mm": 5, "direct": 3}.get(tuner, 1),
        )
        for tuner, tying, parses in (*anchors, *methods)
        for fold in OTHER
    ]  # fmt: skip
    config = {
        "folds": FOLDS, "grid": list(GRID), "mm_tol": MM_TOL, "mm_rounds": MM_ROUNDS, "gradient_tol": GRADIENT_TOL,
        "gradient_steps": GRADIENT_STEPS,
        "longest": QUICK_LENGTH if quick else None,
    }  # fmt: skip
    return Plan(config=config, rows=rows, rnas=[DATA, ANCHOR], quick=quick)


EXPERIMENT = Experiment(
    name="rna-strengths", summary=TITLE, plan=plan, measure=measure, evaluate=evaluate, draw=draw, warm_up=warm_up
)
