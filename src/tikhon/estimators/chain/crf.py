"""Chain CRFs with learned strengths."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from numbers import Integral
from typing import Any, Self
from weakref import WeakKeyDictionary

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from tikhon.errors import InputError
from tikhon.estimators.base import TunedEstimator, WeightsByGroup, cores
from tikhon.estimators.chain.description import CHAIN_FILE
from tikhon.estimators.chain.groups import TEMPLATE, chain_groups
from tikhon.estimators.chain.rules import Allowed, rules_of
from tikhon.estimators.chain.sequences import LabelCodes, as_sequences, label_codes, refuse_empty
from tikhon.estimators.chain.state import chain_state, restored_chain
from tikhon.estimators.chain.token_features import FeatureEncoder, warn_of_no_features
from tikhon.estimators.chain.weights import carried_weights, sequence_weights, warn_of_memory
from tikhon.estimators.checks import checked_parameters, checked_weights, seeded
from tikhon.estimators.state import Arrays
from tikhon.estimators.user_warnings import FitWarnings, Warn
from tikhon.groups import GroupSpec
from tikhon.models.chain.decoder import ChainDecoder
from tikhon.models.chain.layout import UNKNOWN, Layout, Sequences, layout_of
from tikhon.models.chain.objective import Chain
from tikhon.objective import Matrix, Vector
from tikhon.solvers import Solver
from tikhon.tuners import Tuner
from tikhon.tuners.base import Rescale

# The last decoder of each model, with the weights and parameters that it was made of: predictions leave the model as it is.
_decoders: "WeakKeyDictionary[ChainCRF, tuple[Vector, Any, ChainDecoder]]" = WeakKeyDictionary()

UNSEEN_LABEL = -2  # in data to score by: no prediction equals it


class ChainCRF(WeightsByGroup, TunedEstimator):
    """A linear-chain conditional random field that learns one L2 strength for each template of features.

    It minimises ``sum_i a_i (log Z(x_i) - score(x_i, y_i)) + 1/2 sum_g strength_g ||w_g||^2`` over sequences i with weights
    a. The score of labels y is ``sum_t sum_f x_tf w[f, y_t] + sum_t w[y_{t-1}, y_t]`` and, for order 2, also
    ``+ sum_t w[y_{t-2}, y_{t-1}, y_t]``. A strength s is what CRFsuite calls ``c2 = s / 2``.

    Sequences are lists of tokens, and a token is a dict from feature names to values or a list of feature names (see
    ``fit``), or sequences are arrays with a row per token.

    Parameters
    ----------
    groups : "template", "separate", None, array-like, dict or callable, default="template"
        Which features share a strength: those with the same part of the name before "=" (or before ":", where most names
        have no "="), names without one forming "rest"; none; all, transitions included (None); or any form that
        LogisticRegression takes but "prefix", by feature. Columns of arrays are one template, "all". Transitions are a group
        of their own, "transitions", and label triples "transitions2".
    tuner : {"auto", "gradient", "mm", "direct", "grid"}, tuner object or None, default="auto"
        How the strengths are learned. "auto" descends the loss of held-out sequences. None: as given.
    strengths : float, dict from group name to float, or None, default=None
        Fixes the strength of all groups (a number) or of some (a dict); a tuner learns the others. With ``tuner=None`` a dict
        must name every group, and None means 1.0 for all.
    order : {1, 2}, default=1
        How many labels back a transition looks.
    all_pairs : bool, default=False
        Weights for all pairs of features and labels, and for all transitions. False: for those seen in training.
    class_weight : dict from label to float, "balanced" or None, default=None
        Weights of labels: the loss of a sequence is weighted by their mean over its labels. "balanced": inversely
        proportional to their frequencies.
    allowed : None, "bio", "bioes" or iterable of pairs (label, next label), default=None
        Which labels may follow which in predictions; all others have probability 0. A pair (None, label) says what may come
        first. Training is not restricted.
    cv : "auto", int, splitter, iterable of (train, test) or None, default="auto"
        How sequences are split for tuners that need hold-out data; None is one hold-out part. "auto" is one for
        ``tuner="auto"`` with 5,000 sequences or more, else five folds.
    validation_fraction : float, default=0.2
        The part of the sequences in the hold-out, with ``cv=None``; runs of neighbours are held out together.
    rescale : {"none", "n"}, default="none"
        Whether strengths learned on a part of the data are multiplied, for the final fit on all, by the ratio of weights.
    solver : {"auto", "lbfgs", "newton-cg"} or solver object, default="auto"
        The solver for given strengths. "auto": L-BFGS, and Newton's method for fine fits.
    tol : float or None, default=None
        When a fit has converged: the relative gap between its penalised objective and the optimum is at most this
        (docs/conventions.md). None: 1e-3, or 1e-6 for chains of fewer than 10,000 weights.
    max_iter : int, default=1000
        The most iterations of one fit.
    warm_start : bool, default=False
        Begin at the weights of the last fit, for those pairs of features and labels that it had. The strengths are learned
        again.
    random_state : int, RandomState or None, default=None
        Seeds the splits. None is the seed 0: the same call gives the same answer.
    n_jobs : int or None, default=None
        Threads over sequences, at most four; None and -1 mean all cores. Results do not depend on it.
    verbose : int, default=0
        1: every step of the tuner goes to ``logging.getLogger("tikhon.estimators.base")``, level INFO.

    Attributes
    ----------
    classes_ : ndarray of shape (n_labels,)
        The labels, sorted.
    feature_names_ : list of str
        x0, x1, ... where sequences were arrays.
    coef_ : sparse array of shape (n_labels, n_features)
    transitions_ : ndarray of shape (n_labels, n_labels)
        Weights of steps from the label of the row to that of the column.
    transitions2_ : ndarray of shape (n_labels, n_labels, n_labels)
        For order 2.
    strengths_ : dict from group name to float
    tuning_ : TuneResult
        What happened: status and its reason, losses, residuals, a trace of the steps.
    groups_ : Groups
        The group of each weight.
    n_iter_ : int
        Iterations of the solver over the whole tuning.

    Examples
    --------
    >>> from tikhon import ChainCRF
    >>> X = [[["word=the"], ["word=cat", "suffix=at"]], [["word=a"], ["word=rat", "suffix=at"]]] * 10
    >>> y = [["DET", "NOUN"]] * 20
    >>> model = ChainCRF(tuner=None).fit(X, y)
    >>> model.predict([[["word=the"], ["suffix=at"]]])
    [['DET', 'NOUN']]
    >>> model.strongest_features("DET", n=1)[0][0]
    'word=a'
    """

    classes_: NDArray[Any]
    recipe_: (
        dict[str, Any] | None
    )  # how features were made, in JSON, where whoever made them wants it kept in model files
    _file_description = CHAIN_FILE
    _encoder: FeatureEncoder
    _layout: Layout
    _weights: Vector

    def __init__(
        self,
        groups: GroupSpec = TEMPLATE,
        tuner: str | Tuner | None = "auto",
        strengths: Mapping[str, float] | float | None = None,
        *,
        order: int = 1,
        all_pairs: bool = False,
        class_weight: Mapping[Any, float] | str | None = None,
        allowed: Allowed = None,
        cv: Any = "auto",
        validation_fraction: float = 0.2,
        rescale: Rescale = "none",
        solver: str | Solver = "auto",
        tol: float | None = None,
        max_iter: int = 1000,
        warm_start: bool = False,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.groups = groups
        self.tuner = tuner
        self.strengths = strengths
        self.order = order
        self.all_pairs = all_pairs
        self.class_weight = class_weight
        self.allowed = allowed
        self.cv = cv
        self.validation_fraction = validation_fraction
        self.rescale = rescale
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.warm_start = warm_start
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    @classmethod
    def from_c2(cls, c2: float, **parameters: Any) -> Self:
        """A model with the penalty of CRFsuite's ``c2`` (and c1 = 0) on all weights: one strength, 2 c2, and no tuning."""
        return cls(groups=None, tuner=None, strengths=2.0 * c2, **parameters)

    @property
    def c2_(self) -> float:
        """What CRFsuite would call the strength, where all weights share one."""
        check_is_fitted(self)
        distinct = sorted(set(self.strengths_.values()))
        if len(distinct) != 1:
            raise AttributeError(
                f"CRFsuite has one c2 for all weights; here strengths are {distinct[0]:.3g} to {distinct[-1]:.3g}"
            )
        return distinct[0] / 2.0

    def fit(self, X: Any, y: Any, sample_weight: Any = None, lengths: Any = None) -> Self:
        """Learn the strengths and the weights.

        Parameters
        ----------
        X : list of sequences, or with ``lengths`` an array or list of tokens
            A sequence is a list of tokens, or a dense or sparse array or a data frame with a row per token. A
            token is a list of feature names, or a dict from names to values: text makes the feature "name=text", a number
            the feature "name" of that value, True the feature "name", False and None none.
        y : list of lists of labels, or with ``lengths`` a flat array or list
            Text or numbers; None where a label is not known: the loss then sums over all that it could be.
        sample_weight : array-like with an entry per sequence, float or None, default=None
        lengths : array-like of int or None, default=None
            The number of tokens of each sequence, where X and y hold those of all sequences one after the other.

        Returns
        -------
        self
        """
        checked_parameters(self)
        if self.order not in (1, 2) or not isinstance(self.order, Integral):
            raise InputError(f"order={self.order!r}: write 1 or 2")
        sequences, labels = as_sequences("X", X, lengths), as_sequences("y", y, lengths)
        if not sequences:
            raise InputError("X holds no sequences: n_samples = 0, at least one is needed")
        row_weights = checked_weights(sample_weight, len(sequences))
        self._learn(sequences, labels, row_weights)
        self._stop_if_interrupted()
        return self

    def _learn(self, sequences: Sequence[Any], labels: Sequence[Any], row_weights: Vector) -> None:
        old = (self.feature_names_, self.classes_, self._layout, self._weights) if self._is_warm_started else None
        encoder, warned = FeatureEncoder(), FitWarnings()
        objective, classes = self._objective(encoder, sequences, labels, row_weights, warned)
        layout = objective.layout
        groups = self._with_strengths(
            chain_groups(self.groups, encoder.names if encoder.n_columns is None else None, layout)
        )
        rules_of(self.allowed, classes)  # bad ones are told before the work, not after
        tuner = self._checked_tuner(groups)
        start = None if old is None else carried_weights(*old, encoder.names, classes, layout)
        result = self._tune(
            tuner, objective, groups, objective.row_weights, X=sequences, y=labels, codes=None, one_thread=True, n_jobs=1,
            start=start, warned=warned,
        )  # fmt: skip
        self.classes_ = classes
        self.recipe_ = None
        self._encoder, self._layout, self._weights = encoder, layout, result.weights

    def _objective(
        self, encoder: FeatureEncoder, sequences: Sequence[Any], labels: Sequence[Any], row_weights: Vector, warn: Warn
    ) -> tuple[Chain, NDArray[Any]]:
        """The loss, and the labels. What is encoded on the way is gone afterwards: the objective has its own form of it."""
        tokens = encoder.encode(sequences, learn=True)
        refuse_empty(tokens.starts)
        counted = row_weights > 0.0
        codes_of = label_codes(labels, tokens.starts, counted)
        codes = codes_of.encode(labels, tokens.starts, unseen=UNKNOWN)
        codes[np.repeat(~counted, np.diff(tokens.starts))] = UNKNOWN
        row_weights = sequence_weights(row_weights, self.class_weight, codes, tokens.starts, codes_of.classes)
        data = Sequences(
            tokens.starts, tokens.pointers, tokens.features, tokens.values, codes, encoder.n_features, len(codes_of.classes)
        )  # fmt: skip
        layout = layout_of(data, self.order, all_pairs=self.all_pairs)
        warn_of_memory(data, layout, warn)
        return Chain(data, layout, row_weights=row_weights, n_threads=cores(self.n_jobs)), codes_of.classes

    # What the model knows, for readers.

    @property
    def feature_names_(self) -> list[str]:
        check_is_fitted(self)
        return self._encoder.names

    @property
    def coef_(self) -> Any:
        check_is_fitted(self)
        layout = self._layout
        entries = (self._weights[: layout.n_pairs], (layout.pair_labels, layout.pair_features))
        return sp.csr_array(entries, shape=(layout.n_labels, layout.n_features))

    @property
    def transitions_(self) -> Matrix:
        check_is_fitted(self)
        return self._layout.transition_weights(self._weights, 1)

    @property
    def transitions2_(self) -> NDArray[np.float64]:
        check_is_fitted(self)
        if self._layout.order < 2:
            raise AttributeError("a chain of order 1 has no weights of label triples")
        return self._layout.transition_weights(self._weights, 2)

    def strongest_features(self, label: Any, n: int = 10) -> list[tuple[str, float]]:
        """The features that speak most for a label, and those that speak most against it if n is negative."""
        check_is_fitted(self)
        code = int(self._label_codes().encode([[label]], np.array([0, 1]))[0])
        layout = self._layout
        own = np.flatnonzero(layout.pair_labels == code)
        weights = self._weights[own]
        order = np.argsort(-weights if n >= 0 else weights, kind="stable")[: abs(n)]
        names = self._encoder.names_of(layout.pair_features[own[order]])
        return list(zip(names, weights[order].tolist(), strict=True))

    # Predictions.

    def predict(self, X: Any, lengths: Any = None, *, known: Any = None) -> list[list[Any]]:
        """The most probable labels of each sequence (Viterbi).

        Parameters
        ----------
        X, lengths
            As in ``fit``.
        known : list of lists of labels, default=None
            Labels that are given, None where they are to be found.

        Returns
        -------
        list of lists of labels
        """
        data = self._encoded(X, lengths, known)
        codes, scores = self._decoder().best(data)
        _refuse_impossible(scores)
        return self._label_codes().decode(codes, data.starts)

    def predict_marginals(self, X: Any, lengths: Any = None, *, known: Any = None) -> list[Matrix]:
        """The probability of each label (a column each, in the order of ``classes_``) at each token, by sequence."""
        data = self._encoded(X, lengths, known)
        marginals, log_sums = self._decoder().marginals(data)
        _refuse_impossible(log_sums)
        return [marginals[start:end] for start, end in pairwise(data.starts.tolist())]

    def predict_nbest(self, X: Any, n: int = 5, lengths: Any = None) -> list[list[tuple[list[Any], float]]]:
        """Of each sequence up to n labellings with their probabilities, the most probable first."""
        _check_count("n", n)
        data = self._encoded(X, lengths, None)
        found = self._decoder().several_best(data, n)
        _refuse_impossible(np.array([0.0 if labellings else -np.inf for labellings in found]))
        return [
            [(self.classes_[one.labels].tolist(), float(np.exp(one.log_probability))) for one in labellings]
            for labellings in found
        ]

    def sample(self, X: Any, n: int = 1, lengths: Any = None, *, random_state: Any = None) -> list[list[list[Any]]]:
        """Of each sequence n labellings, drawn by their probability. ``random_state`` None is the seed 0."""
        _check_count("n", n)
        data = self._encoded(X, lengths, None)
        rng = np.random.default_rng(seeded(random_state).randint(2**31))
        drawn, log_sums = self._decoder().drawn(data, n, rng)
        _refuse_impossible(log_sums)
        return [self.classes_[paths].tolist() for paths in drawn]

    def log_likelihood(self, X: Any, y: Any, sample_weight: Any = None, lengths: Any = None) -> float:
        """The weighted sum of log p(labels | sequence); labels that are None are summed over."""
        data = self._encoded(X, lengths, y)
        weights = checked_weights(sample_weight, data.n_sequences)
        counted = weights > 0.0
        known, log_sums = self._decoder().log_likelihoods(data)
        _refuse_impossible(np.where(counted, log_sums, 0.0))
        return float(weights[counted] @ known[counted])

    def score(self, X: Any, y: Any, sample_weight: Any = None, lengths: Any = None) -> float:
        """The share of tokens whose label is predicted right, sequences weighted; labels that are None do not count."""
        data = self._encoded(X, lengths, None)
        truth = self._label_codes().encode(as_sequences("y", y, lengths), data.starts, unseen=UNSEEN_LABEL)
        weights = np.repeat(checked_weights(sample_weight, data.n_sequences), np.diff(data.starts))
        weights[truth == UNKNOWN] = 0.0
        if not weights.any():
            raise InputError("y holds no labels to score by")
        found, scores = self._decoder().best(data)
        _refuse_impossible(scores)
        return float(np.average(found == truth, weights=weights))

    def _encoded(self, X: Any, lengths: Any, known: Any) -> Sequences:
        check_is_fitted(self)
        sequences = as_sequences("X", X, lengths)
        tokens = self._encoder.encode(sequences, learn=False)
        warn_of_no_features(tokens)
        labels = np.full(int(tokens.starts[-1]), UNKNOWN, np.int32)
        if known is not None:
            labels = self._label_codes().encode(as_sequences("known labels", known, lengths), tokens.starts)
        layout = self._layout
        return Sequences(
            tokens.starts, tokens.pointers, tokens.features, tokens.values, labels, layout.n_features, layout.n_labels
        )  # fmt: skip

    def _label_codes(self) -> LabelCodes:
        return LabelCodes(self.classes_)

    def _decoder(self) -> ChainDecoder:
        """Kept: users tag sentence by sentence."""
        allowed = self.allowed
        asked = (allowed if allowed is None or isinstance(allowed, str) else [*map(tuple, allowed)], self.n_jobs)
        kept = _decoders.get(self)
        if kept is None or kept[0] is not self._weights or kept[1] != asked:
            rules = rules_of(self.allowed, self.classes_)
            decoder = ChainDecoder(self._layout, self._weights, rules, n_threads=cores(self.n_jobs))
            kept = _decoders[self] = (self._weights, asked, decoder)
        return kept[2]

    # Files.

    def _own_state(self, arrays: Arrays) -> dict[str, Any]:
        return chain_state(self._encoder, self._layout, arrays) | {"recipe": self.recipe_}

    def _restore_own(self, header: Mapping[str, Any], arrays: Arrays) -> None:
        self._encoder, self._layout = restored_chain(header, arrays)
        self._weights = self.tuning_.weights
        self.recipe_ = header["recipe"]

    def _column_groups(self) -> list[str | None]:
        layout = self._layout
        of_feature = np.full(layout.n_features, -1, np.intp)
        of_feature[layout.pair_features] = self.groups_.index[: layout.n_pairs]
        return [None if number < 0 else self.groups_.names[number] for number in of_feature]


def _refuse_impossible(scores: Vector) -> None:
    """Scores or log sums of sequences; -inf where every labelling is forbidden."""
    impossible = np.flatnonzero(~(scores > -np.inf))
    if len(impossible):
        raise InputError(f"sequence {impossible[0]}: no labels agree with those known and with 'allowed'")


def _check_count(name: str, value: Any) -> None:
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < 1:
        raise InputError(f"{name}={value!r}: write a whole number, 1 or larger")
