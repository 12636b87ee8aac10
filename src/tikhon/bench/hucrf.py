"""Hidden-unit CRFs on handwritten letters: loss and gradient against the bare BLAS products, and against PyTorch.

The products that the mathematics asks for are those of the pixels with the weights of the units, and of the transposed
pixels with the derivatives by unit, on all letters at once. All are measured in turn, round after round, and the minimum over
the rounds counts, so that slowdowns of the machine do not. PyTorch has the same data, weights, threads and precision, and the
chunk size that suits it best; its loss and gradient are checked to be the same.
"""

import importlib.util
import math
from collections.abc import Callable
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from threadpoolctl import threadpool_limits

from tikhon.bench.torch_chain import TorchChain
from tikhon.harness.hucrf_tasks import TASKS
from tikhon.harness.output import heading, number, short, table, today, versions
from tikhon.harness.runner import Evaluation, Experiment, Plan, RowSpec
from tikhon.harness.store import Row
from tikhon.harness.timing import Clock
from tikhon.models.chain.hidden_objective import HiddenUnitChain
from tikhon.models.chain.hidden_units import HiddenLayer
from tikhon.models.chain.layout import ChainLayout
from tikhon.models.chain.learner import ChainLearner, sizes_of
from tikhon.models.chain.sequences import Sequences
from tikhon.models.chain.transitions import transitions_of
from tikhon.objective import Matrix
from tikhon.report.canvas import COLOURS, new_figure, tidy
from tikhon.trainers import SGD, Margin

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "Hidden-unit CRFs on handwritten letters: loss and gradient, epochs of training, PyTorch"
UNITS, QUICK_UNITS = (100, 500), (8, 16)
ROUNDS, QUICK_ROUNDS = 9, 2
QUICK_WORDS = 60
THREADS = (1, 2)
TORCH_CHUNKS, QUICK_CHUNKS = (10, 30, 100, 300), (30,)  # words
TORCH_ROUNDS = 2  # with the best chunk size
ASKED = {"gemm_ratio": 2.4, "speedup_torch": 6.0, "speedup_threads": 1.6}
TORCH = "torch"


@lru_cache(maxsize=1)
def _words(folder: Path, most: int | None) -> tuple[list[Any], list[Any], Sequences]:
    X, y = TASKS["ocr"].load(folder)
    X, y = X[:most], y[:most]
    letters = np.concatenate(X)
    n, n_pixels = letters.shape
    starts = np.concatenate([[0], np.cumsum([len(x) for x in X])]).astype(np.int64)
    data = Sequences(
        starts, np.arange(n + 1) * n_pixels, np.tile(np.arange(n_pixels, dtype=np.int32), n), letters.ravel(),
        np.concatenate(y).astype(np.int32), n_pixels, 26,
    )  # fmt: skip
    return X, y, data


def _chain(data: Sequences, n_hidden: int, n_threads: int) -> HiddenUnitChain:
    layer = HiddenLayer(data.n_features, data.n_labels, n_hidden)
    return HiddenUnitChain(data, ChainLayout(layer, transitions_of(data, 1, all_pairs=True)), n_threads=n_threads)


def _products(data: Sequences, n_hidden: int) -> Callable[[], None]:
    """The bare products."""
    assert data.values is not None
    letters: Matrix = data.values.reshape(data.n_tokens, data.n_features)
    rng = np.random.default_rng(0)
    weights, by_unit = rng.normal(size=(data.n_features, n_hidden)), rng.normal(size=(data.n_tokens, n_hidden))
    inputs, gradient = np.empty_like(by_unit), np.empty_like(weights)

    def both() -> None:
        np.dot(letters, weights, out=inputs)
        np.dot(letters.T, by_unit, out=gradient)

    return both


