"""scikit-learn estimators: check, encode, tune, set attributes; no numerics.

``base`` has the common part; ``linear``, ``chain`` and ``folding`` have the estimators. Nothing is imported here: a ridge
regression does not need the compiled kernels of chains and molecules, which take as long to import as everything else.
"""

# Every estimator and its module, as allowed in model files and exported by ``import tikhon``.
ESTIMATORS = {
    "LogisticRegression": "tikhon.estimators.linear.logistic",
    "Ridge": "tikhon.estimators.linear.ridge",
    "ChainCRF": "tikhon.estimators.chain.crf",
    "HiddenUnitCRF": "tikhon.estimators.chain.hidden_crf",
    "RNAFolder": "tikhon.estimators.folding.folder",
}
