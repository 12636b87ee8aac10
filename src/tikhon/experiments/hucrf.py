"""Linear chains and chains with hidden units, each with four trainers: van der Maaten, Welling, Saul 2011, figures 2 and 3.

All methods get the same number of settings to try. Each setting trains on a part of the training sequences, stops early on the
others, the calibration part; the one with the fewest wrong labels there is trained again on all training sequences, for as
many rounds as it took, and tested on the fold's own test sequences.
"""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from tikhon import MM, ChainCRF, Grid, HiddenUnitCRF
from tikhon.errors import TuningWarning
from tikhon.experiments.hucrf_report import SHOWN_UNITS, draw, evaluate
from tikhon.harness.hucrf_tasks import (
    N_FOLDS,
    TASKS,
    Indices,
    Sequenced,
    calibration,
    development_and_test,
    loaded,
    random_folds,
    shipped_folds,
)
from tikhon.harness.runner import Experiment, Plan, RowSpec
from tikhon.harness.store import Row
from tikhon.harness.timing import Clock
from tikhon.trainers import LBFGS, SGD, Margin, Perceptron, Trainer

MODELS, ORDERS, TRAINERS = ("linear", "hidden"), (1, 2), ("lbfgs", "sgd", "perceptron", "margin")
HELD_OUT = 0.2  # of the training sequences: the calibration part
LOOK_AHEAD = 15
LEARNED = ("one", "mm")  # one strength of a grid, or one for each group by MM, with fits by L-BFGS
LEARNED_HIDDEN = 100
LEARNED_FOLDS, LEARNED_ITERATIONS = 5, 300  # fits of hidden units take minutes
LEARNED_GRID = tuple(4.0**k for k in range(-2, 3))
CONVERGED = "converged"  # linear chains by L-BFGS, with the best of the strengths that early stopping tries
SEEDS = 3  # of EWT, whose split is official
DECODINGS = {"proteins": "marginal"}  # single labels; the others: the best labels of a sequence
FEW = {"ocr": 100, "faq": 5, "proteins": 12, "ewt": 60, "ptb": 60}  # sequences, and
FEW_ROUNDS, FEW_SETTINGS = 2, 2  # of the quick form


def settings_of(trainer: str, rounds: int | None) -> list[dict[str, Any]]:
    """The settings that are tried; all trainers have three."""
    if trainer == "sgd":
        tried = [{"step": step, "epochs": 60, "burn_in": 5, "decay": 0.94} for step in (3.0, 10.0, 30.0)]
    elif trainer == "perceptron":
        tried = [{"step": step, "epochs": 100, "burn_in": 5} for step in (6.0, 20.0, 60.0)]
    elif trainer == "margin":
        tried = [
            {"step": step, "rho": rho, "epochs": 100, "burn_in": 5}
            for step, rho in ((20.0, 3.0), (60.0, 1.0), (60.0, 5.0))
        ]
    else:
        tried = [{"strength": strength, "iterations": 300} for strength in (0.03, 0.3, 3.0)]
    if rounds is None:
        return tried
    shortened = "iterations" if trainer == "lbfgs" else "epochs"
    shorter = {shortened: rounds} | ({} if trainer == "lbfgs" else {"burn_in": 1})
    return [one | shorter for one in tried[:FEW_SETTINGS]]


def trainer_for(name: str, settings: Mapping[str, Any], **more: Any) -> tuple[Trainer, float | None]:
    """The trainer, and the strength of all groups, if it has one."""
    kinds: dict[str, Any] = {"lbfgs": LBFGS, "sgd": SGD, "perceptron": Perceptron, "margin": Margin}
    options = {key: value for key, value in settings.items() if key != "strength"} | more
    return kinds[name](**options), settings.get("strength")


