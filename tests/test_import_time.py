"""``import tikhon`` costs next to nothing, and an estimator brings only what a fit needs."""

import json
import subprocess
import sys

import pytest

# What the estimators stand on: their base classes, the splitters, the model files.
BASELINE = "import numpy, scipy.sparse, scipy.linalg, sklearn.base, sklearn.model_selection, safetensors.numpy"
HEAVY = ("matplotlib", "jinja2", "pandas", "polars", "pyarrow", "rich", "typer", "pytest", "hypothesis")
NOT_FOR_A_FIT = (
    "tikhon.report",
    "tikhon.cli",
    "tikhon.bench",
    "tikhon.experiments",
    "tikhon.harness",
    "tikhon.testing",
    "tikhon.estimators.chain.crf",
    "tikhon.estimators.folding.folder",
    "numba",
    "sklearn.datasets",
)
REPEATS = 3


def in_new_process(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=120).stdout


def modules_after(statement: str) -> set[str]:
    return set(json.loads(in_new_process(f"{statement}; import sys, json; print(json.dumps(list(sys.modules)))")))


def cpu_seconds(statement: str) -> float:
    """CPU time rather than time on the clock: other work on the machine counts less."""
    code = f"import time; t = time.process_time(); {statement}; print(time.process_time() - t)"
    return float(in_new_process(code))


def test_the_package_alone_imports_no_library() -> None:
    loaded = modules_after("import tikhon")
    assert "tikhon.errors" in loaded
    assert loaded.isdisjoint({"numpy", "scipy", "sklearn", *HEAVY})


def test_only_a_search_needs_the_extra_search() -> None:
    """A module that is None in sys.modules cannot be imported, as if it were not installed."""
    told = in_new_process(
        "import sys; sys.modules['optuna'] = sys.modules['pebble'] = None\n"
        "import tikhon, tikhon.bench, tikhon.experiments, tikhon.report, tikhon.cli.app\n"
        "try: tikhon.MultiStageSearchCV\n"
        "except tikhon.TikhonError as error: print(type(error).__name__, error)"
    )
    assert told.strip() == "MissingExtra tikhon.search needs optuna, pebble: pip install 'tikhon[search]'"


@pytest.mark.slow
def test_an_estimator_brings_nothing_that_a_fit_does_not_need() -> None:
    loaded = modules_after("from tikhon import LogisticRegression")
    assert "tikhon.tuners" in loaded
    assert loaded.isdisjoint(NOT_FOR_A_FIT)
    assert (loaded - modules_after(BASELINE)).isdisjoint(HEAVY)  # scikit-learn may bring some of them by itself


@pytest.mark.slow
def test_an_estimator_costs_little_more_than_what_it_stands_on() -> None:
    # Three ratios measured on a busy machine were 1.03, 1.09 and 1.30; the bound leaves as much room again.
    pairs = [(cpu_seconds("from tikhon import LogisticRegression"), cpu_seconds(BASELINE)) for _ in range(REPEATS)]
    assert min(ours for ours, _ in pairs) < 1.6 * min(baseline for _, baseline in pairs)
