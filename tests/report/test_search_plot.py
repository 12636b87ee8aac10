"""The plot of a search."""

import pytest
from scipy import stats
from sklearn.datasets import load_iris
from sklearn.svm import SVC

from tikhon import MultiStageSearchCV
from tikhon.errors import InputError
from tikhon.report import plot_search


def test_a_panel_for_the_score_and_for_each_parameter():
    space = {"C": stats.loguniform(1e-2, 1e3), "coef0": stats.uniform(0.0, 1.0), "kernel": ["rbf", "poly"]}
    search = MultiStageSearchCV(SVC(), space, n_trials=[6, 4], cv=3, sampler="random").fit(*load_iris(return_X_y=True))
    figure = plot_search(search)
    assert [axes.get_xlabel() for axes in figure.axes] == ["seconds", "C", "coef0", "kernel"]
    curve, strength, _, kernel = figure.axes
    assert strength.get_xscale() == "log"
    assert [label.get_text() for label in kernel.get_xticklabels()] == list(
        dict.fromkeys(str(params["kernel"]) for params in search.cv_results_["params"])
    )
    best = [line.get_ydata()[-1] for line in curve.get_lines() if line.get_drawstyle() == "steps-post"]
    assert best[-1] == search.best_score_


def test_other_objects_are_refused():
    with pytest.raises(InputError, match="fitted MultiStageSearchCV"):
        plot_search(SVC())