def measure(params: dict[str, Any], folder: Path | None) -> Row:
    assert folder is not None
    if params["what"] == TORCH:
        return _torch_row(params, folder)
    _, _, data = _words(folder, params["words"])
    chains = {n: _chain(data, params["n_hidden"], n) for n in THREADS}
    weights = chains[1].starting_weights()
    weights += 0.1 * np.random.default_rng(1).normal(size=len(weights))
    works: dict[str, Callable[[], Any]] = {"products": _products(data, params["n_hidden"])}
    works |= {f"gradient-{n}": partial(chain._loss_gradient, weights) for n, chain in chains.items()}
    works["epoch-sgd"] = _epoch(chains[1], SGD())
    works["epoch-margin"] = _epoch(chains[1], Margin())
    seconds: dict[str, list[float]] = {name: [] for name in works}
    with threadpool_limits(1):
        for work in works.values():
            work()
        for _ in range(params["rounds"]):
            for name, work in works.items():
                clock = Clock()
                work()
                seconds[name].append(clock.read()[0])
    return {"seconds": {name: min(each) for name, each in seconds.items()}, "letters": data.n_tokens}


def _epoch(chain: HiddenUnitChain, trainer: SGD | Margin) -> Callable[[], float]:
    """One epoch from the start, each time the same."""
    sizes, rows = sizes_of(chain), np.flatnonzero(chain.row_weights)
    rates, start = trainer.rates(chain, sizes, 0), chain.starting_weights()

    def visit() -> float:
        learner = ChainLearner(chain, start)
        return learner.learn(rows, rates, batch=1, likelihood=trainer.likelihood, margin=trainer.margin(sizes))

    return visit


def _torch_row(params: dict[str, Any], folder: Path) -> Row:
    """PyTorch and ours in turn, with each number of threads."""
    X, y, data = _words(folder, params["words"])
    found: dict[str, Any] = {"installed": importlib.util.find_spec("torch") is not None}
    if not found["installed"]:
        return found
    for n_threads in THREADS:
        chain = _chain(data, params["n_hidden"], n_threads)
        layout, weights = chain.layout, chain.starting_weights()
        parts = layout.emission.parts(layout.split(weights)[0])
        steps = layout.transition_weights(weights, 1)
        theirs = TorchChain(X, y, n_labels=data.n_labels, n_threads=n_threads)
        seconds: dict[int, float] = {}
        for chunk in params["chunks"]:
            clock = Clock()
            loss, gradient = theirs.loss_gradient(parts, steps, chunk)
            seconds[chunk] = clock.read()[0]
        best = min(seconds, key=lambda chunk: seconds[chunk])
        with threadpool_limits(1):
            own_loss, own = chain._loss_gradient(weights)
        _check(loss, gradient, own_loss, layout.emission.parts(layout.split(own)[0]))
        times, own_times = [seconds[best]], []
        for _ in range(TORCH_ROUNDS):
            with threadpool_limits(1):
                for _ in range(3):
                    clock = Clock()
                    chain._loss_gradient(weights)
                    own_times.append(clock.read()[0])
            clock = Clock()
            theirs.loss_gradient(parts, steps, best)
            times.append(clock.read()[0])
        found[f"torch-{n_threads}"], found[f"tikhon-{n_threads}"] = min(times), min(own_times)
        found[f"chunk-{n_threads}"] = best
    return found


def _check(loss: float, gradient: list[Any], own_loss: float, own: tuple[Any, ...]) -> None:
    if not math.isclose(loss, own_loss, rel_tol=1e-9):
        raise AssertionError(f"losses differ: {loss} and {own_loss}")
    for theirs, ours in zip(gradient, own, strict=False):
        if not np.allclose(theirs, ours, atol=1e-7 * max(1.0, float(np.abs(ours).max()))):
            raise AssertionError("gradients differ")


def warm_up() -> None:
    """Every row warms up its own work."""


def plan(quick: bool) -> Plan:
    units = QUICK_UNITS if quick else UNITS
    rounds, words = (QUICK_ROUNDS, QUICK_WORDS) if quick else (ROUNDS, None)
    rows = [
        RowSpec(
            key=f"{n_hidden} units", batch="own",
            params={"what": "own", "n_hidden": n_hidden, "rounds": rounds, "words": words}, cost=n_hidden // 50 + 1,
        )
        for n_hidden in units
    ]  # fmt: skip
    chunks = list(QUICK_CHUNKS if quick else TORCH_CHUNKS)
    rows.append(
        RowSpec(
            key=TORCH, batch="own", params={"what": TORCH, "n_hidden": units[-1], "words": words, "chunks": chunks},
            cost=60,
        )
    )  # fmt: skip
    config = {"units": list(units), "rounds": rounds, "words": words, "chunks": chunks}
    return Plan(config=config, rows=rows, paths=list(TASKS["ocr"].files), quick=quick)


