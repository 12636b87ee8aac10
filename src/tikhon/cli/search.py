"""``tikhon search``: Bayesian search for the parameters of an estimator, on growing parts of a table."""

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tikhon.cli.console import Bar, InterruptionError, claim_outputs, guarded, progress_bar, warn, write_json
from tikhon.cli.fit import read_training_table
from tikhon.cli.fitting import Json, Seed
from tikhon.cli.options import Format, NoLimits, Task, chosen_task, reading_limits
from tikhon.cli.spaces import make_estimator, read_space
from tikhon.errors import InputError

if TYPE_CHECKING:
    from tikhon.data.tables import Table

SHOWN_TRIALS = 5


@guarded
def search(
    data: Annotated[Path, typer.Option("--data", "-d", help="csv with a header row, or svmlight; also gzipped.")],
    estimator: Annotated[
        str, typer.Option("--estimator", "-e", help="Import path, such as sklearn.svm.LinearSVC.", metavar="PATH")
    ],
    space: Annotated[Path, typer.Option("--space", "-s", help="TOML: C = {low = 1e-3, high = 1e3, log = true} …")],
    target: Annotated[str | None, typer.Option("--target", "-t", help="csv: the column to predict.")] = None,
    task: Annotated[Task, typer.Option(help="auto: text and few whole numbers mean classes.")] = Task.auto,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="A fixed parameter; repeatable.", metavar="NAME=VALUE")
    ] = None,
    ignore: Annotated[
        list[str] | None, typer.Option(help="csv: a column to leave out; repeatable.", metavar="COLUMN")
    ] = None,
    file_format: Annotated[
        Format, typer.Option("--format", help="Format of the data; auto: by its suffix.")
    ] = Format.auto,
    standardize: Annotated[bool, typer.Option("--standardize", help="Scale each column to unit variance.")] = False,
    stages: Annotated[str, typer.Option(help="Growing shares of the rows, the last one 1.")] = "0.3,1.0",
    trials: Annotated[str, typer.Option(help="Trials of each stage, such as 30,10; or auto.")] = "auto",
    best: Annotated[int, typer.Option(min=1, help="Settings that a stage passes on.")] = 3,
    cv: Annotated[int, typer.Option(min=2, help="Number of cross-validation folds.")] = 5,
    scoring: Annotated[str | None, typer.Option(help="A score of scikit-learn; default: the estimator's.")] = None,
    sampler: Annotated[str, typer.Option(help="gp, tpe, random, or optuna-gp.")] = "gp",
    batch: Annotated[int, typer.Option(min=1, help="Trials asked for together.")] = 1,
    storage: Annotated[
        str | None, typer.Option(help="Keep the trials in this file, or at this address of Optuna.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the search in --storage.")] = False,
    timeout: Annotated[float | None, typer.Option(min=0.0, help="Seconds of the search.")] = None,
    trial_timeout: Annotated[float | None, typer.Option(min=0.0, help="Seconds of a trial.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Plot the trials to this file (.png, .svg, .pdf).")] = None,
    seed: Seed = 0,
    jobs: Annotated[int | None, typer.Option(min=1, help="Workers; default: one.")] = None,
    no_limits: NoLimits = False,
    as_json: Json = False,
) -> None:
    """Search for the parameters of an estimator, first on a part of the rows, then on all."""
    from tikhon.search.multistage import MultiStageSearchCV

    made = make_estimator(estimator, settings or [])
    distributions = read_space(space)
    claim_outputs([] if plot is None else [plot], [data, space])
    if resume and storage is None:
        raise InputError("--resume: name the storage of the search with --storage")
    if storage is not None:
        _check_storage(storage, resume)
    with progress_bar() as bar:
        table = read_training_table(data, file_format, target, task, ignore or [], bar, reading_limits(no_limits))
        chosen = chosen_task(task, table.target)
        made, distributions = _with_scaler(made, distributions, table) if standardize else (made, distributions)
        searching = MultiStageSearchCV(
            made, distributions, stages=_numbers("--stages", stages, float),
            n_trials=trials if trials == "auto" else _numbers("--trials", trials, int),
            n_best=best, cv=_folds(cv, chosen, seed), scoring=scoring, refit=False, sampler=sampler,
            batch_size=batch, storage=storage, timeout=timeout, trial_timeout=trial_timeout, random_state=seed, n_jobs=jobs,
        )  # fmt: skip
        messages = _run(searching, table, chosen, bar)
    if plot is not None:
        from tikhon.report.search_plot import plot_search

        plot_search(searching).savefig(plot)
    _report(searching, estimator, table, messages, plot, as_json)
    if searching.ended_ == "interrupted":
        kept = "the trials are not kept" if storage is None else f"go on with --resume --storage {storage}"
        raise InterruptionError(kept)


