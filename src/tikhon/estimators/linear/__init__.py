"""Estimators of linear models: ``logistic``, ``ridge`` and, in ``base``, what they share."""
