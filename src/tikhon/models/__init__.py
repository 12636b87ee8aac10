"""Objectives, in a folder for each family. Imports are lazy: a model of molecules does not need linear algebra."""

from typing import TYPE_CHECKING

from tikhon.lazy import imported_when_used

if TYPE_CHECKING:
    from tikhon.models.linear.least_squares import LeastSquares
    from tikhon.models.linear.logistic import Logistic
    from tikhon.models.linear.noise import NoiseIntegrated
    from tikhon.models.linear.softmax import Softmax

__all__ = ["LeastSquares", "Logistic", "NoiseIntegrated", "Softmax"]

__getattr__ = imported_when_used(
    __name__,
    {
        "LeastSquares": "tikhon.models.linear.least_squares",
        "Logistic": "tikhon.models.linear.logistic",
        "NoiseIntegrated": "tikhon.models.linear.noise",
        "Softmax": "tikhon.models.linear.softmax",
    },
)
