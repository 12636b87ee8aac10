"""The sampler in studies of Optuna: determinism, finite spaces, batches, failures, minima of known functions, fractions."""

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import optuna
import pytest
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import TrialState

from tikhon.errors import InputError
from tikhon.search.encoding import Encoding, n_points, sobol_points
from tikhon.search.sampler import Evaluated, GaussianProcessSampler

Objective = Callable[[Mapping[str, Any]], float]

SQUARE: dict[str, BaseDistribution] = {"x": FloatDistribution(-5.0, 10.0), "y": FloatDistribution(0.0, 15.0)}
FINITE: dict[str, BaseDistribution] = {"n": IntDistribution(1, 6), "kind": CategoricalDistribution(["a", "b", "c"])}
MIXED: dict[str, BaseDistribution] = {
    "rate": FloatDistribution(1e-4, 1e2, log=True),
    "kind": CategoricalDistribution(["a", "b", "c"]),
    "depth": IntDistribution(1, 12),
    "units": IntDistribution(1, 1000, log=True),
}
BRANIN = 0.39788736


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    yield
    optuna.logging.set_verbosity(before)


def branin(params: Mapping[str, Any]) -> float:
    x, y = params["x"], params["y"]
    curve = y - 5.1 / (4.0 * math.pi**2) * x * x + 5.0 / math.pi * x - 6.0
    return curve * curve + 10.0 * (1.0 - 1.0 / (8.0 * math.pi)) * math.cos(x) + 10.0


def mixed(params: Mapping[str, Any]) -> float:
    """Smallest, 0, at (0.1, "b", 9, 50)."""
    off = {"a": 1.0, "b": 0.0, "c": 2.0}[params["kind"]]
    rate, units = math.log10(params["rate"]) + 1.0, math.log(params["units"] / 50.0)
    return rate * rate + off + 0.05 * (params["depth"] - 9) ** 2 + 0.2 * units * units


def run(
    sampler: GaussianProcessSampler,
    space: dict[str, BaseDistribution],
    objective: Objective,
    count: int,
    *,
    direction: str = "minimize",
    enqueued: int = 0,
) -> optuna.Study:
    study = optuna.create_study(sampler=sampler, direction=direction)
    for params in sobol_points(space, enqueued, 7):
        study.enqueue_trial(params)
    for _ in range(count):
        trial = study.ask(space)
        study.tell(trial, objective(trial.params))
    return study


def tried(study: optuna.Study) -> list[dict[str, Any]]:
    return [trial.params for trial in study.trials]


def test_same_seed_and_trials_give_the_same_points() -> None:
    first, second = (tried(run(GaussianProcessSampler(3), MIXED, mixed, 14)) for _ in range(2))
    assert first == second
    assert tried(run(GaussianProcessSampler(4), MIXED, mixed, 14))[11:] != first[11:]


def test_a_new_sampler_continues_a_study_as_the_old_one_would() -> None:
    whole = run(GaussianProcessSampler(3), SQUARE, branin, 14)
    study = run(GaussianProcessSampler(3), SQUARE, branin, 12)
    study.sampler = GaussianProcessSampler(3)
    for _ in range(2):
        trial = study.ask(SQUARE)
        study.tell(trial, branin(trial.params))
    assert tried(study) == tried(whole)


def test_maximising_is_minimising_the_negative() -> None:
    least = run(GaussianProcessSampler(0), SQUARE, branin, 14)
    most = run(GaussianProcessSampler(0), SQUARE, lambda params: -branin(params), 14, direction="maximize")
    assert tried(least) == tried(most)


def test_first_points_are_those_of_the_sobol_sequence() -> None:
    study = run(GaussianProcessSampler(5, n_startup=8), SQUARE, branin, 8)
    assert tried(study)[1:] == sobol_points(SQUARE, 8, 5)[1:]  # the first trial of a study has no space yet


def test_constant_and_failed_values_keep_to_the_sobol_sequence() -> None:
    for value in (1.0, math.inf):
        study = run(GaussianProcessSampler(5, n_startup=3), SQUARE, lambda _, value=value: value, 8)  # type: ignore[misc]
        assert tried(study)[1:] == sobol_points(SQUARE, 8, 5)[1:]


def test_single_values_and_parameters_unknown_before_work() -> None:
    space = {**SQUARE, "fixed": FloatDistribution(1.0, 1.0)}
    study = run(GaussianProcessSampler(0, n_startup=3), space, branin, 6)
    trial = study.ask({**space, "new": IntDistribution(0, 5)})
    assert trial.params["fixed"] == 1.0
    assert 0 <= trial.params["new"] <= 5
    assert study.sampler.infer_relative_search_space(study, study.trials[-1]).keys() == {"x", "y"}


def test_optimize_and_define_by_run_work() -> None:
    study = optuna.create_study(sampler=GaussianProcessSampler(0, n_startup=4))
    study.optimize(lambda trial: abs(trial.suggest_float("x", 1e-3, 1e3, log=True) - 1.0), n_trials=12, n_jobs=2)
    assert len(study.trials) == 12
    assert study.best_value < 0.5


def test_finite_spaces_are_exhausted_before_a_point_comes_again() -> None:
    count = n_points(FINITE)
    assert count == 18
    study = run(GaussianProcessSampler(1), FINITE, lambda params: params["n"] + (params["kind"] == "b"), count + 3)
    encoding = Encoding(FINITE)
    assert len(encoding.visited(tried(study)[:count])) == count
    assert len(study.trials) == count + 3


