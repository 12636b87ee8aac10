"""``MultiStageSearchCV``: Bayesian search for the parameters of any estimator, on growing parts of the data."""

import difflib
import logging
import time
import warnings
from collections.abc import Callable, Sequence
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.metrics import get_scorer_names
from sklearn.model_selection import check_cv
from sklearn.model_selection._search import BaseSearchCV
from sklearn.utils import indexable
from sklearn.utils.validation import _check_method_params, _num_samples

from tikhon.errors import InputError, TuningWarning
from tikhon.estimators.user_warnings import warn_user
from tikhon.search.budget import initial_points, trials_per_stage
from tikhon.search.callbacks import TrialCallbacks, with_callbacks
from tikhon.search.coordinator import Found, Plan, search
from tikhon.search.evaluation import Work
from tikhon.search.given import classes_of, named_scores, row_numbers, seed_of, settings_of
from tikhon.search.identity import check_same, digest
from tikhon.search.outcome import best_index, rows_of, warnings_about, warnings_of_fits
from tikhon.search.samplers import sampler_maker
from tikhon.search.space import space_of
from tikhon.search.stages import Stage, checked_fractions, make_stages
from tikhon.search.storage import opened
from tikhon.search.trials import Trial
from tikhon.search.workers import hired

LOGGER = logging.getLogger(__name__)


