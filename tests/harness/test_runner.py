"""The machinery of long runs, on an experiment that only counts."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tikhon.errors import InputError
from tikhon.harness.output import plain
from tikhon.harness.runner import Evaluation, Experiment, Plan, RowSpec
from tikhon.report.canvas import new_figure
from tikhon.report.progress import Silent

CALLS = "CALLS_OF_TEST_RUNNER"  # a file that every measurement writes a line to, in whatever process


def count(params: dict[str, Any], folder: Path | None) -> dict[str, Any]:
    with open(os.environ[CALLS], "a") as file:
        file.write(f"{params['dataset']}{params['seed']} {os.getpid()}\n")
    time.sleep(params.get("seconds", 0.0))
    if params.get("fails"):
        raise RuntimeError("no luck")
    return {"value": 10 * params["seed"], "missing": float("nan")}


def nothing() -> None:
    pass


def experiment(n_seeds: int = 3, **more: Any) -> Experiment:
    rows = [
        RowSpec(key=f"{name}/{seed}", batch=name, params={"dataset": name, "seed": seed, **more})
        for name in ("a", "b")
        for seed in range(n_seeds)
    ]

    def evaluate(plan: Plan, found: list[dict[str, Any]]) -> Evaluation:
        return Evaluation(summary={"total": sum(row["value"] for row in found)}, markdown="# Done\n")

    return Experiment(
        name="counting",
        summary="counts",
        plan=lambda quick: Plan(config={"seeds": n_seeds if not quick else -1}, rows=rows, quick=quick),
        measure=count,
        evaluate=evaluate,
        draw=lambda evaluation: new_figure(1, 1),
        warm_up=nothing,
    )


class Recorder:
    def __init__(self) -> None:
        self.total, self.done, self.descriptions = 0, 0, [""]

    def start(self, total: int, description: str) -> None:
        self.total = total
        self.descriptions.append(description)

    def advance(self, n: int, description: str) -> None:
        self.done += n
        self.descriptions.append(description)


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "calls"
    path.touch()
    monkeypatch.setenv(CALLS, str(path))
    return path


def made(calls: Path) -> list[str]:
    return [line.split()[0] for line in calls.read_text().splitlines()]


def test_writes_three_files_and_tells_progress(tmp_path: Path, calls: Path) -> None:
    progress = Recorder()
    result = experiment().run(None, tmp_path / "out", quick=False, jobs=1, progress=progress)
    assert made(calls) == ["a0", "a1", "a2", "b0", "b1", "b2"]
    assert result["summary"] == {"total": 60, "n_rows": 6, "n_failed": 0}
    assert (progress.total, progress.done) == (6, 6)
    assert progress.descriptions[-1] == "counting: b/2 done, 0 of 6 rows left"
    document = json.loads((tmp_path / "out" / "counting.json").read_text())
    assert document["rows"][1] == {"key": "a/1", "dataset": "a", "seed": 1, "value": 10, "missing": None}
    assert set(document["versions"]) == {"tikhon", "python", "numpy", "scipy", "scikit-learn"}
    assert "files" not in document
    assert (tmp_path / "out" / "counting.md").read_text() == "# Done\n"
    assert (tmp_path / "out" / "counting.png").read_bytes()[1:4] == b"PNG"
    assert [Path(file).name for file in result["files"]] == ["counting.json", "counting.md", "counting.png"]


def test_nothing_is_measured_twice_and_a_cut_row_again(tmp_path: Path, calls: Path) -> None:
    experiment().run(None, tmp_path, quick=False, jobs=1, progress=Silent())
    rows = tmp_path / "counting.rows.jsonl"
    rows.write_bytes(rows.read_bytes()[:-5])
    calls.write_text("")
    progress = Recorder()
    result = experiment().run(None, tmp_path, quick=False, jobs=1, progress=progress)
    assert made(calls) == ["b2"]
    assert progress.total == 1
    assert "1 of 6 rows to do" in progress.descriptions[1]
    assert result["summary"]["total"] == 60


def test_quick_rows_have_a_file_of_their_own(tmp_path: Path, calls: Path) -> None:
    experiment().run(None, tmp_path, quick=True, jobs=1, progress=Silent())
    assert json.loads((tmp_path / "counting.json").read_text())["quick"] is True
    experiment().run(None, tmp_path, quick=False, jobs=1, progress=Silent())
    assert len(made(calls)) == 12
    assert {path.name for path in tmp_path.glob("*.jsonl")} == {"counting.rows.jsonl", "counting.quick.rows.jsonl"}


def test_another_configuration_is_refused(tmp_path: Path, calls: Path) -> None:
    experiment().run(None, tmp_path, quick=False, jobs=1, progress=Silent())
    with pytest.raises(InputError, match=r"counting\.rows\.jsonl holds rows of another configuration"):
        experiment(4).run(None, tmp_path, quick=False, jobs=1, progress=Silent())


def test_a_failed_row_is_told_and_tried_again(tmp_path: Path, calls: Path) -> None:
    result = experiment(1, fails=True).run(None, tmp_path, quick=False, jobs=1, progress=Silent())
    assert result["summary"]["n_failed"] == 2
    assert "- a/0: RuntimeError: no luck" in (tmp_path / "counting.md").read_text()
    result = experiment(1).run(None, tmp_path, quick=False, jobs=1, progress=Silent())
    assert result["summary"]["n_failed"] == 0
    assert made(calls) == ["a0", "b0", "a0", "b0"]


@pytest.mark.slow
def test_two_jobs_give_the_same_rows_in_two_processes(tmp_path: Path, calls: Path) -> None:
    one = experiment().run(None, tmp_path / "one", quick=False, jobs=1, progress=Silent())
    calls.write_text("")
    two = experiment(seconds=0.05).run(None, tmp_path / "two", quick=False, jobs=2, progress=Silent())
    values = [{key: row[key] for key in ("key", "value")} for row in two["rows"]]
    assert values == [{key: row[key] for key in ("key", "value")} for row in one["rows"]]
    processes = {(line[0], line.split()[1]) for line in calls.read_text().splitlines()}
    assert len(processes) == 2  # one process for each data set
    assert str(os.getpid()) not in {process for _, process in processes}


def test_jobs_must_be_positive(tmp_path: Path, calls: Path) -> None:
    with pytest.raises(InputError, match="jobs is 0"):
        experiment().run(None, tmp_path, quick=False, jobs=0, progress=Silent())


@pytest.mark.slow
def test_killed_and_started_again_goes_on(tmp_path: Path, calls: Path) -> None:
    script = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "from pathlib import Path\n"
        "from test_runner import Silent, experiment\n"
        f"experiment(20, seconds=0.05).run(None, Path({str(tmp_path)!r}), quick=False, jobs=1, progress=Silent())\n"
    )
    process = subprocess.Popen([sys.executable, "-c", script])
    deadline = time.monotonic() + 60
    while len(made(calls)) < 4 and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    before = made(calls)
    assert 4 <= len(before) < 40
    calls.write_text("")
    result = experiment(20).run(None, tmp_path, quick=False, jobs=1, progress=Silent())
    assert len(result["rows"]) == 40
    # Only the row that was under way when the process died is measured again.
    assert set(before) & set(made(calls)) <= {before[-1]}
    assert set(before) | set(made(calls)) == {f"{name}{seed}" for name in "ab" for seed in range(20)}


def test_an_interrupted_row_is_not_stored(tmp_path: Path, calls: Path) -> None:
    """Even where the fit catches Ctrl-C to return the best so far."""

    def catches(params: dict[str, Any], folder: Path | None) -> dict[str, Any]:
        with contextlib.suppress(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(10.0)
        return {"value": 1.0}

    interrupted = replace(experiment(), measure=catches)
    with pytest.raises(KeyboardInterrupt):
        interrupted.run(None, tmp_path, quick=False, jobs=1, progress=Silent())
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    [stored] = tmp_path.glob("*.rows.jsonl")
    assert len(stored.read_text(encoding="utf-8").splitlines()) == 1  # its header


def test_plain() -> None:
    import numpy as np

    assert plain({1: np.float64("inf"), "b": (np.int64(2), np.array([1.0, np.nan]))}) == {
        "1": None,
        "b": [2, [1.0, None]],
    }
