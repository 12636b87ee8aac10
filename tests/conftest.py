"""Fixtures that all tests share."""

import os
from pathlib import Path

import numpy as np
import pytest

SEEDS = (0, 1, 2)


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
