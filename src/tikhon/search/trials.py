"""A finished trial, and its record in a study of Optuna.

A record is written once, when the trial is complete, by a single call: a search that is killed has whole trials only.
"""

import datetime
import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import optuna
from optuna.distributions import BaseDistribution
from optuna.trial import FrozenTrial, TrialState

from tikhon.errors import FileFormatError
from tikhon.search.evaluation import Score, Status
from tikhon.search.space import Params

WORST = float("-inf")  # the value of a trial that failed: samplers avoid its surroundings, where NaN would be ignored
PREFIX = "tikhon:"
LONGEST_PROBLEM = 8_000  # characters of a traceback, its end: databases limit the length of attributes


@dataclass(frozen=True, eq=False)
class Trial:
    """Settings with their scores. ``number`` counts from 0 in each stage; ``params`` are as stored, see ``Space.values``."""

    number: int
    params: Params
    scores: Sequence[Score]  # by split; of a trial that failed up to the first split that did
    metric: str
    elapsed: float  # seconds since the search began, when the trial was complete

    @property
    def status(self) -> Status:
        return next((score.status for score in self.scores if score.status != "ok"), "ok")

    @property
    def value(self) -> float:
        """The mean score over splits, ``WORST`` if a split failed."""
        return fmean(score.test[self.metric] for score in self.scores) if self.status == "ok" else WORST

    @property
    def seconds(self) -> float:
        return sum(score.fit_seconds + score.score_seconds for score in self.scores)

    @property
    def problem(self) -> str:
        return next((score.problem for score in self.scores if score.problem), "")


def record(study: optuna.Study, trial: Trial, distributions: dict[str, BaseDistribution]) -> None:
    """Add a trial to its study."""
    end = datetime.datetime.now()
    own = {
        "number": trial.number,
        "status": trial.status,
        "metric": trial.metric,
        "elapsed": trial.elapsed,
        "scores": [_stored(score) for score in trial.scores],
    }
    study.add_trial(
        FrozenTrial(
            number=-1,
            trial_id=-1,
            state=TrialState.COMPLETE,
            value=trial.value,
            datetime_start=end - datetime.timedelta(seconds=trial.seconds),
            datetime_complete=end,
            params=trial.params,
            distributions=distributions,
            user_attrs={f"{PREFIX}{name}": value for name, value in own.items()},
            system_attrs={},
            intermediate_values={},
        )
    )


def recorded(study: optuna.Study) -> dict[int, Trial]:
    """The trials of a study by their number."""
    found: dict[int, Trial] = {}
    for frozen in study.get_trials(deepcopy=False):
        own = {name.removeprefix(PREFIX): value for name, value in frozen.user_attrs.items()}
        try:
            scores = [_restored(score) for score in own["scores"]]
            trial = Trial(int(own["number"]), dict(frozen.params), scores, own["metric"], float(own["elapsed"]))
        except (KeyError, TypeError, ValueError):
            raise FileFormatError(
                f"trial {frozen.number} of the study {study.study_name!r} was not written by tikhon: name another "
                "storage or study"
            ) from None
        found.setdefault(trial.number, trial)
    return found


def _stored(score: Score) -> dict[str, Any]:
    return {
        "status": score.status,
        "test": {name: value if math.isfinite(value) else None for name, value in score.test.items()},
        "train": {name: value if math.isfinite(value) else None for name, value in score.train.items()},
        "fit_seconds": score.fit_seconds,
        "score_seconds": score.score_seconds,
        "problem": score.problem[-LONGEST_PROBLEM:],
        "warnings": list(score.warnings),
    }


def _number(stored: Any) -> float:
    """Databases keep no NaN."""
    return math.nan if stored is None else float(stored)


def _restored(stored: dict[str, Any]) -> Score:
    return Score(
        status=stored["status"],
        test={name: _number(value) for name, value in stored["test"].items()},
        train={name: _number(value) for name, value in stored["train"].items()},
        fit_seconds=float(stored["fit_seconds"]),
        score_seconds=float(stored["score_seconds"]),
        problem=str(stored["problem"]),
        warnings=tuple(stored["warnings"]),
    )
