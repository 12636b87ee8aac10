"""The report of rna-strengths: areas with bootstrap intervals, log losses, rounds of MM and strengths."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tikhon.experiments.paper import TABLE3B, TABLE4
from tikhon.experiments.rna_scores import GAMMAS, Counts, area, bootstrap_areas, interval
from tikhon.harness.output import heading, number, short, table, today, versions
from tikhon.harness.runner import Evaluation, Plan
from tikhon.harness.store import Row
from tikhon.report.canvas import COLOURS, new_figure, tidy

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "RNA folding, S-151Rfam: one strength, one for each kind of feature, one for each weight"
FOLDS = ("A", "B")  # used for learning
SHOWN_GAMMA = 6.0
Method = tuple[str, str, bool]
NAMES = {
    "grid": "grid of held-out loss", "gradient": "gradient of held-out loss", "mm": "MM", "direct": "direct",
    "contrafold-2": "CONTRAfold's own weights",
}  # fmt: skip


def evaluate(made: Plan, rows: list[Row]) -> Evaluation:
    both = _by_method(rows)
    methods = {method: _pooled([found[fold]["test"] for fold in FOLDS]) for method, found in both.items()}
    compared = {
        tuner: _compared(both, methods, tuner)
        for tuner in ("gradient", "mm", "direct")
        if (tuner, "single", False) in methods and (tuner, "grouped", False) in methods
    }
    summary: dict[str, Any] = {
        _key(method): {name: found[name] for name in ("area", "area_interval", "log_loss", "area_of_folds")}
        for method, found in methods.items()
    }
    summary["grouped_over_single"] = compared
    aggregates = [
        {
            "tuner": method[0], "tying": method[1], "counts_parses": method[2], **methods[method],
            "seconds": [found[fold]["seconds"] for fold in FOLDS],
            "strengths": [found[fold].get("strengths") for fold in FOLDS],
        }
        for method, found in both.items()
    ]  # fmt: skip
    rounds = {tying: _rounds(both, tying) for tying in ("single", "grouped") if ("mm", tying, False) in both}
    summary["mm_rounds"] = rounds
    markdown = "\n".join(
        [
            heading(TITLE, _about(made), quick=made.quick, date=today(), used=versions()),
            _method_table(both, methods),
            _comparison_lines(compared),
            "## Rounds of MM\n",
            _round_table(rounds),
            "## Strengths\n",
            _strength_table(both),
        ]
    )
    return Evaluation(summary=summary, aggregates=aggregates, markdown=markdown)


def _key(method: Method) -> str:
    return f"{method[0]}/{method[1]}{'/parses' if method[2] else ''}"


def _by_method(rows: Sequence[Row]) -> dict[Method, dict[str, Row]]:
    """Rows of the methods for which both folds are complete."""
    found: dict[Method, dict[str, Row]] = {}
    for row in rows:
        found.setdefault((row["tuner"], row["tying"], row["counts_parses"]), {})[row["fold"]] = row
    return {method: folds for method, folds in found.items() if len(folds) == len(FOLDS)}


def _pooled(tests: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Figures over all molecules, each tested with the model not trained on it."""
    parts = [Counts.from_json(test["counts"]) for test in tests]
    counts = parts[0].with_those_of(parts[1])
    sensitivity, ppv = counts.sensitivity.mean(axis=0), counts.ppv.mean(axis=0)
    nearest = int(np.argmin(np.abs(np.log(np.array(GAMMAS) / SHOWN_GAMMA))))
    return {
        "area": area(counts),
        "area_interval": interval(bootstrap_areas(counts)),
        "area_of_folds": [test["area"] for test in tests],
        "log_loss": sum(test["log_loss"] for test in tests) / sum(test["n_parsed"] for test in tests),
        "log_loss_of_folds": [test["log_loss"] / test["n_parsed"] for test in tests],
        "sensitivity": sensitivity.tolist(),
        "ppv": ppv.tolist(),
        "shown": (float(sensitivity[nearest]), float(ppv[nearest])),
    }


