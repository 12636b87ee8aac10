"""Preparation of a chain CRF's fit: sequence weights, weights of an earlier fit, a warning about memory."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.class_weight import compute_class_weight

from tikhon.errors import InputError, TuningWarning
from tikhon.estimators.checks import as_input_error, refuse_extreme_weights
from tikhon.estimators.memory import warn_if_too_large
from tikhon.estimators.user_warnings import Warn
from tikhon.models.chain.hidden_units import HiddenLayer
from tikhon.models.chain.layout import ChainLayout, Layout
from tikhon.models.chain.sequences import UNKNOWN, Sequences
from tikhon.objective import Vector

# Weight-sized vectors that a tuning holds at a time (L-BFGS memories, gradients of chunks, adjoints), and tables of steps.
VECTORS, TABLES = 40, 25
STEPS_PER_SECOND, LONG_PASS = 1.5e9, 10.0  # of one thread, and seconds of a pass that are worth a warning
TERMS_PER_SECOND, PRODUCTS_PER_SECOND = 1.5e9, 1e10  # of (hidden unit, label) and of (feature, hidden unit)


def sequence_weights(
    row_weights: Vector,
    class_weight: Mapping[Any, float] | str | None,
    codes: NDArray[np.int32],
    starts: NDArray[np.int64],
    classes: NDArray[Any],
) -> Vector:
    """Row weights times the mean class weight of each sequence's known labels."""
    if class_weight is None:
        return row_weights
    per_token = np.repeat(row_weights, np.diff(starts))
    known = codes != UNKNOWN
    if isinstance(class_weight, str) and class_weight == "balanced":
        sums = np.bincount(codes[known], per_token[known], len(classes))
        weights = np.divide(sums.sum(), len(classes) * sums, out=np.ones(len(classes)), where=sums > 0.0)
    else:
        with as_input_error(None, None):
            weights = np.asarray(compute_class_weight(class_weight, classes=classes, y=classes), dtype=float)
    bad = ~(np.isfinite(weights) & (weights > 0.0))
    if bad.any():
        raise InputError(f"class_weight of label {classes[bad][0]!r} must be a finite number larger than 0")
    refuse_extreme_weights("class_weight", weights)
    of_token = np.where(known, weights[codes], 0.0)
    sums, counts = np.add.reduceat(of_token, starts[:-1]), np.add.reduceat(known.astype(float), starts[:-1])
    return row_weights * np.divide(sums, counts, out=np.ones(len(sums)), where=counts > 0.0)


def carried_weights(
    old_names: Sequence[str],
    old_classes: NDArray[Any],
    old_layout: Layout,
    old_weights: Vector,
    names: Sequence[str],
    classes: NDArray[Any],
    layout: Layout,
) -> Vector:
    """Weights of an earlier fit in the layout of this one, matched by feature names and labels; 0 for new pairs."""
    features, labels = _old_numbers(old_names, names), _old_numbers(old_classes.tolist(), classes.tolist())
    start = np.zeros(layout.n_weights)
    start[: layout.n_pairs] = _looked_up(
        np.column_stack([old_layout.pair_features, old_layout.pair_labels]), old_weights[: old_layout.n_pairs],
        np.column_stack([features[layout.pair_features], labels[layout.pair_labels]]),
    )  # fmt: skip
    _carry_transitions(old_layout, old_weights, layout, labels, start)
    return start


def carried_hidden_weights(
    old_names: Sequence[str],
    old_classes: NDArray[Any],
    old_layout: ChainLayout[HiddenLayer],
    old_weights: Vector,
    names: Sequence[str],
    classes: NDArray[Any],
    layout: ChainLayout[HiddenLayer],
) -> Vector:
    """As ``carried_weights``; new features, labels and hidden units begin as in a cold start."""
    features, labels = _old_numbers(old_names, names), _old_numbers(old_classes.tolist(), classes.tolist())
    start = np.zeros(layout.n_weights)
    own, _ = layout.split(start)
    own[:] = layout.emission.start()
    n_units = min(layout.emission.n_hidden, old_layout.emission.n_hidden)
    old_w, old_b, old_v, old_c = old_layout.emission.parts(old_layout.split(old_weights)[0])
    w, b, v, c = layout.emission.parts(own)
    w[features >= 0, :n_units] = old_w[features[features >= 0], :n_units]
    v[labels >= 0, :n_units] = old_v[labels[labels >= 0], :n_units]
    b[:n_units], c[:, labels >= 0] = old_b[:n_units], old_c[:, labels[labels >= 0]]
    _carry_transitions(old_layout, old_weights, layout, labels, start)
    return start


