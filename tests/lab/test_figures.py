"""Figures of experiments: learning curves, maps and ranks, for rows of any names and number."""

import numpy as np
import pytest

from ndformer.lab import figures
from ndformer.lab.interval import Summary


def curve(*means: float) -> dict[int, Summary]:
    return {10**i: Summary.from_values([mean, mean + 1]) for i, mean in enumerate(means)}


@pytest.mark.parametrize("names", [["a"], ["$\\frac$", "^{"], [f"encoding {i}" for i in range(25)]])
def test_learning_curves_have_a_line_a_row_in_each_panel(tmp_path, names, monkeypatch):
    drawn = []
    monkeypatch.setattr("matplotlib.axes.Axes.errorbar", count(drawn))
    panels = {title: {name: curve(1, 2, 3) for name in names} for title in ("one", "two")}
    figures.learning_curves(tmp_path / "x.png", "Curves", "steps", panels)
    assert [label for label, _ in drawn] == names * 2
    assert len({(str(kind["color"]), kind["ls"]) for _, kind in drawn}) == len(names)  # told apart
    assert (tmp_path / "x.png").stat().st_size > 5000


def count(drawn):
    from matplotlib.axes import Axes

    draw = Axes.errorbar

    def errorbar(self, *args, **kind):
        drawn.append((kind["label"], kind))
        return draw(self, *args, **kind)

    return errorbar


def test_maps_are_one_a_row_and_column(tmp_path):
    grids = {row: {column: np.arange(16.0).reshape(4, 4) for column in ("before", "after")} for row in ("x", "y")}
    figures.maps(tmp_path / "x.png", "Maps", "cosine", grids, (1, 2))
    assert (tmp_path / "x.png").stat().st_size > 5000


RANKS = dict(best=1.5, second=2.0, third=3.25, worst=3.25)
GROUPS = [["best", "second"], ["second", "third", "worst"]]


def test_names_hang_at_their_ranks_and_bars_join_the_groups():
    (axis,) = figures.critical_difference("title", RANKS, 1.75, GROUPS).axes
    assert axis.get_xlim()[0] > axis.get_xlim()[1]  # 1 is at the right
    said = {text.get_text().strip(): text for text in axis.texts}
    assert {"best  1.50", "second  2.00", "3.25  third", "3.25  worst", "critical difference 1.75"} <= set(said)
    assert said["best  1.50"].get_position()[0] < 1.1
    assert said["3.25  worst"].get_position()[0] > 3.9
    lines = [
        (np.asarray(line.get_xdata()).tolist(), np.asarray(line.get_ydata()).tolist(), line.get_linewidth())
        for line in axis.lines
    ]
    hanging = [x[0] for x, y, _ in lines if len(x) == 3 and x[0] == x[1] and y[0] == 0]
    assert hanging == list(RANKS.values())
    bars = [(x, y[0]) for x, y, width in lines if width > 3]
    assert [x for x, _ in bars] == [[1.46, 2.04], [1.96, 3.29]]
    assert bars[0][1] != bars[1][1]
    assert [4, 2.25] in [x for x, _, width in lines if width == 1.5]  # the difference, from the worst rank


def test_a_difference_larger_than_the_axis_is_told():
    (axis,) = figures.critical_difference("title", dict(a=1.0, b=2.0), 1.39, [["a", "b"]]).axes
    assert "critical difference 1.39, wider than the axis" in [text.get_text() for text in axis.texts]