def _compared(both: Mapping[Method, Any], methods: Mapping[Method, Any], tuner: str) -> dict[str, Any]:
    """Grouped minus single strengths, with the same bootstrap samples for both."""
    drawn = {}
    for tying in ("grouped", "single"):
        parts = [Counts.from_json(both[tuner, tying, False][fold]["test"]["counts"]) for fold in FOLDS]
        drawn[tying] = bootstrap_areas(parts[0].with_those_of(parts[1]))
    grouped, single = methods[tuner, "grouped", False], methods[tuner, "single", False]
    return {
        "area": grouped["area"] - single["area"],
        "area_interval": interval(drawn["grouped"] - drawn["single"]),
        "area_of_folds": [a - b for a, b in zip(grouped["area_of_folds"], single["area_of_folds"], strict=True)],
        "log_loss_percent": 100.0 * (grouped["log_loss"] / single["log_loss"] - 1.0),
        "log_loss_percent_of_folds": [
            100.0 * (a / b - 1.0)
            for a, b in zip(grouped["log_loss_of_folds"], single["log_loss_of_folds"], strict=True)
        ],
    }


def _about(made: Plan) -> list[str]:
    return [
        "Learned on one fold of S-151Rfam and tested on the other, 151 molecules in all. Area: sensitivity over PPV of MEA "
        f"structures for {len(GAMMAS)} gammas from 2^-5 to 2^10, from means over all molecules, each tested with the model not "
        "trained on it; in brackets a 95 % bootstrap interval over molecules. Log loss: mean of -log p(structure) over the "
        "test molecules whose structure the model can represent (loops of more than 30 unpaired nucleotides it cannot; pairs "
        "other than AU, CG, GU count as unpaired). Structures are counted once, or, where marked parses, once per derivation "
        "in CONTRAfold's grammar.",
        f"Grid and gradient: held-out loss of {made.config['folds']} folds within the training fold; separate strengths get "
        "six steps. MM and direct: alpha = 0, beta = 1, no hold-out; MM from strengths of 1, every fit to convergence, until "
        f"no log strength changes by more than {made.config['mm_tol']:g}. Two threads.",
    ]


def _method_table(both: Mapping[Method, Any], methods: Mapping[Method, Any]) -> str:
    header = [
        "strengths by", "tying", "area", "area, test B / A", "paper's area", "log loss", "sensitivity, PPV (gamma 8)",
        "minutes A / B",
    ]  # fmt: skip
    header[6] = f"sensitivity, PPV (gamma {min(GAMMAS, key=lambda g: abs(np.log(g / SHOWN_GAMMA))):g})"
    body = []
    for method, found in methods.items():
        tuner, tying, parses = method
        minutes = " / ".join(number(both[method][fold]["seconds"] / 60.0, 1) for fold in FOLDS)
        body.append(
            [
                NAMES[tuner] + (", parses" if parses else ""),
                "" if tying == "none" else tying,
                f"{found['area']:.4f} ({found['area_interval'][0]:.3f} to {found['area_interval'][1]:.3f})",
                " / ".join(number(one, 4) for one in found["area_of_folds"]),
                "" if parses else number(TABLE4[tuner, tying], 3) if (tuner, tying) in TABLE4 else "",
                number(found["log_loss"], 3),
                f"{found['shown'][0]:.3f}, {found['shown'][1]:.3f}",
                "" if tying == "none" else minutes,
            ]
        )
    return table(header, body)


def _comparison_lines(compared: Mapping[str, Any]) -> str:
    lines = []
    for tuner, found in compared.items():
        low, high = found["area_interval"]
        lines.append(
            f"- Grouped minus single, {NAMES[tuner]}: area {found['area']:+.4f} ({low:+.4f} to {high:+.4f}), folds "
            f"{found['area_of_folds'][0]:+.4f} / {found['area_of_folds'][1]:+.4f}; log loss "
            f"{found['log_loss_percent']:+.1f} %, folds {found['log_loss_percent_of_folds'][0]:+.1f} / "
            f"{found['log_loss_percent_of_folds'][1]:+.1f} %."
        )
    return "\n".join(lines) + "\n"


