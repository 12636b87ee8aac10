"""What tikhon raises and warns.

TikhonError
├── InputError          (also a ValueError) bad data, bad parameters: names the value, the place and the remedy
│   └── FileFormatError a file that is cut, edited, of a newer version or of another kind
├── MissingCapability   (also a TypeError) a tuner or solver needs something that this objective does not offer
└── MissingExtra        (also an ImportError) an optional dependency is not installed

TuningWarning           (a UserWarning) the answer stands, but look at it: a bound was hit, weights vanished
                        (that a tuning did not converge is told by scikit-learn's ConvergenceWarning)
"""


class TikhonError(Exception):
    """Base of all errors raised by tikhon on purpose."""


class InputError(TikhonError, ValueError):
    """Input that cannot be used; the message names the value, the place and what would be accepted."""


class FileFormatError(InputError):
    """A file that is damaged, of a newer version, or not what it should be."""


class MissingCapability(TikhonError, TypeError):
    """An objective lacks what a tuner or solver needs; the message names the missing method."""


class MissingExtra(TikhonError, ImportError):
    """An optional dependency is not installed; the message names the extra that brings it."""


class TuningWarning(UserWarning):
    """The result is usable but deserves a look; the message says what to try."""
