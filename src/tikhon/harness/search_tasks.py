"""The data sets of searches: reviews with stars, and answers to questions; features, splits, models and spaces.

The columns of a ranking set begin with the number of the question, so that models and scores know which rows belong together.
"""

import json
import lzma
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS, CountVectorizer, TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

from tikhon.data.files import reading
from tikhon.errors import MissingExtra
from tikhon.objective import Vector

Indices: TypeAlias = NDArray[np.intp]
QuestionRows: TypeAlias = Sequence[tuple[str, int, str]]  # question, whether it is answered, sentence

WORD = re.compile(r"[a-z]+(?:'[a-z]+)?")
LEAST_DOCUMENTS = 2  # training reviews with a word
HELD_OUT = 0.2  # of the reviews, for validation, and as many for the test where no test part is supplied
HELD_OUT_QUERIES = 0.25  # of MQ2008's training queries, in addition to its validation part
SVM_MOST_ITERATIONS = 50  # passes over the rows
NO_LIGHTGBM = "ranking needs lightgbm: pip install 'tikhon[bench]'"
NO_STEMMER = "stems need snowballstemmer: pip install 'tikhon[bench]'"


@dataclass(frozen=True)
class Range:
    """Numbers to search."""

    low: float
    high: float
    log: bool = False
    whole: bool = False


Space: TypeAlias = Mapping[str, Range | tuple[str, ...]]  # ranges, or choices


@dataclass(frozen=True, eq=False)
class Parts:
    """Rows to train and to validate on, and those to test on; ``questions`` are those of the rows of X, or None."""

    X: Any
    y: NDArray[Any]
    train: Indices
    validation: Indices
    X_test: Any
    y_test: NDArray[Any]
    questions: NDArray[np.intp] | None = None


@dataclass(frozen=True)
class Effort:
    """The plan of the Bayesian searches, fixed beforehand."""

    early: int  # trials on a part of the rows
    late: int  # and on all; searches of a single stage have as many as both
    n_initial: int
    n_best: int
    fraction: float


@dataclass(frozen=True, eq=False)
class SearchTask:
    """A data set with its files, a model and the space of its parameters."""

    title: str
    kind: str  # "text" or "ranking"
    files: tuple[str, ...]
    load: Callable[[Path, int | None], Parts]
    make: Callable[[], Any]
    space: Space
    split: str


