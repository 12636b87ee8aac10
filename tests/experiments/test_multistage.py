"""The experiments on multi-stage search: scores, features, parts, curves and comparisons, by hand."""

import math

import numpy as np
import pytest

from tikhon.experiments.multistage import EFFORT, FEW, rows_for
from tikhon.experiments.multistage_report import (
    METHODS,
    PEERS,
    _compared,
    _overall,
    axis_of,
    interval,
    mean_of_curve,
    step_curve,
)
from tikhon.harness.search_methods import (
    BAYESIAN,
    BEST_OF_ALL,
    SEARCHES,
    Drawn,
    Problem,
    Tried,
    incumbents,
    n_candidates,
    within,
)
from tikhon.harness.search_tasks import (
    TASKS,
    TREE_SPACE,
    Effort,
    Parts,
    QuestionRanker,
    Range,
    answerable,
    held_questions,
    inverse_frequencies,
    pair_features,
    precision_at_1,
    stems_of,
)


def tried(score, elapsed, fraction=1.0, seconds=1.0):
    return Tried({"C": score}, score, fraction, elapsed, seconds)


def questions_of(sizes):
    return np.repeat(np.arange(len(sizes)), sizes)


def ranking_problem(rng, seed=0):
    """Forty questions, of which the first ten validate; the first feature tells which rows are right."""
    questions = questions_of(rng.integers(3, 9, 40))
    X = np.column_stack([questions, rng.normal(size=(len(questions), 3))])
    y = (X[:, 1] + 0.3 * rng.normal(size=len(X)) > 0.8).astype(int)
    train, validation = np.flatnonzero(questions >= 10), np.flatnonzero(questions < 10)
    return Problem(TASKS["trecqa"], Parts(X, y, train, validation, X, y, questions), seed)


def test_precision_at_1_is_that_of_the_first_row_of_each_question():
    questions = np.array([7, 3, 7, 3, 9, 9, 9])
    relevance = np.array([0, 2, 1, 0, 1, 0, 0])
    scores = np.array([0.1, 0.5, 0.3, 0.9, 2.0, 2.0, 1.0])
    # 3: its best row is wrong; 7: right; 9: one of two rows at the top is right
    np.testing.assert_array_equal(precision_at_1(questions, relevance, scores), [0.0, 1.0, 0.5])


def test_a_ranker_finds_the_feature_that_matters(rng):
    parts = ranking_problem(rng).parts
    shuffled = rng.permutation(parts.train)  # rows of a question need not stand together
    model = QuestionRanker(n_trees=30, n_leaves=4, least_in_leaf=5).fit(parts.X[shuffled], parts.y[shuffled])
    right = np.array([np.any(parts.y[parts.X[:, 0] == number] > 0) for number in range(10)])
    rows = parts.validation
    hits = precision_at_1(parts.X[rows, 0], parts.y[rows], model.predict(parts.X[rows]))
    assert model.score(parts.X[rows], parts.y[rows]) == pytest.approx(hits.mean())
    assert hits[right].mean() >= 0.6  # chance is about one in five
    assert not hits[~right].any()


def test_no_question_is_cut(rng):
    questions = questions_of(rng.integers(1, 9, 50))
    held = held_questions(questions, 0.25)
    assert set(questions[held]).isdisjoint(questions[~held])
    assert len(set(questions[held])) == 12  # round(12.5) is even

    problem = ranking_problem(rng)
    own = problem.parts.questions
    smaller, larger = problem.rows(0.3), problem.rows(0.6)
    assert set(smaller) < set(larger) < set(problem.parts.train)
    for rows in (smaller, larger):
        assert set(rows) == set(problem.parts.train[np.isin(own[problem.parts.train], own[rows])])
    np.testing.assert_array_equal(problem.rows(1.0), problem.parts.train)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(TASKS))
def test_parts_of_the_real_data(name, data_dir):
    parts = TASKS[name].load(data_dir, FEW[TASKS[name].kind])
    both = np.sort(np.concatenate([parts.train, parts.validation]))
    np.testing.assert_array_equal(both, np.arange(parts.X.shape[0]))
    assert len(parts.y) == len(both)
    assert parts.X.shape[1] == parts.X_test.shape[1]
    assert parts.train.min() > parts.validation.min()  # not taken as ordered
    if parts.questions is not None:
        assert set(parts.questions[parts.train]).isdisjoint(parts.questions[parts.validation])
    else:
        assert set(parts.X.data) == {1.0}
        in_train = parts.X[parts.train].getnnz(axis=0)
        assert in_train.min() >= 2


