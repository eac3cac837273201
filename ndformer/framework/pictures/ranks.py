"""The critical difference diagram (Demsar 2006): average ranks, with bars that join insignificant differences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ndformer.framework.pictures.figures import new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BAR = 0.28  # distance of bars, in lines of text


def critical_difference(
    title: str, ranks: Mapping[str, float], critical: float, groups: Sequence[Sequence[str]]
) -> Figure:
    """Draw average `ranks` (sorted, best first; drawn at the right) and a bar below the axis for each of `groups`."""
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
