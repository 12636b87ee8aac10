"""The search as a user meets it: an estimator of scikit-learn's kind."""

import time
import warnings
from typing import Any

import joblib
import numpy as np
import pandas as pd
import pytest
from scipy import sparse, stats
from sklearn import config_context
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression, Ridge, SGDClassifier
from sklearn.metrics import make_scorer
from sklearn.model_selection import GroupKFold, TimeSeriesSplit, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

import tikhon
from tikhon import MultiStageSearchCV
from tikhon.errors import InputError, TuningWarning

X, y = load_iris(return_X_y=True)
SPACE = {"C": stats.loguniform(1e-2, 1e3), "gamma": stats.loguniform(1e-4, 1e1)}
FEW: dict[str, Any] = {"n_trials": [5, 4], "cv": 3, "sampler": "random"}


class Fails(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Fails, takes long or scores badly, as its parameter says."""

    def __init__(self, how: str = "good", seconds: float = 0.0) -> None:
        self.how = how
        self.seconds = seconds

    def fit(self, X: Any, y: Any) -> "Fails":
        if self.how == "bad":
            raise RuntimeError("no fit with how='bad'")
        time.sleep(self.seconds)
        self.classes_ = np.unique(y)
        return self

    def predict(self, X: Any) -> Any:
        return np.full(len(X), self.classes_[0])


def test_attributes_are_those_of_grid_search() -> None:
    search = MultiStageSearchCV(SVC(), SPACE, scoring=["accuracy", "f1_macro"], refit="accuracy", **FEW).fit(X, y)
    results = pd.DataFrame(search.cv_results_)
    assert results["stage"].tolist() == [1] * 5 + [2] * 4
    assert results["fraction"].round(2).tolist() == [0.33] * 5 + [1.0] * 4  # 50 rows are the least
    assert {"params", "mean_test_f1_macro", "split2_test_accuracy", "rank_test_accuracy", "mean_fit_time"} <= set(
        results
    )
    last = results[results["stage"] == 2]
    assert search.best_index_ == last["mean_test_accuracy"].idxmax()
    assert search.best_score_ == results["mean_test_accuracy"][search.best_index_]
    assert search.best_params_ == results["params"][search.best_index_]
    assert search.best_estimator_.get_params()["C"] == search.best_params_["C"]
    assert search.multimetric_
    assert set(search.scorer_) == {"accuracy", "f1_macro"}
    assert search.n_features_in_ == 4
    assert (search.predict(X) == search.best_estimator_.predict(X)).all()
    assert search.score(X, y) == search.best_estimator_.score(X, y)
    assert search.ended_ == "completed"


def test_a_stage_begins_with_the_best_of_the_one_before() -> None:
    search = MultiStageSearchCV(SVC(), SPACE, n_best=2, **FEW).fit(X, y)
    results = pd.DataFrame(search.cv_results_)
    first = results[results["stage"] == 1].sort_values(["mean_test_score", "trial"], ascending=[False, True])
    second = results[results["stage"] == 2].sort_values("trial")
    assert second["params"].tolist()[:2] == first["params"].tolist()[:2]


def test_scores_are_those_of_fits_by_hand() -> None:
    """The last stage is plain cross-validation."""
    search = MultiStageSearchCV(
        make_pipeline(StandardScaler(), SVC()), {"svc__C": [0.1, 1.0, 10.0]}, stages=[1.0], cv=4
    )
    search.fit(X, y)
    assert len(search.cv_results_["params"]) == 3  # each point of the space once
    assert "tried all 3 points" in search.notes_[0]
    for params, split_scores in zip(
        search.cv_results_["params"],
        zip(*(search.cv_results_[f"split{k}_test_score"] for k in range(4)), strict=True),
        strict=True,
    ):
        by_hand = cross_val_score(make_pipeline(StandardScaler(), SVC()).set_params(**params), X, y, cv=4)
        assert np.array(split_scores) == pytest.approx(by_hand, abs=0)


@pytest.mark.parametrize("sampler", ["gp", "tpe", "random"])
def test_trials_do_not_depend_on_workers(sampler: str) -> None:
    settings = {**FEW, "sampler": sampler, "batch_size": 2}
    one = MultiStageSearchCV(SVC(), SPACE, **settings).fit(X, y)
    again = MultiStageSearchCV(SVC(), SPACE, n_jobs=2, **settings).fit(X, y)
    assert one.cv_results_["params"] == again.cv_results_["params"]
    assert (one.cv_results_["mean_test_score"] == again.cv_results_["mean_test_score"]).all()
    other = MultiStageSearchCV(SVC(), SPACE, random_state=1, **settings).fit(X, y)
    assert one.cv_results_["params"] != other.cv_results_["params"]


@pytest.mark.slow
def test_a_trial_past_its_time_is_ended() -> None:
    space = {"seconds": [0.0, 600.0]}
    start = time.monotonic()
    with pytest.warns(TuningWarning, match="they took too long"):
        search = MultiStageSearchCV(Fails(), space, trial_timeout=2.0, cv=2, stages=[1.0], n_jobs=2).fit(X, y)
    assert time.monotonic() - start < 60.0
    by_seconds = dict(zip(search.cv_results_["param_seconds"], search.cv_results_["status"], strict=True))
    assert by_seconds == {0.0: "ok", 600.0: "timeout"}
    assert search.best_params_ == {"seconds": 0.0}


@pytest.mark.slow
def test_the_time_of_a_search_is_limited() -> None:
    with pytest.warns(TuningWarning, match="ran out of time in stage"):
        search = MultiStageSearchCV(
            Fails(),
            {"seconds": stats.uniform(0.01, 0.01)},
            n_trials=[3, 10_000],
            n_best=2,
            timeout=4.0,
            cv=2,
            sampler="random",
        ).fit(X, y)
    assert search.ended_ == "timeout"
    assert search.cv_results_["stage"][search.best_index_] == 2


def test_failed_trials_are_counted_and_never_chosen() -> None:
    with pytest.warns(TuningWarning, match=r"1 of 2 trials failed; the first: RuntimeError: no fit with how='bad'"):
        search = MultiStageSearchCV(Fails(), {"how": ["good", "bad"]}, stages=[1.0], cv=2).fit(X, y)
    assert search.best_params_ == {"how": "good"}
    status = dict(zip(search.cv_results_["param_how"], search.cv_results_["status"], strict=True))
    assert status == {"good": "ok", "bad": "failed"}
    assert np.isnan(search.cv_results_["mean_test_score"]).sum() == 1


def test_the_first_traceback_is_told_if_all_fail() -> None:
    with pytest.raises(InputError, match=r"all 1 trials failed(.|\n)*no fit with how='bad'"):
        MultiStageSearchCV(Fails(), {"how": ["bad"]}, cv=2).fit(X, y)
    with pytest.raises(InputError, match=r"a trial failed with(.|\n)*no fit"):
        MultiStageSearchCV(Fails(), {"how": ["bad"]}, cv=2, error_score="raise").fit(X, y)


def test_a_score_that_is_not_a_number_is_a_failure() -> None:
    scoring = make_scorer(lambda y_true, y_pred: np.nan)
    with pytest.raises(InputError, match=r"all 1 trials failed(.|\n)*'score' is nan"):
        MultiStageSearchCV(Fails(), {"how": ["good"]}, cv=2, scoring=scoring).fit(X, y)


@pytest.mark.parametrize(
    "data",
    [pd.DataFrame(X, columns=list("abcd")), sparse.csr_array(X), X.tolist()],
    ids=["data frame", "sparse", "list"],
)
def test_data_of_any_kind(data: Any) -> None:
    same = MultiStageSearchCV(LogisticRegression(max_iter=5000), {"C": stats.loguniform(1e-2, 1e2)}, **FEW).fit(data, y)
    plain = MultiStageSearchCV(LogisticRegression(max_iter=5000), {"C": stats.loguniform(1e-2, 1e2)}, **FEW).fit(X, y)
    assert same.best_params_ == plain.best_params_
    if isinstance(data, pd.DataFrame):
        assert same.feature_names_in_.tolist() == list("abcd")


def test_weights_groups_and_ordered_splits_reach_their_places() -> None:
    groups = np.repeat(np.arange(30), 5)
    rng = np.random.default_rng(0)
    search = MultiStageSearchCV(
        LogisticRegression(max_iter=5000), {"C": [0.1, 1.0, 10.0]}, n_trials=2, cv=GroupKFold(3), sampler="random"
    ).fit(X, y, groups=groups, sample_weight=rng.uniform(size=150))
    assert search.n_splits_ == 3
    diabetes = load_diabetes(return_X_y=True)
    ordered = MultiStageSearchCV(Ridge(), {"alpha": stats.loguniform(1e-3, 1e3)}, cv=TimeSeriesSplit(3), n_trials=3)
    assert ordered.fit(*diabetes).best_score_ > 0.3


def test_metadata_are_routed_where_they_are_asked_for() -> None:
    groups = np.repeat(np.arange(30), 5)
    weights = np.random.default_rng(0).uniform(size=150)
    with config_context(enable_metadata_routing=True):
        estimator = (
            LogisticRegression(max_iter=5000).set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        )
        routed = MultiStageSearchCV(estimator, {"C": [0.1, 10.0]}, n_trials=2, cv=GroupKFold(3), sampler="random")
        routed.fit(X, y, groups=groups, sample_weight=weights)
    plain = MultiStageSearchCV(estimator, {"C": [0.1, 10.0]}, n_trials=2, cv=GroupKFold(3), sampler="random")
    plain.fit(X, y, groups=groups, sample_weight=weights)
    assert (routed.cv_results_["stage"] == plain.cv_results_["stage"]).all()
    assert routed.best_estimator_.coef_ == pytest.approx(plain.best_estimator_.coef_)


def test_models_of_tikhon_learn_their_strengths_inside() -> None:
    data = load_breast_cancer(return_X_y=True)
    pipeline = make_pipeline(StandardScaler(), tikhon.LogisticRegression())
    search = MultiStageSearchCV(pipeline, {"standardscaler__with_mean": [True, False]}, cv=2, scoring="neg_log_loss")
    search.fit(*data)
    assert search.best_estimator_[-1].strengths_["all"] > 0.0


def test_a_search_inside_cross_validation_and_a_clone() -> None:
    search = MultiStageSearchCV(DecisionTreeClassifier(random_state=0), {"max_depth": stats.randint(1, 6)}, **FEW)
    assert clone(search).get_params()["space"] is not None
    assert cross_val_score(search, X, y, cv=3).mean() > 0.85


def test_strengths_of_mean_losses_are_rescaled() -> None:
    """SGDClassifier's alpha multiplies a penalty on the mean loss: on a third of the rows it must be three times as strong."""
    seen: list[tuple[float, int]] = []

    class Spy(SGDClassifier):  # type: ignore[misc]
        def fit(self, X: Any, y: Any, **params: Any) -> Any:
            seen.append((float(self.alpha), len(X)))
            return super().fit(X, y, **params)

    search = MultiStageSearchCV(Spy(random_state=0), {"alpha": [1e-3]}, rescale={"alpha": "1/n"}, cv=3, n_trials=1)
    search.fit(X, y)
    alphas, sizes = zip(*seen[:6], strict=True)
    assert alphas == pytest.approx([1e-3 * 300 / sum(sizes[:3])] * 3 + [1e-3] * 3)
    assert search.best_params_ == {"alpha": 1e-3}
    assert search.best_estimator_.alpha == 1e-3


def test_callbacks_of_scikit_learn_are_told_of_trials() -> None:
    pytest.importorskip("sklearn.callback", reason="scikit-learn before 1.9 has no callbacks")

    class Counts:
        def __init__(self) -> None:
            self.ended: list[str] = []

        def setup(self, estimator: Any, context: Any) -> None:
            self.n_expected = context.max_subtasks

        def on_fit_task_begin(self, estimator: Any, context: Any, **data: Any) -> None:
            pass

        def on_fit_task_end(self, estimator: Any, context: Any, **data: Any) -> bool:
            self.ended.append(context.task_name)
            return False

        def teardown(self, estimator: Any, context: Any) -> None:
            pass

    counts = Counts()
    search = MultiStageSearchCV(SVC(), SPACE, **FEW)
    search.set_callbacks(counts).fit(X, y)
    assert counts.n_expected == 10
    assert counts.ended.count("trial") == 9
    assert counts.ended[-2:] == ["refit-with-best-params", "fit"]


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"n_trials": 0}, "at least one trial"),
        ({"n_trials": [3]}, "1 entries for 2 stages"),
        ({"n_trials": "many"}, "write 'auto'"),
        ({"n_best": 0}, "n_best=0"),
        ({"n_initial": 0}, "n_initial=0"),
        ({"batch_size": True}, "batch_size=True"),
        ({"timeout": -1.0}, "seconds above 0"),
        ({"trial_timeout": 0}, "seconds above 0"),
        ({"select": "best"}, "'last' or 'all'"),
        ({"sampler": "gauss"}, "write one of 'gp'"),
        ({"sampler": lambda: None}, "takes no seed"),
        ({"scoring": ["accuracy"], "refit": False}, "name of the one"),
        ({"study_name": ""}, "study_name"),
        ({"error_score": "zero"}, "error_score"),
        ({"scoring": "acuracy"}, "did you mean 'accuracy'"),
        ({"scoring": ["accuracy"], "refit": True}, "name of the one that is optimised"),
        ({"random_state": "a"}, "random_state='a'"),
        ({"n_jobs": "2"}, "n_jobs='2'"),
        ({"client": "here"}, "client='here'"),
    ],
)
def test_settings_that_make_no_sense_are_refused_in_words(settings: dict[str, Any], told: str) -> None:
    with pytest.raises(InputError, match=told):
        MultiStageSearchCV(SVC(), SPACE, **{**FEW, **settings}).fit(X, y)


