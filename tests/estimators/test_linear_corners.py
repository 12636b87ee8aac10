"""Ridge and LogisticRegression at the corners: options that contradict each other, odd targets, units, splitters, files."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.model_selection import GroupKFold, StratifiedKFold

from tikhon import MM, Gradient, Grid, InputError, LogisticRegression, Ridge, TuningWarning, load


@pytest.fixture(name="X")
def features(rng):
    return rng.normal(size=(80, 5))


@pytest.mark.filterwarnings("ignore::tikhon.TuningWarning")
@pytest.mark.parametrize("grid", [Grid(bounds=(1e-2, 1e2)), Grid(values=tuple(np.logspace(0, 7, 8)))])
def test_a_grid_beyond_its_bounds_ends(grid, X):
    halves = np.arange(40), np.arange(40, 80)
    y = np.where(np.arange(80) < 40, X[:, 0], -X[:, 0])  # what is learned is wrong: the largest strength is the best
    model = Ridge(tuner=grid, cv=[halves]).fit(X, y)
    assert model.strengths_["all"] == pytest.approx(max(grid.values))


ALL_TUNERS = ["auto", "loo", "evidence", "gradient", "grid", "mm", "direct"]


@pytest.mark.parametrize("stored", [np.zeros, sp.csr_matrix], ids=["dense", "sparse"])
@pytest.mark.parametrize("kind", [Ridge, LogisticRegression])
@pytest.mark.parametrize("tuner", ALL_TUNERS)
def test_columns_of_zeros_need_no_tuning(tuner, kind, stored, rng):
    y = rng.integers(0, 2, 80)
    with pytest.warns(TuningWarning, match="shrank to almost zero"):
        model = kind({"a": [0]}, tuner, strengths={"a": 7.0}).fit(stored((80, 5)), y)
    assert model.tuning_.status == "converged"
    assert model.tuning_.reason == "every value of X is 0, so that all coefficients are 0 at any strength"
    assert not model.coef_.any()
    assert model.strengths_ == {"a": 7.0, "rest": 1.0}
    if kind is Ridge:
        assert model.intercept_ == pytest.approx(y.mean())


@pytest.mark.filterwarnings("ignore:the strength of:tikhon.TuningWarning", "ignore:the penalised:tikhon.TuningWarning")
@pytest.mark.parametrize("groups", [None, {"a": [0, 1]}])
@pytest.mark.parametrize(("bounds", "best", "noise"), [((1e-3, 1e-2), 1e-2, 10.0), ((1e2, 1e3), 1e2, 1.0)])
def test_a_descent_ends_at_the_corner_of_its_bounds(bounds, best, noise, groups, rng):
    """The criterion falls towards the corner, as a grid shows; where it is the start, one step suffices."""
    X = rng.normal(size=(200, 4))
    y = X @ np.ones(4) + noise * rng.normal(size=200)
    tuned = Ridge(groups, Gradient(bounds=bounds), cv=3).fit(X, y)
    assert tuned.tuning_.status == "converged"
    assert "every parameter is at a bound" in tuned.tuning_.reason
    assert len(tuned.tuning_.trace) <= 3
    assert list(tuned.strengths_.values()) == pytest.approx([best] * len(tuned.strengths_))
    other = bounds[0] if best == bounds[1] else bounds[1]
    losses = [Ridge(groups, Grid(values=(value,)), cv=3).fit(X, y).tuning_.criterion for value in (best, other)]
    assert losses[0] < losses[1]


@pytest.mark.parametrize("tuner", ["auto", "gradient", "mm"])
def test_a_constant_target_has_no_unit(tuner, X, rng):
    y = X[:, 0] + 0.5 * rng.normal(size=80)
    found = [
        Ridge(tuner=tuner, fit_intercept=False).fit(X, np.c_[y, np.full(80, constant)]) for constant in (0.1, 0.1015625)
    ]
    assert found[0].strengths_["all"] == pytest.approx(found[1].strengths_["all"], rel=0.1)


def test_rows_of_weight_zero_do_not_choose_the_method(rng):
    X, y, weights = rng.normal(size=(80, 5)), rng.integers(0, 3, 80), np.ones(80)
    weights[:26] = 0.0
    kept, dropped = LogisticRegression().fit(X, y, weights), LogisticRegression().fit(X[26:], y[26:])
    assert kept.tuning_.criterion_name == dropped.tuning_.criterion_name


class Recorder:
    """A splitter that keeps what it is shown."""

    def split(self, X, y=None, groups=None):
        self.seen = X, y
        yield np.arange(40), np.arange(40, 80)

    def get_n_splits(self, X=None, y=None, groups=None):
        return 1


@pytest.mark.filterwarnings("ignore::tikhon.TuningWarning")
def test_splitters_see_the_data_as_they_were_given(X):
    y = np.tile([1.0, 2.0, 3.0, 5.0], 20)
    splitter = Recorder()
    Ridge(tuner="grid", cv=splitter, standardize=True).fit(X + 1e4, y)
    np.testing.assert_array_equal(splitter.seen[0], X + 1e4)
    np.testing.assert_array_equal(splitter.seen[1], y)
    Ridge(tuner="grid", cv=StratifiedKFold(4)).fit(X, y)
    with pytest.raises(InputError, match=r"pass its splits: cv=list\(splitter.split\(X, y, groups\)\)"):
        Ridge(tuner="grid", cv=GroupKFold(3)).fit(X, y)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning", "ignore::tikhon.TuningWarning")
@pytest.mark.parametrize("tuner", [MM, Gradient])
def test_a_checkpoint_goes_on_with_more_steps(tuner, X, rng, tmp_path):
    y = X[:, 0] + rng.normal(size=80)
    path = str(tmp_path / "steps")
    groups, strict = [0, 1, 1, 2, 2], {"tol": 1e-6}
    cut = Ridge(groups, tuner(max_steps=2, checkpoint=path, **strict)).fit(X, y)
    assert cut.tuning_.status == "max_steps"
    on = Ridge(groups, tuner(max_steps=100, checkpoint=path, **strict)).fit(X, y)
    whole = Ridge(groups, tuner(max_steps=100, **strict)).fit(X, y)
    assert len(on.tuning_.trace) == len(whole.tuning_.trace)
    np.testing.assert_array_equal(on.coef_, whole.coef_)


def test_groups_of_slices_survive_a_file(X, rng, tmp_path):
    model = Ridge({"a": slice(0, 2), "b": slice(2, 5)}).fit(X, X[:, 0] + rng.normal(size=80))
    model.save(tmp_path / "m")
    again = load(tmp_path / "m")
    refitted = again.fit(X, X[:, 0])
    assert set(refitted.strengths_) == {"a", "b"}


@pytest.mark.parametrize("unit", [1e3, 1e6])
@pytest.mark.parametrize("kind", [Ridge, LogisticRegression])
def test_sparse_columns_in_large_units_do_not_end_the_fit_of_others(kind, unit, rng):
    words = sp.csr_array((rng.random((600, 900)) < 0.01).astype(float))
    income = rng.normal(size=(600, 1))
    scores = words @ rng.normal(size=900) * 2.0 + income[:, 0]
    y = scores if kind is Ridge else scores + rng.logistic(size=600) > 0
    fixed = {"word": 1.0, "income": 0.1}
    here, there = (
        kind(["word"] * 900 + ["income"], None, fixed | {"income": 0.1 * scale**2}).fit(
            sp.hstack([words, sp.csr_array(scale * income)]).tocsr(), y
        )
        for scale in (1.0, unit)
    )
    sizes = np.append(np.ones(900), unit)
    gap = np.linalg.norm(there.coef_ * sizes - here.coef_) / np.linalg.norm(here.coef_)
    assert gap < 0.02  # rough fits, both


@pytest.mark.parametrize("kind", [Ridge, LogisticRegression])
def test_weights_that_sum_to_less_than_a_row_are_told(kind, X):
    with pytest.warns(TuningWarning) as caught:
        kind(groups=[0, 0, 1, 1, 1]).fit(X, X[:, 0] > 0, sample_weight=np.full(80, 1e-4))
    assert "scale the weights to a mean of 1" in str(caught[0].message)


def test_a_shift_of_columns_does_not_change_the_evidence(rng):
    X = rng.normal(size=(200, 20))
    y = X[:, :10] @ rng.normal(size=10) * 30.0 + rng.normal(size=200)
    here, there = (Ridge([0] * 10 + [1] * 10, "evidence").fit(X + shift, y) for shift in (0.0, 100.0))
    assert there.tuning_.criterion == pytest.approx(here.tuning_.criterion, rel=1e-6)
    assert there.strengths_ == pytest.approx(here.strengths_, rel=1e-2)
