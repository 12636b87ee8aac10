"""``tikhon search``: a table, an estimator and a space; the best settings."""

import numpy as np
import pytest

SPACE = "C = {low = 1e-3, high = 1e3, log = true}\nfit_intercept = [true, false]\n"
ESTIMATOR = "sklearn.svm.LinearSVC"


@pytest.fixture
def space(tmp_path):
    path = tmp_path / "space.toml"
    path.write_text(SPACE, encoding="utf-8")
    return path


@pytest.fixture
def data(sample, tmp_path):
    return sample.write(tmp_path / "train.csv", "label")


def options(data, space, *more):
    return (
        "search",
        "-d",
        data,
        "-s",
        space,
        "-e",
        ESTIMATOR,
        "--target",
        "label",
        "--trials",
        "4,3",
        "--cv",
        3,
        *more,
    )


def test_the_best_settings_are_printed(run, data, space, tmp_path):
    plot = tmp_path / "plot.png"
    outcome = run(*options(data, space, "--plot", plot))
    assert outcome.code == 0, outcome
    assert "sklearn.svm.LinearSVC: 80 rows, 5 columns, 7 trials" in outcome.out
    assert "stage 2: 3 trials on 53 training rows" in outcome.out
    assert "C=" in outcome.out
    assert plot.read_bytes().startswith(b"\x89PNG")


def test_json_has_all_trials(run, data, space):
    found = run(*options(data, space, "--json", "--seed", 3)).json
    assert len(found["trials"]) == 7
    assert found["ended"] == "completed"
    last = [trial["score"] for trial in found["trials"] if trial["stage"] == 2]
    assert found["best_score"] == max(last)
    assert found["best_params"].keys() == {"C", "fit_intercept"}


def test_a_search_goes_on_where_it_was(run, data, space, tmp_path):
    storage = tmp_path / "study.journal"
    first = run(*options(data, space, "--storage", storage, "--json")).json
    run(*options(data, space, "--storage", storage)).assert_refused("study.journal", "--resume")
    again = run(*options(data, space, "--storage", storage, "--resume", "--json")).json
    assert again["trials"] == first["trials"]
    run(*options(data, space, "--storage", storage, "--resume", "--seed", 1)).assert_refused("random_state")
    run(*options(data, space, "--resume")).assert_refused("--storage")
    run(*options(data, space, "--resume", "--storage", tmp_path / "typo.journal")).assert_refused(
        "typo.journal", "no search"
    )
    assert not (tmp_path / "typo.journal").exists()


def test_quantities_and_scaled_columns(run, sample, tmp_path):
    space = tmp_path / "space.toml"
    space.write_text("n_neighbors = {low = 1, high = 20}\n", encoding="utf-8")
    data = sample.write(tmp_path / "train.csv", "amount")
    found = run(
        "search", "-d", data, "-s", space, "-e", "sklearn.neighbors.KNeighborsRegressor", "-t", "amount",
        "--set", "weights=distance", "--standardize", "--trials", "4,3", "--sampler", "random", "--json",
    ).json  # fmt: skip
    assert isinstance(found["best_params"]["model__n_neighbors"], int)
    assert np.isfinite(found["best_score"])


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "names no parameter"),
        ("C = 3\n", "C is 3"),
        ("C = {low = 1}\n", "write a list of values"),
        ("C = {low = 1, high = 'x'}\n", "must be numbers"),
        ("C = {low = 2.0, high = 1.0}\n", "C: "),
        ("C = {low = 1, high = 9, log = 'yes'}\n", "true or false"),
        ("C = [\n", "is not TOML"),
        ("D = [1, 2]\n", "no parameter 'D'"),
        ("C = []\n", "empty list"),
    ],
)
def test_spaces_are_checked(run, data, tmp_path, text, told):
    space = tmp_path / "space.toml"
    space.write_text(text, encoding="utf-8")
    run(*options(data, space)).assert_refused(told)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("os.system", "import path of an estimator of sklearn"),
        ("sklearn", "import path"),
        ("sklearn.svm.NoSuchThing", "NoSuchThing"),
        ("sklearn.no.such.module", "no"),
        ("sklearn.svm._classes.os", "import path"),
        ("sklearn.metrics.accuracy_score", "is not an estimator"),
        ("sklearn.ensemble.VotingClassifier", "estimators"),
        ("tikhon.cli.main", "is not an estimator"),
    ],
)
def test_only_estimators_of_known_packages_are_made(run, data, space, name, told):
    run("search", "-d", data, "-s", space, "-e", name, "-t", "label").assert_refused(told)


def test_wrong_options_are_told(run, data, space):
    run(*options(data, space, "--set", "C")).assert_refused("write NAME=VALUE")
    run(*options(data, space, "--set", "banana=1")).assert_refused("banana")
    run(*options(data, space, "--stages", "0.3,x")).assert_refused("--stages", "commas")
    run(*options(data, space, "--stages", "0.3")).assert_refused("end with 1.0")
    run(*options(data, space, "--scoring", "acuracy")).assert_refused("did you mean 'accuracy'")
    run(*options(data, space, "--plot", data)).assert_refused("is also an input")
