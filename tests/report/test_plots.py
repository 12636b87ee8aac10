"""The plots hold the numbers they were given, for few and many groups, and leave matplotlib's global state alone."""

import subprocess
import sys
from dataclasses import replace
from itertools import pairwise

import matplotlib
import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from tikhon.errors import InputError, MissingExtra
from tikhon.report import plot_grid, plot_pooling, plot_strengths, plot_trace
from tikhon.report.canvas import png_bytes
from tikhon.results import Step, TuneResult

PNG = b"\x89PNG\r\n\x1a\n"


def make_result(
    n_groups: int, *, rejected: tuple[int, ...] = (2,), grid: dict[str, object] | None = None
) -> TuneResult:
    goal = np.random.default_rng(n_groups).normal(0.0, 2.0, n_groups)
    steps = tuple(
        Step(
            number=number,
            strengths=np.exp(goal * number / 5),
            criterion=np.inf if number in rejected else 1.0 / (1 + number),
            accepted=number not in rejected,
        )
        for number in range(6)
    )
    return TuneResult(
        tuner="gradient" if grid is None else "grid",
        strengths={f"group {g}": float(value) for g, value in enumerate(np.exp(goal))},
        weights=np.ones(n_groups),
        criterion_name="held-out loss per unit of weight",
        criterion=0.2,
        train_loss=1.0,
        status="converged",
        reason="test",
        worst_residual=0.0,
        relative_gap=0.0,
        gap_is_bound=True,
        trace=steps,
        n_fits=6,
        seconds=0.1,
        extras={} if grid is None else {"grid": grid},
    )


def make_grid(standard_errors: list[float | None]) -> dict[str, object]:
    return {"strengths": [4.0, 1.0, 0.25], "losses": [0.5, 0.3, 0.4], "standard_errors": standard_errors, "chosen": 1.0}


def assert_nothing_is_cut(figure: Figure) -> None:
    """All text lies within the figure, and the tick labels of one axis do not overlap."""
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    renderer = canvas.get_renderer()
    for axes in figure.axes:
        box = axes.get_tightbbox(renderer)
        assert box is not None
        assert box.x0 >= -1
        assert box.y0 >= -1
        assert box.x1 <= figure.bbox.width + 1
        assert box.y1 <= figure.bbox.height + 1
        low, high = sorted(axes.get_xlim())
        labels = [
            label.get_window_extent(renderer)
            for label in axes.get_xticklabels()
            if low <= label.get_position()[0] <= high and label.get_text()
        ]
        labels.sort(key=lambda extent: extent.x0)
        assert all(left.x1 <= right.x0 for left, right in pairwise(labels))


@pytest.mark.parametrize("n_groups", [1, 15, 40])
def test_strengths_of_few_groups_are_named_and_sorted(n_groups: int) -> None:
    result = make_result(n_groups)
    figure = plot_strengths(result)
    assert isinstance(figure, Figure)
    axes = figure.axes[0]
    names = [label.get_text() for label in axes.get_yticklabels()]
    assert names == sorted(result.strengths, key=result.strengths.__getitem__)
    drawn = np.concatenate([line.get_xdata() for line in axes.get_lines()])
    np.testing.assert_allclose(np.sort(drawn), sorted(result.strengths.values()))
    assert axes.get_xscale() == "log"
    assert_nothing_is_cut(figure)


def test_strengths_of_ten_thousand_groups_are_one_sorted_curve() -> None:
    result = make_result(10_000)
    figure = plot_strengths(result)
    curve = figure.axes[0].get_lines()[0]
    np.testing.assert_allclose(curve.get_ydata(), sorted(result.strengths.values()))
    assert "10,000 groups" in figure.axes[0].get_xlabel()
    assert_nothing_is_cut(figure)


def test_strengths_that_no_logarithm_can_show_stand_at_the_ends() -> None:
    figure = plot_strengths({"off": 0.0, "small": 1e-3, "large": 10.0, "vast": 1e250})
    axes = figure.axes[0]
    inside, moved = (line.get_xdata() for line in axes.get_lines())
    np.testing.assert_allclose(inside, [1e-3, 10.0])
    assert moved[0] < 1e-3
    assert moved[1] > 10.0
    assert {text.get_text() for text in axes.texts} == {"0", "0.001", "10", "1e+250"}
    assert_nothing_is_cut(figure)


def test_strengths_all_zero_can_be_drawn() -> None:
    figure = plot_strengths({"a": 0.0, "b": 0.0})
    assert png_bytes(figure).startswith(PNG)


def test_strengths_are_drawn_into_given_axes() -> None:
    figure = Figure()
    axes = figure.subplots(1, 2)
    assert plot_strengths({"a": 1.0, "b": 2.0}, ax=axes[1]) is figure
    assert axes[1].get_lines()
    assert not axes[0].get_lines()


def test_no_groups_are_refused() -> None:
    with pytest.raises(InputError, match="no groups"):
        plot_strengths({})


