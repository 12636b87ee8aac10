"""Small fits of every model, tuner and form of input, stored so that two commits can be compared number by number.

    python tests/stored_fits.py store fits.npz      at one commit
    python tests/stored_fits.py compare fits.npz    at another, on the same machine with the same dependencies

The comparison lists the fits whose strengths, weights, criteria or predictions changed, says how many are the same to the
bit, and fails where a number moved by more than 1e-9 of the largest beside it. Only public names are used: the script serves
commits whose insides differ.
"""

import argparse
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

from tikhon import ChainCRF, Gradient, LogisticRegression, Ridge, RNAFolder

Fit = Callable[[], dict[str, np.ndarray]]
TOL = 1e-10  # relative gap of all fits
AGREE = 1e-9
LINEAR_TUNERS = (None, "auto", "loo", "evidence", "gradient", "mm", "direct", "grid")
OTHER_TUNERS = (None, "auto", "gradient", "mm", "direct", "grid")
GROUPS = {"first": [0, 1, 2], "second": [3, 4, 5, 6]}  # the other columns are "rest"


def fits() -> dict[str, Fit]:
    """All fits by name; none is made before it is called."""
    return {name: fit for part in (_linear_fits, _chain_fits, _folding_fits) for name, fit in part()}


def measured(model: Any, predictions: dict[str, Any]) -> dict[str, np.ndarray]:
    """What is compared of a fitted model."""
    tuning = model.tuning_
    criterion = np.nan if tuning.criterion is None else tuning.criterion
    found = {
        "strengths": np.array(list(model.strengths_.values())),
        "weights": tuning.weights,
        "criteria": np.array([criterion, tuning.train_loss, *(step.criterion for step in tuning.trace)]),
    }
    return found | {name: np.asarray(value, dtype=float) for name, value in predictions.items()}


def _columns(n: int, p: int, *, sparse: bool) -> tuple[Any, np.ndarray]:
    """Columns and a score that depends on a few of them."""
    rng = np.random.default_rng(n * 100 + p + sparse)
    X = rng.normal(size=(n, p)) * (rng.random(size=(n, p)) < 0.3 if sparse else 1.0)
    score = X[:, :3] @ [1.0, -1.0, 0.5] + 0.3 * X[:, 3:7].sum(axis=1) + 0.5 * rng.normal(size=n)
    return sp.csr_array(X) if sparse else X, score


def _linear_fits() -> Iterator[tuple[str, Fit]]:
    forms = [("dense", 60, 12, False), ("sparse", 90, 14, True), ("wide", 25, 40, False)]
    for form, n, p, sparse in forms:
        X, score = _columns(n, p, sparse=sparse)
        targets = {
            "ridge": (Ridge, score),
            "logistic": (LogisticRegression, (score > 0.2).astype(int)),
            "softmax": (LogisticRegression, np.digitize(score, [-0.8, 0.8])),
        }
        for model, (estimator, y) in targets.items():
            for tuner in LINEAR_TUNERS if form != "wide" else ("auto", "gradient", "mm"):
                parameters = {"groups": None if form == "wide" and tuner == "auto" else GROUPS, "tuner": tuner}
                yield f"{model}/{form}/{tuner}", lambda e=estimator, q=parameters, X=X, y=y: _linear(e(**q), X, y)
    X, score = _columns(80, 10, sparse=False)
    y, weights = (score > 0).astype(int), np.random.default_rng(0).integers(0, 4, size=80)
    both = np.column_stack([score, X[:, 3] - score])
    yield "ridge/weighted", lambda: _linear(Ridge(groups=GROUPS), X, score, weights)
    yield "ridge/two targets/auto", lambda: _linear(Ridge(groups=GROUPS), X, both)
    yield "ridge/two targets/per target", lambda: _linear(Ridge(groups=GROUPS, per_target=True), X, both)
    yield "ridge/no intercept", lambda: _linear(Ridge(groups="separate", fit_intercept=False), X, score)
    yield "logistic/weighted", lambda: _linear(LogisticRegression(groups=GROUPS), X, y, weights)
    yield "logistic/hold-out", lambda: _linear(LogisticRegression(groups=GROUPS, cv=None), X, y)
    yield "logistic/standardised", lambda: _linear(LogisticRegression(standardize=True), X * 100.0, y)
    yield "logistic/unpenalised", lambda: _linear(LogisticRegression(groups=GROUPS, strengths={"first": 0.0}), X, y)


def _linear(model: Any, X: Any, y: np.ndarray, weights: np.ndarray | None = None) -> dict[str, np.ndarray]:
    model.set_params(tol=TOL).fit(X, y, weights)
    told = model.predict_proba(X) if hasattr(model, "predict_proba") else model.predict(X)
    return measured(model, {"predictions": told})


def _sentences(seed: int, count: int) -> tuple[list[Any], list[list[str]]]:
    rng = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(count):
        labels, tokens, label = [], [], "A"
        for _ in range(int(rng.integers(3, 9))):
            label = str(rng.choice(list("ABC"), p=[0.6, 0.2, 0.2] if label == "A" else [0.2, 0.6, 0.2]))
            word = f"{label.lower()}{rng.integers(6)}" if rng.random() < 0.7 else f"any{rng.integers(9)}"
            tokens.append([f"word={word}", f"start={word[0]}", "bias"])
            labels.append(label)
        X.append(tokens)
        y.append(labels)
    return X, y


