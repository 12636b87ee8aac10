import numpy as np
import pytest
from scipy import sparse
from sklearn.model_selection import GroupKFold, KFold, ShuffleSplit, TimeSeriesSplit

from tikhon import LogisticRegression, Ridge
from tikhon.errors import InputError
from tikhon.estimators.splits import make_pairs, make_splits
from tikhon.models import LeastSquares


def splits(cv, codes=None, weights=None, n_rows=None, fraction=0.25, random_state=None):
    n_rows = len(codes) if n_rows is None else n_rows
    return make_splits(
        cv,
        validation_fraction=fraction,
        random_state=random_state,
        X=np.zeros((n_rows, 1)),
        y=np.zeros(n_rows) if codes is None else codes,
        row_weights=np.ones(n_rows) if weights is None else weights,
        codes=codes,
    )


def as_lists(found):
    return [(train.tolist(), test.tolist()) for train, test in found]


def test_folds_hold_out_every_row_once_and_keep_the_shares_of_the_classes():
    codes = np.repeat([0, 1, 2], [50, 30, 20])
    found, notes = splits(5, codes)
    assert notes == ()
    assert sorted(np.concatenate([test for _, test in found])) == list(range(100))
    for train, test in found:
        assert sorted([*train, *test]) == list(range(100))
        assert np.bincount(codes[test]).tolist() == [10, 6, 4]


def test_folds_shrink_to_the_smallest_class_and_single_rows_are_never_held_out():
    codes = np.repeat([0, 1, 2], [10, 3, 1])
    found, notes = splits(5, codes)
    assert len(found) == 3
    assert notes == (
        "cv=5 was reduced to 3 folds: the smallest class has only 3 rows",
        "1 classes with a single row are never held out",
    )
    assert all(13 in train for train, _ in found)
    assert sorted(np.concatenate([test for _, test in found])) == list(range(13))


def test_folds_shrink_to_the_number_of_rows():
    found, notes = splits(5, n_rows=3)
    assert len(found) == 3
    assert notes == ("cv=5 was reduced to 3 folds: the data has only 3 rows",)


@pytest.mark.parametrize("cv", [4, None])
def test_the_seed_decides_and_none_is_a_seed_too(cv):
    codes = np.arange(40) % 2
    first = as_lists(splits(cv, codes)[0])
    assert as_lists(splits(cv, codes)[0]) == first
    assert as_lists(splits(cv, codes, random_state=0)[0]) == first
    assert as_lists(splits(cv, codes, random_state=7)[0]) != first


@pytest.mark.parametrize("cv", [3, None])
def test_rows_of_weight_zero_might_as_well_not_be_there(cv):
    codes = np.arange(60) % 2
    weights = np.ones(60)
    weights[::7] = 0
    kept = np.flatnonzero(weights)
    found = as_lists(splits(cv, codes, weights)[0])
    without = splits(cv, codes[kept])[0]
    assert found == as_lists([(kept[train], kept[test]) for train, test in without])


def test_hold_out_takes_its_share_of_each_class():
    codes = np.repeat([0, 1, 2, 3], [40, 8, 2, 1])
    [(train, test)], _ = splits(None, codes)
    assert np.bincount(codes[test], minlength=4).tolist() == [10, 2, 1, 0]
    assert sorted([*train, *test]) == list(range(51))


@pytest.mark.parametrize("n_classes", [1, 3])
def test_hold_out_is_made_of_runs_of_neighbours_from_all_over_the_data(n_classes):
    n_rows = 6000
    codes = np.arange(n_rows) % n_classes
    [(_, test)], _ = splits(None, codes)
    for label in range(n_classes):
        held_out = np.isin(np.flatnonzero(codes == label), test)
        runs = np.flatnonzero(np.diff(held_out.astype(int)) == 1).size + int(held_out[0])
        assert 7 <= runs <= held_out.sum() / 25  # ten runs or more, of up to 50 rows; neighbours may touch
        quarters = [part.mean() for part in np.array_split(held_out, 4)]
        assert min(quarters) > 0.05


def test_what_kin_of_rows_share_is_no_help_on_the_hold_out(rng):
    """Each film has 20 reviews, one after the other, its own name and its own verdict: names must not seem worth learning.

    At random, each film's reviews would be on both sides.
    """
    films, reviews = 300, 20
    film = np.repeat(np.arange(films), reviews)
    y = np.repeat(rng.random(films) < 0.5, reviews) ^ (rng.random(len(film)) < 0.2)
    tone = rng.normal(size=(len(film), 3)) + 0.5 * np.where(y, 1.0, -1.0)[:, None]
    X = sparse.hstack([sparse.csr_array(tone), sparse.csr_array(np.eye(films)[film])]).tocsr()
    groups = np.repeat(["tone", "names"], [3, films])
    strengths = {}
    for name, order in (("neighbours", np.arange(len(film))), ("shuffled", rng.permutation(len(film)))):
        model = LogisticRegression(groups=groups, tuner="gradient", cv=None).fit(X[order], y[order])
        strengths[name] = model.strengths_["names"]
    assert strengths["neighbours"] > 20.0 * strengths["shuffled"]


