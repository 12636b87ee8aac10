"""Description of a chain CRF's model file; ``state.py`` writes and restores it."""

import numpy as np
from numpy.typing import NDArray

from tikhon.data.description import Array, Arrays, Header
from tikhon.data.values import (
    Anything,
    DictOf,
    Either,
    Flag,
    ListOf,
    Mismatch,
    Nothing,
    Row,
    Scalar,
    Sizes,
    Text,
    Whole,
    optional,
)
from tikhon.estimators.description import CLASS_WEIGHT, TRUTH, model_description

MOST_FEATURES = 2**31 - 1  # the kernels use 32-bit feature numbers
MOST_LABELS = 2**16  # and 16-bit label numbers
ORDER = Whole(1, 2)
MOST_WEIGHT = 1e100  # as for data: scores are summed without overflow checks


def _n_weights(sizes: Sizes) -> int:
    return sizes["n_pairs"] + sizes["n_steps.1"] + sizes.get("n_steps.2", 0)


def _arrays(header: Header, arrays: Arrays) -> dict[str, Array]:
    described = {
        "pairs.features": Array("int", ("n_pairs",), at_least=0, below=header["n_features"]),
        "pairs.labels": Array("int", ("n_pairs",), at_least=0, below=header["n_labels"]),
    }
    for back in range(1, header["order"] + 1):
        described[f"transitions.{back}"] = Array(
            "int", (f"n_steps.{back}", 1 + back), at_least=0, below=header["n_labels"], distinct=True
        )
    if header["n_columns"] is None:
        described["features.text"] = Array("uint8", ("n_bytes",))
        described["features.ends"] = Array(
            "int", (header["n_features"],), at_least=0, below=lambda sizes: sizes["n_bytes"] + 1, rising=True
        )
    return described


def _check_weights(header: Header, arrays: Arrays) -> None:
    """Keeps sums of scores far from overflow in double precision."""
    Array("float64", arrays["tuning.weights"].shape, -MOST_WEIGHT, MOST_WEIGHT).check(
        arrays["tuning.weights"], "tuning.weights", {}
    )


def _check_labels(header: Header, arrays: Arrays) -> None:
    stored = header["classes"]
    n_classes = len(stored["values"] if "values" in stored else arrays["classes"])
    if n_classes != header["n_labels"]:
        raise Mismatch("n_labels", str(header["n_labels"]), f"{n_classes}, the number of classes")


def _check_pairs(header: Header, arrays: Arrays) -> None:
    """Pairs of one feature are contiguous, in increasing order of labels, and either all dense or all listed."""
    features, labels, split = arrays["pairs.features"], arrays["pairs.labels"], header["n_dense_pairs"]
    if split > len(features):
        raise Mismatch("n_dense_pairs", str(split), f"at most {len(features)}, the number of pairs")
    begins = np.ones(len(features), bool)
    begins[1:] = features[1:] != features[:-1]
    _refuse_first(~begins[1:] & (labels[1:] <= labels[:-1]), "pairs.labels", labels, "the labels of a feature in order")
    if split < len(features) and not begins[split]:
        raise Mismatch("n_dense_pairs", str(split), "a number that does not separate the pairs of a feature")
    if int(begins.sum()) != len(np.unique(features)):
        raise Mismatch("pairs.features", "not grouped", "the pairs of each feature next to each other")


def _refuse_first(wrong: NDArray[np.bool_], name: str, values: NDArray[np.int32], expected: str) -> None:
    if wrong.any():
        place = int(np.argmax(wrong)) + 1
        raise Mismatch(f"{name}[{place}]", str(values[place]), expected)


CHAIN_FILE = model_description(
    parameters={
        "order": ORDER,
        "all_pairs": TRUTH,
        "class_weight": CLASS_WEIGHT,
        "allowed": Either(Nothing(), Text(("bio", "bioes")), ListOf(Row(Scalar(), Scalar()))),
        "warm_start": Flag(),
    },
    header={
        "n_columns": optional(Whole(0, MOST_FEATURES, names="n_features")),  # of arrays; None: features have names
        "n_features": Whole(0, MOST_FEATURES, names="n_features"),
        "n_labels": Whole(2, MOST_LABELS),
        "order": ORDER,
        "n_dense_pairs": Whole(at_least=0),
        "recipe": optional(DictOf(Anything())),  # how features were made: from FeatureMaker for the command
    },
    arrays=_arrays,
    n_weights=_n_weights,
    has_classes=True,
    agreements=(_check_labels, _check_pairs, _check_weights),
)
