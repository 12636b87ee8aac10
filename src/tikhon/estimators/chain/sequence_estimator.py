"""The common part of estimators of label sequences, however they score tokens: input, labels, rules, predictions, files."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from numbers import Integral
from typing import Any, Literal, Self, TypeAlias, get_args
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from tikhon.errors import InputError
from tikhon.estimators.base import TunedEstimator, WeightsByGroup, cores
from tikhon.estimators.chain.rules import Allowed, rules_of
from tikhon.estimators.chain.sequences import LabelCodes, as_sequences, label_codes, refuse_empty
from tikhon.estimators.chain.token_features import FeatureEncoder, warn_of_no_features
from tikhon.estimators.chain.weights import sequence_weights
from tikhon.estimators.checks import checked_parameters, checked_weights, seeded
from tikhon.estimators.state import Arrays
from tikhon.estimators.user_warnings import FitWarnings, Warn
from tikhon.groups import Groups
from tikhon.models.chain.decoder import ChainDecoder
from tikhon.models.chain.label_chain import LabelChain
from tikhon.models.chain.layout import ChainLayout
from tikhon.models.chain.sequences import UNKNOWN, Sequences
from tikhon.objective import Matrix, Vector
from tikhon.trainers import Trainer, make_trainer

# The last decoder of each model, with its weights and parameters; cached here since predictions do not modify the model.
_decoders: "WeakKeyDictionary[SequenceEstimator, tuple[Vector, Any, ChainDecoder]]" = WeakKeyDictionary()

Decoding: TypeAlias = Literal["viterbi", "marginal"]

UNSEEN_LABEL = -2  # in data for scoring: equals no prediction


class SequenceEstimator(WeightsByGroup, TunedEstimator):
    """The base of estimators of label sequences; it has no parameters of its own.

    A subclass stores its parameters and defines the objective it fits, which weights share a strength, and the contents of its
    files, in the methods that raise ``NotImplementedError``.
    """

    order: int
    class_weight: Mapping[Any, float] | str | None
    allowed: Allowed
    decoding: Decoding
    trainer: str | Trainer

    classes_: NDArray[Any]
    recipe_: dict[str, Any] | None  # how features were made, as JSON for model files, if their maker provides it
    _encoder: FeatureEncoder
    _layout: ChainLayout[Any]
    _weights: Vector

    # Implemented by subclasses.

    def _check_own_parameters(self) -> None:
        """Check the parameters that only this estimator has."""

    def _objective_of(self, data: Sequences, row_weights: Vector, warn: Warn) -> LabelChain:
        raise NotImplementedError

    def _groups_of(self, names: Sequence[str] | None, layout: Any) -> Groups:
        """``names`` are those of the features, None for columns of arrays."""
        raise NotImplementedError

    def _carried_weights(
        self, old_names: Sequence[str], old_classes: NDArray[Any], old_layout: Any, old_weights: Vector,
        names: Sequence[str], classes: NDArray[Any], layout: Any,
    ) -> Vector:  # fmt: skip
        """Weights of an earlier fit in the layout of this one, for a warm start."""
        raise NotImplementedError

    def _layout_state(self, arrays: Arrays) -> dict[str, Any]:
        """Fill the arrays of a model file and return its header entries."""
        raise NotImplementedError

    def _restored_layout(self, header: Mapping[str, Any], arrays: Arrays) -> tuple[FeatureEncoder, Any]:
        raise NotImplementedError

    # Fits.

    def fit(self, X: Any, y: Any, sample_weight: Any = None, lengths: Any = None) -> Self:
        """Learn the strengths and the weights.

        Parameters
        ----------
        X : list of sequences, or with ``lengths`` an array or list of tokens
            A sequence is a list of tokens, or a dense or sparse array or a data frame with a row per token. A
            token is a list of feature names, or a dict from names to values: text makes the feature "name=text", a number
            the feature "name" with that value, True the feature "name", False and None none.
        y : list of lists of labels, or with ``lengths`` a flat array or list
            Text or numbers; None for an unknown label: the loss then sums over all possible ones.
        sample_weight : array-like with an entry per sequence, float or None, default=None
        lengths : array-like of int or None, default=None
            The number of tokens of each sequence, if X and y hold the concatenated tokens of all sequences.

        Returns
        -------
        self
        """
        checked_parameters(self)
        if self.order not in (1, 2) or not isinstance(self.order, Integral):
            raise InputError(f"order={self.order!r}: write 1 or 2")
        self._check_decoding()
        self._check_own_parameters()
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
        names = encoder.names if encoder.n_columns is None else None
        groups = self._with_strengths(self._groups_of(names, layout))
        rules_of(self.allowed, classes)  # bad rules raise before the work, not after
        trainer = make_trainer(self.trainer)
        tuner = trainer or self._checked_tuner(groups)
        objective.by_token = self.decoding == "marginal"
        start = None if old is None else self._carried_weights(*old, encoder.names, classes, layout)
        result = self._tune(
            tuner, objective, groups, objective.row_weights, X=sequences, y=labels, codes=None, one_thread=True, n_jobs=1,
            start=start, warned=warned,
        )  # fmt: skip
        self.classes_ = classes
        self.recipe_ = None
        in_best_states = trainer is not None and trainer.in_best_states
        self._layout = layout.with_best_states() if in_best_states else layout
        self._encoder, self._weights = encoder, result.weights

    def _with_strengths(self, groups: Groups) -> Groups:
        if make_trainer(self.trainer) is None:
            return super()._with_strengths(groups)
        if not (self.tuner is None or self.tuner == "auto"):
            raise InputError(
                f"trainer={self.trainer!r} learns no strengths: leave tuner={self.tuner!r} out, or set trainer='lbfgs'"
            )
        found = groups.with_fixed(0.0 if self.strengths is None else self.strengths)
        if found.learned.any():
            missing = found.names[int(np.argmax(found.learned))]
            raise InputError(
                f"trainer={self.trainer!r} needs a strength for every group or for none: {missing!r} has none"
            )
        return found

    def _objective(
        self, encoder: FeatureEncoder, sequences: Sequence[Any], labels: Sequence[Any], row_weights: Vector, warn: Warn
    ) -> tuple[LabelChain, NDArray[Any]]:
        """The loss, and the labels. Encoded input is freed on return: the objective stores the data in its own form."""
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
        return self._objective_of(data, row_weights, warn), codes_of.classes

    # Inspection of the fitted model.

    @property
    def feature_names_(self) -> list[str]:
        check_is_fitted(self)
        return self._encoder.names

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

    # Predictions.

    def predict(self, X: Any, lengths: Any = None, *, known: Any = None) -> list[list[Any]]:
        """The most probable labels: of each sequence as a whole or, with ``decoding="marginal"``, token by token.

        Parameters
        ----------
        X, lengths
            As in ``fit``.
        known : list of lists of labels, default=None
            Known labels, None for those to predict.

        Returns
        -------
        list of lists of labels
        """
        data = self._encoded(X, lengths, known)
        return self._label_codes().decode(self._best_codes(data), data.starts)

    def _best_codes(self, data: Sequences) -> NDArray[np.int32]:
        self._check_decoding()  # it may have been changed since the fit
        if self.decoding == "viterbi":
            codes, scores = self._decoder().best(data)
        else:
            marginals, scores = self._decoder().marginals(data)
            codes = marginals.argmax(axis=1).astype(np.int32)
        _refuse_impossible(scores)
        return codes

    def _check_decoding(self) -> None:
        if self.decoding not in get_args(Decoding):
            raise InputError(f"decoding={self.decoding!r}: write one of {', '.join(map(repr, get_args(Decoding)))}")

    def predict_marginals(self, X: Any, lengths: Any = None, *, known: Any = None) -> list[Matrix]:
        """The probability of each label (a column each, in the order of ``classes_``) at each token, by sequence."""
        data = self._encoded(X, lengths, known)
        marginals, log_sums = self._decoder().marginals(data)
        _refuse_impossible(log_sums)
        return [marginals[start:end] for start, end in pairwise(data.starts.tolist())]

    def predict_nbest(self, X: Any, n: int = 5, lengths: Any = None) -> list[list[tuple[list[Any], float]]]:
        """Up to n labellings of each sequence with their probabilities, the most probable first."""
        _check_count("n", n)
        data = self._encoded(X, lengths, None)
        found = self._decoder().several_best(data, n)
        _refuse_impossible(np.array([0.0 if labellings else -np.inf for labellings in found]))
        return [
            [(self.classes_[one.labels].tolist(), float(np.exp(one.log_probability))) for one in labellings]
            for labellings in found
        ]

    def sample(self, X: Any, n: int = 1, lengths: Any = None, *, random_state: Any = None) -> list[list[list[Any]]]:
        """Sample n labellings of each sequence by their probability. ``random_state=None`` means the seed 0."""
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
        """The accuracy over tokens, with weighted sequences; tokens whose label is None are ignored."""
        data = self._encoded(X, lengths, None)
        truth = self._label_codes().encode(as_sequences("y", y, lengths), data.starts, unseen=UNSEEN_LABEL)
        weights = np.repeat(checked_weights(sample_weight, data.n_sequences), np.diff(data.starts))
        weights[truth == UNKNOWN] = 0.0
        if not weights.any():
            raise InputError("y has no known labels of positive weight to score by")
        return float(np.average(self._best_codes(data) == truth, weights=weights))

    def _encoded(self, X: Any, lengths: Any, known: Any) -> Sequences:
        check_is_fitted(self)
        sequences = as_sequences("X", X, lengths)
        tokens = self._encoder.encode(sequences, learn=False)
        warn_of_no_features(tokens)
        labels = np.full(int(tokens.starts[-1]), UNKNOWN, np.int32)
        if known is not None:
            labels = self._label_codes().encode(as_sequences("known labels", known, lengths), tokens.starts)
        return Sequences(
            tokens.starts, tokens.pointers, tokens.features, tokens.values, labels, self._encoder.n_features,
            self._layout.n_labels,
        )  # fmt: skip

    def _label_codes(self) -> LabelCodes:
        return LabelCodes(self.classes_)

    def _decoder(self) -> ChainDecoder:
        """Cached, since users tag sentence by sentence."""
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
        return self._layout_state(arrays) | {"recipe": self.recipe_}

    def _restore_own(self, header: Mapping[str, Any], arrays: Arrays) -> None:
        self._encoder, self._layout = self._restored_layout(header, arrays)
        if len(self.classes_) != self._layout.n_labels:
            raise ValueError("classes")
        self._weights = self.tuning_.weights
        self.recipe_ = header["recipe"]


def _refuse_impossible(scores: Vector) -> None:
    """Scores or log sums of sequences; -inf where every labelling is forbidden."""
    impossible = np.flatnonzero(~(scores > -np.inf))
    if len(impossible):
        raise InputError(f"sequence {impossible[0]}: no labelling agrees with the known labels and with 'allowed'")


def _check_count(name: str, value: Any) -> None:
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < 1:
        raise InputError(f"{name}={value!r}: write a whole number, 1 or larger")