class ReviewSVM(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no annotations
    """LinearSVC with squared hinge loss: the dual problem where it can be (l2), which is faster, the primal for l1."""

    def __init__(self, C: float = 1.0, intercept_scaling: float = 1.0, penalty: str = "l2") -> None:
        self.C = C
        self.intercept_scaling = intercept_scaling
        self.penalty = penalty

    def fit(self, X: Any, y: Any) -> "ReviewSVM":
        self.svm_ = LinearSVC(
            C=self.C, intercept_scaling=self.intercept_scaling, penalty=self.penalty, dual=self.penalty == "l2",
            max_iter=SVM_MOST_ITERATIONS, random_state=0,
        ).fit(X, y)  # fmt: skip
        self.classes_ = self.svm_.classes_
        return self

    def predict(self, X: Any) -> Any:
        return self.svm_.predict(X)


class QuestionRanker(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no annotations
    """LightGBM's LambdaMART; the first column of X is the number of the question."""

    def __init__(
        self, n_trees: int = 100, learning_rate: float = 0.1, n_leaves: int = 31, least_in_leaf: int = 20,
        data_rate: float = 1.0, feature_rate: float = 1.0,
    ) -> None:  # fmt: skip
        self.n_trees = n_trees
        self.learning_rate = learning_rate
        self.n_leaves = n_leaves
        self.least_in_leaf = least_in_leaf
        self.data_rate = data_rate
        self.feature_rate = feature_rate

    def fit(self, X: Any, y: Any) -> "QuestionRanker":
        try:
            import lightgbm
        except ImportError:
            raise MissingExtra(NO_LIGHTGBM) from None
        order = np.argsort(X[:, 0], kind="stable")
        sizes = np.unique(X[:, 0], return_counts=True)[1]
        rows = lightgbm.Dataset(X[order, 1:], np.asarray(y)[order], group=sizes, params={"feature_pre_filter": False})
        settings = {
            "objective": "lambdarank", "learning_rate": self.learning_rate, "num_leaves": self.n_leaves,
            "min_data_in_leaf": self.least_in_leaf, "bagging_fraction": self.data_rate, "bagging_freq": 1,
            "feature_fraction": self.feature_rate, "num_threads": 1, "force_col_wise": True, "deterministic": True,
            "seed": 0, "verbosity": -1, "feature_pre_filter": False,
        }  # fmt: skip
        self.trees_ = lightgbm.train(settings, rows, num_boost_round=self.n_trees)
        return self

    def predict(self, X: Any) -> Vector:
        return np.asarray(self.trees_.predict(X[:, 1:], num_threads=1), dtype=float)

    def score(self, X: Any, y: Any) -> float:
        return float(np.mean(precision_at_1(X[:, 0], y, self.predict(X))))


def precision_at_1(questions: NDArray[Any], relevance: NDArray[Any], scores: Vector) -> Vector:
    """For each question, in the order of their numbers, whether its first row is relevant; of ties the relevant share."""
    numbers = np.unique(questions, return_inverse=True)[1]
    best = np.full(numbers.max() + 1, -np.inf)
    np.maximum.at(best, numbers, scores)
    is_first = scores == best[numbers]
    relevant = np.bincount(numbers[is_first], weights=(np.asarray(relevance)[is_first] > 0).astype(float))
    return np.asarray(relevant / np.bincount(numbers[is_first]))


def stacked(validation: NDArray[Any], train: NDArray[Any]) -> tuple[NDArray[Any], Indices, Indices]:
    """Targets, training rows and validation rows, with the latter first."""
    y = np.concatenate([validation, train])
    return y, np.arange(len(validation), len(y)), np.arange(len(validation))


def hits_in_test(task: SearchTask, model: Any, parts: Parts) -> Vector:
    """For each test review whether its stars are right, for each test question its precision at 1."""
    found = model.predict(parts.X_test)
    if task.kind == "ranking":
        return precision_at_1(parts.X_test[:, 0], parts.y_test, found)
    return np.asarray(found == parts.y_test, dtype=float)


@lru_cache(maxsize=1)
def _stemmer() -> Callable[[str], str]:
    try:
        import snowballstemmer
    except ImportError:
        raise MissingExtra(NO_STEMMER) from None
    stem: Callable[[str], str] = lru_cache(maxsize=None)(snowballstemmer.stemmer("english").stemWord)
    return stem


def stems_of(text: str) -> list[str]:
    """Stems of the words that are no stop words, in lower case."""
    stem = _stemmer()
    return [stem(word) for word in WORD.findall(text.lower()) if word not in ENGLISH_STOP_WORDS]


def _reviews(path: Path, few: int | None) -> tuple[list[str], NDArray[np.int64]]:
    """Texts and stars; a few are spread over the file."""
    with lzma.open(path, "rt", encoding="utf-8") as file:
        lines = file.readlines()
    if few is not None:
        lines = lines[:: max(1, len(lines) // few)]
    found = [entry for line in lines if (entry := json.loads(line))["text"]]
    return [entry["text"].replace("<br />", " ") for entry in found], np.array([entry["rating"] for entry in found])


def _review_parts(
    texts: list[str], stars: NDArray[np.int64], tests: list[str], test_stars: NDArray[np.int64], held_out: float
) -> Parts:
    train, validation = (
        np.sort(rows)
        for rows in train_test_split(np.arange(len(texts)), test_size=held_out, random_state=0, stratify=stars)
    )
    words = CountVectorizer(analyzer=stems_of, binary=True, min_df=LEAST_DOCUMENTS, dtype=np.float64)
    X_train = words.fit_transform([texts[i] for i in train.tolist()])
    X_validation = words.transform([texts[i] for i in validation.tolist()])
    X = sparse.vstack([X_validation, X_train], format="csr")
    return Parts(X, *stacked(stars[validation], stars[train]), words.transform(tests), test_stars)


def _clothing(folder: Path, few: int | None) -> Parts:
    texts, stars = _reviews(folder / CLOTHING.files[0], few)
    rest, test = train_test_split(np.arange(len(texts)), test_size=HELD_OUT, random_state=1, stratify=stars)
    chosen = [[texts[i] for i in np.sort(rows).tolist()] for rows in (rest, test)]
    return _review_parts(
        chosen[0], stars[np.sort(rest)], chosen[1], stars[np.sort(test)], held_out=HELD_OUT / (1.0 - HELD_OUT)
    )


def _imdb(folder: Path, few: int | None) -> Parts:
    (texts, stars), (tests, test_stars) = (_reviews(folder / name, few) for name in IMDB.files)
    return _review_parts(texts, stars, tests, test_stars, HELD_OUT)


def _mq2008(folder: Path, few: int | None) -> Parts:
    with np.load(folder / MQ2008.files[0]) as stored:
        X_train, X_more, X_test = (
            np.column_stack([stored[f"{part}_query"], stored[f"{part}_features"] / 1e6])
            for part in ("train", "vali_part", "test")
        )
        y_train, y_more, y_test = (
            stored[f"{part}_relevance"].astype(int) for part in ("train", "vali_part", "test")
        )  # fmt: skip
    if few is not None:
        train, more, test = (_of_first_questions(X[:, 0], few) for X in (X_train, X_more, X_test))
        X_train, X_more, X_test = X_train[train], X_more[more], X_test[test]
        y_train, y_more, y_test = y_train[train], y_more[more], y_test[test]
    held = held_questions(X_train[:, 0], HELD_OUT_QUERIES)
    X = np.vstack([X_more, X_train[held], X_train[~held]])
    targets = stacked(np.concatenate([y_more, y_train[held]]), y_train[~held])
    return Parts(X, *targets, X_test, y_test, X[:, 0].astype(np.intp))


def _of_first_questions(questions: NDArray[Any], count: int) -> NDArray[np.bool_]:
    return np.isin(questions, np.unique(questions)[:count])


def held_questions(questions: NDArray[Any], share: float) -> NDArray[np.bool_]:
    """Which rows to validate on: all of the questions that are drawn."""
    names = np.unique(questions)
    drawn = np.random.default_rng(0).choice(names, max(1, round(share * len(names))), replace=False)
    return np.isin(questions, drawn)


def _trec(folder: Path, few: int | None) -> Parts:
    train, validation, test = (_pairs(folder / name, few) for name in TREC.files[:3])
    both = answerable(test)
    kind_of = _question_kinds(folder / TREC.files[3], [row[0] for row in (*train, *validation, *test)], few)
    weights = inverse_frequencies([sentence for _, _, sentence in train])
    kept = [row for row in test if row[0] in both]
    X_train, X_validation, X_test = (pair_features(rows, weights, kind_of) for rows in (train, validation, kept))
    X_validation[:, 0] += X_train[-1, 0] + 1.0
    X = np.vstack([X_validation, X_train])
    y_train, y_validation, y_test = (
        np.array([label for _, label, _ in rows]) for rows in (train, validation, kept)
    )  # fmt: skip
    return Parts(X, *stacked(y_validation, y_train), X_test, y_test, X[:, 0].astype(np.intp))


def _pairs(path: Path, few: int | None) -> list[tuple[str, int, str]]:
    rows = [(question, int(label), sentence) for question, label, sentence in _tab_separated(path)]
    first = list(dict.fromkeys(question for question, _, _ in rows))[:few]
    of_question: dict[str, list[tuple[str, int, str]]] = {question: [] for question in first}
    for row in rows:
        if row[0] in of_question:
            of_question[row[0]].append(row)
    return [row for own in of_question.values() for row in own]


def _tab_separated(path: Path) -> list[list[str]]:
    with reading(path) as (content, _):
        return [line.split("\t") for line in content.read().decode("utf-8").split("\n") if line]


def answerable(rows: QuestionRows) -> set[str]:
    """Questions with both right and wrong sentences: the others score the same whatever is ranked first."""
    labels: dict[str, set[int]] = {}
    for question, label, _ in rows:
        labels.setdefault(question, set()).add(label)
    return {question for question, found in labels.items() if len(found) == 2}


def _question_kinds(path: Path, questions: Sequence[str], few: int | None) -> dict[str, str]:
    """The kind of answer that each question asks for (a person, a number …), by a classifier of questions."""
    rows = _tab_separated(path)[: None if few is None else 50 * few]
    features = TfidfVectorizer(token_pattern=r"\S+", ngram_range=(1, 2), sublinear_tf=True)
    classifier = make_pipeline(features, LogisticRegression(C=30.0, max_iter=500))
    classifier.fit([question for _, question in rows], [label.split(":")[0] for label, _ in rows])
    distinct = sorted(set(questions))
    return dict(zip(distinct, classifier.predict(distinct).tolist(), strict=True))


def inverse_frequencies(sentences: Sequence[str]) -> dict[str, float]:
    """The weight of each stem, log(n / number of sentences with it); "" has the weight of one in no sentence."""
    counts: dict[str, int] = {}
    for sentence in sentences:
        for stem in set(stems_of(sentence)):
            counts[stem] = counts.get(stem, 0) + 1
    weights = {stem: float(np.log((1 + len(sentences)) / (1 + count))) for stem, count in counts.items()}
    return {"": float(np.log(1 + len(sentences))), **weights}


KINDS = ("ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM")


def pair_features(rows: QuestionRows, weights: Mapping[str, float], kind_of: Mapping[str, str]) -> NDArray[np.float64]:
    """One row for each question and sentence, the number of the question first."""
    numbers = {question: float(i) for i, question in enumerate(dict.fromkeys(question for question, _, _ in rows))}
    found = []
    for question, _, sentence in rows:
        kinds = [float(kind_of[question] == kind) for kind in KINDS]
        found.append([numbers[question], *_of_pair(question, sentence, weights), *kinds])
    return np.array(found)


def _of_pair(question: str, sentence: str, weights: Mapping[str, float]) -> list[float]:
    """Words and pairs in common, tf-idf similarity, lengths, and what may answer: numbers and names that are new."""
    asked, told = stems_of(question), stems_of(sentence)
    shared = set(asked) & set(told)
    pairs = set(pairwise(asked)) & set(pairwise(told))
    weight = {stem: weights.get(stem, weights[""]) for stem in {*asked, *told}}
    norms = [np.sqrt(sum((own.count(stem) * weight[stem]) ** 2 for stem in set(own))) for own in (asked, told)]
    product = sum(asked.count(stem) * told.count(stem) * weight[stem] ** 2 for stem in shared)
    new = [word for word in sentence.split() if word.lower() not in question.lower().split()]
    return [
        float(len(shared)),
        len(shared) / max(len(set(asked)), 1),
        len(shared) / max(len(set(told)), 1),
        float(len(pairs)),
        len(pairs) / max(len(set(pairwise(asked))), 1),
        sum(weight[stem] for stem in shared) / max(sum(weight[stem] for stem in set(asked)), 1e-9),
        float(product / max(norms[0] * norms[1], 1e-9)),
        float(len(question.split())),
        float(len(sentence.split())),
        float(sum(any(letter.isdigit() for letter in word) for word in new)),
        float(sum(word[0].isupper() for word in new)),
    ]


SVM_SPACE: Space = {
    "C": Range(1e-4, 1e1, log=True),
    "intercept_scaling": Range(1e-1, 1e1, log=True),
    "penalty": ("l1", "l2"),
}
TREE_SPACE: Space = {
    "feature_rate": Range(0.2, 1.0),
    "data_rate": Range(0.2, 1.0),
    "learning_rate": Range(1e-2, 5e-1, log=True),
    "n_trees": Range(50, 1000, log=True, whole=True),
    "n_leaves": Range(2, 64, log=True, whole=True),
    "least_in_leaf": Range(1, 100, log=True, whole=True),
}
CLOTHING = SearchTask(
    "women's clothing reviews, 1 to 5 stars", "text", ("text/womens_clothing_reviews.jsonl.xz",), _clothing, ReviewSVM,
    SVM_SPACE, "none supplied: 60 % of the reviews train, 20 % validate, 20 % test, drawn with their stars in proportion",
)  # fmt: skip
IMDB = SearchTask(
    "IMDB reviews, 1 to 4 and 7 to 10 stars", "text", ("text/imdb_train.jsonl.xz", "text/imdb_test.jsonl.xz"), _imdb, ReviewSVM,
    SVM_SPACE, "the official test part; 20 % of the training part, drawn with their stars in proportion, validate",
)  # fmt: skip
MQ2008 = SearchTask(
    "LETOR MQ2008, fold 1", "ranking", ("ranking/mq2008_fold1.npz",), _mq2008, QuestionRanker, TREE_SPACE,
    "the official test part, 156 queries; the 68 queries of the validation part that were found, with a fixed quarter of "
    "the training queries, validate",
)  # fmt: skip
TREC = SearchTask(
    "TREC QA", "ranking",
    (*(f"ranking/trecqa_{part}.tsv.gz" for part in ("train", "dev", "test")), "text/question_classification_train.tsv.gz"),
    _trec, QuestionRanker, TREE_SPACE,
    "the official parts; the 68 test questions that have both right and wrong sentences",
)  # fmt: skip
TASKS = {"clothing": CLOTHING, "imdb": IMDB, "mq2008": MQ2008, "trecqa": TREC}


@lru_cache(maxsize=1)
def loaded(name: str, folder: Path, few: int | None) -> Parts:
    """All of a data set, or a few reviews or questions of each part."""
    return TASKS[name].load(folder, few)
