"""scikit-learn estimators: check, encode, tune, set attributes; no numerics.

``base`` has what all share; ``linear``, ``chain`` and ``folding`` have the estimators. Nothing is imported here: a ridge
regression has no use for the compiled kernels of chains and molecules, which take as long to import as all the rest.
"""

# Every estimator and its module: what model files may name, and what ``import tikhon`` offers.
ESTIMATORS = {
    "LogisticRegression": "tikhon.estimators.linear.logistic",
    "Ridge": "tikhon.estimators.linear.ridge",
    "ChainCRF": "tikhon.estimators.chain.crf",
    "RNAFolder": "tikhon.estimators.folding.folder",
}
