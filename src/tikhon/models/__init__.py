"""One file per objective. A model of molecules has no use for linear algebra: what is not used is not imported."""

from typing import TYPE_CHECKING

from tikhon.lazy import imported_when_used

if TYPE_CHECKING:
    from tikhon.models.least_squares import LeastSquares
    from tikhon.models.logistic import Logistic
    from tikhon.models.noise import NoiseIntegrated
    from tikhon.models.softmax import Softmax

__all__ = ["LeastSquares", "Logistic", "NoiseIntegrated", "Softmax"]

__getattr__ = imported_when_used(
    __name__,
    {
        "LeastSquares": "tikhon.models.least_squares",
        "Logistic": "tikhon.models.logistic",
        "NoiseIntegrated": "tikhon.models.noise",
        "Softmax": "tikhon.models.softmax",
    },
)