def measure(params: dict[str, Any], folder: Path | None) -> Row:
    assert folder is not None
    X, y, train, calibrating, test = _split(params, folder)
    clock = Clock()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # rounds that are as many as allowed are in the row
        warnings.simplefilter("ignore", TuningWarning)
        fitted = (
            _learned if params["trainer"] in LEARNED else _converged if params["trainer"] == CONVERGED else _trained
        )
        model, told = fitted(params, X, y, train, calibrating)
    seconds, cpu_seconds = clock.read()
    X_test, y_test = _taken((X, y), test) if isinstance(test, np.ndarray) else test
    found, given = model.predict(X_test), [list(labels) for labels in y_test]
    wrong = [sum(a != b for a, b in zip(one, other, strict=True)) for one, other in zip(found, given, strict=True)]
    lengths = [len(labels) for labels in given]
    return {
        "test_error": 100.0 * sum(wrong) / max(sum(lengths), 1),
        "wrong": wrong if params["task"] in ("ewt", "ptb") else None,  # for the bootstrap
        "lengths": lengths if params["task"] in ("ewt", "ptb") else None,
        "seconds": seconds,
        "cpu_seconds": cpu_seconds,
        "units": _units(model)
        if params["task"] == "ocr" and params["model"] == "hidden" and params["fold"] == 0
        else None,
        **told,
    }


def _units(model: HiddenUnitCRF) -> list[list[float]]:
    """The pixel weights of the units with the largest weights of labels."""
    order = np.argsort(-np.linalg.norm(model.label_weights_, axis=0))[:SHOWN_UNITS]
    rounded: list[list[float]] = np.round(model.input_weights_[:, order].T, 4).tolist()
    return rounded


def _split(params: Mapping[str, Any], folder: Path) -> tuple[list[Any], list[Any], Indices, Indices, Any]:
    """All training sequences, those to train and to calibrate on, and those to test on or their numbers."""
    task, few = params["task"], params["few"]
    X, y = loaded(task, folder)
    if few is not None:
        X, y = X[:few], y[:few]
    if task == "ewt":
        (X_dev, y_dev), test = development_and_test(folder)
        if few is not None:
            (X_dev, y_dev), test = (X_dev[:few], y_dev[:few]), (test[0][:few], test[1][:few])
        return X + X_dev, y + y_dev, np.arange(len(X)), len(X) + np.arange(len(X_dev)), test
    folds = shipped_folds(folder)[: len(X)] if params["folds"] == "shipped" else random_folds(len(X))
    rows = np.flatnonzero(folds != params["fold"])
    if len(rows) in (0, len(X)):  # the quick form may have no word of a shipped fold
        rows = np.flatnonzero(random_folds(len(X)) != params["fold"])
    train, calibrating = calibration(rows, HELD_OUT)
    return X, y, train, calibrating, np.setdiff1d(np.arange(len(X)), rows)


def _taken(data: Sequenced, rows: Indices) -> Sequenced:
    return [data[0][i] for i in rows.tolist()], [data[1][i] for i in rows.tolist()]


def _model(params: Mapping[str, Any], **more: Any) -> Any:
    kind: Any = HiddenUnitCRF if params["model"] == "hidden" else ChainCRF
    hidden = {"n_hidden": params["n_hidden"], "random_state": params["seed"]} if params["model"] == "hidden" else {}
    return kind(order=params["order"], decoding=DECODINGS.get(params["task"], "viterbi"), n_jobs=1, **hidden, **more)