def test_points_of_larger_finite_spaces_do_not_come_twice() -> None:
    space: dict[str, BaseDistribution] = {name: IntDistribution(0, 9) for name in "abcd"}
    study = run(GaussianProcessSampler(1), space, lambda params: sum(value**2 for value in params.values()), 40)
    assert len(Encoding(space).visited(tried(study))) == 40
    assert study.best_value <= 1.0


def test_running_trials_of_a_finite_space_are_not_repeated() -> None:
    study = run(GaussianProcessSampler(1), FINITE, lambda params: params["n"], 12)
    asked = [study.ask(FINITE).params for _ in range(6)]
    assert len(Encoding(FINITE).visited([*tried(study)[:12], *asked])) == 18


def test_a_batch_is_spread_out() -> None:
    study = run(GaussianProcessSampler(2), SQUARE, branin, 12)
    encoding = Encoding(SQUARE)
    batch = np.array([encoding.encode(study.ask(SQUARE).params) for _ in range(5)])
    distances = np.linalg.norm(batch[:, None] - batch[None], axis=2)[np.triu_indices(5, 1)]
    assert distances.min() > 0.01


@pytest.mark.parametrize("bad", [math.inf, -math.inf])
@pytest.mark.parametrize("direction", ["minimize", "maximize"])
def test_infinite_values_are_failures_whatever_their_sign(bad: float, direction: str) -> None:
    sign = 1.0 if direction == "minimize" else -1.0

    def failing(params: Mapping[str, Any]) -> float:
        return bad if params["x"] < 2.0 else sign * branin(params)

    study = run(GaussianProcessSampler(0), SQUARE, failing, 30, direction=direction)
    good = [trial.params for trial in study.trials if math.isfinite(trial.value or 0.0)]
    assert sum(params["x"] >= 2.0 for params in tried(study)[10:]) >= 10
    assert min(map(branin, good)) < BRANIN + 0.2


def test_failed_and_pruned_trials_are_left_out() -> None:
    study = run(GaussianProcessSampler(0, n_startup=5), FINITE, lambda params: params["n"], 6)
    for state in (TrialState.FAIL, TrialState.PRUNED):
        study.tell(study.ask(FINITE), state=state)
    study.tell(trial := study.ask(FINITE), 1.0)
    assert trial.params not in tried(study)[:8]


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_branin_is_minimised(seed: int) -> None:
    study = run(GaussianProcessSampler(seed), SQUARE, branin, 40)
    assert study.best_value - BRANIN < 0.01


@pytest.mark.parametrize("seed", [0, 1])
def test_mixed_parameters_are_optimised(seed: int) -> None:
    study = run(GaussianProcessSampler(seed), MIXED, mixed, 40)
    assert study.best_params["kind"] == "b"
    assert study.best_value < 0.05


def at_fraction(params: Mapping[str, Any], fraction: float) -> float:
    """Branin, shifted up and moved on less data."""
    less = 1.0 - fraction
    return branin({"x": params["x"] + 0.5 * less, "y": params["y"] - 0.5 * less}) + 20.0 * less


def earlier_values(count: int, seed: int) -> list[Evaluated]:
    study = run(GaussianProcessSampler(seed), SQUARE, lambda params: at_fraction(params, 0.3), count)
    return [Evaluated(trial.params, float(trial.value or 0.0), 0.3) for trial in study.trials]


def test_evaluations_on_less_data_help() -> None:
    """Median regret after 8 trials: with 20 evaluations on 30 % of the data, much lower than without."""
    with_earlier, without = [], []
    for seed in range(3):
        helped = GaussianProcessSampler(100 + seed, earlier=earlier_values(20, seed))
        with_earlier.append(run(helped, SQUARE, branin, 8).best_value - BRANIN)
        without.append(run(GaussianProcessSampler(100 + seed, n_startup=4), SQUARE, branin, 8).best_value - BRANIN)
    assert np.median(with_earlier) < 0.3 * np.median(without)


def test_evaluations_at_the_same_fraction_are_as_those_of_the_study() -> None:
    done = run(GaussianProcessSampler(0), SQUARE, branin, 25)
    earlier = [Evaluated(trial.params, float(trial.value or 0.0), 0.5) for trial in done.trials]
    study = run(GaussianProcessSampler(1, earlier=earlier, fraction=0.5), SQUARE, branin, 6)
    assert study.best_value < BRANIN + 0.1


def test_evaluations_that_the_space_does_not_cover_are_left_out() -> None:
    strange = [Evaluated({"n": 1, "kind": "z"}, 1.0, 0.5), Evaluated({"n": 2}, 0.0, 0.5)]
    plain = run(GaussianProcessSampler(0), FINITE, lambda params: params["n"], 12)
    assert tried(run(GaussianProcessSampler(0, earlier=strange), FINITE, lambda params: params["n"], 12)) == tried(
        plain
    )


@pytest.mark.parametrize("fraction", [0.0, 1.5, math.nan])
def test_fractions_out_of_range_are_refused(fraction: float) -> None:
    with pytest.raises(InputError, match="above 0 and at most 1"):
        GaussianProcessSampler(0, fraction=fraction)
    with pytest.raises(InputError, match="above 0 and at most 1"):
        GaussianProcessSampler(0, earlier=[Evaluated({}, 0.0, fraction)])


def test_several_objectives_and_no_startup_are_refused() -> None:
    study = optuna.create_study(sampler=GaussianProcessSampler(0), directions=["minimize", "maximize"])
    study.add_trial(optuna.create_trial(params={"x": 0.0, "y": 1.0}, distributions=SQUARE, values=[0.0, 1.0]))
    with pytest.raises(InputError, match="needs one"):
        study.ask(SQUARE)
    with pytest.raises(InputError, match="n_startup=0"):
        GaussianProcessSampler(0, n_startup=0)
