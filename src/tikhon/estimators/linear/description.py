"""Descriptions of the linear estimators' model files, as written by ``LinearEstimator`` and ``Ridge._own_state``."""

import numpy as np

from tikhon.data.description import LARGEST, Array, Arrays, Header, Size
from tikhon.data.values import Either, Flag, ListOf, Mismatch, Nothing, Number, Text, Value, Whole
from tikhon.estimators.description import CLASS_WEIGHT, model_description

_PARAMETERS: dict[str, Value] = {"fit_intercept": Flag(), "standardize": Flag()}
_HEADER: dict[str, Value] = {"n_features_in": Whole(at_least=1, names="n_features")}
_OPTIONAL_HEADER: dict[str, Value] = {
    "feature_names_in": ListOf(Text(), names="n_features"),
    "first_index": Whole(0, 1),
}
_VARIANCE = Number(0.0, LARGEST**2)


def _coefficients(*outputs: Size) -> dict[str, Array]:
    """The arrays of this number of outputs; without a number, of a single output, whose axis is left out."""
    return {"coef": Array("float64", (*outputs, "n_features")), "intercept": Array("float64", outputs)}


def _check_weights(header: Header, arrays: Arrays) -> None:
    """Their number is that of the coefficients plus, unless the model was fitted without them, the intercepts."""
    n_coefficients, n_outputs, weights = arrays["coef"].size, arrays["intercept"].size, arrays["tuning.weights"]
    if len(weights) not in (n_coefficients, n_coefficients + n_outputs):
        expected = f"{n_coefficients} weights, as coef has, or with intercepts {n_coefficients + n_outputs}"
        raise Mismatch("tuning.weights", f"of shape {weights.shape}", expected)


def _check_variance(header: Header, arrays: Arrays) -> None:
    variance = header["noise_variance"]
    expected = arrays["intercept"].shape
    if variance is not None and np.shape(variance) != expected:
        raise Mismatch("noise_variance", f"of shape {np.shape(variance)}", f"the shape {expected}, that of intercept")


LOGISTIC_FILE = model_description(
    parameters={**_PARAMETERS, "per_class": Flag(), "class_weight": CLASS_WEIGHT, "warm_start": Flag()},
    header=_HEADER,
    optional_header=_OPTIONAL_HEADER,
    arrays=lambda header, arrays: _coefficients(lambda sizes: 1 if sizes["n_classes"] == 2 else sizes["n_classes"]),
    n_weights="n_weights",
    has_classes=True,
    agreements=(_check_weights,),
)

RIDGE_FILE = model_description(
    parameters={**_PARAMETERS, "per_target": Flag(), "scale_target": Flag()},
    header={**_HEADER, "noise_variance": Either(Nothing(), _VARIANCE, ListOf(_VARIANCE, at_least=1))},
    optional_header=_OPTIONAL_HEADER,
    # As y in fit: a vector of targets has no axis of outputs.
    arrays=lambda header, arrays: (
        _coefficients("n_targets") if np.ndim(arrays.get("coef", 0.0)) == 2 else _coefficients()
    ),
    n_weights="n_weights",
    agreements=(_check_weights, _check_variance),
)