def _run(searching: Any, table: "Table", task: Task, bar: Bar) -> list[str]:
    import numpy as np

    best: dict[int, float] = {}

    def show(stage: Any, trial: Any) -> None:
        best[stage.number] = max(best.get(stage.number, float("-inf")), trial.value)
        bar.advance(
            1, f"stage {stage.number} ({stage.n_rows} rows), trial {trial.number + 1}: best {best[stage.number]:.5g}"
        )

    searching._on_plan = lambda total: bar.start(total, "searching")
    searching._on_trial = show
    target = np.asarray(table.target, dtype=np.float64) if task is Task.regression else table.target
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            searching.fit(table.X, target)
        except KeyboardInterrupt:
            if not hasattr(searching, "best_params_"):
                raise
    return list(dict.fromkeys(str(warning.message) for warning in caught))


def _folds(count: int, task: Task, seed: int) -> Any:
    """Shuffled: the rows of a file may be in any order."""
    from sklearn.model_selection import KFold, StratifiedKFold

    return (KFold if task is Task.regression else StratifiedKFold)(count, shuffle=True, random_state=seed)


def _with_scaler(estimator: Any, space: dict[str, Any], table: "Table") -> tuple[Any, dict[str, Any]]:
    from scipy import sparse
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import StandardScaler

    scaler = StandardScaler(with_mean=not sparse.issparse(table.X))
    return Pipeline([("scale", scaler), ("model", estimator)]), {
        f"model__{name}": value for name, value in space.items()
    }


def _check_storage(storage: str, resume: bool) -> None:
    """A new search needs a storage without one, and only a search that is there can be resumed."""
    import optuna

    from tikhon.search.storage import opened

    is_there = "://" in storage or Path(storage).exists()
    names = []
    if is_there:
        with opened(storage) as found:
            names = optuna.get_all_study_names(found)
    if resume and not names:
        raise InputError(f"{storage}: holds no search to go on with; leave out --resume to begin one")
    if names and not resume:
        raise InputError(f"{storage}: holds a search already; give --resume to go on with it, or another --storage")


def _numbers(option: str, text: str, kind: type[Any]) -> Any:
    """A list, or a single whole number."""
    try:
        found = [kind(part) for part in text.split(",")]
        return found[0] if kind is int and len(found) == 1 else found
    except ValueError:
        raise InputError(f"{option} {text!r}: write numbers with commas between them") from None


def _report(
    searching: Any, estimator: str, table: "Table", messages: list[str], plot: Path | None, as_json: bool
) -> None:  # fmt: skip
    for message in messages:
        warn(message)
    results = searching.cv_results_
    scores = results["mean_test_score"]
    n_trials = len(scores)
    if as_json:
        rows = [
            {"stage": results["stage"][i], "trial": results["trial"][i], "status": results["status"][i],
             "score": scores[i], "seconds": results["elapsed"][i], "params": results["params"][i]}
            for i in range(n_trials)
        ]  # fmt: skip
        write_json(
            {
                "estimator": estimator, "best_params": searching.best_params_, "best_score": searching.best_score_,
                "ended": searching.ended_, "stages": searching.stages_, "trials": rows, "notes": list(searching.notes_),
                "warnings": messages, "plot": None if plot is None else str(plot),
            }
        )  # fmt: skip
        return
    print(f"{estimator}: {table.n_rows} rows, {len(table.columns)} columns, {n_trials} trials")
    for stage in searching.stages_:
        print(f"stage {stage['number']}: {stage['n_trials']} trials on {stage['n_rows']} training rows")
    for note in searching.notes_:
        print(f"note: {note}")
    latest = [i for i in range(n_trials) if results["stage"][i] == results["stage"][searching.best_index_]]
    latest = [i for i in latest if results["status"][i] == "ok"]
    print("score      parameters")
    for i in sorted(latest, key=lambda i: -scores[i])[:SHOWN_TRIALS]:
        print(f"{scores[i]:<10.5g} {_in_words(results['params'][i])}")
    if plot is not None:
        print(f"plot: {plot}")


def _in_words(params: dict[str, Any]) -> str:
    return ", ".join(
        f"{name}={value:.4g}" if isinstance(value, float) else f"{name}={value}" for name, value in params.items()
    )
