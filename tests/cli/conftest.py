"""Running commands inside the test process, and small data files."""

import csv
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tikhon.cli import main


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    def assert_refused(self, *parts: str) -> None:
        """Exit code 2, nothing on stdout, one line on stderr that holds the parts."""
        assert self.code == 2, self
        assert self.out == ""
        assert self.err.startswith("tikhon: "), self.err
        assert self.err.count("\n") == 1, self.err
        for part in parts:
            assert part in self.err


Run = Callable[..., Outcome]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def call(*arguments: object) -> Outcome:
        capsys.readouterr()
        with pytest.raises(SystemExit) as stop:
            main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Outcome(int(stop.value.code or 0), captured.out, captured.err)

    return call


@dataclass(frozen=True)
class Sample:
    """Rows with a class and a quantity that depend on some of the columns."""

    columns: tuple[str, ...]
    X: np.ndarray
    label: np.ndarray
    amount: np.ndarray

    def write(self, path: Path, target: str | None = None, *, delimiter: str = ",") -> Path:
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, delimiter=delimiter)
            writer.writerow([*self.columns, *([target] if target else [])])
            values = getattr(self, target).tolist() if target else None
            for place, row in enumerate(self.X.tolist()):
                writer.writerow([*row, *([values[place]] if values else [])])
        return path


@pytest.fixture(scope="session")
def sample() -> Sample:
    random = np.random.default_rng(5)
    X = random.normal(size=(80, 5))
    score = X[:, 0] - X[:, 1] + 0.3 * random.normal(size=80)
    label = np.where(score > 0, "yes", "no").astype(object)
    return Sample(("num__age", "num__size", "txt__the", "txt__of", "txt__and"), X, label, 2 * score + 1)


@pytest.fixture
def train(sample: Sample, tmp_path: Path) -> Path:
    return sample.write(tmp_path / "train.csv", "label")


@pytest.fixture
def model(run: Run, train: Path, tmp_path: Path) -> Path:
    path = tmp_path / "model.safetensors"
    outcome = run("fit", train, "--target", "label", "--groups", "prefix", "--tuner", "mm", "--model", path)
    assert outcome.code == 0, outcome.err
    return path
