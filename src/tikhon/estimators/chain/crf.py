"""Chain CRFs with learned strengths."""

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from tikhon.estimators.base import cores
from tikhon.estimators.chain.description import CHAIN_FILE
from tikhon.estimators.chain.groups import TEMPLATE, chain_groups
from tikhon.estimators.chain.rules import Allowed
from tikhon.estimators.chain.sequence_estimator import Decoding, SequenceEstimator
from tikhon.estimators.chain.state import chain_state, restored_chain
from tikhon.estimators.chain.token_features import FeatureEncoder
from tikhon.estimators.chain.weights import carried_weights, warn_of_size
from tikhon.estimators.state import Arrays
from tikhon.estimators.user_warnings import Warn
from tikhon.groups import Groups, GroupSpec
from tikhon.models.chain.layout import Layout, layout_of
from tikhon.models.chain.objective import Chain
from tikhon.models.chain.sequences import Sequences
from tikhon.objective import Vector
from tikhon.solvers import Solver
from tikhon.trainers import Trainer
from tikhon.tuners import Tuner
from tikhon.tuners.base import Rescale


class ChainCRF(SequenceEstimator):
    """A linear-chain conditional random field that learns one L2 strength for each template of features.

    It minimises ``sum_i a_i (log Z(x_i) - score(x_i, y_i)) + 1/2 sum_g strength_g ||w_g||^2`` over sequences i with weights
    a. The score of labels y is ``sum_t sum_f x_tf w[f, y_t] + sum_t w[y_{t-1}, y_t]`` and, for order 2, also
    ``+ sum_t w[y_{t-2}, y_{t-1}, y_t]``. A strength s is what CRFsuite calls ``c2 = s / 2``.

    Sequences are lists of tokens, and a token is a dict from feature names to values or a list of feature names (see
    ``fit``), or sequences are arrays with a row per token.

    Parameters
    ----------
    groups : "template", "separate", None, array-like, dict or callable, default="template"
        Which features share a strength. "template": those with the same name before "=" (or before ":", if most names have
        no "="), names without one forming "rest"; "separate": none; None: all, transitions included; or any form that
        LogisticRegression takes except "prefix", by feature. Columns of arrays are one template, "all". Transitions are a
        separate group, "transitions", and label triples "transitions2".
    tuner : {"auto", "gradient", "mm", "direct", "grid"}, tuner object or None, default="auto"
        How the strengths are learned. "auto" minimises the loss of held-out sequences. None: no tuning.
    strengths : float, dict from group name to float, or None, default=None
        Fixed strengths of all groups (a number) or of some (a dict); the tuner learns the others. With ``tuner=None`` a dict
        must name every group, and None means 1.0 for all.
    order : {1, 2}, default=1
        Number of previous labels in a transition.
    all_pairs : bool, default=False
        Weights for all pairs of features and labels, and for all transitions. False: for those seen in training.
    class_weight : dict from label to float, "balanced" or None, default=None
        Weights of labels: the loss of a sequence is weighted by their mean over its labels. "balanced": inversely
        proportional to their frequencies.
    allowed : None, "bio", "bioes" or iterable of pairs (label, next label), default=None
        Which labels may follow which in predictions; all others have probability 0. A pair (None, label) allows a label at
        the start. Training is not restricted.
    decoding : {"viterbi", "marginal"}, default="viterbi"
        Predictions are the most probable labels of a sequence as a whole ("viterbi") or of each token ("marginal"), of which
        more are right, but which may contradict each other.
    trainer : {"lbfgs", "sgd", "perceptron", "margin"} or trainer object, default="lbfgs"
        How the weights are trained. "lbfgs": by the solver, to convergence, at strengths that the tuner learns. The others
        (``tikhon.trainers``) visit one sequence after another for a number of epochs, or until held-out sequences say stop;
        they learn no strengths and have none unless these are given.
    cv : "auto", int, splitter, iterable of (train, test) or None, default="auto"
        How sequences are split for tuners that need hold-out data. None: a single hold-out. "auto": a single hold-out for
        ``tuner="auto"`` with 5,000 or more sequences, else five folds.
    validation_fraction : float, default=0.2
        Fraction of the sequences to hold out with ``cv=None``; runs of neighbouring ones are held out together.
    rescale : {"none", "n"}, default="none"
        With "n", strengths learned on part of the data are multiplied by the ratio of weights for the final fit on all data.
    solver : {"auto", "lbfgs", "newton-cg"} or solver object, default="auto"
        The solver for given strengths. "auto": L-BFGS, and Newton's method for high-accuracy fits.
    tol : float or None, default=None
        Convergence tolerance of a fit: the relative gap between its penalised objective and the optimum
        (docs/conventions.md). None: 1e-3, or 1e-6 for chains of fewer than 10,000 weights.
    max_iter : int, default=1000
        Maximum number of iterations of one fit.
    warm_start : bool, default=False
        Start from the weights of the last fit, for the pairs of features and labels that it had. The strengths are learned
        again.
    random_state : int, RandomState or None, default=None
        Seed of the splits. None means the seed 0, so that results are reproducible.
    n_jobs : int or None, default=None
        Threads over sequences, at most four; None and -1 mean all cores. Results do not depend on it.
    verbose : int, default=0
        1: log every step of the tuner to ``logging.getLogger("tikhon.estimators.base")`` at level INFO.

    Attributes
    ----------
    classes_ : ndarray of shape (n_labels,)
        The labels, sorted.
    feature_names_ : list of str
        x0, x1, ... if sequences were arrays.
    coef_ : sparse array of shape (n_labels, n_features)
    transitions_ : ndarray of shape (n_labels, n_labels)
        Weights of transitions from the row's label to the column's.
    transitions2_ : ndarray of shape (n_labels, n_labels, n_labels)
        For order 2.
    strengths_ : dict from group name to float
    tuning_ : TuneResult
        Result of the tuning: status and its reason, losses, residuals, a trace of the steps.
    groups_ : Groups
        The group of each weight.
    n_iter_ : int
        Total number of solver iterations of the tuning.

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

    _file_description = CHAIN_FILE
    _layout: Layout

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
        decoding: Decoding = "viterbi",
        trainer: str | Trainer = "lbfgs",
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
        self.decoding = decoding
        self.trainer = trainer
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
        """The strength as CRFsuite's ``c2``, if all weights share one."""
        check_is_fitted(self)
        distinct = sorted(set(self.strengths_.values()))
        if len(distinct) != 1:
            raise AttributeError(
                f"CRFsuite has one c2 for all weights, but here strengths are {distinct[0]:.3g} to {distinct[-1]:.3g}"
            )
        return distinct[0] / 2.0

    @property
    def coef_(self) -> Any:
        check_is_fitted(self)
        layout = self._layout
        entries = (self._weights[: layout.n_pairs], (layout.pair_labels, layout.pair_features))
        return sp.csr_array(entries, shape=(layout.n_labels, layout.n_features))

    def strongest_features(self, label: Any, n: int = 10) -> list[tuple[str, float]]:
        """The n features with the largest weights for a label, or the -n with the smallest if n is negative."""
        check_is_fitted(self)
        code = int(self._label_codes().encode([[label]], np.array([0, 1]))[0])
        layout = self._layout
        own = np.flatnonzero(layout.pair_labels == code)
        weights = self._weights[own]
        order = np.argsort(-weights if n >= 0 else weights, kind="stable")[: abs(n)]
        names = self._encoder.names_of(layout.pair_features[own[order]])
        return list(zip(names, weights[order].tolist(), strict=True))

    # Implementation of the base class's abstract methods.

    def _objective_of(self, data: Sequences, row_weights: Vector, warn: Warn) -> Chain:
        layout = layout_of(data, self.order, all_pairs=self.all_pairs)
        warn_of_size(data, layout, warn)
        return Chain(data, layout, row_weights=row_weights, n_threads=cores(self.n_jobs))

    def _groups_of(self, names: Sequence[str] | None, layout: Layout) -> Groups:
        return chain_groups(self.groups, names, layout)

    def _carried_weights(
        self, old_names: Sequence[str], old_classes: NDArray[Any], old_layout: Layout, old_weights: Vector,
        names: Sequence[str], classes: NDArray[Any], layout: Layout,
    ) -> Vector:  # fmt: skip
        return carried_weights(old_names, old_classes, old_layout, old_weights, names, classes, layout)

    def _layout_state(self, arrays: Arrays) -> dict[str, Any]:
        return chain_state(self._encoder, self._layout, arrays)

    def _restored_layout(self, header: Mapping[str, Any], arrays: Arrays) -> tuple[FeatureEncoder, Layout]:
        return restored_chain(header, arrays)

    def _column_groups(self) -> list[str | None]:
        layout = self._layout
        of_feature = np.full(layout.n_features, -1, np.intp)
        of_feature[layout.pair_features] = self.groups_.index[: layout.n_pairs]
        return [None if number < 0 else self.groups_.names[number] for number in of_feature]
