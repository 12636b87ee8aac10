"""One file per objective."""

from tikhon.models.least_squares import LeastSquares
from tikhon.models.logistic import Logistic
from tikhon.models.noise import NoiseIntegrated
from tikhon.models.softmax import Softmax

__all__ = ["LeastSquares", "Logistic", "NoiseIntegrated", "Softmax"]