def _trained(
    params: Mapping[str, Any], X: list[Any], y: list[Any], train: Indices, calibrating: Indices
) -> tuple[Any, Row]:  # fmt: skip
    name, tried = params["trainer"], []
    both = np.concatenate([train, calibrating])
    X_both, y_both = _taken((X, y), both)
    split = [(np.arange(len(train)), np.arange(len(train), len(both)))]
    seed = {} if name == "lbfgs" else {"random_state": params["seed"]}
    best: tuple[float, dict[str, Any], int] | None = None
    for settings in settings_of(name, params["rounds"]):
        trainer, strength = trainer_for(
            name, settings, early_stopping=True, look_ahead=LOOK_AHEAD if name != "lbfgs" else 20, **seed
        )
        model = _model(params, trainer=trainer, strengths=strength, cv=split).fit(X_both, y_both)
        error, n_rounds = float(model.tuning_.criterion), int(model.tuning_.extras["training"]["best_round"])
        tried.append({**settings, "held_out_error": 100.0 * error, "rounds": n_rounds, "reason": model.tuning_.reason})
        if best is None or error < best[0]:
            best = error, settings, n_rounds
    assert best is not None
    held_out, settings, n_rounds = best
    rounds = "iterations" if name == "lbfgs" else "epochs"
    trainer, strength = trainer_for(name, {**settings, rounds: max(n_rounds, 1)}, early_stopping=False, **seed)
    final = X_both, y_both
    if params["task"] == "ewt":  # its development part is for choosing alone
        final = _taken((X, y), train)
    model = _model(params, trainer=replace(trainer), strengths=strength).fit(*final)
    return model, {"held_out_error": 100.0 * held_out, "chosen": settings, "rounds": n_rounds, "tried": tried}


def _learned(
    params: Mapping[str, Any], X: list[Any], y: list[Any], train: Indices, calibrating: Indices
) -> tuple[Any, Row]:  # fmt: skip
    """Strengths learned with fits by L-BFGS: one for all weights from a grid by held-out loss, or one for each group by MM."""
    both = np.concatenate([train, calibrating])
    X_both, y_both = _taken((X, y), both)
    if params["trainer"] == "mm":
        model = _model(params, tuner=MM(), max_iter=params["max_iter"])
    else:
        split = [(np.arange(len(train)), np.arange(len(train), len(both)))]
        tuner = Grid(values=LEARNED_GRID, widen=False, refine=0)
        model = _model(params, groups=None, tuner=tuner, cv=split, max_iter=params["max_iter"])
    model.fit(X_both, y_both)
    return model, {
        "strengths": model.strengths_,
        "held_out_error": None,
        "chosen": model.strengths_,
        "rounds": model.n_iter_,
        "tried": [],
    }


def _converged(
    params: Mapping[str, Any], X: list[Any], y: list[Any], train: Indices, calibrating: Indices
) -> tuple[Any, Row]:  # fmt: skip
    """Fits to convergence: the strength with the fewest wrong labels of the calibration part, then all sequences."""
    tried = []
    for settings in settings_of("lbfgs", params["rounds"]):
        model = _model(params, tuner=None, strengths=settings["strength"], max_iter=params["max_iter"])
        model.fit(*_taken((X, y), train))
        error = 100.0 * (1.0 - model.score(*_taken((X, y), calibrating)))
        tried.append({"strength": settings["strength"], "held_out_error": error, "rounds": model.n_iter_})
    best = min(tried, key=lambda one: one["held_out_error"])
    model = _model(params, tuner=None, strengths=best["strength"], max_iter=params["max_iter"])
    model.fit(*_taken((X, y), np.concatenate([train, calibrating])))
    chosen = {"strength": best["strength"]}
    return model, {"held_out_error": best["held_out_error"], "chosen": chosen, "rounds": model.n_iter_, "tried": tried}


