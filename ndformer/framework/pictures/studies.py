"""Means over seeds with their intervals, a dot a row, for each column of an experiment."""

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from ndformer.framework.pictures.runs import _figure, _save


class Mean(Protocol):
    @property
    def mean(self) -> float: ...
    @property
    def half(self) -> float | None: ...  # half the width of its interval


def rows_of_dots(
    path: Path, title: str, columns: Mapping[str, str], summaries: Mapping[str, Mapping[str, Mean]], wide: float = 2.2
) -> None:
    """One small plot a column, rows in one order for all."""
    names = list(next(iter(summaries.values())))
    figure = _figure(2 + wide * len(columns), 1.1 + 0.24 * len(names))
    axes = figure.subplots(1, len(columns), sharey=True, squeeze=False)[0]
    for axis, (key, heading) in zip(axes, columns.items()):
        means = [summaries[key][name].mean for name in names]
        halves = [summaries[key][name].half or 0.0 for name in names]
        axis.errorbar(means, range(len(names)), xerr=halves, fmt="o", ms=4, color="#3b6ea8", ecolor="#a8c0dc")
        axis.set_title(heading, fontsize=8, loc="left")
        axis.set_yticks(range(len(names)), names, fontsize=8)
        axis.grid(axis="x", color="#e8e8e8")
        axis.tick_params(labelsize=8)
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].invert_yaxis()
    figure.suptitle(title, fontsize=9, x=0.01, ha="left")
    _save(figure, path)