class MultiStageSearchCV(BaseSearchCV):  # type: ignore[misc]  # scikit-learn has no annotations
    """Bayesian search for the parameters of any estimator, first on a part of the data, then on all (Wang et al. 2015).

    Most of the cost of a search is training on all rows. The first stage tries settings on a sample; its best few begin the
    next stage, which goes on from there on more rows. It is for what has no gradient: trees, kernels, whole pipelines. A
    model of tikhon within a pipeline learns its strengths itself, at every trial: search its discrete choices only.

    Folds are made once, from all rows: a stage trains on its rows outside of the fold and is scored on the whole fold.

    Parameters
    ----------
    estimator : estimator
        Any estimator of scikit-learn's kind, pipelines included.
    space : dict
        What to search, by parameter name: a list of choices, a frozen distribution of scipy.stats (``loguniform``, ``uniform``,
        ``randint`` …) or a distribution of Optuna.
    stages : sequence of float, default=(0.3, 1.0)
        Growing shares of the rows; the last is 1. A single stage is plain Bayesian optimisation.
    n_trials : "auto", int or list of int, default="auto"
        Trials of each stage, its first ones included. "auto": 20 and 10 for each parameter, at most 100, three quarters of them
        before the last stage.
    n_best : int, default=3
        Settings that each stage passes on.
    n_initial : int or None, default=None
        Quasi-random (Sobol) trials with which the first stage begins. None: a third of its trials, at most 10 or twice the
        number of parameters.
    cv : int, splitter, list of splits or None, default=None
        As in GridSearchCV. A list of one split is a fixed validation set. Training parts of ordered splits (TimeSeriesSplit)
        are cut to their latest rows. ``groups`` given to ``fit`` stay whole.
    scoring, refit, return_train_score
        As in GridSearchCV; with several scores ``refit`` names the one that is optimised.
    error_score : "raise" or float, default=nan
        What ``cv_results_`` has for a fit that failed. Such a trial counts as the worst of all; "raise" ends the search.
    sampler : str or callable, default="gp"
        Who proposes trials: "gp", a Gaussian process with expected improvement (``GaussianProcessSampler``); "tpe"; "random";
        "optuna-gp", which needs PyTorch; or a class of Optuna's samplers, or a partial of one, called with ``seed=``.
    share_trials : bool, default=True
        "gp" in later stages learns from the trials of earlier ones, with the share of rows as an input of the surrogate.
        False: each stage starts from its own trials, as in the paper.
    select : {"last", "all"}, default="last"
        Whether the best trial of the last stage or, as in the paper, of all stages is chosen.
    rescale : dict or None, default=None
        Parameters that depend on the number of rows, and how: ``{"alpha": "1/n"}`` for the strength of a mean loss. Values are
        those for all rows; "n", "sqrt(n)" and "1/sqrt(n)" are the other laws.
    batch_size : int, default=1
        Trials that are asked for together and can run in parallel. Splits of a trial run in parallel anyway. The trials depend
        on it, but not on ``n_jobs``.
    trial_timeout : float or None, default=None
        Seconds after which a trial is ended, its process killed, and counts as failed. Trials then run in processes of their
        own, of which each has all splits.
    timeout : float or None, default=None
        Seconds after which the search ends: the best of the latest stage with a finished trial is chosen, with a warning.
        Trials that run in this process or in joblib's are finished first.
    n_jobs : int or None, default=None
        Workers, as in joblib, whose ``parallel_config`` applies.
    client : dask.distributed.Client or None, default=None
        A Dask cluster to evaluate trials on, in place of ``n_jobs``. Workers that are lost cost time only.
    storage : str, path, storage of Optuna or None, default=None
        Where trials are kept: a file for a journal, or an address for Optuna such as "postgresql://…". The same search on
        the same data goes on where it was ended. None: in memory.
    study_name : str, default="search"
        The studies in the storage are "search/1", "search/2" …
    random_state : int, RandomState or None, default=None
        Seed of everything drawn; None is 0, so searches are repeatable.
    verbose : int, default=0
        1 logs a line for each trial (logger "tikhon.search").

    Attributes
    ----------
    best_params_, best_score_, best_index_, best_estimator_, cv_results_, refit_time_, n_splits_, scorer_, multimetric_
        As in GridSearchCV. ``cv_results_`` has all trials of all stages, with "stage", "fraction", "n_rows", "trial", "status"
        ("ok", "failed" or "timeout") and "elapsed" seconds besides.
    stages_ : list of dict
        The stages: number, fraction, mean number of training rows, trials.
    ended_ : {"completed", "timeout", "interrupted"}
        What ended the search.
    notes_ : tuple of str
        What was adjusted, and why.

    Examples
    --------
    >>> from scipy.stats import loguniform
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.svm import SVC
    >>> from tikhon import MultiStageSearchCV
    >>> X, y = load_iris(return_X_y=True)
    >>> space = {"C": loguniform(1e-2, 1e3), "gamma": loguniform(1e-4, 1e1)}
    >>> search = MultiStageSearchCV(SVC(), space, n_trials=[8, 5]).fit(X, y)
    >>> bool(search.best_score_ > 0.95)
    True
    """

    def __init__(
        self,
        estimator: Any,
        space: Any,
        *,
        stages: Sequence[float] = (0.3, 1.0),
        n_trials: Any = "auto",
        n_best: int = 3,
        n_initial: int | None = None,
        cv: Any = None,
        scoring: Any = None,
        refit: Any = True,
        sampler: Any = "gp",
        share_trials: bool = True,
        select: str = "last",
        rescale: Any = None,
        batch_size: int = 1,
        trial_timeout: float | None = None,
        timeout: float | None = None,
        n_jobs: int | None = None,
        client: Any = None,
        storage: Any = None,
        study_name: str = "search",
        random_state: Any = None,
        error_score: Any = np.nan,
        return_train_score: bool = False,
        verbose: int = 0,
    ) -> None:
        self.estimator = estimator
        self.space = space
        self.stages = stages
        self.n_trials = n_trials
        self.n_best = n_best
        self.n_initial = n_initial
        self.cv = cv
        self.scoring = scoring
        self.refit = refit
        self.sampler = sampler
        self.share_trials = share_trials
        self.select = select
        self.rescale = rescale
        self.batch_size = batch_size
        self.trial_timeout = trial_timeout
        self.timeout = timeout
        self.n_jobs = n_jobs
        self.client = client
        self.storage = storage
        self.study_name = study_name
        self.random_state = random_state
        self.error_score = error_score
        self.return_train_score = return_train_score
        self.verbose = verbose

    _parameter_constraints: ClassVar[dict[str, Any]] = {}  # checked below, in words

    # Set by the command, to show progress.
    _on_plan: Callable[[int], None] | None = None
    _on_trial: Callable[[Stage, Trial], None] | None = None

    @with_callbacks  # type: ignore[untyped-decorator]
    def fit(self, X: Any, y: Any = None, **params: Any) -> Self:
        """Search, then fit the best settings to all rows.

        Parameters
        ----------
        X : array-like, sparse matrix, data frame or list of sequences
            The data; the estimator checks it.
        y : array-like or None
            Targets.
        **params : dict
            Passed to ``fit`` of the estimator, to the scorer and the splitter, by metadata routing if it is enabled. Arrays
            with an entry for each row are split with the rows.
        """
        self._check()
        scorers, metric = self._scorers()
        X, y = indexable(X, y)
        params = _check_method_params(X, params=params)
        routed = self._get_routed_params_for_fit(params)
        plan, notes = self._plan(X, y, routed.splitter.split, metric)
        work = Work(
            clone(self.estimator),
            X,
            y,
            scorers,
            plan.metric,
            routed.estimator.fit,
            routed.scorer.score,
            self.return_train_score,
        )
        weights = params.get("sample_weight")
        if self._on_plan is not None:
            self._on_plan(sum(plan.n_trials))
        told = TrialCallbacks(
            self,
            sum(plan.n_trials),
            {"X": X, "y": y, "metadata": None if weights is None else {"sample_weight": weights}},
        )
        identity = self._identity(plan, work)

        def on_trial(stage: Stage, trial: Trial) -> None:
            told.trial()
            if self.error_score == "raise" and trial.status != "ok":
                raise InputError(f"a trial failed with {plan.space.values(trial.params)}:\n{trial.problem}")
            if self._on_trial is not None:
                self._on_trial(stage, trial)
            if self.verbose:
                _log_trial(plan, stage, trial)

        hiring = hired(work, n_jobs=self.n_jobs, trial_timeout=self.trial_timeout, client=self.client)
        with opened(self.storage) as storage, hiring as workers:
            found = search(
                plan, workers, storage, claim=lambda study: check_same(study, identity),
                seconds=float("inf") if self.timeout is None else float(self.timeout), on_trial=on_trial,
            )  # fmt: skip
        self._conclude(plan, found, scorers, metric, notes)
        if found.ended == "interrupted":
            raise KeyboardInterrupt(
                f"the best of {len(found.trials)} trials is in best_params_, and nothing was refitted"
            )
        if self.refit is not False:
            self._fit_best(X, y, routed.estimator.fit, told)
        told.end()
        return self

    def _check(self) -> None:
        for name, least in (("n_best", 1), ("batch_size", 1)):
            value = getattr(self, name)
            if not isinstance(value, Integral) or isinstance(value, bool) or int(value) < least:
                raise InputError(f"{name}={value!r}: write a whole number of at least {least}")
        for name in ("timeout", "trial_timeout"):
            value = getattr(self, name)
            if value is not None and not (isinstance(value, Real) and float(value) > 0):
                raise InputError(f"{name}={value!r}: write seconds above 0, or None")
        if self.n_jobs is not None and (not isinstance(self.n_jobs, Integral) or int(self.n_jobs) == 0):
            raise InputError(f"n_jobs={self.n_jobs!r}: write a number of workers, -1 for all cores, or None")
        if self.client is not None and not hasattr(self.client, "submit"):
            raise InputError(f"client={self.client!r}: give a dask.distributed.Client, or None")
        if self.select not in ("last", "all"):
            raise InputError(f"select={self.select!r}: write 'last' or 'all'")
        if not isinstance(self.study_name, str) or not self.study_name:
            raise InputError(f"study_name={self.study_name!r}: write a name")
        if not (self.error_score == "raise" or isinstance(self.error_score, Real)):
            raise InputError(f"error_score={self.error_score!r}: write 'raise' or a number")
        if (
            not hasattr(self.estimator, "fit")
            or not hasattr(self.estimator, "get_params")
            or isinstance(self.estimator, type)
        ):
            raise InputError(
                f"estimator={self.estimator!r} is not an estimator: give an object with fit and get_params"
            )

    def _scorers(self) -> tuple[Any, str]:
        """The scorers, and the name of the score that is optimised."""
        several = isinstance(self.scoring, (list, tuple, set, dict))
        if several and not isinstance(self.refit, str):
            raise InputError(
                f"refit={self.refit!r} with several scores: set refit to the name of the one that is optimised"
            )
        if isinstance(self.scoring, str) and self.scoring not in get_scorer_names():
            near = difflib.get_close_matches(self.scoring, get_scorer_names(), n=3)
            hint = f"did you mean {' or '.join(map(repr, near))}?" if near else "see sklearn.metrics.get_scorer_names()"
            raise InputError(f"scoring={self.scoring!r} is not a score of scikit-learn; {hint}")
        scorers, metric = self._get_scorers()
        return scorers, self.refit if callable(self.scoring) and isinstance(self.refit, str) else metric

    def _plan(self, X: Any, y: Any, split_params: dict[str, Any], metric: Any) -> tuple[Plan, list[str]]:
        space = space_of(self.space, self.estimator.get_params(deep=True), self.rescale)
        seed = seed_of(self.random_state)
        cv = check_cv(self.cv, y, classifier=is_classifier(self.estimator))
        splits = [(row_numbers(train), row_numbers(test)) for train, test in cv.split(X, y, **split_params)]
        if not splits:
            raise InputError(f"cv={self.cv!r} gives no splits")
        self.n_splits_ = len(splits)
        fractions = checked_fractions(self.stages)
        stages, notes = make_stages(
            fractions, splits, n_rows=_num_samples(X), codes=classes_of(self.estimator, y),
            groups=split_params.get("groups"), seed=seed,
        )  # fmt: skip
        asked = trials_per_stage(self.n_trials, len(fractions), len(space.parameters), int(self.n_best))
        n_trials = [asked[stage.place] for stage in stages]
        plan = Plan(
            name=self.study_name,
            space=space,
            stages=stages,
            n_trials=n_trials,
            n_initial=initial_points(self.n_initial, n_trials[0], len(space.parameters)),
            n_best=int(self.n_best),
            batch_size=int(self.batch_size),
            metric=metric,
            seed=seed,
            make_sampler=sampler_maker(self.sampler, share_trials=self.share_trials),
        )
        return plan, notes

    def _identity(self, plan: Plan, work: Work) -> dict[str, Any]:
        """What must be the same for a search to go on. The last stage may get more trials, and other workers may help."""
        if self.storage is None:
            return {}
        return {
            "estimator": settings_of(work.estimator),
            "space": {
                name: [repr(one.distribution), *([] if one.choices is None else [digest(one.examples)])]
                for name, one in plan.space.parameters.items()
            },
            "rescale": dict(plan.space.rescale),
            "stages": [stage.fraction for stage in plan.stages],
            "trials before the last stage": [int(count) for count in plan.n_trials[:-1]],
            "n_initial": plan.n_initial,
            "n_best": plan.n_best,
            "batch_size": plan.batch_size,
            "sampler": str(self.sampler),
            "share_trials": bool(self.share_trials),
            "random_state": plan.seed,
            "scoring": named_scores(self.scoring),
            "optimised score": plan.metric,
            "return_train_score": bool(self.return_train_score),
            "splits": digest([stage.splits for stage in plan.stages]),
            "rows": _num_samples(work.X),
            "X": digest(work.X),
            "y": digest(work.y),
            "fit_params": digest(dict(work.fit_params)),
        }

    def _conclude(self, plan: Plan, found: Found, scorers: Any, metric: str, notes: list[str]) -> None:
        """Set the attributes that describe the trials."""
        self.ended_ = found.ended or "completed"
        self.notes_ = (*notes, *found.notes, *warnings_of_fits(found))
        self.stages_ = [
            {"number": stage.number, "fraction": stage.fraction, "n_rows": stage.n_rows, "n_trials": len(own)}
            for stage, own in zip(plan.stages, found.by_stage, strict=False)
        ]
        for message in warnings_about(plan, found):
            warn_user(message, TuningWarning)
        params, out, more = rows_of(plan, found, self.n_splits_, self.error_score, self.return_train_score)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of scores that are not finite: told above
            self.cv_results_ = self._format_results(params, self.n_splits_, out, more)
        self.multimetric_ = isinstance(out[0]["test_scores"], dict)
        self.scorer_ = getattr(scorers, "_scorers", scorers)
        if callable(self.refit):
            self.best_index_ = self._select_best_index(self.refit, metric, self.cv_results_)
        else:
            self.best_index_ = best_index(plan, found, self.select)
            self.best_score_ = self.cv_results_[f"mean_test_{metric}"][self.best_index_]
        self.best_params_ = self.cv_results_["params"][self.best_index_]

    def _fit_best(self, X: Any, y: Any, fit_params: dict[str, Any], told: TrialCallbacks) -> None:
        self.best_estimator_ = clone(self.estimator).set_params(**clone(self.best_params_, safe=False))
        start = time.perf_counter()
        with told.final_fit(self.best_estimator_):
            if y is None:
                self.best_estimator_.fit(X, **fit_params)
            else:
                self.best_estimator_.fit(X, y, **fit_params)
        self.refit_time_ = time.perf_counter() - start
        if hasattr(self.best_estimator_, "feature_names_in_"):
            self.feature_names_in_ = self.best_estimator_.feature_names_in_


def _log_trial(plan: Plan, stage: Stage, trial: Trial) -> None:
    values = ", ".join(f"{name}={_short(value)}" for name, value in plan.space.values(trial.params).items())
    told = f"{trial.value:.5g}" if trial.status == "ok" else trial.status
    total = plan.n_trials[plan.stages.index(stage)]
    LOGGER.info(
        "stage %d, trial %d/%d: %s %s in %.2g s: %s",
        stage.number, trial.number + 1, total, plan.metric, told, trial.seconds, values,
    )  # fmt: skip


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
