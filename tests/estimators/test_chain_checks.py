"""scikit-learn's own checks, as far as they can apply to sequences.

The first list needs no data. The checks of the second make a matrix X and a vector y: they run with every row as a sequence of
one token. What is not listed asks for something that sequences do not have (columns, probabilities as a matrix, transforms,
messages about the shape of X).
"""

import numpy as np
import pytest
from sklearn.utils import estimator_checks
from sklearn.utils.validation import check_X_y, validate_data

from tikhon import ChainCRF, HiddenUnitCRF
from tikhon.errors import MissingCapability
from tikhon.tuners import TUNERS as EVERY_TUNER

TUNERS = (None, "auto", "gradient", "mm", "direct", "grid")  # all that sequences can use

WITHOUT_DATA = [
    "check_mixin_order",
    "check_no_attributes_set_in_init",
    "check_estimator_cloneable",
    "check_estimator_repr",
    "check_parameters_default_constructible",
    "check_get_params_invariance",
    "check_set_params",
    "check_valid_tag_types",
    "check_estimator_tags_renamed",
    "check_do_not_raise_errors_in_init_or_set_params",
]
WITH_DATA = [
    "check_fit_score_takes_y",
    "check_dict_unchanged",
    "check_estimators_overwrite_params",
    "check_estimators_pickle",
    "check_estimators_unfitted",
    "check_fit_check_is_fitted",
    "check_fit_idempotent",
    "check_methods_sample_order_invariance",
    "check_methods_subset_invariance",
    "check_readonly_memmap_input",
    "check_sample_weight_equivalence_on_dense_data",
    "check_sample_weights_not_an_array",
    "check_sample_weights_not_overwritten",
    "check_sample_weights_shape",
    "check_estimators_dtypes",
]


class _OneToken:
    """Rows as sequences of one token."""

    def fit(self, X, y, sample_weight=None):
        X, y = check_X_y(X, y)
        validate_data(self, X, reset=True)
        return super().fit(list(X[:, None, :]), np.asarray(y)[:, None].tolist(), sample_weight)

    def predict(self, X):
        return np.array(super().predict(list(np.asarray(X, dtype=float)[:, None, :]))).ravel()

    def score(self, X, y, sample_weight=None):
        return super().score(list(X[:, None, :]), np.asarray(y)[:, None].tolist(), sample_weight)


class OneToken(_OneToken, ChainCRF):
    pass


class OneHiddenToken(_OneToken, HiddenUnitCRF):
    pass


@pytest.mark.parametrize("check", WITHOUT_DATA)
@pytest.mark.parametrize("kind", [ChainCRF, HiddenUnitCRF])
def test_checks_without_data(check, kind):
    getattr(estimator_checks, check)(kind.__name__, kind())


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::tikhon.TuningWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("check", WITH_DATA)
@pytest.mark.parametrize("tuner", TUNERS, ids=str)
def test_checks_with_rows_as_sequences(check, tuner):
    getattr(estimator_checks, check)("OneToken", OneToken(tuner=tuner, tol=1e-16, cv=2, n_jobs=1))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::tikhon.TuningWarning")
@pytest.mark.parametrize("check", WITH_DATA)
def test_checks_with_default_parameters(check):
    getattr(estimator_checks, check)("OneToken", OneToken())


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::tikhon.TuningWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("check", WITH_DATA)
def test_checks_with_hidden_units(check):
    getattr(estimator_checks, check)("OneHiddenToken", OneHiddenToken(n_hidden=4, tuner=None, tol=1e-16, n_jobs=1))


@pytest.mark.parametrize("tuner", sorted(set(EVERY_TUNER) - set(TUNERS)))
def test_the_other_tuners_are_refused(tuner):
    with pytest.raises(MissingCapability, match=f"{tuner!r} needs the Hessian row by row"):
        ChainCRF(tuner=tuner).fit([[["a"], ["b"]]] * 4, [["x", "y"]] * 4)
