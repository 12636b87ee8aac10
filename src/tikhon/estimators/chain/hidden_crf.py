"""Hidden-unit CRFs with learned strengths."""

from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from tikhon.errors import InputError
from tikhon.estimators.base import cores
from tikhon.estimators.chain.description import HIDDEN_UNIT_FILE
from tikhon.estimators.chain.groups import TEMPLATE, hidden_unit_groups
from tikhon.estimators.chain.rules import Allowed
from tikhon.estimators.chain.sequence_estimator import Decoding, SequenceEstimator
from tikhon.estimators.chain.state import hidden_unit_state, restored_hidden_units
from tikhon.estimators.chain.token_features import FeatureEncoder
from tikhon.estimators.chain.weights import carried_hidden_weights, warn_of_hidden_size
from tikhon.estimators.checks import seeded
from tikhon.estimators.state import Arrays
from tikhon.estimators.user_warnings import Warn
from tikhon.groups import Groups, GroupSpec
from tikhon.models.chain.hidden_objective import HiddenUnitChain
from tikhon.models.chain.hidden_units import HiddenLayer
from tikhon.models.chain.layout import ChainLayout
from tikhon.models.chain.sequences import Sequences
from tikhon.models.chain.transitions import transitions_of
from tikhon.objective import Matrix, Vector
from tikhon.solvers import Solver
from tikhon.trainers import Trainer
from tikhon.tuners import Tuner
from tikhon.tuners.base import Rescale


