"""scikit-learn faces: check, encode, tune, set attributes; no numerics."""

from tikhon.estimators.chain import ChainCRF
from tikhon.estimators.files import load
from tikhon.estimators.folder import RNAFolder
from tikhon.estimators.logistic import LogisticRegression
from tikhon.estimators.ridge import Ridge

__all__ = ["ChainCRF", "LogisticRegression", "RNAFolder", "Ridge", "load"]