def rows_for(task: str, quick: bool) -> list[RowSpec]:
    about = TASKS[task]
    n_hidden, few, rounds = (8, FEW[task], FEW_ROUNDS) if quick else (about.n_hidden, None, None)
    runs = [("seed", seed) for seed in range(SEEDS)] if task == "ewt" else [("random", fold) for fold in range(N_FOLDS)]
    if task == "ocr":
        runs += [("shipped", fold) for fold in range(N_FOLDS)]
    rows = []
    for folds, number in runs[:1] if quick else runs:
        for order in ORDERS:
            for model in MODELS:
                for trainer in TRAINERS:
                    if folds == "shipped" and (model, trainer) not in (
                        ("hidden", "sgd"),
                        ("hidden", "margin"),
                        ("linear", "margin"),
                    ):
                        continue
                    if task in ("ocr", "ewt", "ptb") and trainer == "lbfgs" and order == 2:
                        continue  # as in the paper; a pass over all steps of three labels takes seconds
                    params = {
                        "task": task, "folds": folds, "fold": number, "order": order, "model": model, "trainer": trainer,
                        "seed": number if folds == "seed" else 0, "rounds": rounds, "few": few,
                        "n_hidden": min(n_hidden, LEARNED_HIDDEN) if trainer == "lbfgs" else n_hidden,
                    }  # fmt: skip
                    cost = (10 if model == "hidden" else 1) * (2 if order == 2 else 1)
                    rows.append(
                        RowSpec(
                            key=f"{folds}/{number}/{order}/{model}/{trainer}",
                            batch=f"{folds}/{number}",
                            params=params,
                            cost=cost,
                        )
                    )
        learns = task == "ocr" and folds != "shipped" and number < LEARNED_FOLDS
        more = [(model, how, 1) for model in MODELS for how in LEARNED] if learns else []
        more += [("linear", CONVERGED, order) for order in ORDERS] if task == "faq" else []
        for model, how, order in more:
            most = 10 if quick else LEARNED_ITERATIONS if how in LEARNED else 1000
            params = {
                "task": task, "folds": folds, "fold": number, "order": order, "model": model, "trainer": how, "seed": 0,
                "rounds": rounds, "few": few, "n_hidden": min(n_hidden, LEARNED_HIDDEN), "max_iter": most,
            }  # fmt: skip
            rows.append(
                RowSpec(
                    key=f"{folds}/{number}/{order}/{model}/{how}", batch=f"{folds}/{number}", params=params, cost=12
                )
            )
    return rows


def warm_up() -> None:
    """Load the compiled code of all methods."""
    rng = np.random.default_rng(0)
    X = [rng.choice([-1.0, 1.0], size=(3, 2)) for _ in range(8)]
    y = [(x[:, 0] > 0).astype(int).tolist() for x in X]
    names = [[[f"x{j}={v:g}" for j, v in enumerate(row)] for row in x] for x in X]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for kind in (ChainCRF, HiddenUnitCRF):
            for trainer in TRAINERS:
                short = LBFGS(iterations=2) if trainer == "lbfgs" else trainer_for(trainer, {"epochs": 2})[0]
                for given in (X, names):
                    kind(trainer=short, n_jobs=1).fit(given, y).predict(given)


def experiment(name: str, tasks: Sequence[str], title: str) -> Experiment:
    def plan(quick: bool) -> Plan:
        rows = [spec for task in tasks for spec in _named(task, rows_for(task, quick), len(tasks) > 1)]
        config = {
            "held_out": HELD_OUT, "look_ahead": LOOK_AHEAD,
            "settings": {trainer: settings_of(trainer, FEW_ROUNDS if quick else None) for trainer in TRAINERS},
            "n_hidden": {task: TASKS[task].n_hidden for task in tasks},
            "learned": {"folds": LEARNED_FOLDS, "iterations": LEARNED_ITERATIONS, "grid": list(LEARNED_GRID)},
        }  # fmt: skip
        return Plan(config=config, rows=rows, paths=[path for task in tasks for path in TASKS[task].files], quick=quick)

    return Experiment(
        name=name, summary=title, plan=plan, measure=measure, draw=draw, warm_up=warm_up,
        evaluate=lambda made, rows: evaluate(title, made, rows),
    )  # fmt: skip


def _named(task: str, rows: Sequence[RowSpec], several: bool) -> list[RowSpec]:
    if not several:
        return list(rows)
    return [
        RowSpec(key=f"{task}/{row.key}", batch=f"{task}/{row.batch}", params=row.params, cost=row.cost) for row in rows
    ]


OCR = experiment("hucrf-ocr", ["ocr"], "Hidden-unit CRFs: handwritten letters")
FAQ = experiment("hucrf-faq", ["faq"], "Hidden-unit CRFs: questions and answers")
PROTEINS = experiment("hucrf-proteins", ["proteins"], "Hidden-unit CRFs: protein secondary structure")
POS = experiment("hucrf-pos", ["ewt", "ptb"], "Hidden-unit CRFs: parts of speech")
