"""Figures of experiments: means with intervals, learning curves, tables, heat maps, critical difference diagrams."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ndformer.framework.pictures.figures import Panels, heat_maps, new_figure, save_figure, written_figure
from ndformer.lab.interval import Summary

if TYPE_CHECKING:
    from matplotlib.figure import Figure


Curves = Mapping[str, Mapping[str, Mapping[int, Summary]]]  # panel -> row -> amount of data, or steps -> summary


def dot_plots(
    path: Path, title: str, columns: Mapping[str, str], summaries: Mapping[str, Mapping[str, Summary]]
) -> None:
    """Draw one dot plot per column, with the same order of rows."""
    names = list(next(iter(summaries.values())))
    with written_figure(path, 2 + 2.2 * len(columns), 1.1 + 0.24 * len(names), title) as figure:
        axes = figure.subplots(1, len(columns), sharey=True, squeeze=False)[0]
        for axis, (key, heading) in zip(axes, columns.items()):
            means = [summaries[key][name].mean for name in names]
            halves = [summaries[key][name].half or 0.0 for name in names]
            axis.errorbar(means, range(len(names)), xerr=halves, fmt="o", ms=4, color="#3b6ea8", ecolor="#a8c0dc")
            axis.set_title(heading, fontsize=8, loc="left")
            axis.set_yticks(range(len(names)), names, fontsize=8)
            axis.grid(visible=False, axis="y")
            axis.spines[["top", "right"]].set_visible(False)
        axes[0].invert_yaxis()


def learning_curves(path: Path, title: str, across: str, panels: Curves) -> None:
    """Draw a line per row over a logarithmic axis of amounts."""
    rows = list(next(iter(panels.values())))
    wide = 1.4 + 2.9 * len(panels) + 0.065 * max(map(len, rows))
    with new_figure(wide, max(3.2, 0.8 + 0.17 * len(rows)), title) as figure:
        _lines(figure, across, panels, wide=len(panels))
        save_figure(path, figure)


def abilities(
    path: Path,
    title: str,
    columns: Mapping[str, str],
    means: Mapping[str, Mapping[str, float]],
    chances: Mapping[str, float],
    curves: Curves,
) -> None:
    """Draw a table of means in %, column -> row, colored from chance to 100, next to the learning curves."""
    rows = list(next(iter(means.values())))
    values = np.array([[means[column][row] for column in columns] for row in rows])
    low = np.array([chances[column] for column in columns])
    with new_figure(4.5 + 0.5 * len(columns) + 6.5, max(4.5, 1.8 + 0.27 * len(rows)), title) as figure:
        parts: Any = figure.subfigures(1, 2, width_ratios=(3 + 0.5 * len(columns), 8))
        left, right = parts
        axis = left.subplots()
        axis.imshow(
            (values - low) / (100 - low), cmap="YlGn", vmin=0, vmax=1.3, aspect="auto"
        )  # so dark that ink shows
        for (row, column), value in np.ndenumerate(values):
            axis.text(column, row, f"{value:.0f}", ha="center", va="center", fontsize=7)
        axis.set_xticks(range(len(columns)), [columns[key] for key in columns], rotation=90)
        axis.set_yticks(range(len(rows)), rows)
        axis.xaxis.tick_top()
        axis.grid(False)
        axis.tick_params(length=0)
        _lines(right, "steps", curves, wide=2)
        save_figure(path, figure)


def _lines(figure: Any, across: str, panels: Curves, wide: int) -> None:
    """Draw a grid of plots, `wide` per row, with one legend."""
    axes = figure.subplots(-(-len(panels) // wide), wide, squeeze=False).flat
    for axis in axes[len(panels) :]:
        axis.set_axis_off()
    for axis, (heading, lines) in zip(axes, panels.items()):
        for i, (name, means) in enumerate(lines.items()):
            amounts, halves = list(means), [mean.half or 0.0 for mean in means.values()]
            line = dict(color=f"C{i % 10}", ls=("-", "--", ":")[i // 10 % 3], lw=1.2, fmt="o", ms=3, capsize=2)
            axis.errorbar(amounts, [mean.mean for mean in means.values()], halves, label=name, **line)
            axis.set_xscale("log")
            axis.set_xticks(amounts, [str(amount) for amount in amounts])
        axis.minorticks_off()
        axis.set_title(heading, loc="left")
        axis.set_xlabel(across)
        axis.spines[["top", "right"]].set_visible(False)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside right center", fontsize=7.5)


def maps(
    path: Path, title: str, name: str, grids: Mapping[str, Mapping[str, np.ndarray]], marked: tuple[float, float]
) -> None:
    """Draw heat maps, row -> column -> (height, width), with one color scale and a ring at one position in each."""
    rows, columns = list(grids), list(next(iter(grids.values())))
    values = np.array([[grids[row][column] for column in columns] for row in rows])
    short = [textwrap.fill(column, 16) for column in columns]
    figure = heat_maps(title, [Panels(name, values)], rows, short, [[marked] * len(columns)] * len(rows))
    save_figure(path, figure)


BAR = 0.28  # distance of the bars of a critical difference diagram, in lines of text


def critical_difference(
    title: str, ranks: Mapping[str, float], critical: float, groups: Sequence[Sequence[str]]
) -> Figure:
    """Draw average `ranks` (sorted, best first, drawn at the right), and a bar below the axis for each of `groups`.

    This is the critical difference diagram of Demsar (2006): bars join insignificant differences.
    """
    names = list(ranks)
    half = (len(names) + 1) // 2
    first = 0.5 + BAR * (len(groups) + 1)  # the first line of names, below the bars
    with new_figure(8, 0.9 + 0.24 * (half + first + 1), title) as figure:
        axis = figure.subplots()
        axis.set_axis_off()
        axis.set_xlim(len(names) + 0.02, 0.98)
        axis.set_ylim(-first - half, 1.9)
        _scale(axis, len(names), critical)
        for place, name in enumerate(names):
            right = place < half  # the better half
            line = -first - (place if right else len(names) - 1 - place)
            edge = 1.0 if right else 0.0
            end = axis.transData.inverted().transform(axis.transAxes.transform((edge, 0)))[0]
            axis.plot([ranks[name], ranks[name], end], [0, line, line], color="0.35", lw=0.9, clip_on=False)
            label = f" {name}  {ranks[name]:.2f}" if right else f"{ranks[name]:.2f}  {name} "
            axis.text(end, line, label, ha="left" if right else "right", va="center", fontsize=8.5)
        for i, group in enumerate(groups):
            ends = ranks[group[0]] - 0.04, ranks[group[-1]] + 0.04
            axis.plot(ends, [-BAR * (i + 1.2)] * 2, color="#3b6ea8", lw=3.5, solid_capstyle="butt")
    return figure


def _scale(axis: Any, count: int, critical: float) -> None:
    """Draw the axis of ranks and the critical difference above it."""
    axis.plot([1, count], [0, 0], color="black", lw=1)
    for rank in range(1, count + 1):
        axis.plot([rank, rank], [0, 0.2], color="black", lw=1)
        axis.text(rank, 0.3, str(rank), ha="center", va="bottom", fontsize=8)
    wide = min(critical, count - 1.0)
    axis.plot([count, count - wide], [1.3, 1.3], color="black", lw=1.5)
    for end in (count, count - wide):
        axis.plot([end, end], [1.2, 1.4], color="black", lw=1.5)
    beyond = "" if critical <= count - 1 else ", wider than the axis"
    axis.text(
        count - wide / 2, 1.42, f"critical difference {critical:.2f}{beyond}", ha="center", va="bottom", fontsize=8
    )