def test_features_of_a_pair_by_hand():
    question, sentence = "Who wrote the novel Emma ?", "Jane Austen wrote the novel in 1815 ."
    assert stems_of(question) == ["wrote", "novel", "emma"]
    assert stems_of(sentence) == ["jane", "austen", "wrote", "novel"]
    weights = inverse_frequencies([sentence, "a novel"])
    log = math.log
    assert weights == pytest.approx({"": log(3), "jane": log(1.5), "austen": log(1.5), "wrote": log(1.5), "novel": 0.0})
    found = pair_features(
        [(question, 1, sentence), ("Where ?", 0, sentence)], weights, {question: "HUM", "Where ?": "LOC"}
    )
    in_common = log(1.5)
    similarity = in_common**2 / (math.sqrt(in_common**2 + log(3) ** 2) * math.sqrt(3 * in_common**2))
    expected = [0.0, 2.0, 2 / 3, 2 / 4, 1.0, 1 / 2, in_common / (in_common + log(3)), similarity, 6.0, 8.0, 1.0, 2.0]
    assert found[0] == pytest.approx([*expected, 0, 0, 0, 1, 0, 0])
    assert found[1] == pytest.approx([1.0, *[0.0] * 7, 2.0, 8.0, 1.0, 2.0, 0, 0, 0, 0, 1, 0])


def test_questions_with_right_sentences_only_are_left_out():
    assert answerable([("a", 1, "x"), ("a", 0, "y"), ("b", 1, "x"), ("c", 0, "x")]) == {"a"}


def test_incumbents_of_all_trials_and_of_those_with_the_most_rows():
    trials = [
        tried(0.5, 1.0, 0.3), tried(0.4, 2.0, 0.3), tried(0.8, 3.0, 0.3),
        tried(0.6, 4.0), tried(0.6, 5.0), tried(0.7, 6.0), tried(0.9, 7.0, 0.3),
    ]  # fmt: skip
    assert [one.elapsed for one in incumbents(trials, across=True)] == [1.0, 3.0, 7.0]
    assert [one.elapsed for one in incumbents(trials, across=False)] == [1.0, 3.0, 4.0, 6.0]
    assert [one.elapsed for one in within(trials, 3.5)] == [1.0, 2.0, 3.0]
    assert [one.elapsed for one in within(trials, 0.5)] == [1.0]


def test_curves_by_hand():
    steps = [{"elapsed": 1.0, "test_score": 0.5}, {"elapsed": 3.0, "test_score": 0.7}]
    np.testing.assert_allclose(step_curve(steps, np.array([0.5, 1.0, 2.9, 3.0, 9.0])), [np.nan, 50, 50, 70, 70])
    assert mean_of_curve(steps, 2.0, 5.0) == pytest.approx((1 * 50 + 2 * 70) / 3)
    assert mean_of_curve(steps, 4.0, 4.0) == pytest.approx(70.0)


def test_halving_has_as_many_candidates_as_fit_into_the_time():
    # a fit on all rows takes 2 s on average, so a candidate costs 3 rounds of 2/9 s: 10 s are enough for 15
    history = [tried(0.1, 4.0, 0.5, seconds=1.5), tried(0.1, 10.0, 1.0, seconds=1.0)]
    assert n_candidates(history) == 15


def test_draws_stay_in_the_space(rng):
    state = np.random.RandomState(0)
    for one in TREE_SPACE.values():
        drawn = [Drawn(one).rvs(random_state=state) for _ in range(300)]
        assert one.low <= min(drawn) <= max(drawn) <= one.high
        assert all(isinstance(value, int) for value in drawn) == one.whole
    leaves = [Drawn(Range(1, 2, log=True, whole=True)).rvs(random_state=state) for _ in range(400)]
    # edges are 0.5, 1.5 and 2.5: 1 has the share log 3 / log 5 = 0.68, with a standard error of 0.023
    assert np.mean(np.array(leaves) == 1) == pytest.approx(math.log(3) / math.log(5), abs=0.1)
    assert {Drawn(("l1", "l2")).rvs(random_state=state) for _ in range(50)} == {"l1", "l2"}


