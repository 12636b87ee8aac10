"""Slow, obvious oracles: loops over rows and classes with the mathematics written out."""

import math

import numpy as np


def split_weights(weights, n_outputs, n_columns, fit_intercept):
    coefficients = weights[: n_outputs * n_columns].reshape(n_outputs, n_columns)
    intercepts = weights[n_outputs * n_columns :] if fit_intercept else np.zeros(n_outputs)
    return coefficients, intercepts


def logistic_loss(X, y, weights, fit_intercept, row_weights):
    coefficients, intercepts = split_weights(weights, 1, X.shape[1], fit_intercept)
    total = 0.0
    for x, label, a in zip(X, y, row_weights, strict=True):
        score = math.fsum(x * coefficients[0]) + intercepts[0]
        total += a * -math.log(1 / (1 + math.exp(-score)) if label == 1 else 1 / (1 + math.exp(score)))
    return total


def softmax_loss(X, y, n_classes, weights, fit_intercept, row_weights):
    coefficients, intercepts = split_weights(weights, n_classes, X.shape[1], fit_intercept)
    total = 0.0
    for x, label, a in zip(X, y, row_weights, strict=True):
        scores = [math.fsum(x * coefficients[k]) + intercepts[k] for k in range(n_classes)]
        total += a * -math.log(math.exp(scores[label]) / math.fsum(map(math.exp, scores)))
    return total


def squared_loss(X, Y, weights, fit_intercept, row_weights):
    n_targets = Y.shape[1]
    coefficients, intercepts = split_weights(weights, n_targets, X.shape[1], fit_intercept)
    total = 0.0
    for x, y, a in zip(X, Y, row_weights, strict=True):
        for t in range(n_targets):
            total += 0.5 * a * (math.fsum(x * coefficients[t]) + intercepts[t] - y[t]) ** 2
    return total


def ridge(X, y, strength, fit_intercept, row_weights):
    """The closed form, with a dense solve; ``strength`` has one entry per column."""
    design = np.column_stack([X, np.ones(len(X))]) if fit_intercept else X
    penalty = np.diag(np.append(strength, 0.0) if fit_intercept else strength)
    return np.linalg.solve(design.T @ (row_weights[:, None] * design) + penalty, design.T @ (row_weights * y))


def dense_hessian(objective, weights):
    """Column by column from products."""
    product = objective.hessian_at(weights)
    return np.column_stack([product(unit) for unit in np.eye(objective.n_weights)])
