"""What the trials of a search amount to: the best one, the rows of ``cv_results_``, warnings."""

from collections import Counter
from typing import Any

import numpy as np

from tikhon.errors import AllTrialsFailed, InputError
from tikhon.search.coordinator import Found, Plan
from tikhon.search.space import Params
from tikhon.search.trials import Trial


def best_index(plan: Plan, found: Found, select: str) -> int:
    """The place of the best trial among all, of the latest stage that has one, or of all stages; of equal ones the first."""
    good = [(index, stage, trial) for index, (stage, trial) in enumerate(found.trials) if trial.status == "ok"]
    if select == "last":
        latest = max(stage for _, stage, _ in good)
        good = [entry for entry in good if entry[1] == latest]
    return max(good, key=lambda entry: (entry[2].value, -entry[0]))[0]


def rows_of(
    plan: Plan, found: Found, n_splits: int, error_score: Any, has_train_scores: bool
) -> tuple[list[Params], list[dict[str, Any]], dict[str, list[Any]]]:
    """Parameters, results of all splits and further columns, as scikit-learn formats them."""
    trials = found.trials
    failed = np.nan if error_score == "raise" else float(error_score)
    sample = next(trial for _, trial in trials if trial.status == "ok").scores[0]
    names = list(sample.test)
    out = [
        _row(trial, place, names, failed, has_train_scores) for _, trial in trials for place in range(n_splits)
    ]  # fmt: skip
    stages = [plan.stages[stage] for stage, _ in trials]
    more: dict[str, list[Any]] = {
        "stage": [stage.number for stage in stages],
        "fraction": [stage.fraction for stage in stages],
        "n_rows": [stage.n_rows for stage in stages],
        "trial": [trial.number for _, trial in trials],
        "status": [trial.status for _, trial in trials],
        "elapsed": [trial.elapsed for _, trial in trials],
    }
    return [plan.space.values(trial.params) for _, trial in trials], out, more


def _row(trial: Trial, place: int, names: list[str], failed: float, has_train_scores: bool) -> dict[str, Any]:
    score = trial.scores[place] if place < len(trial.scores) else None
    good = score is not None and score.status == "ok" and trial.status == "ok"
    row: dict[str, Any] = {
        "fit_time": np.nan if score is None else score.fit_seconds,
        "score_time": np.nan if score is None else score.score_seconds,
        "test_scores": _of_names(score.test if good and score is not None else {}, names, failed),
        "fit_error": trial.problem or None,
    }
    if has_train_scores:
        row["train_scores"] = _of_names(score.train if good and score is not None else {}, names, failed)
    return row


def _of_names(scores: Any, names: list[str], failed: float) -> Any:
    """A number for a single score, which scikit-learn calls "score"."""
    found = {name: float(scores.get(name, failed)) for name in names}
    return found["score"] if names == ["score"] else found


def warnings_about(plan: Plan, found: Found) -> list[str]:
    """What a user should know of the trials; an error if no trial succeeded."""
    trials = [trial for _, trial in found.trials]
    bad = [trial for trial in trials if trial.status != "ok"]
    if len(bad) == len(trials):
        if found.ended == "interrupted":
            raise KeyboardInterrupt
        if not trials:
            raise InputError("the search ended before its first trial was finished: allow more time")
        raise AllTrialsFailed(f"all {len(trials)} trials failed; the first of them:\n{trials[0].problem}")
    messages = []
    if bad:
        n_late = sum(trial.status == "timeout" for trial in bad)
        late = f", {n_late} of them since they took too long" if n_late else ""
        last_line = bad[0].problem.strip().splitlines()[-1]
        messages.append(f"{len(bad)} of {len(trials)} trials failed{late}; the first: {last_line}")
    if found.ended:
        reached = len(found.by_stage) if found.by_stage[-1] else len(found.by_stage) - 1
        what = "ran out of time" if found.ended == "timeout" else "was interrupted"
        messages.append(
            f"the search {what} in stage {len(found.by_stage)} of {len(plan.stages)} after {len(trials)} trials: the best "
            f"of stage {reached} is chosen"
        )
    elif len(found.by_stage) < len(plan.stages):
        messages.append(
            f"all trials of stage {len(found.by_stage)} failed, so later stages were left out: the best of an earlier one is "
            "chosen"
        )
    return messages


def warnings_of_fits(found: Found) -> list[str]:
    """What the fits of trials warned of, with the number of trials."""
    counts: Counter[str] = Counter()
    for _, trial in found.trials:
        counts.update({message for score in trial.scores for message in score.warnings})
    return [f"{count} of {len(found.trials)} trials: {message}" for message, count in counts.most_common()]
