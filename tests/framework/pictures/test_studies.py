"""Pictures of experiments: whole files, whatever the rows are called and however few there are."""

import numpy as np
import pytest

from ndformer.framework.pictures import studies
from ndformer.lab.interval import Summary


def curve(*means: float) -> dict[int, Summary]:
    return {10**i: Summary.from_values([mean, mean + 1]) for i, mean in enumerate(means)}


@pytest.mark.parametrize("names", [["a"], ["$\\frac$", "^{"], [f"encoding {i}" for i in range(25)]])
def test_learning_curves_have_a_line_a_row_in_each_panel(tmp_path, names, monkeypatch):
    drawn = []
    monkeypatch.setattr("matplotlib.axes.Axes.errorbar", count(drawn))
    panels = {title: {name: curve(1, 2, 3) for name in names} for title in ("one", "two")}
    studies.learning_curves(tmp_path / "x.png", "Curves", "steps", panels)
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
    studies.maps(tmp_path / "x.png", "Maps", "cosine", grids, (1, 2))
    assert (tmp_path / "x.png").stat().st_size > 5000
