"""Samplers by name, or by a function of a seed."""

import inspect
from collections.abc import Sequence
from typing import Any

import optuna
from optuna.samplers import BaseSampler

from tikhon.errors import InputError, MissingExtra
from tikhon.search.coordinator import MakeSampler
from tikhon.search.sampler import Evaluated, GaussianProcessSampler

FROM_TRIAL = 2  # the search itself makes the quasi-random points with which a stage begins
NAMES = ("gp", "tpe", "random", "optuna-gp")


def sampler_maker(sampler: Any, *, share_trials: bool) -> MakeSampler:
    """Makes the sampler of a trial.

    Parameters
    ----------
    sampler : str or callable
        "gp", "tpe", "random", "optuna-gp", or what makes a sampler of Optuna from ``seed=``, such as a class of samplers.
    share_trials : bool
        Whether "gp" learns from the trials of earlier stages.
    """
    if isinstance(sampler, BaseSampler):
        raise InputError(
            f"sampler={sampler!r}: a search makes the sampler of each trial anew, so that it can be resumed: write "
            f"sampler={type(sampler).__name__}, or a partial of it"
        )
    if sampler == "gp":
        return lambda seed, earlier, share: GaussianProcessSampler(
            seed, earlier=earlier if share_trials else (), fraction=share, n_startup=FROM_TRIAL
        )
    if sampler == "tpe":
        return _seeded(optuna.samplers.TPESampler)
    if sampler == "random":
        return _seeded(optuna.samplers.RandomSampler)
    if sampler == "optuna-gp":
        try:
            import torch  # noqa: F401  # without it, Optuna would fail in the middle of the search
        except ImportError:
            raise MissingExtra("sampler='optuna-gp' needs PyTorch: pip install 'tikhon[search-gp]'") from None
        return _seeded(optuna.samplers.GPSampler)
    if isinstance(sampler, str) or not callable(sampler):
        raise InputError(
            f"sampler={sampler!r}: write one of {', '.join(map(repr, NAMES))}, or a sampler class of Optuna"
        )
    if "seed" not in inspect.signature(sampler).parameters:
        raise InputError(f"sampler={sampler!r} takes no seed: trials could not be repeated")
    return _seeded(sampler)


def _seeded(make: Any) -> MakeSampler:
    def made(seed: int, earlier: Sequence[Evaluated], share: float) -> BaseSampler:
        sampler: BaseSampler = make(seed=seed % 2**31)
        return sampler

    return made
