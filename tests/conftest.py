"""Fixtures that all tests share."""

import os
from pathlib import Path

import numpy as np
import pytest

SEEDS = (0, 1, 2)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--quick", action="store_true", help="leave out slow tests, and all seeds but the first")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--quick"):
        left_out = [item for item in items if item.get_closest_marker("slow") or _seed_of(item) != SEEDS[0]]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in set(left_out)]


def _seed_of(item: pytest.Item) -> int:
    """That of the fixture below; the first where it is not used."""
    drawn = getattr(item, "callspec", None)
    return SEEDS[0] if drawn is None or "seed" not in item.fixturenames else drawn.params.get("seed", SEEDS[0])


@pytest.fixture(params=SEEDS)
def seed(request: pytest.FixtureRequest) -> int:
    """Several seeds; TIKHON_SEED shifts them all, so that other data can be tried without editing tests."""
    return int(request.param) + int(os.environ.get("TIKHON_SEED", "0"))


@pytest.fixture
def rng(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder with real data sets, named by TIKHON_DATA."""
    named = os.environ.get("TIKHON_DATA")
    if not named:
        pytest.skip("TIKHON_DATA is not set: it names the folder with the real data sets")
    folder = Path(named)
    if not folder.is_dir():
        pytest.skip(f"TIKHON_DATA={named} is not a folder")
    return folder
