"""A chain CRF in a model file: the names of its features, its pairs of features and labels, its transitions."""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tikhon.data.values import Mismatch
from tikhon.estimators.chain.token_features import FeatureEncoder, Numbering
from tikhon.estimators.state import Arrays
from tikhon.models.chain.feature_table import FeatureTable
from tikhon.models.chain.layout import Layout
from tikhon.models.chain.transitions import Transitions


def chain_state(encoder: FeatureEncoder, layout: Layout, arrays: Arrays) -> dict[str, Any]:
    """Fill the arrays and return the header entries."""
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
    """Restore from a header and arrays that agree with ``description.py``; that names differ is checked here."""
    numbers = Numbering()
    if header["n_columns"] is None:
        names = _unpacked(arrays["features.text"], arrays["features.ends"])
        numbers.update({name: number for number, name in enumerate(names)})
        if len(names) != len(numbers):
            raise Mismatch("features.text", "a list with a name twice", "names that differ")
    table = FeatureTable(
        header["n_features"], header["n_labels"], arrays["pairs.features"].astype(np.int32),
        arrays["pairs.labels"].astype(np.int32), header["n_dense_pairs"],
    )  # fmt: skip
    rows = tuple(arrays[f"transitions.{number}"].astype(np.int64) for number in range(1, header["order"] + 1))
    layout = Layout(table, Transitions(header["n_labels"], header["order"], rows))
    return FeatureEncoder(numbers, header["n_columns"]), layout


def _packed(names: list[str]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Concatenated texts, and where each ends; surrogates, which users' text may contain, are preserved."""
    encoded = [name.encode("utf-8", "surrogatepass") for name in names]
    return np.frombuffer(b"".join(encoded), np.uint8), np.cumsum([len(text) for text in encoded], dtype=np.int64)


def _unpacked(text: NDArray[np.uint8], ends: NDArray[np.int64]) -> list[str]:
    content, places = text.tobytes(), [0, *ends.tolist()]
    if places[-1] != len(content):
        raise Mismatch("features.text", f"of {len(content)} bytes", f"{places[-1]}, where the last name ends")
    try:
        return [content[start:end].decode("utf-8", "surrogatepass") for start, end in pairwise(places)]
    except UnicodeDecodeError as error:
        raise Mismatch("features.text", f"no UTF-8 text ({error.reason})", "UTF-8 text") from None