@pytest.mark.parametrize("name", ["$x$ and $y", "_hidden", "a" * 200, "<b>&"])
def test_odd_names_can_be_drawn(name: str) -> None:
    result = make_result(2)
    odd = TuneResult(**{**vars(result), "strengths": {name: 1.0, "other": 2.0}})
    assert png_bytes(plot_strengths(odd)).startswith(PNG)
    figure = plot_trace(odd)
    assert len(figure.axes[1].get_legend().get_texts()) == 2
    assert_nothing_is_cut(figure)


@pytest.mark.parametrize("n_groups", [1, 7, 15, 10_000])
def test_trace_shows_accepted_criteria_and_marks_rejected_steps(n_groups: int) -> None:
    figure = plot_trace(make_result(n_groups))
    above, below = figure.axes
    curve, crosses = above.get_lines()
    np.testing.assert_array_equal(curve.get_xdata(), [0, 1, 3, 4, 5])
    np.testing.assert_allclose(curve.get_ydata(), [1.0, 1 / 2, 1 / 4, 1 / 5, 1 / 6])
    np.testing.assert_array_equal(crosses.get_xdata(), [2])
    assert np.isfinite(crosses.get_ydata()).all()
    assert below.get_yscale() == "log"
    assert_nothing_is_cut(figure)


def test_trace_shows_the_path_of_each_of_few_groups() -> None:
    result = make_result(3, rejected=())
    paths = [line.get_ydata() for line in plot_trace(result).axes[1].get_lines()]
    np.testing.assert_allclose(np.array(paths).T, [step.strengths for step in result.trace])


def test_trace_of_a_single_step_can_be_drawn() -> None:
    result = make_result(2)
    single = TuneResult(**{**vars(result), "trace": result.trace[:1]})
    assert_nothing_is_cut(plot_trace(single))


def test_empty_trace_is_refused() -> None:
    with pytest.raises(InputError, match="no steps"):
        plot_trace(TuneResult(**{**vars(make_result(1)), "trace": ()}))


def test_grid_curve_is_sorted_and_shows_the_chosen_strength() -> None:
    figure = plot_grid(make_result(1, grid=make_grid([0.1, 0.1, 0.1])))
    curve, chosen = figure.axes[0].get_lines()
    np.testing.assert_allclose(curve.get_xdata(), [0.25, 1.0, 4.0])
    np.testing.assert_allclose(curve.get_ydata(), [0.4, 0.3, 0.5])
    np.testing.assert_allclose(chosen.get_xdata(), 1.0)
    assert len(figure.axes[0].collections) == 1
    assert_nothing_is_cut(figure)


def test_grid_curve_of_a_hold_out_has_no_band() -> None:
    figure = plot_grid(make_result(1, grid=make_grid([None, 0.0, float("nan")])))
    assert len(figure.axes[0].collections) == 0


def test_grid_curve_of_another_tuner_is_refused() -> None:
    with pytest.raises(InputError, match="'gradient'"):
        plot_grid(make_result(1))


def test_global_state_is_left_alone() -> None:
    before = dict(matplotlib.rcParams)
    png_bytes(plot_trace(make_result(3)))
    assert dict(matplotlib.rcParams) == before


def test_pyplot_is_never_imported() -> None:
    code = (
        "import sys; from tikhon.report import plot_strengths; from tikhon.report.canvas import png_bytes; "
        "png_bytes(plot_strengths({'a': 1.0})); print(*sys.modules)"
    )
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "matplotlib.figure" in loaded
    assert "matplotlib.pyplot" not in loaded


def test_same_figure_same_bytes() -> None:
    assert png_bytes(plot_strengths({"a": 1.0})) == png_bytes(plot_strengths({"a": 1.0}))


def test_without_matplotlib_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtra, match=r"tikhon\[plot\]"):
        plot_strengths({"a": 1.0})


@pytest.mark.parametrize("n_groups", [2, 30, 60])
def test_departures_are_drawn_around_the_common_strength(n_groups: int) -> None:
    result = make_result(n_groups)
    common = 0.5
    ratios = {name: strength / common for name, strength in result.strengths.items()}
    figure = plot_pooling(replace(result, extras={"pooling": {"common_strength": common, "ratios": ratios}}))
    assert_nothing_is_cut(figure)
    (axes,) = figure.axes
    values = sorted(ratios.values())
    line = next(
        line for line in axes.lines if line.get_marker() == "o" or (n_groups == 60 and len(line.get_xdata()) == 60)
    )
    np.testing.assert_allclose(line.get_ydata() if n_groups == 60 else line.get_xdata(), values)
    assert axes.get_legend().get_texts()[0].get_text() == "common strength: 0.5"


def test_without_a_common_strength_there_are_no_departures() -> None:
    with pytest.raises(InputError, match="tune several groups with 'auto'"):
        plot_pooling(make_result(3))
