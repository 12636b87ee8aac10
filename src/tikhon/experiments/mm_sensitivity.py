"""Foo, Do, Ng 2009, section 4: how MM depends on alpha and beta of the Gamma prior on the strength.

The paper: accuracy is stable except where alpha > 2^5; on some data sets the strength hardly changes, on others it rises
with alpha and falls with beta.
"""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tikhon import MM, LogisticRegression
from tikhon.data.libsvm import subsample
from tikhon.experiments import paper
from tikhon.harness.fitting import how_tuned, scores_on_test, warm_up
from tikhon.harness.libsvm_sets import SETS, file_name, shape_of, split_set
from tikhon.harness.output import heading, number, short, table, today, versions
from tikhon.harness.runner import Evaluation, Experiment, Plan, RowSpec
from tikhon.harness.store import Row
from tikhon.harness.timing import timed
from tikhon.report.canvas import LABEL_SIZE, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "Foo, Do, Ng 2009, section 4: MM's sensitivity to alpha and beta"
EXPONENTS = tuple(range(-7, 12, 2))  # of 2, for alpha and beta alike
QUICK_EXPONENTS = (-7, 1, 11)
QUICK = ("iris", "wine")
ROWS_KEPT = {"mnist1": 2_000, "connect-4": 2_000}  # training rows, drawn with seed 0: a hundred fits each
LARGEST_CALM = 5  # the paper's claim is about exponents of alpha up to this one
STABLE = 5.0  # points: a larger difference between the best and the worst is a dramatic change
ACROSS = 4  # data sets per row of the plot

Entries = Sequence[Mapping[str, Any]]


def measure(params: dict[str, Any], folder: Path | None) -> Row:
    """Fit one data set with one alpha and beta."""
    assert folder is not None
    name = params["dataset"]
    dataset = split_set(name, folder, 0)
    if name in ROWS_KEPT:
        dataset = subsample(dataset, ROWS_KEPT[name], seed=0)
    tuner = MM(alpha=2.0 ** params["alpha_exponent"], beta=2.0 ** params["beta_exponent"])
    run = timed(lambda: LogisticRegression(tuner=tuner, n_jobs=1).fit(dataset.X_train, dataset.y_train), 1)
    return {**shape_of(dataset), **scores_on_test(run.answer, dataset), **how_tuned(run.answer), **run.figures()}


def plan(quick: bool) -> Plan:
    chosen = [name for name in paper.TABLE3A if not quick or name in QUICK]
    exponents = QUICK_EXPONENTS if quick else EXPONENTS
    rows = [
        RowSpec(
            key=f"{name}/alpha 2^{alpha}/beta 2^{beta}",
            batch=name,
            params={"dataset": name, "alpha_exponent": alpha, "beta_exponent": beta},
            cost=SETS[name].cost("mm"),
        )
        for name in chosen
        for alpha in exponents
        for beta in exponents
    ]
    kept = {name: rows for name, rows in ROWS_KEPT.items() if name in chosen}
    config = {"datasets": chosen, "exponents": list(exponents), "train_rows": kept}
    return Plan(config=config, rows=rows, files=[file_name(name) for name in chosen], quick=quick)


def evaluate(made: Plan, rows: list[Row]) -> Evaluation:
    names = dict.fromkeys(row["dataset"] for row in rows)
    entries = [_of_data_set([row for row in rows if row["dataset"] == name]) for name in names]
    summary = {
        "claim": f"accuracy varies by at most {STABLE:g} points while alpha <= 2^{LARGEST_CALM}",
        "holds": [entry["dataset"] for entry in entries if entry["holds"]],
        "fails": [entry["dataset"] for entry in entries if not entry["holds"]],
        "drops_above": [entry["dataset"] for entry in entries if entry["drop_above"] > STABLE],
    }
    return Evaluation(summary=summary, aggregates=entries, markdown=_render(made, entries, summary))


def _of_data_set(rows: Sequence[Row]) -> dict[str, Any]:
    alphas = sorted({row["alpha_exponent"] for row in rows})
    betas = sorted({row["beta_exponent"] for row in rows})
    accuracy = np.full((len(alphas), len(betas)), np.nan)
    strength = np.full_like(accuracy, np.nan)
    for row in rows:
        place = alphas.index(row["alpha_exponent"]), betas.index(row["beta_exponent"])
        accuracy[place] = row["accuracy"]
        strength[place] = math.log2(row["strength"]) if row["strength"] > 0.0 else np.nan
    calm = np.array(alphas) <= LARGEST_CALM
    spread_calm = float(np.nanmax(accuracy[calm]) - np.nanmin(accuracy[calm]))
    typical = float(np.nanmedian(accuracy[calm]))
    drop_above = typical - float(np.nanmin(accuracy[~calm])) if not calm.all() else 0.0
    return {
        "dataset": rows[0]["dataset"],
        "n_train": rows[0]["n_train"],
        "alpha_exponents": alphas,
        "beta_exponents": betas,
        "accuracy": accuracy.tolist(),
        "log2_strength": strength.tolist(),
        "typical_accuracy": typical,
        "spread_calm": spread_calm,
        "worst_calm": _worst(accuracy, calm, alphas, betas),
        "drop_above": drop_above,
        "strength_range": float(np.nanmax(strength) - np.nanmin(strength)),
        "rise_with_alpha": _slope(strength, alphas, axis=0),
        "rise_with_beta": _slope(strength, betas, axis=1),
        "holds": spread_calm <= STABLE,
    }


