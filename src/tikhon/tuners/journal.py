"""The record of a tuning: its trace, its timing, and the checkpoint from which an interrupted run resumes."""

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, fields
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tikhon.data.safefile import read_file, write_file
from tikhon.errors import FileFormatError, InputError
from tikhon.results import FitResult, Step
from tikhon.tuners.base import OnStep, Problem, Tuner
from tikhon.tuners.checkpoints import State, checkpoint_description

Arrays: TypeAlias = Mapping[str, NDArray[Any]]
FORMAT = 1
FREE = ("checkpoint", "max_steps")  # settings that may change when a tuning resumes


class Journal:
    """Collects steps, calls ``on_step``, and keeps the checkpoint up to date.

    The checkpoint holds the arrays and numbers that the tuner passes with each step, so that results do not depend on
    whether the run was interrupted. A fingerprint identifies the data, groups and settings that it belongs to.
    """

    def __init__(
        self,
        checkpoint: str | None,
        fingerprint: Callable[[], str],
        sizes: Mapping[str, int],
        on_step: OnStep | None,
    ) -> None:
        """``sizes`` are the sizes that describe the arrays of a checkpoint; they must include ``n_groups``."""
        self.trace: list[Step] = []
        self.n_fits = 0
        self.worst_residual = 0.0
        self.n_unconverged = 0
        self._path, self._sizes, self._on_step = checkpoint, sizes, on_step
        self._fingerprint = fingerprint() if checkpoint is not None else ""
        self._start = time.perf_counter()

    @staticmethod
    def of(tuner: Tuner, problem: Problem) -> "Journal":
        """The journal of a tuner working on a problem."""
        sizes = {
            "n_weights": problem.objective.n_weights, "n_groups": problem.groups.count, "n_splits": len(problem.pairs)
        }  # fmt: skip
        return Journal(tuner.checkpoint, lambda: _fingerprint(tuner, problem), sizes, problem.on_step)

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self._start

    def resume(self, state: State) -> tuple[dict[str, NDArray[Any]], dict[str, Any]] | None:
        """The arrays and numbers of the last step of an earlier run, or None; restores the trace.

        ``state`` describes them.
        """
        if self._path is None or not os.path.exists(self._path):
            return None
        try:
            header, arrays = read_file(self._path, kind="checkpoint", max_version=FORMAT)
            if header.get("fingerprint") != self._fingerprint:
                raise InputError(
                    f"the checkpoint {str(self._path)!r} belongs to other data, groups or settings (by its fingerprint): "
                    "delete it or name another file"
                )
            checkpoint_description(self._sizes, state).check(self._path, header, arrays)
        except FileFormatError as error:
            raise FileFormatError(
                f"the tuning cannot resume from its checkpoint; delete it or name another file: {error}"
            ) from error
        strengths = arrays.pop("trace.strengths")
        self.trace = [Step(**row, strengths=strengths[i]) for i, row in enumerate(header["trace"])]
        self.n_fits, self.worst_residual = header["n_fits"], header["worst_residual"]
        self.n_unconverged = header["n_unconverged"]
        self._start = time.perf_counter() - (self.trace[-1].seconds if self.trace else 0.0)
        # Copies: arrays inside the buffer as read may be aligned differently, and BLAS may then sum in another order.
        return {name: array.copy() for name, array in arrays.items()}, header["numbers"]

    def count_fits(self, *residuals: float) -> None:
        """Count fits and update the worst residual."""
        self.n_fits += len(residuals)
        self.worst_residual = max(self.worst_residual, *residuals)

    def count_unconverged(self, fits: Iterable[FitResult], tol: float) -> None:
        """Count the fits that stopped far from the requested relative gap."""
        self.n_unconverged += sum(fit.status != "converged" and fit.relative_gap > 10.0 * tol for fit in fits)

    def record(self, step: Step, arrays: Arrays | Callable[[], Arrays], numbers: Mapping[str, Any]) -> None:
        """Add a step and the state after it: write the checkpoint atomically and call ``on_step``.

        ``arrays`` may be a function, called only where there is a checkpoint to write.
        """
        self.trace.append(step)
        if self._path is not None:
            rows = [{f.name: getattr(s, f.name) for f in fields(s) if f.name != "strengths"} for s in self.trace]
            header = {
                "fingerprint": self._fingerprint, "trace": rows, "numbers": dict(numbers), "n_fits": self.n_fits,
                "worst_residual": self.worst_residual, "n_unconverged": self.n_unconverged,
            }  # fmt: skip
            state = dict(arrays() if callable(arrays) else arrays) | {
                "trace.strengths": np.array([s.strengths for s in self.trace])
            }
            write_file(self._path, kind="checkpoint", version=FORMAT, header=header, arrays=state)
        if self._on_step is not None:
            self._on_step(step)


def _fingerprint(tuner: Tuner, problem: Problem) -> str:
    """A digest of the settings, the groups, and the loss and gradient at fixed pseudo-random weights."""
    digest = hashlib.sha256()
    settings = {name: value for name, value in asdict(tuner).items() if name not in FREE}  # type: ignore[call-overload]
    digest.update(json.dumps([tuner.name, settings, repr(problem.solver), problem.rescale], default=repr).encode())
    groups = problem.groups
    digest.update(json.dumps(groups.names).encode())
    digest.update(groups.index.tobytes() + groups.fixed.tobytes())
    probe = (
        np.random.default_rng(0).normal(size=problem.objective.n_weights) / max(problem.objective.n_weights, 1) ** 0.5
    )
    for objective in [problem.objective, *(side for pair in problem.pairs for side in (pair.train, pair.holdout))]:
        loss, gradient = objective.loss_gradient(probe)
        # Ten digits: the last digits of floating-point sums may differ between machines.
        digest.update(f"{loss:.10e} {np.linalg.norm(gradient):.10e}".encode())
    return digest.hexdigest()
