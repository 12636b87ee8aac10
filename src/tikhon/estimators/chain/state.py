"""Chains in model files: the names of features, the weights that exist, transitions."""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tikhon.data.values import Mismatch
from tikhon.estimators.chain.token_features import FeatureEncoder, Numbering
from tikhon.estimators.state import Arrays
from tikhon.models.chain.feature_table import FeatureTable
from tikhon.models.chain.hidden_units import HiddenLayer
from tikhon.models.chain.layout import ChainLayout, Layout
from tikhon.models.chain.transitions import Transitions


def chain_state(encoder: FeatureEncoder, layout: Layout, arrays: Arrays) -> dict[str, Any]:
    """Fill the arrays and return the header entries."""
    arrays["pairs.features"] = layout.pair_features
    arrays["pairs.labels"] = layout.pair_labels
    return _sequence_state(encoder, layout, arrays) | {"n_dense_pairs": layout.n_dense_pairs}


def hidden_unit_state(encoder: FeatureEncoder, layout: ChainLayout[HiddenLayer], arrays: Arrays) -> dict[str, Any]:
    """Fill the arrays and return the header entries."""
    layer = layout.emission
    own = {"n_hidden": layer.n_hidden, "in_best_states": layer.in_best_states}
    return _sequence_state(encoder, layout, arrays) | own


def _sequence_state(encoder: FeatureEncoder, layout: ChainLayout[Any], arrays: Arrays) -> dict[str, Any]:
    for number, rows in enumerate(layout.transitions, start=1):
        arrays[f"transitions.{number}"] = rows.astype(np.int32)
    if encoder.n_columns is None:
        arrays["features.text"], arrays["features.ends"] = _packed(list(encoder.numbers))
    return {
        "n_columns": encoder.n_columns,
        "n_features": encoder.n_features,
        "n_labels": layout.n_labels,
        "order": layout.order,
    }


def restored_chain(header: Mapping[str, Any], arrays: Arrays) -> tuple[FeatureEncoder, Layout]:
    """Restore from a header and arrays that agree with ``description.py``; that names differ is checked here."""
    table = FeatureTable(
        header["n_features"], header["n_labels"], arrays["pairs.features"].astype(np.int32),
        arrays["pairs.labels"].astype(np.int32), header["n_dense_pairs"],
    )  # fmt: skip
    return _restored_encoder(header, arrays), Layout(table, _restored_steps(header, arrays))


def restored_hidden_units(
    header: Mapping[str, Any], arrays: Arrays
) -> tuple[FeatureEncoder, ChainLayout[HiddenLayer]]:  # fmt: skip
    """As ``restored_chain``."""
    layer = HiddenLayer(
        header["n_features"], header["n_labels"], header["n_hidden"], in_best_states=header["in_best_states"]
    )  # fmt: skip
    return _restored_encoder(header, arrays), ChainLayout(layer, _restored_steps(header, arrays))


def _restored_encoder(header: Mapping[str, Any], arrays: Arrays) -> FeatureEncoder:
    numbers = Numbering()
    if header["n_columns"] is None:
        names = _unpacked(arrays["features.text"], arrays["features.ends"])
        numbers.update({name: number for number, name in enumerate(names)})
        if len(names) != len(numbers):
            raise Mismatch("features.text", "a list with a name twice", "names that differ")
    return FeatureEncoder(numbers, header["n_columns"])


def _restored_steps(header: Mapping[str, Any], arrays: Arrays) -> Transitions:
    rows = tuple(arrays[f"transitions.{number}"].astype(np.int64) for number in range(1, header["order"] + 1))
    return Transitions(header["n_labels"], header["order"], rows)


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