def _worst(accuracy: Any, calm: Any, alphas: Sequence[int], betas: Sequence[int]) -> list[int]:
    """The exponents of alpha and beta with the lowest accuracy in the calm region."""
    row, column = np.unravel_index(np.nanargmin(np.where(calm[:, None], accuracy, np.inf)), accuracy.shape)
    return [alphas[int(row)], betas[int(column)]]


def _slope(strength: Any, exponents: Sequence[int], axis: int) -> float | None:
    """Doublings of the strength per doubling of alpha or beta, averaged between the two ends of the range."""
    if len(exponents) < 2:
        return None
    ends = np.take(strength, [0, -1], axis=axis)
    return float(np.nanmean(np.diff(ends, axis=axis)) / (exponents[-1] - exponents[0]))


def _render(made: Plan, entries: Entries, summary: Mapping[str, Any]) -> str:
    exponents = made.config["exponents"]
    about = (
        f"Multinomial logistic regression with an intercept; alpha and beta over 2^{exponents[0]} … 2^{exponents[-1]}, "
        f"{len(exponents)} values each; the supplied test set or one split (seed 0)."
    )
    kept = made.config["train_rows"]
    notes = [f"{name}: only {rows:,} training rows, a stratified sample with seed 0." for name, rows in kept.items()]
    header = [
        "data set",
        "training rows",
        "typical accuracy (%)",
        f"best − worst, alpha ≤ 2^{LARGEST_CALM}",
        "worst at alpha, beta",
        f"largest drop, alpha > 2^{LARGEST_CALM}",
        "range of log2 strength",
        "per doubling of alpha",
        "per doubling of beta",
        "claim",
    ]
    rows = [
        [
            entry["dataset"],
            str(entry["n_train"]),
            number(entry["typical_accuracy"]),
            number(entry["spread_calm"]),
            "2^{}, 2^{}".format(*entry["worst_calm"]),
            number(entry["drop_above"]),
            number(entry["strength_range"], 1),
            short(entry["rise_with_alpha"], 2),
            short(entry["rise_with_beta"], 2),
            "holds" if entry["holds"] else "**fails**",
        ]
        for entry in entries
    ]
    verdict = (
        f"The paper's claim, quantified: {summary['claim']}. It holds on {len(summary['holds'])} of {len(entries)} "
        f"data sets{_listed(', not on ', summary['fails'])}. Above that, accuracy drops by more than {STABLE:g} points"
        f"{_listed(' on ', summary['drops_above']) or ' on none'}."
    )
    return "\n".join(
        [
            heading(TITLE, [about, *notes], quick=made.quick, date=today(), used=versions()),
            table(header, rows),
            verdict + "\n",
        ]
    )


def _listed(before: str, names: Sequence[str]) -> str:
    return before + ", ".join(names) if names else ""


def draw(evaluation: Evaluation) -> "Figure":
    """For each data set a heat map of accuracy and one of log2 strength, alpha upwards, beta to the right."""
    entries = evaluation.aggregates
    lines = math.ceil(len(entries) / ACROSS)
    across = min(ACROSS, len(entries))
    figure = new_figure(5.4 * across, 0.5 + 2.5 * lines)
    panels = figure.subplots(lines, 2 * across, squeeze=False)
    for axes in panels.flat[2 * len(entries) :]:
        axes.set_visible(False)
    for place, entry in enumerate(entries):
        for axes, key, words, colours in (
            (panels.flat[2 * place], "accuracy", "accuracy (%)", "viridis"),
            (panels.flat[2 * place + 1], "log2_strength", "log2 strength", "cividis"),
        ):
            image = axes.imshow(np.array(entry[key], dtype=float), origin="lower", cmap=colours, aspect="auto")
            figure.colorbar(image, ax=axes)
            axes.set_title(f"{entry['dataset']}: {words}", fontsize=LABEL_SIZE)
            betas, alphas = entry["beta_exponents"], entry["alpha_exponents"]
            axes.set_xticks(range(len(betas)), betas, fontsize=7)
            axes.set_yticks(range(len(alphas)), alphas, fontsize=7)
            axes.set_xlabel("log2 beta", fontsize=8)
            axes.set_ylabel("log2 alpha", fontsize=8)
    return figure


EXPERIMENT = Experiment(
    name="mm-sensitivity", summary=TITLE, plan=plan, measure=measure, evaluate=evaluate, draw=draw, warm_up=warm_up
)
