"""The outer problem: learn the strengths. One file per method."""

from tikhon.errors import InputError
from tikhon.tuners.auto import Auto
from tikhon.tuners.base import Problem, Tuner
from tikhon.tuners.direct import Direct
from tikhon.tuners.evidence import Evidence
from tikhon.tuners.fixed import Fixed
from tikhon.tuners.gradient import Gradient
from tikhon.tuners.grid import Grid
from tikhon.tuners.loo import LeaveOneOut
from tikhon.tuners.mm import MM

TUNERS: dict[str, type[Tuner]] = {
    "auto": Auto,
    "loo": LeaveOneOut,
    "evidence": Evidence,
    "grid": Grid,
    "mm": MM,
    "direct": Direct,
    "gradient": Gradient,
}

__all__ = [
    "MM",
    "TUNERS",
    "Auto",
    "Direct",
    "Evidence",
    "Fixed",
    "Gradient",
    "Grid",
    "LeaveOneOut",
    "Problem",
    "Tuner",
    "make_tuner",
]


def make_tuner(tuner: str | Tuner | None) -> Tuner:
    """A tuner from its name, None for given strengths, or a tuner itself."""
    if tuner is None:
        return Fixed()
    if isinstance(tuner, str):
        if tuner not in TUNERS:
            raise InputError(f"tuner={tuner!r} is not known: write None or one of {', '.join(map(repr, TUNERS))}")
        return TUNERS[tuner]()
    if isinstance(tuner, type) or not isinstance(tuner, Tuner):
        raise InputError(
            f"tuner={tuner!r} is neither a name nor an object with a 'tune' method (a class must be called: MM())"
        )
    return tuner
