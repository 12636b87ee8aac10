"""Multi-stage Bayesian optimisation: Wang et al. 2015, Algorithm 1, with one study of Optuna for each stage.

The first stage begins with quasi-random points, each later one with the best settings of the stage before; a sampler
proposes the other trials. A batch of trials is asked for before any of it is evaluated, and the sampler of a trial is seeded
by the number of the trial alone: so the trials of a search depend neither on the number of workers nor on interruptions.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import optuna
from optuna.samplers import BaseSampler
from optuna.storages import BaseStorage
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState

from tikhon.errors import InputError
from tikhon.search.encoding import Encoding, n_points, sobol_points
from tikhon.search.evaluation import Job
from tikhon.search.sampler import Evaluated
from tikhon.search.space import Params, Space
from tikhon.search.stages import Stage
from tikhon.search.storage import quiet
from tikhon.search.trials import Trial, record, recorded
from tikhon.search.workers import Workers

AGAIN = 10  # proposals that repeat a trial, before an untried point is drawn


class MakeSampler(Protocol):
    """A sampler for one trial of a stage that trains on a share of the rows, given the trials of earlier stages."""

    def __call__(self, seed: int, earlier: Sequence[Evaluated], share: float) -> BaseSampler: ...


@dataclass(frozen=True, eq=False, kw_only=True)
class Plan:
    """What a search does, whoever evaluates its trials."""

    name: str
    space: Space
    stages: Sequence[Stage]
    n_trials: Sequence[int]  # of each stage, with those that it begins with
    n_initial: int
    n_best: int
    batch_size: int
    metric: str
    seed: int
    make_sampler: MakeSampler


@dataclass(eq=False)
class Found:
    """The trials of each stage, in the order of their numbers, and why the search ended."""

    by_stage: list[list[Trial]] = field(default_factory=list)
    ended: str = ""  # "", "timeout" or "interrupted"
    notes: list[str] = field(default_factory=list)

    @property
    def trials(self) -> list[tuple[int, Trial]]:
        """All trials with the place of their stage."""
        return [(place, trial) for place, own in enumerate(self.by_stage) for trial in own]


OnTrial = Callable[[Stage, Trial], None]


def search(
    plan: Plan,
    workers: Workers,
    storage: BaseStorage,
    *,
    claim: Callable[[optuna.Study], None],
    seconds: float = float("inf"),
    on_trial: OnTrial | None = None,
) -> Found:
    """Run all stages; trials that the storage holds already are not evaluated again.

    ``claim`` checks that a study belongs to this search. The time limit ends the search between trials.
    """
    found = Found()
    clock = _Clock(seconds)
    try:
        for place, stage in enumerate(plan.stages):
            study = _study(f"{plan.name}/{stage.number}", storage)
            claim(study)
            found.by_stage.append([])
            whole = _StageSearch(plan, place, study, workers, clock, on_trial, found).run()
            if not whole:
                found.ended = "timeout"
                break
            if not any(trial.status == "ok" for trial in found.by_stage[-1]):
                break
    except KeyboardInterrupt:
        found.ended = "interrupted"
    return found


def _study(name: str, storage: BaseStorage) -> optuna.Study:
    with quiet():
        if name not in optuna.get_all_study_names(storage):
            return optuna.create_study(study_name=name, storage=storage, direction="maximize")
        study = optuna.load_study(study_name=name, storage=storage)
    if study.directions != [StudyDirection.MAXIMIZE]:
        raise InputError(f"the study {name!r} was not made by tikhon; name another study, or another storage")
    return study


class _Clock:
    """Seconds since the search began, earlier sessions included."""

    def __init__(self, seconds: float) -> None:
        self._start = time.monotonic()
        self._before = 0.0
        self.deadline = self._start + seconds

    def resume(self, elapsed: float) -> None:
        self._before = max(self._before, elapsed)

    def read(self) -> float:
        return self._before + time.monotonic() - self._start


class _StageSearch:
    def __init__(
        self, plan: Plan, place: int, study: optuna.Study, workers: Workers, clock: _Clock, on_trial: OnTrial | None,
        found: Found,
    ) -> None:  # fmt: skip
        self._plan, self._stage, self._study, self._workers = plan, plan.stages[place], study, workers
        self._clock, self._on_trial, self._found = clock, on_trial, found
        self._target = plan.n_trials[place]
        self._stored = recorded(study)
        for trial in self._stored.values():
            self._clock.resume(trial.elapsed)
        self._first = self._first_params(place)
        self._earlier = [
            Evaluated(trial.params, trial.value, plan.stages[before].share)
            for before, own in enumerate(found.by_stage[:-1])
            for trial in own
            if trial.status == "ok"
        ]

    def run(self) -> bool:
        """Whether the stage was completed in time."""
        done = self._found.by_stage[-1]
        while len(done) < self._target:
            batch = self._batch(len(done))
            if not batch:
                self._found.notes.append(f"stage {self._stage.number} tried all {len(done)} points of the space")
                return True
            finished: dict[int, Trial] = {}
            try:
                self._evaluate(batch, finished)
            finally:  # an interruption keeps what is complete
                done += [finished[number] for number, _ in batch if number in finished]
            if len(finished) < len(batch):
                return False
        return True

    def _first_params(self, place: int) -> list[Params]:
        plan = self._plan
        if place == 0:
            count = min(plan.n_initial, plan.n_trials[0])
            chosen = sobol_points(plan.space.distributions, count, plan.seed)
        else:
            before = [trial for trial in self._found.by_stage[place - 1] if trial.status == "ok"]
            ranked = sorted(before, key=lambda trial: (-trial.value, trial.number))
            chosen = [trial.params for trial in ranked[: min(plan.n_best, plan.n_trials[place])]]
        return list({_key(params): params for params in chosen}.values())

    def _batch(self, number: int) -> list[tuple[int, Params]]:
        """The next trials: those that a stage begins with are one batch, since none depends on another."""
        if number < len(self._first):
            return list(enumerate(self._first))[number:]
        count = min(self._plan.batch_size, self._target - number)
        numbers = range(number, number + count)
        if all(one in self._stored for one in numbers):
            return [(one, self._stored[one].params) for one in numbers]
        # Samplers see a study in memory, made anew: it is the same for a search that is resumed.
        with quiet():
            mirror = optuna.create_study(direction="maximize")
        mirror.add_trials([_told(trial, self._plan.space) for trial in self._found.by_stage[-1]])
        batch: list[tuple[int, Params]] = []
        for one in numbers:
            params = self._asked(mirror, one, {_key(params) for _, params in batch})
            if params is None:
                break
            batch.append((one, params))
        return batch

    def _asked(self, mirror: optuna.Study, number: int, running: set[str]) -> Params | None:
        """A proposal that is no repetition; None if all points of the space have been tried."""
        plan = self._plan
        distributions = plan.space.distributions
        tried = running | {_key(trial.params) for trial in self._found.by_stage[-1]}
        size = n_points(distributions)
        if size is not None and len(tried) >= size:
            return None
        for attempt in range(AGAIN):
            seed = int(
                np.random.SeedSequence((plan.seed, self._stage.number, number, attempt)).generate_state(1)[0] >> 1
            )
            mirror.sampler = plan.make_sampler(seed, self._earlier, self._stage.share)
            asked = mirror.ask(distributions)
            if _key(asked.params) not in tried:
                return dict(asked.params)
            mirror.tell(asked.number, state=TrialState.FAIL)
            if size is None:
                return dict(asked.params)  # the sampler insists on one point of infinitely many
        encoding = Encoding(distributions)
        places = [encoding.index(trial.params) for trial in self._found.by_stage[-1]]
        visited = {place for place in places if place is not None}
        drawn = encoding.unvisited(visited, np.random.default_rng(seed))
        return next((params for params in drawn if _key(params) not in tried), None)

    def _evaluate(self, batch: Sequence[tuple[int, Params]], finished: dict[int, Trial]) -> None:
        """Fill ``finished`` with the trials of a batch, those in the storage first."""
        plan, stage, params_of = self._plan, self._stage, dict(batch)
        for number in params_of.keys() & self._stored.keys():
            finished[number] = self._stored[number]
            _check_same_params(self._stored[number], params_of[number], self._study.study_name)
        jobs = [
            Job(number, plan.space.values_at(params, stage.share), stage.splits)
            for number, params in batch
            if number not in finished
        ]
        for number, scores in self._workers.evaluate(jobs, self._clock.deadline):
            trial = Trial(number, params_of[number], scores, plan.metric, self._clock.read())
            record(self._study, trial, plan.space.distributions)
            finished[number] = trial
            if self._on_trial is not None:
                self._on_trial(stage, trial)


def _key(params: Params) -> str:
    return repr(sorted(params.items()))


def _told(trial: Trial, space: Space) -> FrozenTrial:
    return optuna.trial.create_trial(params=trial.params, distributions=space.distributions, value=trial.value)


def _check_same_params(trial: Trial, params: Params, study: str) -> None:
    if _key(trial.params) != _key(params):
        raise InputError(
            f"trial {trial.number} of the study {study!r} has {trial.params}, where this search would have {params}: the "
            "versions of its sampler differ; name another storage or study"
        )
