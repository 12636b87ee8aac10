"""scikit-learn faces: check, encode, tune, set attributes; no numerics."""

from tikhon.estimators.files import load
from tikhon.estimators.logistic import LogisticRegression
from tikhon.estimators.ridge import Ridge

__all__ = ["LogisticRegression", "Ridge", "load"]
