"""The script that compares the fits of two commits: it sees what changed, and what did not."""

import numpy as np

from tests import stored_fits

FEW = ["ridge/dense/mm", "logistic/sparse/None", "chain/lists/None"]


def test_fits_of_one_commit_are_the_same_to_the_bit():
    before, after = stored_fits.made(FEW), stored_fits.made(FEW)
    assert len(before) >= 4 * len(FEW)
    assert set(stored_fits.differences(before, after).values()) == {0.0}


def test_changes_are_seen():
    before = {"a": np.array([1.0, 2.0]), "b": np.array([np.nan, 4.0]), "c": np.zeros(2), "d": np.ones(1)}
    after = {"a": np.array([1.0, 2.0 + 2e-9]), "b": np.array([np.nan, 4.0]), "c": np.zeros(3)}
    found = stored_fits.differences(before, after)
    assert found == {"a": np.float64(after["a"][1] - 2.0) / 2.0, "b": 0.0, "c": np.inf, "d": np.inf}


def test_each_model_and_tuner_has_a_fit():
    names = list(stored_fits.fits())
    assert len(names) >= 60
    for model in ("ridge", "logistic", "softmax"):
        assert all(
            f"{model}/{form}/{tuner}" in names for form in ("dense", "sparse") for tuner in stored_fits.LINEAR_TUNERS
        )
    for tuner in stored_fits.OTHER_TUNERS:
        assert f"chain/lists/{tuner}" in names
        assert f"folding/{tuner}" in names
