"""Grids of heat maps and curves in one style, without a display; matplotlib is imported on first use."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ndformer.framework.system import atomic

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LETTERS, TITLE_LINES = 9.5, 4  # letters per inch and largest number of lines of a title
STYLE: dict[Any, Any] = {
    "font.size": 9.0,
    "axes.titlesize": 9.0,
    "axes.linewidth": 0.6,
    "axes.edgecolor": "0.4",
    "axes.grid": True,
    "grid.color": "0.92",
    "xtick.labelsize": 7.5,
    "ytick.labelsize": 7.5,
    "legend.frameon": False,
    "text.parse_math": False,  # names are words, not formulas
}


def color_map(kind: str) -> Any:
    """Return the color map of a kind of Panels, the same in pictures and in the explorer.

    Signed values go from blue to orange, which is readable with red-green color blindness.
    """
    from matplotlib import colormaps
    from matplotlib.colors import LinearSegmentedColormap

    if kind != "signed":
        return colormaps["viridis"]
    return LinearSegmentedColormap.from_list("", ["#084a91", "#5b9bd5", "#f4f4f1", "#f0994a", "#a34700"])


@dataclass(frozen=True, eq=False)
class Panels:
    """Maps or curves of one quantity, for several rows (such as queries) and columns (such as heads).

    Colors of a `level` range from the smallest to the largest value, those of `signed` values around 0 (-inf is gray),
    those of a `share` up to the largest value of each panel, which is written below it. Values are clipped to `limit`.
    A `plain` one has no values and shows the sample alone.
    """

    name: str
    values: np.ndarray  # (rows, columns, height, width) for maps, (rows, columns, length) for curves, or of tokens
    kind: Literal["level", "signed", "share", "plain"] = "level"
    limit: float = np.inf
    beneath: Sequence[Sequence[str]] = ()  # text below each panel, instead of the largest share

    @property
    def range(self) -> tuple[float, float]:
        """Return the smallest and the largest value to draw."""
        finite = self.values[np.isfinite(self.values)].clip(-self.limit, self.limit)
        low, high = float(finite.min()), float(finite.max())
        if self.kind != "level":
            low, high = min(low, 0.0), max(high, 0.0)
        return (low, high) if low < high else (low, low + 1.0)


@contextmanager
def new_figure(width: float, height: float, title: str = "") -> Iterator[Figure]:
    """Create an empty figure (sizes in inches) in one style, without changing matplotlib's global state."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(STYLE):
        fig = Figure((width, height), dpi=120, layout="constrained")
        if title:
            lines = textwrap.wrap(title, max(30, int(LETTERS * width)))[:TITLE_LINES]
            fig.set_figheight(height + 0.18 * (len(lines) - 1))
            fig.suptitle("\n".join(lines), fontsize=11, fontweight="bold")
        yield fig


def save_figure(path: Path, figure: Figure, **options: Any) -> None:
    """Write a figure to a file, completely or not at all."""
    with atomic.replacing(path) as half:
        figure.savefig(half, **options)


@contextmanager
def written_figure(path: Path, width: float, height: float, title: str = "", **options: Any) -> Iterator[Figure]:
    """Create an empty figure as new_figure() does, and write it after the block, with `options` of savefig()."""
    with new_figure(width, height, title) as fig:
        yield fig
        save_figure(path, fig, **options)


def heat_maps(
    title: str,
    blocks: Sequence[Panels],
    rows: Sequence[str],
    columns: Sequence[str],
    marks: Sequence[Sequence[tuple[float, float] | None]],
    note: str = "",
) -> Figure:
    """Draw a block of rows x columns maps per quantity, each with a color bar; a ring marks one (y, x) in a map."""
    height, width = blocks[0].values.shape[2:]
    pixel = 1.1 / max(height, width)
    block_width = pixel * width * len(columns) + 1.1
    block_height = (pixel * height + 0.06) * len(rows) + 0.45
    side_by_side = len(columns) * len(blocks) <= 8
    across, down = (len(blocks), 1) if side_by_side else (1, len(blocks))
    full = max(block_width * across, 5)
    with new_figure(full, block_height * down + 0.55, title) as fig:
        fig.supxlabel(note, fontsize=8, color="0.35")
        for block, part in zip(blocks, fig.subfigures(down, across, squeeze=False).flat):
            part.suptitle(block.name, fontsize=10)
            axes = part.subplots(len(rows), len(columns), squeeze=False)
            for (r, c), ax in np.ndenumerate(axes):
                _map(ax, block, r, c)
                ring(ax, marks[r][c])
                ax.set_title(columns[c] if r == 0 else "")
                ax.set_ylabel(rows[r] if c == 0 else "")
            color_bar(part, axes, block)
    return fig


