"""Estimators of linear models: ``logistic``, ``ridge`` and their common ``base``."""
