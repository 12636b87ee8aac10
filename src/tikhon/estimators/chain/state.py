"""A chain CRF in a model file: the names of its features, its pairs of features and labels, its transitions."""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tikhon.estimators.chain.token_features import FeatureEncoder, Numbering
from tikhon.estimators.state import Arrays
from tikhon.models.chain.feature_table import FeatureTable
from tikhon.models.chain.layout import Layout
from tikhon.models.chain.transitions import Transitions


def chain_state(encoder: FeatureEncoder, layout: Layout, arrays: Arrays) -> dict[str, Any]:
    """Fills the arrays; returns the entries of the header."""
    arrays["pairs.features"] = layout.pair_features
    arrays["pairs.labels"] = layout.pair_labels
    for number, rows in enumerate(layout.transitions, start=1):
        arrays[f"transitions.{number}"] = rows.astype(np.int32)
    if encoder.n_columns is None:
        arrays["features.text"], arrays["features.ends"] = _packed(list(encoder.numbers))
    return {
        "n_columns": encoder.n_columns,
        "n_features": layout.n_features,
        "n_labels": layout.n_labels,
        "order": layout.order,
        "n_dense_pairs": layout.n_dense_pairs,
    }


def restored_chain(header: Mapping[str, Any], arrays: Arrays) -> tuple[FeatureEncoder, Layout]:
    numbers = Numbering()
    if header["n_columns"] is None:
        names = _unpacked(arrays["features.text"], arrays["features.ends"])
        numbers.update({name: number for number, name in enumerate(names)})
        if len(names) != len(numbers):
            raise ValueError("features")
    counts = (header[name] for name in ("n_features", "n_labels", "order", "n_dense_pairs"))
    n_features = len(numbers) if header["n_columns"] is None else header["n_columns"]
    if not all(type(count) is int for count in (*counts, n_features)) or n_features != header["n_features"]:
        raise ValueError("n_features, n_labels, order, n_dense_pairs")
    table = FeatureTable(
        header["n_features"], header["n_labels"], arrays["pairs.features"].astype(np.int32),
        arrays["pairs.labels"].astype(np.int32), header["n_dense_pairs"],
    )  # fmt: skip
    rows = tuple(arrays[f"transitions.{number}"].astype(np.int64) for number in range(1, header["order"] + 1))
    layout = Layout(table, Transitions(header["n_labels"], header["order"], rows))
    _check(layout, arrays["tuning.weights"])
    return FeatureEncoder(numbers, header["n_columns"]), layout


def _check(layout: Layout, weights: NDArray[np.float64]) -> None:
    """Kernels do not look at bounds: whatever a file says must be in them."""
    inside = (
        layout.order in (1, 2)
        and len(layout.pair_features) == len(layout.pair_labels)
        and 0 <= layout.n_dense_pairs <= layout.n_pairs
        and _within(layout.pair_features, layout.n_features)
        and _within(layout.pair_labels, layout.n_labels)
        and all(_within(rows, layout.n_labels) for rows in layout.transitions)
        and all(rows.ndim == 2 and rows.shape[1] == n for n, rows in enumerate(layout.transitions, start=2))
        and weights.shape == (layout.n_weights,)
        and _grouped(layout)
    )
    if not inside:
        raise ValueError("pairs")


def _within(numbers: NDArray[Any], count: int) -> bool:
    return bool(numbers.min(initial=0) >= 0 and numbers.max(initial=-1) < count)


def _grouped(layout: Layout) -> bool:
    """Pairs of one feature stand together, and are all dense or all listed."""
    features, split = layout.pair_features, layout.n_dense_pairs
    begins = np.ones(len(features), bool)
    begins[1:] = features[1:] != features[:-1]
    if split < len(features):
        begins[split] = True
    return int(begins.sum()) == len(np.unique(features))


def _packed(names: list[str]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Texts one after the other, and where each ends; surrogates, which users' text may hold, survive."""
    encoded = [name.encode("utf-8", "surrogatepass") for name in names]
    return np.frombuffer(b"".join(encoded), np.uint8), np.cumsum([len(text) for text in encoded], dtype=np.int64)


def _unpacked(text: NDArray[np.uint8], ends: NDArray[np.int64]) -> list[str]:
    content = text.tobytes()
    return [content[start:end].decode("utf-8", "surrogatepass") for start, end in pairwise([0, *ends.tolist()])]
