"""Warnings that point to the user's own line and are recorded in the result of a fit."""

import sys
import warnings
from types import FrameType
from typing import Protocol

SKIPPED = {__name__.partition(".")[0], "sklearn"}  # scikit-learn may call our methods for the user


class Warn(Protocol):
    """Raises a warning; implementations may also record it."""

    def __call__(self, message: str, category: type[Warning]) -> None: ...


def warn_user(message: str, category: type[Warning]) -> None:
    """Raise a warning that points to the first line outside of this package and scikit-learn."""
    warnings.warn(message, category, stacklevel=_user_stacklevel())


class FitWarnings:
    """Raises the warnings of one fit as they occur, and collects their messages for ``tuning_.warnings``."""

    def __init__(self) -> None:
        self.messages: list[str] = []

    def __call__(self, message: str, category: type[Warning]) -> None:
        self.messages.append(message)
        warn_user(message, category)


def _user_stacklevel() -> int:
    """The ``stacklevel`` with which the caller's ``warnings.warn`` names the innermost frame of neither package."""
    frame: FrameType | None = sys._getframe(1)
    level = 1
    while frame is not None and str(frame.f_globals.get("__name__")).partition(".")[0] in SKIPPED:
        frame, level = frame.f_back, level + 1
    return level
