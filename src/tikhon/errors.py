"""Exceptions and warnings of tikhon.

TikhonError
├── InputError          (also a ValueError) invalid data or parameters: names the value, the place and the remedy
│   ├── FileFormatError a file that is truncated, edited, of a newer version or of another kind
│   └── AllTrialsFailed (also a TypeError) every trial of a search failed: shows the first traceback
├── MissingCapability   (also a TypeError) a tuner or solver needs something that this objective does not provide
└── MissingExtra        (also an ImportError) an optional dependency is not installed

TuningWarning           (a UserWarning) the result is usable but should be checked: a strength at a bound, weights shrunk to 0
                        (tuning that did not converge raises scikit-learn's ConvergenceWarning)
"""


class TikhonError(Exception):
    """Base of all errors that tikhon raises deliberately."""


class InputError(TikhonError, ValueError):
    """Invalid input; the message names the value, the place and what would be accepted."""


class FileFormatError(InputError):
    """A file that is damaged, of a newer version, or of another kind."""


class AllTrialsFailed(InputError, TypeError):
    """Every trial of a search failed. Fits raise ValueErrors and TypeErrors on bad input: so does their search."""


class MissingCapability(TikhonError, TypeError):
    """An objective lacks what a tuner or solver needs; the message names the missing method."""


class MissingExtra(TikhonError, ImportError):
    """An optional dependency is not installed; the message names the extra that installs it."""


class TuningWarning(UserWarning):
    """The result is usable but should be checked; the message suggests what to try."""