@pytest.mark.parametrize(
    "cv", [KFold(3), ShuffleSplit(2, random_state=3), TimeSeriesSplit(3)], ids=lambda cv: type(cv).__name__
)
def test_splitters_and_their_lists_are_taken_as_they_are(cv):
    expected = as_lists(cv.split(np.zeros((12, 1))))
    assert as_lists(splits(cv, n_rows=12)[0]) == expected
    assert as_lists(splits(list(cv.split(np.zeros((12, 1)))), n_rows=12)[0]) == expected
    assert as_lists(splits(cv.split(np.zeros((12, 1))), n_rows=12)[0]) == expected


def test_masks_name_rows_too():
    mask = np.array([True, False, True, False])
    assert as_lists(splits([(mask, ~mask)], n_rows=4)[0]) == [([0, 2], [1, 3])]


@pytest.mark.parametrize(
    ("cv", "message"),
    [
        ("five", "write 'auto', a number of folds"),
        (1, "2 or more folds"),
        (True, "cv=True"),
        ("five", "cv='five'"),
        (2.5, "number of folds"),
        ([], "no splits"),
        ([([0, 1],)], "not a pair"),
        ([([0, 1], [12])], "outside 0 to 11"),
        ([([-1, 1], [2])], "outside 0 to 11"),
        ([([0.5], [2])], "row numbers"),
        ([([0, 1], [])], "no hold-out rows"),
        ([([], [1])], "no training rows"),
        ([([0, 2], [1])], "no training rows of class number 1"),
        (GroupKFold(2), "cannot split these data"),
    ],
)
def test_splits_that_cannot_be_used_are_refused(cv, message):
    with pytest.raises(InputError, match=message):
        splits(cv, np.arange(12) % 2)


@pytest.mark.parametrize("fraction", [0, 1, -0.1, 1.5, float("nan"), "a half"])
def test_fractions_outside_0_to_1_are_refused(fraction):
    with pytest.raises(InputError, match="validation_fraction"):
        splits(None, np.arange(12) % 2, fraction=fraction)


@pytest.mark.parametrize("cv", [5, None])
def test_data_with_nothing_to_hold_out_are_refused(cv):
    with pytest.raises(InputError, match="nothing to hold out"):
        splits(cv, np.arange(3))
    with pytest.raises(InputError, match="n_samples = 1"):
        splits(cv, n_rows=1)


def test_a_bad_seed_is_refused():
    with pytest.raises(InputError, match="random_state='seed'"):
        splits(3, n_rows=9, random_state="seed")


def test_pairs_are_weighted_views(rng):
    X, y, weights = rng.normal(size=(6, 2)), rng.normal(size=6), np.array([1.0, 2.0, 0.0, 1.0, 3.0, 1.0])
    whole = LeastSquares(X, y, row_weights=weights)
    [pair] = make_pairs([(np.array([0, 1, 1, 2]), np.array([4, 5]))], weights, whole.reweighted)
    assert (pair.train_weight, pair.holdout_weight) == (5.0, 4.0)
    point = rng.normal(size=3)
    loss = [0.5 * w * (X[i] @ point[:2] + point[2] - y[i]) ** 2 for i, w in enumerate(weights)]
    assert pair.train.loss_gradient(point)[0] == pytest.approx(loss[0] + 2 * loss[1])
    assert pair.holdout.loss_gradient(point)[0] == pytest.approx(loss[4] + loss[5])


def test_estimators_pass_notes_on_and_ignore_cv_where_nothing_is_held_out(rng):
    X, y = rng.normal(size=(30, 3)), np.repeat([0, 1], [26, 4])
    X[:, 0] += 2 * y
    model = LogisticRegression(cv=9).fit(X, y)
    assert "cv=9 was reduced to 4 folds: the smallest class has only 4 rows" in model.tuning_.notes
    assert LogisticRegression(tuner="mm", cv="not looked at").fit(X, y).tuning_.tuner == "mm"


def test_leaving_rows_out_of_all_splits_still_fits_them_in_the_end(rng):
    X, y = rng.normal(size=(30, 2)), rng.normal(size=30)
    y += 3 * X[:, 0]
    model = Ridge(cv=[(np.arange(10), np.arange(10, 15))]).fit(X, y)
    np.testing.assert_allclose(model.coef_, Ridge(tuner=None, strengths=model.strengths_).fit(X, y).coef_, rtol=1e-7)
