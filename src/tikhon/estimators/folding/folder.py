"""RNA secondary structures with learned strengths."""

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from tikhon.data.rna import PRETRAINED
from tikhon.data.rna_parameters import read_weights, write_parameters
from tikhon.data.safefile import MODEL_KIND, MODEL_VERSION, read_file
from tikhon.errors import InputError
from tikhon.estimators.base import TunedEstimator, WeightsByGroup, cores
from tikhon.estimators.checks import checked_parameters, checked_weights
from tikhon.estimators.folding.description import FOLDER_FILE
from tikhon.estimators.folding.groups import KINDS, groups_of_weights, left_out_weights, with_those_left_out
from tikhon.estimators.folding.predictions import FoldingPredictions
from tikhon.estimators.folding.rna_input import checked_sequences, checked_structures, examples_of, texts_of
from tikhon.estimators.state import Arrays, restore
from tikhon.estimators.user_warnings import FitWarnings
from tikhon.groups import GroupSpec
from tikhon.models.folding.objective import Folding
from tikhon.models.folding.prediction import LONGEST_SEQUENCE
from tikhon.models.folding.structures import Rules
from tikhon.models.folding.weights import GROUPS, folding_weights
from tikhon.objective import Vector
from tikhon.results import TuneResult
from tikhon.solvers import Solver
from tikhon.tuners import Tuner
from tikhon.tuners.base import Rescale