def color_scale(block: Panels) -> Any:
    """Return the norm and the color map of a block, as matplotlib's ScalarMappable."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize, PowerNorm

    low, high = block.range
    limit = max(high, -low)
    # square roots of shares, so that small ones are visible
    norms = dict(signed=Normalize(-limit, limit), share=PowerNorm(0.5, 0.0, 1.0))
    return ScalarMappable(norms.get(block.kind, Normalize(low, high)), color_map(block.kind))


def _map(ax: Any, block: Panels, row: int, column: int) -> None:
    values, scale = block.values[row, column], color_scale(block)
    ax.set(xticks=[], yticks=[], facecolor="0.78")
    beneath = f"max {values.max():.2g}" if block.kind == "share" else " "  # keeps blocks aligned
    ax.set_xlabel(block.beneath[row][column] if block.beneath else beneath, fontsize=7.5, color="0.35", labelpad=2)
    if block.kind == "share":
        values = values / max(values.max(), np.finfo(np.float32).tiny)
    ax.imshow(np.ma.masked_invalid(values), interpolation="nearest", norm=scale.norm, cmap=scale.cmap)


def ring(ax: Any, mark: tuple[float, float] | None, animated: bool = False) -> None:
    """Draw a ring at (y, x); an `animated` one is drawn later, at its position then."""
    if mark is None and not animated:
        return
    y, x = mark or (np.nan, np.nan)
    for color, width in (("white", 2.6), ("black", 1.1)):  # seen on dark and on light
        ax.plot([x], [y], "o", ms=8.5, mfc="none", mec=color, mew=width, clip_on=False, animated=animated)


def color_bar(part: Any, axes: np.ndarray, block: Panels, pad: float = 0.02) -> None:
    """Draw the color bar of a block; that of a plain block is invisible, so that all blocks have the same width."""
    low, high = block.range
    finite = block.values[np.isfinite(block.values)]
    below, above = (bool(beyond and block.kind != "share") for beyond in (finite.min() < low, finite.max() > high))
    extend = {(False, False): "neither", (True, False): "min", (False, True): "max", (True, True): "both"}
    bar = part.colorbar(color_scale(block), ax=axes, fraction=0.05, pad=pad, extend=extend[below, above])
    bar.outline.set_linewidth(0.4)
    if block.kind == "plain":
        bar.set_ticks([0, 1], labels=["-10", "10"])  # as wide as the numbers of other blocks
        bar.ax.set_visible(False)
    if block.kind == "share":
        bar.set_ticks([0, 0.1, 0.5, 1], labels=["0", "0.1", "0.5", "max"])
    if block.kind == "signed":
        bar.ax.set_ylim(low, high)  # no colors beyond the values


def curves(
    title: str, blocks: Sequence[Panels], x: np.ndarray, rows: Sequence[str], columns: Sequence[str], xlabel: str
) -> Figure:
    """Draw a panel per row and quantity, with a line per column over the coordinates `x` (rows, length)."""
    with new_figure(4.0 * len(blocks) + 1.2, 1.8 * len(rows) + 0.8, title) as fig:
        axes = fig.subplots(len(rows), len(blocks), squeeze=False, sharey="col")
        for (r, c), ax in np.ndenumerate(axes):
            block = blocks[c]
            for line, name in enumerate(columns):
                values = block.values[r, line]
                thick = 1.2 + 1.8 * (1 - (line + 1) / len(columns))  # equal lines stay visible under each other
                ax.plot(x[r], np.where(np.isfinite(values), values, np.nan), label=name, lw=thick)
            low, high = block.range
            margin = 0.05 * (high - low or 1.0)
            ax.set_ylim(low - margin, high + margin)
            ax.axvline(0, color="0.3", lw=0.8, ls=":")
            ax.set_title(block.name if r == 0 else "")
            ax.set_ylabel(rows[r] if c == 0 else "")
            ax.set_xlabel(xlabel if r == len(rows) - 1 else "")
            ax.spines[["top", "right"]].set_visible(False)
        if len(columns) > 1:
            fig.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside right center")
    return fig