def test_one_class_in_a_sample_is_a_clear_failure() -> None:
    with pytest.raises((InputError, ValueError), match="class"):
        MultiStageSearchCV(SVC(), SPACE, **FEW).fit(X[:50], y[:50])


def test_ctrl_c_keeps_what_was_found() -> None:
    class Interrupts(RandomForestClassifier):  # type: ignore[misc]
        def fit(self, X: Any, y: Any, **params: Any) -> Any:
            if self.n_estimators == 7:
                raise KeyboardInterrupt
            return super().fit(X, y, **params)

    search = MultiStageSearchCV(
        Interrupts(random_state=0), {"n_estimators": [1, 2, 3, 7]}, n_trials=4, n_initial=4, cv=2
    )
    with (
        pytest.warns(TuningWarning, match="was interrupted in stage 1 of 2"),
        pytest.raises(KeyboardInterrupt, match="is in best_params_"),
    ):
        search.fit(X, y)
    assert search.ended_ == "interrupted"
    assert search.best_params_["n_estimators"] in (1, 2, 3)
    assert not hasattr(search, "best_estimator_")


def test_ctrl_c_before_the_first_trial_is_just_that() -> None:
    class Interrupts(RandomForestClassifier):  # type: ignore[misc]
        def fit(self, X: Any, y: Any, **params: Any) -> Any:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        MultiStageSearchCV(Interrupts(), {"max_depth": [1, 2]}, cv=2).fit(X, y)