def _old_numbers(old_names: Sequence[Any], names: Sequence[Any]) -> NDArray[np.intp]:
    """The number that each name had, -1 if it is new."""
    number_of = {name: number for number, name in enumerate(old_names)}
    return np.array([number_of.get(name, -1) for name in names], np.intp)


def _carry_transitions(
    old_layout: ChainLayout[Any], old_weights: Vector, layout: ChainLayout[Any], labels: NDArray[np.intp], start: Vector
) -> None:  # fmt: skip
    old_parts, parts = old_layout.transition_parts(old_weights), layout.transition_parts(start)
    for old_rows, old_part, rows, part in zip(
        old_layout.transitions, old_parts, layout.transitions, parts, strict=False
    ):
        part[:] = _looked_up(old_rows, old_part, labels[rows])


def _looked_up(old_keys: NDArray[np.int64], old_values: Vector, keys: NDArray[np.int64]) -> Vector:
    """The value of each key, a row of numbers; 0 for keys that are new or have a negative part."""
    if len(old_keys) == 0 or len(keys) == 0:
        return np.zeros(len(keys))
    known: NDArray[np.bool_] = np.all(keys >= 0, axis=1)
    shape = tuple((np.maximum(old_keys.max(axis=0), keys.max(axis=0)) + 1).tolist())
    old_codes = np.ravel_multi_index(tuple(old_keys.T), shape)
    codes = np.ravel_multi_index(tuple(np.where(known[:, None], keys, 0).T), shape)
    order = np.argsort(old_codes)
    place = np.minimum(np.searchsorted(old_codes, codes, sorter=order), len(order) - 1)
    found = known & (old_codes[order[place]] == codes)
    return np.where(found, old_values[order[place]], 0.0)


def warn_of_size(data: Sequences, layout: Layout, warn: Warn) -> None:
    """Warn before the work begins if memory is likely to be too small or a pass to take long, with estimates."""
    n_steps = layout.n_weights - layout.n_pairs if layout.steps.are_few else layout.n_labels ** (layout.order + 1)
    advice = "fewer labels, order=1 or all_pairs=False"
    _warn_of_memory(data, layout.n_weights, n_steps, f"use fewer features (drop rare ones), {advice}", warn)
    seconds = data.n_tokens * n_steps / STEPS_PER_SECOND
    if not layout.steps.are_few and seconds > LONG_PASS:
        _warn_of_time(data, f"{n_steps:,} steps between {data.n_labels:,} labels", seconds, advice, warn)


def warn_of_hidden_size(data: Sequences, layout: ChainLayout[HiddenLayer], warn: Warn) -> None:
    """As ``warn_of_size``."""
    n_hidden, n_steps = layout.emission.n_hidden, layout.n_labels ** (layout.order + 1)
    advice = "fewer hidden units or labels, or order=1"
    _warn_of_memory(data, layout.n_weights, n_steps, f"use fewer features (drop rare ones), {advice}", warn)
    n_terms = n_hidden * data.n_labels
    seconds = data.n_tokens * (n_terms / TERMS_PER_SECOND + n_steps / STEPS_PER_SECOND)
    seconds += 4.0 * len(data.features) * n_hidden / PRODUCTS_PER_SECOND
    if seconds > LONG_PASS:
        work = f"{n_hidden:,} hidden units and {n_steps:,} steps between {data.n_labels:,} labels"
        _warn_of_time(data, work, seconds, advice, warn)


def _warn_of_memory(data: Sequences, n_weights: int, n_steps: int, advice: str, warn: Warn) -> None:
    warn_if_too_large(
        8.0 * (VECTORS * n_weights + TABLES * n_steps) + 2.0 * data.features.nbytes,
        f"{n_weights:,} weights, {n_steps:,} steps between labels and {len(data.features):,} token features take",
        advice,
        warn,
    )


def _warn_of_time(data: Sequences, work: str, seconds: float, advice: str, warn: Warn) -> None:
    warn(
        f"a pass over {data.n_tokens:,} tokens with {work} takes about {seconds:.0f} s, and a tuning takes a hundred passes "
        f"or more: use {advice}",
        TuningWarning,
    )