def _chain_fits() -> Iterator[tuple[str, Fit]]:
    X, y = _sentences(0, 30)
    for tuner in OTHER_TUNERS:
        yield f"chain/lists/{tuner}", lambda t=tuner: _chain(ChainCRF(tuner=t, cv=3), X, y)
    for tuner in (None, "auto", "mm"):
        yield f"chain/order 2/{tuner}", lambda t=tuner: _chain(ChainCRF(tuner=t, order=2, cv=3), X, y)
    hidden = [[None if place % 3 == 1 else label for place, label in enumerate(labels)] for labels in y]
    for tuner in (None, "gradient"):
        yield f"chain/partial labels/{tuner}", lambda t=tuner: _chain(ChainCRF(tuner=t, cv=3), X, hidden)
    rng = np.random.default_rng(1)
    arrays = [rng.normal(size=(len(labels), 4)) + np.array([[ord(c) - 66.0] for c in labels]) for labels in y]
    for tuner in (None, "auto"):
        yield f"chain/arrays/{tuner}", lambda t=tuner: _chain(ChainCRF(tuner=t, cv=3, all_pairs=True), arrays, y)
    dicts = [[{"word": token[0], "length": float(len(token[0]))} for token in tokens] for tokens in X]
    yield "chain/dicts/auto", lambda: _chain(ChainCRF(cv=None, class_weight="balanced"), dicts, y)
    yield "chain/rules", lambda: _chain(ChainCRF(tuner=None, allowed=[(a, b) for a in "ABC" for b in "AB"]), X, y)


def _chain(model: Any, X: Any, y: Any) -> dict[str, np.ndarray]:
    model.set_params(tol=TOL).fit(X, y)
    codes = {label: code for code, label in enumerate(model.classes_.tolist())}
    told = {
        "predictions": [codes[label] for labels in model.predict(X) for label in labels],
        "marginals": np.concatenate(model.predict_marginals(X)),
        "probabilities": [probability for found in model.predict_nbest(X, n=3) for _, probability in found],
        "draws": [codes[label] for drawn in model.sample(X, n=2) for labels in drawn for label in labels],
    }
    return measured(model, told)


def _folding_fits() -> Iterator[tuple[str, Fit]]:
    X = ["GGGAAAUCCC", "GCGCAAGCGC", "CCAAAAGG", "GGCUUCGGCC", "GGGAUCGCAAGAUACCC", "AUGCGAAAGCAUGGGAAACCC"]
    y = ["(((....)))", "((((..))))", "((....))", "(((....)))", "(((..((...))..)))", "((((....)))).((...))."]
    for tuner in OTHER_TUNERS:
        # Six molecules say little of fifteen strengths, which gradients then take to their bounds, slowly.
        chosen = Gradient(max_steps=4) if tuner == "gradient" else tuner
        yield f"folding/{tuner}", lambda t=chosen: _folding(RNAFolder(tuner=t, cv=3), X, y)
    partial = [structure.replace(".", "?", 2) for structure in y]
    for tuner in (None, "auto"):
        yield f"folding/partial/{tuner}", lambda t=tuner: _folding(RNAFolder(tuner=t, cv=3), X, partial)
    yield "folding/left out", lambda: _folding(RNAFolder(tuner=None, without=["helix_stacking"]), X, y)


def _folding(model: Any, X: list[str], y: list[str]) -> dict[str, np.ndarray]:
    model.set_params(tol=TOL).fit(X, y)
    told = {
        "pairs": np.concatenate([pairs.toarray().ravel() for pairs in model.predict_pairs(X)]),
        "log_partition": model.log_partition(X),
        "predictions": [ord(letter) for structure in model.predict(X) for letter in structure],
        "probabilities": [probability for found in model.predict_nbest(X, n=3) for _, probability in found],
    }
    return measured(model, told)


def made(names: list[str] | None = None) -> dict[str, np.ndarray]:
    """The numbers of these fits, or of all, by "fit: number"."""
    found = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # fits of few rows have much to say
        for name, fit in fits().items():
            if names is None or name in names:
                found |= {f"{name}: {part}": values for part, values in fit().items()}
    return found


def differences(before: dict[str, np.ndarray], after: dict[str, np.ndarray]) -> dict[str, float]:
    """By how much numbers differ, relative to the largest beside them; 0 where all bits are the same."""
    return {name: _difference(before[name], after.get(name, np.zeros(0))) for name in before}


def _difference(before: np.ndarray, after: np.ndarray) -> float:
    if before.shape != after.shape:
        return np.inf
    if np.array_equal(before, after, equal_nan=True):
        return 0.0
    apart = np.abs(np.nan_to_num(before) - np.nan_to_num(after)).max(initial=0.0)
    return float(apart / np.abs(np.nan_to_num(before)).max(initial=1e-300))


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("action", choices=["store", "compare"])
    parser.add_argument("file")
    chosen = parser.parse_args(arguments)
    if chosen.action == "store":
        np.savez_compressed(chosen.file, **made())
        return 0
    with np.load(chosen.file) as stored:
        apart = differences(dict(stored), made())
    moved = {name: size for name, size in apart.items() if size > 0.0}
    for name, size in sorted(moved.items(), key=lambda entry: -entry[1]):
        sys.stdout.write(f"{size:.1e}  {name}\n")
    sys.stdout.write(f"{len(apart) - len(moved)} of {len(apart)} are the same to the bit\n")
    return int(any(size > AGREE for size in moved.values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
