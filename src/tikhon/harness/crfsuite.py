"""CRFsuite (python-crfsuite), the rival in benchmarks and experiments on chains: training, tagging, log loss."""

import math
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tikhon.errors import MissingExtra

PEER = "python-crfsuite"


@dataclass(frozen=True, eq=False, kw_only=True)
class Trained:
    """A trained model, and how its training went. Times are wall-clock seconds."""

    tagger: Any
    model: bytes  # the tagger reads it in place, so it must not be freed before
    encode_seconds: float  # to load the lists of features and labels
    train_seconds: float  # everything after that, up to the stored model
    trace: list[tuple[float, float]]  # per iteration: seconds since training started, penalised objective

    def tag(self, X: Sequence[Any]) -> list[list[str]]:
        return [self.tagger.tag(sequence) for sequence in X]

    def log_loss(self, X: Sequence[Any], y: Sequence[Sequence[str]]) -> float | None:
        """The mean over sequences of -log p(y | x); None if some probability is 0, as for labels not seen in training."""
        known = set(self.tagger.labels())
        total = 0.0
        for sequence, labels in zip(X, y, strict=True):
            if not known.issuperset(labels):
                return None
            self.tagger.set(sequence)
            probability = self.tagger.probability(labels)
            if not probability > 0.0:
                return None
            total -= math.log(probability)
        return total / len(X)


def train(
    X: Sequence[Any], y: Sequence[Sequence[str]], *, c2: float, iterations: int | None, early_stop: bool = True
) -> Trained:
    """L-BFGS with the L2 penalty ``c2 * ||w||^2``: a strength of 2 c2 in tikhon.

    ``iterations`` is CRFsuite's ``max_iterations``; None: its default (no limit). Without ``early_stop``, CRFsuite's own
    stopping rules (epsilon, delta) are switched off.
    """
    pycrfsuite = _pycrfsuite()
    trace: list[tuple[float, float]] = []

    class Trainer(pycrfsuite.Trainer):  # type: ignore[name-defined, misc]
        def message(self, message: str) -> None:
            if self.logparser.feed(message) == "iteration":
                trace.append((time.perf_counter(), float(self.logparser.last_iteration["loss"])))

    trainer = Trainer(algorithm="lbfgs", verbose=False)
    limits = {} if iterations is None else {"max_iterations": iterations}
    trainer.set_params({"c1": 0.0, "c2": c2, **limits, **({} if early_stop else {"epsilon": 0.0, "delta": 0.0})})
    start = time.perf_counter()
    for sequence, labels in zip(X, y, strict=True):
        trainer.append(sequence, labels)
    encoded = time.perf_counter()
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "model"
        trainer.train(str(path))
        trained = time.perf_counter()
        del trainer  # so that the memory peak is that of training
        model = path.read_bytes()
    tagger = pycrfsuite.Tagger()
    tagger.open_inmemory(model)
    return Trained(
        tagger=tagger,
        model=model,
        encode_seconds=encoded - start,
        train_seconds=trained - encoded,
        trace=[(stamp - encoded, value) for stamp, value in trace],
    )


def peer_version() -> dict[str, str]:
    """The version of CRFsuite, for the top of a report; {} if it is not installed."""
    try:
        _pycrfsuite()
    except MissingExtra:
        return {}
    return {PEER: version(PEER)}


def _pycrfsuite() -> Any:
    try:
        import pycrfsuite
    except ImportError as error:
        raise MissingExtra(f"CRFsuite is not installed: pip install {PEER}") from error
    return pycrfsuite