def test_threads_leave_the_warnings_of_the_process_alone() -> None:
    shown, filters = warnings.showwarning, list(warnings.filters)
    with joblib.parallel_config(backend="threading", n_jobs=4):
        MultiStageSearchCV(
            Fails(), {"seconds": stats.uniform(0.001, 0.02)}, n_trials=[8, 4], batch_size=4, cv=2, sampler="random"
        ).fit(X, y)
    assert warnings.showwarning is shown
    assert warnings.filters == filters
    with pytest.warns(UserWarning, match="still shown"):
        warnings.warn("still shown", UserWarning, stacklevel=1)


def nothing(estimator: Any, X: Any, y: Any) -> float:
    return float("nan")


def raises(estimator: Any, X: Any, y: Any) -> float:
    raise RuntimeError("no such score")


@pytest.mark.parametrize("other", [nothing, raises])
def test_other_scores_may_fail(other: Any, tmp_path: Any) -> None:
    settings: dict[str, Any] = {
        "scoring": {"a": "accuracy", "b": other},
        "refit": "a",
        "storage": tmp_path / "study.journal",
    }
    for _ in range(2):  # the second time from the storage
        search = MultiStageSearchCV(SVC(), SPACE, **{**FEW, **settings}).fit(X, y)
        assert np.isnan(search.cv_results_["mean_test_b"]).all()
        assert search.best_score_ > 0.9