def _rounds(both: Mapping[Method, Any], tying: str) -> list[dict[str, float]]:
    """Both folds after the same number of rounds; a fold that has converged keeps its last round."""
    folds = [both["mm", tying, False][fold]["rounds"] for fold in FOLDS]
    found = []
    for place in range(max(map(len, folds))):
        tests = [rounds[min(place, len(rounds) - 1)]["test"] for rounds in folds]
        parts = [Counts.from_json(test["counts"]) for test in tests]
        loss = sum(test["log_loss"] for test in tests) / sum(test["n_parsed"] for test in tests)
        found.append({"area": area(parts[0].with_those_of(parts[1])), "log_loss": loss})
    return found


def _round_table(rounds: Mapping[str, Sequence[Mapping[str, float]]]) -> str:
    header = ["round"]
    for tying in rounds:
        header += [f"{tying}: area", f"{tying}: log loss"]
    body = []
    for place in range(max(map(len, rounds.values()), default=0)):
        cells = [str(place + 1)]
        for found in rounds.values():
            inside = place < len(found)
            cells += [number(found[place]["area"], 4), number(found[place]["log_loss"], 3)] if inside else ["", ""]
        body.append(cells)
    return table(header, body)


def _strength_table(both: Mapping[Method, Any]) -> str:
    """Strengths of every kind of feature, learned on A and on B, and those of the paper."""
    columns: dict[str, list[Mapping[str, float]]] = {}
    mm = both.get(("mm", "grouped", False))
    if mm is not None:
        columns["MM, 1 round"] = [(mm[fold]["rounds"] + [{}] * 2)[1].get("strengths", {}) for fold in FOLDS]
    for tuner in ("mm", "direct", "gradient"):
        found = both.get((tuner, "grouped", False))
        if found is not None:
            columns[NAMES[tuner]] = [found[fold]["strengths"] for fold in FOLDS]
    header = ["kind", *columns, "paper's MM, 1 round", "paper's MM"]
    body = [
        [
            kind,
            *(" / ".join(short(one.get(kind)) for one in pair) for pair in columns.values()),
            *(" / ".join(short(one) for one in pair) for pair in paper),
        ]
        for kind, paper in TABLE3B.items()
    ]
    return "Learned on fold A / on fold B.\n\n" + table(header, body)


def draw(evaluation: Evaluation) -> "Figure":
    """Sensitivity over PPV, and the strengths of the kinds of features."""
    figure = new_figure(12.0, 5.2)
    curves, bars = figure.subplots(1, 2)
    shown = [one for one in evaluation.aggregates if not one["counts_parses"] and one["tuner"] in ("gradient", "mm")]
    colours = {"gradient": COLOURS[0], "mm": COLOURS[1]}
    styles = {"grouped": "-", "single": "--", "separate": ":"}
    for one in shown:
        curves.plot(
            one["ppv"], one["sensitivity"], styles[one["tying"]], color=colours[one["tuner"]], marker=".",
            label=f"{NAMES[one['tuner']]}, {one['tying']}: {one['area']:.3f}",
        )  # fmt: skip
    curves.legend(frameon=False, title="area")
    tidy(curves, x_label="PPV", y_label="sensitivity")
    kinds = list(TABLE3B)
    for one in shown:
        if one["tying"] != "grouped":
            continue
        for fold, marker, strengths in zip(FOLDS, ("o", "s"), one["strengths"], strict=True):
            bars.plot(
                [strengths[kind] for kind in kinds], range(len(kinds)), marker, color=colours[one["tuner"]],
                fillstyle="full" if fold == "A" else "none", label=f"{NAMES[one['tuner']]}, fold {fold}",
            )  # fmt: skip
    paper = [np.sqrt(final[0] * final[1]) for _, final in TABLE3B.values()]
    bars.plot(paper, range(len(kinds)), "x", color=COLOURS[6], label="paper's MM")
    bars.set_xscale("log")
    bars.set_yticks(range(len(kinds)), [kind.replace("_", " ") for kind in kinds])
    bars.invert_yaxis()
    bars.legend(frameon=False, loc="lower center", bbox_to_anchor=(0.4, 1.0), ncols=3)
    tidy(bars, x_label="strength", y_label="")
    return figure