class RNAFolder(FoldingPredictions, WeightsByGroup, TunedEstimator):
    """A log-linear model of RNA secondary structures that learns one L2 strength for each kind of structural feature.

    It minimises ``sum_i a_i (log Z(x_i) - log Z(x_i, y_i)) + 1/2 sum_g strength_g ||w_g||^2`` over molecules i with weights a.
    Z(x) sums exp(score) over all nested structures of a sequence, Z(x, y) over those that agree with its known structure.
    The features are the 708 of CONTRAfold 2 in 15 kinds: pairs, stacks, loop lengths and so on.

    Parameters
    ----------
    groups : "kind", "separate", None, array-like, dict or callable, default="kind"
        Which weights share a strength. "kind": those of a kind; "separate": none; None: all; or any form that
        LogisticRegression takes except "prefix", applied to the names of the weights.
    tuner : {"auto", "gradient", "mm", "direct", "grid"}, tuner object or None, default="auto"
        How the strengths are learned. "auto" minimises the loss of held-out molecules. None: no tuning.
    strengths : float, dict from group name to float, or None, default=None
        Fixed strengths of all groups (a number) or of some (a dict); the tuner learns the others. With ``tuner=None`` a dict
        must name every group, and None means 1.0 for all.
    without : sequence of str, default=()
        Kinds of features to leave out, named as the groups of "kind"; their weights are 0.
    least_hairpin : int, default=0
        Minimum number of letters between two that pair.
    longest_loop : int, default=30
        Maximum number of unpaired letters in a bulge or internal loop; 30 is the limit.
    all_pairs : bool, default=False
        Whether any two letters may pair. False: only AU, CG and GU.
    counts_parses : bool, default=False
        Count structures with three or more pairs inside a loop as often as CONTRAfold's grammar parses them: for its
        weights, and to compare with its partition functions.
    longest_sequence : int, default=6000
        Longer sequences are refused, with the memory that they would take: 2.7 GB for 6,000 letters, and four times as
        much for twice the length (the tables alone; other arrays take a third more, Hessian products in fits twice as much).
    cv : "auto", int, splitter, iterable of (train, test) or None, default="auto"
        How molecules are split for tuners that need hold-out data. None: a single hold-out. "auto": five folds, or a single
        hold-out for ``tuner="auto"`` with 5,000 or more molecules.
    validation_fraction : float, default=0.2
        Fraction of the molecules to hold out with ``cv=None``; runs of neighbouring ones are held out together.
    rescale : {"none", "n"}, default="none"
        With "n", strengths learned on part of the data are multiplied by the ratio of weights for the final fit on all data.
    solver : {"auto", "lbfgs", "newton-cg"} or solver object, default="auto"
    tol : float or None, default=None
        Convergence tolerance of a fit: the relative gap between its penalised objective and the optimum
        (docs/conventions.md). None: 1e-6.
    max_iter : int, default=1000
        Maximum number of iterations of one fit.
    warm_start : bool, default=False
        Start from the weights of the last fit, or of ``pretrained``. The strengths are learned again.
    random_state : int, RandomState or None, default=None
        Seed of the splits. None means the seed 0, so that results are reproducible.
    n_jobs : int or None, default=None
        Threads over molecules; None and -1 mean all cores. Results do not depend on it.
    verbose : int, default=0
        1: log every step of the tuner to ``logging.getLogger("tikhon.estimators.base")`` at level INFO.

    Attributes
    ----------
    weights_ : dict from weight name to float
        Named as in CONTRAfold's parameter files.
    strengths_ : dict from group name to float
    tuning_ : TuneResult
        Result of the tuning: status and its reason, losses, residuals, a trace of the steps.
    groups_ : Groups
        The group of each weight.
    n_iter_ : int
        Total number of solver iterations of the tuning.

    Examples
    --------
    >>> from tikhon import RNAFolder
    >>> sequences = ["GGGAAAUCCC", "GCGCAAGCGC", "CCAAAAGG", "GGCUUCGGCC"]
    >>> structures = ["(((....)))", "((((..))))", "((....))", "(((....)))"]
    >>> model = RNAFolder(tuner=None, strengths=0.1).fit(sequences, structures)
    >>> model.predict(["GGGAAAACCC"])
    ['(((....)))']
    """

    _weights: Vector

    _file_description = FOLDER_FILE

    def __init__(
        self,
        groups: GroupSpec = KINDS,
        tuner: str | Tuner | None = "auto",
        strengths: Mapping[str, float] | float | None = None,
        *,
        without: Sequence[str] = (),
        least_hairpin: int = 0,
        longest_loop: int = 30,
        all_pairs: bool = False,
        counts_parses: bool = False,
        longest_sequence: int = LONGEST_SEQUENCE,
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
        self.without = without
        self.least_hairpin = least_hairpin
        self.longest_loop = longest_loop
        self.all_pairs = all_pairs
        self.counts_parses = counts_parses
        self.longest_sequence = longest_sequence
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

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn the strengths and the weights.

        Parameters
        ----------
        X : list of str
            Sequences: A, C, G, U or T in either case; unknown letters (N) pair with nothing.
        y : list of str
            Structures in dot-bracket notation, with "?" for an unknown letter state and "|" for a letter that pairs with an
            unknown partner.
        sample_weight : array-like with an entry per molecule, float or None, default=None

        Returns
        -------
        self
        """
        checked_parameters(self)
        rules, X, y = self._rules(), texts_of("X", X), texts_of("y", y)
        warned = FitWarnings()
        sequences = checked_sequences(X, self.longest_sequence, warned)
        structures = checked_structures("y", y, sequences, warned)
        row_weights = checked_weights(sample_weight, len(sequences))
        examples, kept = examples_of(sequences, structures, rules, warned)
        row_weights = row_weights[kept]
        left_out = left_out_weights(self.without)
        groups = self._with_strengths(with_those_left_out(groups_of_weights(self.groups), left_out))
        objective = Folding(examples, rules, row_weights=row_weights, left_out=left_out, n_threads=cores(self.n_jobs))
        start = np.where(left_out, 0.0, self._weights) if self._is_warm_started else None
        result = self._tune(
            self._checked_tuner(groups), objective, groups, row_weights, X=_picked(X, kept), y=_picked(y, kept),
            codes=None, one_thread=True, n_jobs=1, start=start, warned=warned,
        )  # fmt: skip
        self._weights = result.weights
        self._stop_if_interrupted()
        return self

    @property
    def weights_(self) -> dict[str, float]:
        check_is_fitted(self)
        return dict(zip(folding_weights().names, self._weights.tolist(), strict=True))

    def _rules(self) -> Rules:
        for name, value, most in (
            ("least_hairpin", self.least_hairpin, None), ("longest_loop", self.longest_loop, 30),
            ("longest_sequence", self.longest_sequence, None),
        ):  # fmt: skip
            if not isinstance(value, int | np.integer) or value < 0 or (most is not None and value > most):
                limit = "" if most is None else f" and at most {most}"
                raise InputError(f"{name}={value!r}: write a whole number, 0 or larger{limit}")
        return Rules(
            least_hairpin=int(self.least_hairpin), longest_loop=int(self.longest_loop), all_pairs=bool(self.all_pairs),
            counts_parses=bool(self.counts_parses),
        )  # fmt: skip

    # Files.

    @classmethod
    def pretrained(cls, **parameters: Any) -> Self:
        """The model that comes with tikhon, trained by it on TORNADO TrainA (see ``docs/results/rna-generalise.md``).

        Parameters
        ----------
        **parameters
            Parameters of the model, such as ``n_jobs=1``. The default of ``least_hairpin`` is 3 here.

        Returns
        -------
        RNAFolder
            Ready to predict.

        Examples
        --------
        >>> from tikhon import RNAFolder
        >>> phenylalanine = "GCGGAUUUAGCUCAGUUGGGAGAGCGCCAGACUGAAGAUCUGGAGGUCCUGUGUUCGAUCCACAGAAUUCGCACCA"
        >>> RNAFolder.pretrained().predict([phenylalanine])  # a cloverleaf
        ['(((((((..((((........)))).(((((.......))))).....(((((.......))))))))))))....']
        """
        header, arrays = read_file(PRETRAINED, kind=MODEL_KIND, max_version=MODEL_VERSION)
        model: Self = restore(cls, header, arrays, PRETRAINED)
        model.set_params(**parameters)
        return model

    @classmethod
    def from_parameters(cls, path: str | os.PathLike[str], **parameters: Any) -> Self:
        """A model with the weights of a parameter file of CONTRAfold or EternaFold, gzipped or not.

        Parameters
        ----------
        path : str or path-like
        **parameters
            Parameters of the model: ``least_hairpin=3`` for EternaFold's weights.

        Returns
        -------
        RNAFolder
            Ready to predict. Its strengths are 0, since the file does not contain them.
        """
        model = cls(**parameters)
        model._weights = read_weights(Path(path), folding_weights().names)
        model.groups_ = groups_of_weights(KINDS).with_fixed(0.0)
        model.strengths_ = dict.fromkeys(GROUPS, 0.0)
        model.n_iter_ = 1
        model.tuning_ = TuneResult(
            tuner="none", strengths=dict(model.strengths_), weights=model._weights, criterion_name="none", criterion=None,
            train_loss=float("nan"), status="converged", reason="weights were read from a file", worst_residual=0.0,
            relative_gap=float("nan"), gap_is_bound=False, trace=(), n_fits=0, seconds=0.0,
        )  # fmt: skip
        return model

    def save_parameters(self, path: str | os.PathLike[str]) -> None:
        """Write the weights to a parameter file for CONTRAfold and EternaFold, in full precision."""
        write_parameters(Path(path), self.weights_)

    def _own_state(self, arrays: Arrays) -> dict[str, Any]:
        return {}

    def _restore_own(self, header: Mapping[str, Any], arrays: Arrays) -> None:
        self._weights = self.tuning_.weights

    def _column_groups(self) -> list[str | None]:
        return [None if number < 0 else self.groups_.names[number] for number in self.groups_.index]


def _picked(values: Iterable[Any], numbers: NDArray[np.intp]) -> list[Any]:
    """Select by position, whatever the index of a data frame."""
    every = list(values)
    return [every[number] for number in numbers]