class HiddenUnitCRF(SequenceEstimator):
    """A linear-chain CRF with binary hidden units between features and labels, and learned L2 strengths.

    The units make the score of a label non-linear in the features of its token (van der Maaten, Welling, Saul 2011): label k
    of a token with features x scores ``c_k + sum_h log(1 + exp(b_h + w_h . x + v_kh))``, and ``r_k`` or ``q_k`` more at the
    first or last token of a sequence. Transitions, the loss and the penalty are those of ChainCRF.

    The loss is not convex: a fit begins at small random weights and ends in a local minimum that depends on
    ``random_state``.

    Parameters
    ----------
    groups : "template", "separate", None, array-like, dict or callable, default="template"
        Which features share a strength for their weights w, in any form that ChainCRF takes; columns of arrays are one
        group, "inputs". The weights v are the group "hidden_to_label"; b, c, r and q are "biases"; transitions are
        "transitions", label triples "transitions2". None: all weights are one group.
    tuner : {"auto", "gradient", "mm", "direct", "grid"}, tuner object or None, default="auto"
        How the strengths are learned. "auto" minimises the loss of held-out sequences. None: no tuning.
    strengths : float, dict from group name to float, or None, default=None
        Fixed strengths of all groups (a number) or of some (a dict); the tuner learns the others. With ``tuner=None`` a dict
        must name every group, and None means 1.0 for all.
    n_hidden : int, default=100
        Number of hidden units.
    order : {1, 2}, default=1
        Number of previous labels in a transition.
    all_pairs : bool, default=False
        Weights for all transitions. False: for those seen in training.
    class_weight, allowed, decoding, trainer, cv, validation_fraction, rescale
        As in ChainCRF. Perceptrons predict labels together with the best states of the hidden units.
    solver : {"auto", "lbfgs", "newton-cg"} or solver object, default="auto"
        The solver for given strengths. "auto": L-BFGS.
    tol : float or None, default=None
        Convergence tolerance of a fit: the estimated relative gap between its penalised objective and the local minimum
        (docs/conventions.md). None: 1e-3.
    max_iter : int, default=1000
        Maximum number of iterations of one fit.
    warm_start : bool, default=False
        Start from the weights of the last fit, for the features, labels and hidden units that it had. The strengths are
        learned again.
    random_state : int, RandomState or None, default=None
        Seed of the initial weights and of the splits. None means the seed 0, so that results are reproducible.
    n_jobs, verbose
        As in ChainCRF.

    Attributes
    ----------
    classes_ : ndarray of shape (n_labels,)
        The labels, sorted.
    feature_names_ : list of str
        x0, x1, ... if sequences were arrays.
    input_weights_ : ndarray of shape (n_features, n_hidden)
        w.
    hidden_biases_ : ndarray of shape (n_hidden,)
        b.
    label_weights_ : ndarray of shape (n_labels, n_hidden)
        v.
    label_biases_ : ndarray of shape (3, n_labels)
        c, and r and q for first and last tokens.
    transitions_, transitions2_, strengths_, tuning_, groups_, n_iter_
        As in ChainCRF.

    Examples
    --------
    >>> import numpy as np
    >>> from tikhon import HiddenUnitCRF
    >>> rng = np.random.default_rng(0)
    >>> X = [rng.choice([-1.0, 1.0], size=(5, 2)) for _ in range(40)]
    >>> y = [(x[:, 0] * x[:, 1] > 0).tolist() for x in X]  # an exclusive or, which no linear chain learns
    >>> model = HiddenUnitCRF(n_hidden=8, tuner=None, strengths=0.01).fit(X, y)
    >>> model.score(X, y)
    1.0
    """

    _file_description = HIDDEN_UNIT_FILE
    _reason_not_convex = "states of hidden units are summed out"
    _layout: ChainLayout[HiddenLayer]

    def __init__(
        self,
        groups: GroupSpec = TEMPLATE,
        tuner: str | Tuner | None = "auto",
        strengths: Mapping[str, float] | float | None = None,
        *,
        n_hidden: int = 100,
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
        self.n_hidden = n_hidden
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

    @property
    def input_weights_(self) -> Matrix:
        return self._parts()[0]

    @property
    def hidden_biases_(self) -> Vector:
        return self._parts()[1]

    @property
    def label_weights_(self) -> Matrix:
        return self._parts()[2]

    @property
    def label_biases_(self) -> Matrix:
        return self._parts()[3]

    def _parts(self) -> tuple[Matrix, Vector, Matrix, Matrix]:
        check_is_fitted(self)
        return self._layout.emission.parts(self._layout.split(self._weights)[0])

    # Implementation of the base class's abstract methods.

    def _check_own_parameters(self) -> None:
        n_hidden = self.n_hidden
        if isinstance(n_hidden, bool) or not isinstance(n_hidden, Integral) or n_hidden < 0:
            raise InputError(f"n_hidden={n_hidden!r}: write a whole number, 1 or larger")
        if n_hidden == 0:
            raise InputError("n_hidden=0: without hidden units this is a linear chain; use ChainCRF")

    def _objective_of(self, data: Sequences, row_weights: Vector, warn: Warn) -> HiddenUnitChain:
        seed = int(seeded(self.random_state).randint(2**31))
        layer = HiddenLayer(data.n_features, data.n_labels, int(self.n_hidden), seed)
        layout = ChainLayout(layer, transitions_of(data, self.order, all_pairs=self.all_pairs))
        warn_of_hidden_size(data, layout, warn)
        return HiddenUnitChain(data, layout, row_weights=row_weights, n_threads=cores(self.n_jobs))

    def _groups_of(self, names: Sequence[str] | None, layout: ChainLayout[HiddenLayer]) -> Groups:
        return hidden_unit_groups(self.groups, names, layout)

    def _carried_weights(
        self, old_names: Sequence[str], old_classes: NDArray[Any], old_layout: ChainLayout[HiddenLayer], old_weights: Vector,
        names: Sequence[str], classes: NDArray[Any], layout: ChainLayout[HiddenLayer],
    ) -> Vector:  # fmt: skip
        return carried_hidden_weights(old_names, old_classes, old_layout, old_weights, names, classes, layout)

    def _layout_state(self, arrays: Arrays) -> dict[str, Any]:
        return hidden_unit_state(self._encoder, self._layout, arrays)

    def _restored_layout(
        self, header: Mapping[str, Any], arrays: Arrays
    ) -> tuple[FeatureEncoder, ChainLayout[HiddenLayer]]:  # fmt: skip
        return restored_hidden_units(header, arrays)

    def _column_groups(self) -> list[str | None]:
        layer, index = self._layout.emission, self.groups_.index
        of_feature = np.reshape(index[: layer.n_features * layer.n_hidden], (layer.n_features, layer.n_hidden))[:, 0]
        return [None if number < 0 else self.groups_.names[number] for number in of_feature]