def test_a_function_may_return_several_scores() -> None:
    def both(estimator: Any, X: Any, y: Any) -> dict[str, float]:
        good = float(estimator.score(X, y))
        return {"good": good, "bad": 1.0 - good}

    search = MultiStageSearchCV(SVC(), SPACE, scoring=both, refit="bad", **FEW).fit(X, y)
    assert search.best_score_ == search.cv_results_["mean_test_bad"][search.cv_results_["stage"] == 2].max()


def test_splits_may_be_masks() -> None:
    mask = np.arange(150) % 3 == 0
    by_mask = MultiStageSearchCV(SVC(), SPACE, **{**FEW, "cv": [(~mask, mask)]}).fit(X, y)
    by_number = MultiStageSearchCV(SVC(), SPACE, **{**FEW, "cv": [(np.flatnonzero(~mask), np.flatnonzero(mask))]}).fit(
        X, y
    )
    assert by_mask.cv_results_["n_rows"].tolist() == by_number.cv_results_["n_rows"].tolist()
    assert by_mask.best_score_ == by_number.best_score_


def test_discrete_distributions_give_whole_numbers() -> None:
    space = {"max_depth": stats.randint(3, 4), "min_samples_leaf": stats.poisson(3, loc=1)}
    search = MultiStageSearchCV(DecisionTreeClassifier(random_state=0), space, **FEW).fit(X, y)
    assert {type(params[name]) for params in search.cv_results_["params"] for name in space} == {int}