def evaluate(made: Plan, rows: list[Row]) -> Evaluation:
    own = {row["n_hidden"]: row for row in rows if row["what"] == "own"}
    torch = next((row for row in rows if row["what"] == TORCH and row.get("installed")), None)
    summary: dict[str, Any] = {"asked": ASKED}
    for n_hidden, row in own.items():
        seconds = row["seconds"]
        summary[f"gemm_ratio_{n_hidden}"] = seconds["gradient-1"] / seconds["products"]
        summary[f"speedup_threads_{n_hidden}"] = seconds["gradient-1"] / seconds["gradient-2"]
    most = max(own, default=None)
    if most is not None:
        summary |= {name: summary[f"{name}_{most}"] for name in ("gemm_ratio", "speedup_threads")}
    if torch is not None:
        summary |= {f"speedup_torch_{n}": torch[f"torch-{n}"] / torch[f"tikhon-{n}"] for n in THREADS}
        summary["speedup_torch"] = summary["speedup_torch_1"]
    return Evaluation(summary=summary, aggregates=list(own.values()), markdown=_render(made, own, torch, summary))


def _render(made: Plan, own: dict[int, Row], torch: Row | None, summary: dict[str, Any]) -> str:
    about = [
        f"{next(iter(own.values()))['letters']:,} letters of 128 pixels, 26 labels, chains of order 1. Seconds, the minimum of "
        f"{made.config['rounds']} rounds in which all are measured in turn; BLAS uses one thread. An epoch visits all words "
        "one by one, on one thread."
        if own
        else "No rows were measured."
    ]
    header = [
        "hidden units",
        "products",
        "loss and gradient",
        "over products",
        "two threads",
        "epoch, SGD",
        "epoch, margin",
    ]
    body = [
        [
            str(n_hidden),
            short(row["seconds"]["products"]),
            short(row["seconds"]["gradient-1"]),
            number(summary[f"gemm_ratio_{n_hidden}"]),
            short(row["seconds"]["gradient-2"]),
            short(row["seconds"]["epoch-sgd"]),
            short(row["seconds"]["epoch-margin"]),
        ]
        for n_hidden, row in own.items()
    ]
    told = "PyTorch is not installed: pip install torch.\n"
    if torch is not None:
        told = "\n\n".join(
            f"PyTorch on {n} thread{'s' if n > 1 else ''}, {torch['n_hidden']} units, {torch[f'chunk-{n}']} words at a time, "
            f"the best of {', '.join(map(str, made.config['chunks']))}: {torch[f'torch-{n}']:.2f} s for the loss and gradient, "
            f"{summary[f'speedup_torch_{n}']:.1f} times as long as ours ({torch[f'tikhon-{n}']:.2f} s)."
            for n in THREADS
        ) + "\n"  # fmt: skip
    return "\n".join(
        [heading(TITLE, about, quick=made.quick, date=today(), used=_versions()), table(header, body), told]
    )


def _versions() -> dict[str, str]:
    from importlib.metadata import version

    return versions() | ({TORCH: version(TORCH)} if importlib.util.find_spec(TORCH) else {})


def draw(evaluation: Evaluation) -> "Figure":
    """The time of the products, and of the rest."""
    figure = new_figure(6.0, 3.6)
    axes = figure.add_subplot()
    names = [f"{row['n_hidden']} units" for row in evaluation.aggregates]
    products = [row["seconds"]["products"] for row in evaluation.aggregates]
    rest = [row["seconds"]["gradient-1"] - row["seconds"]["products"] for row in evaluation.aggregates]
    axes.barh(names, products, color=COLOURS[0], label="bare BLAS products")
    axes.barh(names, rest, left=products, color=COLOURS[1], label="all else of loss and gradient")
    tidy(axes, x_label="seconds, one thread", y_label="")
    axes.legend(frameon=False)
    return figure


BENCH = Experiment(
    name="hucrf", summary=TITLE, plan=plan, measure=measure, evaluate=evaluate, draw=draw, warm_up=warm_up
)  # fmt: skip