def test_the_first_stage_is_the_subset_search_and_peers_keep_the_time(rng):
    problem = ranking_problem(rng)
    effort = Effort(early=3, late=2, n_initial=3, n_best=1, fraction=0.4)
    subset, staged = (BAYESIAN[name](problem, effort) for name in ("subset", "stages"))
    assert [one.fraction for one in staged] == [0.4] * 3 + [1.0] * 2
    assert {one.fraction for one in subset} == {0.4}
    for one, other in zip(subset[:3], staged[:3], strict=True):
        assert (one.params, one.score) == (other.params, other.score)
    assert staged[3].params == max(staged[:3], key=lambda one: one.score).params
    assert problem.score(staged[0].params, problem.rows(0.4))[0] == staged[0].score

    for name in ("tpe", "random"):
        found = SEARCHES[name](problem, staged)
        assert found[-1].elapsed <= staged[-1].elapsed or len(found) == 1
    halved = SEARCHES["halving"](problem, staged)
    assert halved[-1].fraction > 0.9


def row(method, seed, seconds, final, hits=None, first=1.0, trials=2):
    return {
        "dataset": "imdb", "method": method, "fold": seed, "seconds": seconds, "final": final, "hits": hits,
        "trials": [{}] * trials, "steps": [{"elapsed": first, "test_score": final}],
    }  # fmt: skip


def test_comparisons_are_paired_by_seed():
    runs = {
        "all": {0: row("all", 0, 10.0, 0.5), 1: row("all", 1, 20.0, 0.6)},
        "subset": {0: row("subset", 0, 4.0, 0.5), 1: row("subset", 1, 4.0, 0.5)},
        "shared": {0: row("shared", 0, 5.0, 0.52), 1: row("shared", 1, 5.0, 0.6, first=3.0)},
        "tpe": {1: row("tpe", 1, 5.0, 0.5)},
    }
    assert axis_of(runs, 0) == (1.0, 10.0)
    assert axis_of(runs, 1) == (3.0, 20.0)
    found = _compared(runs)["shared"]
    assert found["time_saved"] == pytest.approx((0.5 + 0.75) / 2)
    assert found["time_saved_se"] == pytest.approx(0.125)
    assert found["final_minus_all"] == pytest.approx(1.0)
    assert found["final_minus_all_se"] == pytest.approx(1.0)
    assert found["mean_minus_subset"] == pytest.approx(6.0)
    assert found["final_minus_tpe"] == pytest.approx(10.0)
    assert found["final_minus_tpe_se"] is None
    assert found["axis_at_or_above_both"] == 1.0
    overall = _overall([{"shared": found}, {"shared": {**found, "time_saved": 0.125, "time_saved_se": 0.0}}])
    assert overall["time_saved"] == pytest.approx(0.375)
    assert overall["time_saved_se"] == pytest.approx(0.0625)


def test_intervals_resample_questions():
    hits = [[1.0, 0.0, 1.0, 0.0]] * 3
    assert interval(hits, hits) == [0.0, 0.0]
    low, high = interval([[1.0] * 50 + [0.0] * 50], [[0.0] * 100])
    # a share of one half of 100 questions has a standard error of 5 points
    assert low == pytest.approx(50 - 1.96 * 5, abs=1.5)
    assert high == pytest.approx(50 + 1.96 * 5, abs=1.5)


def test_the_plan_has_every_method_and_seed():
    assert METHODS.keys() == BAYESIAN.keys()
    assert PEERS.keys() == SEARCHES.keys()
    assert set(BEST_OF_ALL) < METHODS.keys() | PEERS.keys()
    assert EFFORT.early == 3 * EFFORT.late  # three quarters of the trials in stage one
    rows = rows_for("imdb", False)
    assert len({spec.key for spec in rows}) == len(rows) == 10 * 8
    assert len(rows_for("imdb", True)) == 7
    order = [spec.params["method"] for spec in rows if spec.params["fold"] == 4]
    assert order.index("shared") < order.index("tpe")  # its time is known when the peers begin
