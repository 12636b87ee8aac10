"""Descriptions of the model files of chains; ``state.py`` writes and restores them."""

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
    Value,
    Whole,
    optional,
)
from tikhon.estimators.description import CLASS_WEIGHT, TRAINER, TRUTH, model_description

MOST_FEATURES = 2**31 - 1  # the kernels use 32-bit feature numbers
MOST_LABELS = 2**16  # and 16-bit label numbers
MOST_HIDDEN = 2**20
DECODINGS = ("viterbi", "marginal")
ORDER = Whole(1, 2)
MOST_WEIGHT = 1e100  # as for data: scores are summed without overflow checks


def _n_steps(sizes: Sizes) -> int:
    return sizes["n_steps.1"] + sizes.get("n_steps.2", 0)


def _n_weights(sizes: Sizes) -> int:
    return sizes["n_pairs"] + _n_steps(sizes)


def _n_hidden_weights(sizes: Sizes) -> int:
    """Of features by units, of units, of labels by units, of labels (all, first, last), of steps."""
    n_hidden, n_labels = sizes["n_hidden"], sizes["n_labels"]
    return (sizes["n_features"] + 1 + n_labels) * n_hidden + 3 * n_labels + _n_steps(sizes)


def _pair_arrays(header: Header, arrays: Arrays) -> dict[str, Array]:
    return {
        "pairs.features": Array("int", ("n_pairs",), at_least=0, below=header["n_features"]),
        "pairs.labels": Array("int", ("n_pairs",), at_least=0, below=header["n_labels"]),
        **_sequence_arrays(header, arrays),
    }


def _sequence_arrays(header: Header, arrays: Arrays) -> dict[str, Array]:
    described = {}
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


PARAMETERS: dict[str, Value] = {
    "order": ORDER,
    "all_pairs": TRUTH,
    "class_weight": CLASS_WEIGHT,
    "allowed": Either(Nothing(), Text(("bio", "bioes")), ListOf(Row(Scalar(), Scalar()))),
    "decoding": Text(DECODINGS),
    "trainer": TRAINER,
    "warm_start": Flag(),
}
HEADER: dict[str, Value] = {
    "n_columns": optional(Whole(0, MOST_FEATURES, names="n_features")),  # of arrays; None: features have names
    "n_features": Whole(0, MOST_FEATURES, names="n_features"),
    "n_labels": Whole(2, MOST_LABELS, names="n_labels"),
    "order": ORDER,
    "recipe": optional(DictOf(Anything())),  # how features were made: from FeatureMaker for the command
}
CHAIN_FILE = model_description(
    parameters=PARAMETERS,
    header={**HEADER, "n_dense_pairs": Whole(at_least=0)},
    arrays=_pair_arrays,
    n_weights=_n_weights,
    has_classes=True,
    agreements=(_check_labels, _check_pairs, _check_weights),
)
HIDDEN_UNIT_FILE = model_description(
    parameters={**PARAMETERS, "n_hidden": Whole(1, MOST_HIDDEN)},
    header={**HEADER, "n_hidden": Whole(1, MOST_HIDDEN, names="n_hidden"), "in_best_states": Flag()},
    arrays=_sequence_arrays,
    n_weights=_n_hidden_weights,
    has_classes=True,
    agreements=(_check_labels, _check_weights),
)
