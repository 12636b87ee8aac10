"""What users write for a space, and the errors for what they should not."""

from typing import Any

import numpy as np
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from scipy import stats
from sklearn.decomposition import PCA
from sklearn.gaussian_process.kernels import RBF
from sklearn.pipeline import Pipeline
from sklearn.svm import SVC

from tikhon.errors import InputError
from tikhon.search.space import space_of

KNOWN = ("C", "gamma", "kernel", "degree")


def test_distributions_of_scipy_become_those_of_optuna() -> None:
    space = space_of(
        {"C": stats.loguniform(1e-3, 1e2), "gamma": stats.uniform(1.0, 2.0), "degree": stats.randint(2, 6)}, KNOWN
    )
    assert space.distributions == {
        "C": FloatDistribution(1e-3, 1e2, log=True),
        "gamma": FloatDistribution(1.0, 3.0),
        "degree": IntDistribution(2, 5),
    }


def test_other_distributions_of_scipy_are_searched_by_their_quantiles() -> None:
    space = space_of({"C": stats.norm(3.0, 2.0), "gamma": stats.expon()}, KNOWN)
    quantiles = {"C": 0.5, "gamma": 0.25}
    values = space.values(quantiles)
    assert values["C"] == pytest.approx(3.0)
    assert values["gamma"] == pytest.approx(-np.log(0.75))
    assert space.distributions["gamma"].low == 0.0  # exponential variables have a least value, normal ones do not
    assert space.distributions["C"].low > 0.0


def test_lists_are_choices_of_plain_values() -> None:
    space = space_of({"C": np.array([1.0, 10.0]), "kernel": ("rbf", None)}, KNOWN)
    assert space.distributions == {
        "C": CategoricalDistribution([1.0, 10.0]),
        "kernel": CategoricalDistribution(["rbf", None]),
    }
    assert type(space.values({"C": 1.0, "kernel": None})["C"]) is float


def test_choices_that_cannot_be_stored_are_named() -> None:
    pipeline = Pipeline([("reduce", PCA()), ("svc", SVC())])
    space = space_of({"reduce": ["passthrough", PCA(2), PCA(3)]}, pipeline.get_params())
    labels = space.distributions["reduce"].choices
    assert labels == ("passthrough", "PCA(n_components=2)", "PCA(n_components=3)")
    assert space.values({"reduce": labels[1]})["reduce"].n_components == 2


@pytest.mark.parametrize(("law", "expected"), [("1/n", 4.0), ("n", 0.25), ("sqrt(n)", 0.5), ("1/sqrt(n)", 2.0)])
def test_rescaled_parameters_follow_the_number_of_rows(law: str, expected: float) -> None:
    space = space_of({"C": stats.loguniform(0.1, 10.0), "gamma": [1.0, 2.0]}, KNOWN, {"C": law})
    assert space.values_at({"C": 3.0, "gamma": 2.0}, 0.25) == {"C": pytest.approx(3.0 * expected), "gamma": 2.0}
    assert space.values_at({"C": 3.0, "gamma": 2.0}, 1.0)["C"] == 3.0


def test_whole_numbers_stay_whole_when_rescaled() -> None:
    space = space_of({"degree": stats.randint(2, 40)}, KNOWN, {"degree": "n"})
    assert space.values_at({"degree": 30}, 0.3)["degree"] == 9
    assert space.values_at({"degree": 2}, 0.1)["degree"] == 1


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, "empty"),
        ([{"C": [1]}, {"gamma": [1]}], "conditional"),
        ({"C": {"low": 1, "high": 3}}, "write a list of choices"),
        ({"C": stats.loguniform}, "give the distribution its parameters"),
        ("C", "write a dict"),
        ({"c": [1.0]}, "did you mean 'C'"),
        ({"banana": [1.0]}, "its parameters are C, degree"),
        ({"C": []}, "empty list"),
        ({"C": 3.0}, "a fixed value belongs to the estimator"),
        ({"C": "log"}, "write a list"),
        ({"C": [1.0, 1.0]}, "twice"),
        ({"C": [1.0, np.nan]}, "NaN"),
        ({"C": lambda kernel: 1.0}, "depend on other parameters"),
        ({"C": stats.uniform(0.0, -1.0)}, "not valid"),
        ({"C": stats.loguniform(2.0, 1.0)}, "not valid"),
    ],
)
def test_spaces_that_cannot_be_searched_are_refused_in_words(given: Any, told: str) -> None:
    with pytest.raises(InputError, match=told):
        space_of(given, KNOWN)


@pytest.mark.parametrize(
    ("rescale", "told"),
    [
        ("1/n", "write a dict"),
        ({"degree": "1/n"}, "not in the space"),
        ({"C": "n^2"}, "write one of '1/n'"),
        ({"kernel": "n"}, "not numbers"),
    ],
)
def test_laws_that_cannot_be_followed_are_refused(rescale: Any, told: str) -> None:
    with pytest.raises(InputError, match=told):
        space_of({"C": [1.0], "kernel": ["rbf"]}, KNOWN, rescale)


def test_equal_values_of_different_types_are_different_choices() -> None:
    """max_features=1 is one feature, 1.0 is all of them."""
    space = space_of({"C": [1, 1.0, True, 0.5, np.inf]}, KNOWN)
    labels = space.distributions["C"].choices
    assert [repr(space.values({"C": label})["C"]) for label in labels] == ["1", "1.0", "True", "0.5", "inf"]


def test_choices_are_told_apart_by_their_parameters() -> None:
    kernels = [RBF(1.0), RBF(2.0)]
    space = space_of({"kernel": [*kernels, None]}, KNOWN)
    assert len(set(space.distributions["kernel"].choices)) == 3
    assert space.values({"kernel": "RBF(length_scale=2)"})["kernel"] is kernels[1]
