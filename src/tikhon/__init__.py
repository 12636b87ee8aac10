"""tikhon learns how strongly to regularise: one L2 strength for each group of weights, at the cost of a few fits.

The names below are public. They are imported on first use, which keeps ``import tikhon`` fast.
"""

from typing import TYPE_CHECKING

from tikhon._version import __version__
from tikhon.errors import InputError, TikhonError, TuningWarning
from tikhon.estimators import ESTIMATORS
from tikhon.lazy import imported_when_used

if TYPE_CHECKING:
    from tikhon.estimators.chain.crf import ChainCRF
    from tikhon.estimators.chain.hidden_crf import HiddenUnitCRF
    from tikhon.estimators.files import load
    from tikhon.estimators.folding.folder import RNAFolder
    from tikhon.estimators.linear.logistic import LogisticRegression
    from tikhon.estimators.linear.ridge import Ridge
    from tikhon.groups import Groups
    from tikhon.search.multistage import MultiStageSearchCV
    from tikhon.tuners import MM, Auto, Direct, Evidence, Gradient, Grid, LeaveOneOut

__all__ = [
    "MM",
    "Auto",
    "ChainCRF",
    "Direct",
    "Evidence",
    "Gradient",
    "Grid",
    "Groups",
    "HiddenUnitCRF",
    "InputError",
    "LeaveOneOut",
    "LogisticRegression",
    "MultiStageSearchCV",
    "RNAFolder",
    "Ridge",
    "TikhonError",
    "TuningWarning",
    "__version__",
    "load",
]

__getattr__ = imported_when_used(
    __name__,
    {
        **ESTIMATORS,
        "load": "tikhon.estimators.files",
        "MultiStageSearchCV": "tikhon.search.multistage",
        "Groups": "tikhon.groups",
        "Auto": "tikhon.tuners",
        "MM": "tikhon.tuners",
        "Direct": "tikhon.tuners",
        "Evidence": "tikhon.tuners",
        "Gradient": "tikhon.tuners",
        "LeaveOneOut": "tikhon.tuners",
        "Grid": "tikhon.tuners",
    },
)


def __dir__() -> list[str]:
    return sorted(__all__)
