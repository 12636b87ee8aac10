"""The report of the benchmark against CRFsuite: ratios, tables, and curves of the relative gap."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tikhon.bench.scale import exponent
from tikhon.harness.crfsuite import peer_version
from tikhon.harness.output import heading, number, short, table, today, versions
from tikhon.harness.runner import Evaluation, Plan
from tikhon.harness.store import Row
from tikhon.report.canvas import COLOURS, GREY, TICK_SIZE, new_figure, tidy

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "Chain CRFs compared with CRFsuite: CoNLL-2000 and CoNLL-2002 Spanish"
SETS = {"conll2000": "CoNLL-2000 chunks", "conll2002-es": "CoNLL-2002 Spanish entities"}
CONTESTANTS = {"crfsuite": "CRFsuite", "tikhon-1": "tikhon, 1 thread", "tikhon-2": "tikhon, 2 threads"}
GAPS = (1e-3, 1e-4)
MAIN_SET, MAIN_GAP = "conll2000", 1e-3
SMALLEST_GAP_DRAWN, LARGEST_GAP_DRAWN = 3e-5, 3.0
SECONDS = tuple(k * 10.0**n for n in range(-3, 4) for k in (1, 2, 5))  # marked on the axis


def gap_name(gap: float) -> str:
    return f"{gap:.0e}".replace("e-0", "e-")


def gap_key(figure: str, gap: float) -> str:
    """The name of a figure of a contestant that depends on a gap: "seconds_1e-3"."""
    return f"{figure}_{gap_name(gap)}"


def evaluate(made: Plan, rows: list[Row]) -> Evaluation:
    """Summaries by data set, each for the largest share of its sentences; that of CoNLL-2000 also at the top level."""
    by_set = {name: [row for row in rows if row["data"] == name] for name in SETS}
    summaries = {name: _summary(own) for name, own in by_set.items() if own}
    summary = {**summaries.get(MAIN_SET, {}), **summaries}
    return Evaluation(summary=summary, aggregates=rows, markdown=_render(made, rows, summaries))


def _summary(rows: Sequence[Row]) -> dict[str, Any]:
    whole = min(rows, key=lambda row: row["one_in"])
    rival, one, two = (whole[name] for name in CONTESTANTS)
    speedups = {}
    for gap in GAPS:
        key, ending = gap_key("seconds", gap), "" if gap == MAIN_GAP else f"_{gap_name(gap)}"
        speedups[f"speedup_train_1{ending}"] = _ratio(rival[key], one[key])
        speedups[f"speedup_train_2{ending}"] = _ratio(rival[key], two[key])
    return {
        **speedups,
        "speedup_encode": rival["encode"] / one["encode"],
        "speedup_tag": rival["tag"] / one["tag"],
        "memory_ratio": _ratio(one["memory_mb"], rival["memory_mb"]),
        "memory_ratio_2": _ratio(two["memory_mb"], rival["memory_mb"]),
        "f1_default": {name: whole[name]["f1"] for name in CONTESTANTS},
        "f1_difference_default": min(one["f1"], two["f1"]) - rival["f1"],
        "gap_default": {name: whole[name]["gap"] for name in CONTESTANTS},
        "optimum_excess": whole["optimum"]["value"] / whole["optimum"]["lowest_seen"] - 1.0,
        "growth": {name: _growth(rows, name) for name in CONTESTANTS},
    }


def _ratio(above: float | None, below: float | None) -> float | None:
    return None if above is None or not below else above / below


def _growth(rows: Sequence[Row], name: str) -> float | None:
    """The exponent of training time in the number of sentences; None with a single share."""
    times = {1.0 / row["one_in"]: row[name][gap_key("seconds", MAIN_GAP)] for row in rows}
    if len(times) < 2 or None in times.values():
        return None
    return exponent(list(times), list(times.values()))


def _render(made: Plan, rows: Sequence[Row], summaries: Mapping[str, Any]) -> str:
    config = made.config
    penalties = "; ".join(f"{SETS[name]}: c2 = {c2:g}" for name, c2 in config["c2"].items())
    about = [
        "Features: windows of words and parts of speech for CoNLL-2000 (19 templates), windows of words with spelling for "
        "Spanish (17 templates; test set: testb), for pairs of features and labels seen in training. One L2 penalty for all "
        f"weights ({penalties}; a strength s is c2 = s/2), so both libraries minimise the same objective f. Its minimum f* is "
        f"the lowest value that any run reached, one of them tikhon's to a certified relative gap of "
        f"{config['optimum_gap']:.0e}; the relative gap of a fit is (f - f*)/f*.",
        "Time to a gap: wall-clock seconds of training, after features have been encoded, until an iterate is within the gap. "
        f"CRFsuite runs L-BFGS for up to {config['most_iterations']} iterations with its stopping rules switched off. Passes "
        "are iterations for CRFsuite and evaluations of the gradient for tikhon. "
        + ("" if made.quick else "Every run is in its own process. ")
        + f"Medians of {config['repeats']}.",
    ]
    header = ["data", "sentences", ""]
    for gap in GAPS:
        header += [f"seconds to {gap_name(gap)}", "passes"]
    to_gap = [
        [SETS[row["data"]], _share(row), words, *_times_to_gaps(row[name])]
        for row in rows
        for name, words in CONTESTANTS.items()
    ]
    usual = (
        f"Fits with usual settings: tikhon with its default tolerance, CRFsuite for {config['iterations']} iterations. "
        "Encoding loads the lists of features; training is everything after that; memory is the peak of both beyond these "
        "lists; tagging uses one thread."
    )
    fit_header = [
        "data", "sentences", "", "encode (s)", "train (s)", "iterations", "objective", "gap", "F1 (%)", "memory (MB)",
        "tag (s)",
    ]  # fmt: skip
    fits = [
        [
            SETS[row["data"]],
            _share(row),
            words,
            number(row[name]["encode"]),
            number(row[name]["train"]),
            number(row[name]["iterations"], 0),
            number(row[name]["objective"], 1),
            short(row[name]["gap"], 2),
            number(row[name]["f1"]),
            number(row[name]["memory_mb"], 0),
            number(row[name]["tag"]),
        ]
        for row in rows
        for name, words in CONTESTANTS.items()
    ]
    earlier = "; ".join(
        f"{SETS[row['data']]}, {_share(row)}: {row['crfsuite']['earlier_objective']:.1f} "
        f"(gap {row['crfsuite']['earlier_gap']:.2g})"
        for row in rows
    )
    return "\n".join(
        [
            heading(TITLE, about, quick=made.quick, date=today(), used=versions() | peer_version()),
            table(header, to_gap),
            usual + "\n",
            table(fit_header, fits),
            f"CRFsuite's objective after {config['earlier_iterations']} iterations. {earlier}.\n",
            *(_verdict(name, found) + "\n" for name, found in summaries.items()),
        ]
    )


def _times_to_gaps(figures: Mapping[str, Any]) -> list[str]:
    cells = []
    for gap in GAPS:
        cells += [number(figures[gap_key("seconds", gap)]), number(figures[gap_key("passes", gap)], 0)]
    return cells


def _verdict(name: str, found: Mapping[str, Any]) -> str:
    told = (
        f"{SETS[name]}: training to a relative gap of 1e-3 is {_times(found['speedup_train_1'])} as fast as CRFsuite's on "
        f"one thread and {_times(found['speedup_train_2'])} on two; to 1e-4, {_times(found['speedup_train_1_1e-4'])} and "
        f"{_times(found['speedup_train_2_1e-4'])}. Encoding is {_times(found['speedup_encode'])} as fast, tagging "
        f"{_times(found['speedup_tag'])}. Memory is {number(found['memory_ratio'])} of CRFsuite's on one thread, "
        f"{number(found['memory_ratio_2'])} on two. With usual settings F1 differs by "
        f"{found['f1_difference_default']:+.2f} points."
    )
    if None in found["growth"].values():
        return told
    growth = ", ".join(f"{CONTESTANTS[contestant]} {value:.2f}" for contestant, value in found["growth"].items())
    return f"{told} Exponent of the time to 1e-3 in the number of sentences: {growth}."


def _times(ratio: float | None) -> str:
    return "n/a times" if ratio is None else f"{ratio:.1f} times"


def _share(row: Mapping[str, Any]) -> str:
    return "all" if row["one_in"] == 1 else f"1/{row['one_in']}"


def draw(evaluation: Evaluation) -> "Figure":
    """The relative gap against training time, a panel for each data set, on the largest share of its sentences."""
    figure = new_figure(10.0, 4.2)
    panels = figure.subplots(1, len(SETS))
    for axes, (name, words) in zip(panels, SETS.items(), strict=True):
        rows = [row for row in evaluation.aggregates if row["data"] == name]
        if not rows:
            continue
        row = min(rows, key=lambda row: row["one_in"])
        drawn: list[float] = []
        for (contestant, label), colour in zip(CONTESTANTS.items(), COLOURS, strict=False):
            curve = [
                point for point in row["curves"][contestant] if SMALLEST_GAP_DRAWN <= point[1] <= LARGEST_GAP_DRAWN
            ]
            axes.plot([seconds for seconds, _ in curve], [gap for _, gap in curve], color=colour, label=label)
            drawn += [seconds for seconds, _ in curve]
        for gap in GAPS:
            axes.axhline(gap, color=GREY, linewidth=0.8, linestyle=":")
        axes.set_xscale("log")
        axes.set_yscale("log")
        ticks = [tick for tick in SECONDS if min(drawn, default=1.0) / 2 < tick < 2 * max(drawn, default=1.0)]
        axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        axes.set_xticks([], minor=True)
        axes.set_ylim(SMALLEST_GAP_DRAWN, LARGEST_GAP_DRAWN)
        axes.legend(frameon=False, fontsize=TICK_SIZE)
        tidy(axes, x_label="seconds of training", y_label="relative gap of the objective")
        axes.set_title(f"{words}, {_sentences(row)}", fontsize=TICK_SIZE + 1)
    return figure


def _sentences(row: Mapping[str, Any]) -> str:
    return "all sentences" if row["one_in"] == 1 else f"1/{row['one_in']} of the sentences"
