"""Pictures without a display: grids of heat maps and of curves, in one style. matplotlib is loaded by the first one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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


@dataclass(frozen=True, eq=False)
class Panels:
    """One quantity, for several rows (queries, say) and columns (heads).

    Maps of a `level` are coloured from the smallest to the largest value; `signed` ones about 0, -inf in grey; `share`s
    relative to each panel's own largest value, which is written beneath it. What lies beyond `limit` is cut off.
    """

    name: str
    values: np.ndarray  # (rows, columns, height, width) for maps, (rows, columns, length) for curves
    kind: Literal["level", "signed", "share"] = "level"
    limit: float = np.inf
    beneath: Sequence[Sequence[str]] = ()  # a text per panel, instead of the largest share

    @property
    def range(self) -> tuple[float, float]:
        """The smallest and the largest value to show."""
        finite = self.values[np.isfinite(self.values)].clip(-self.limit, self.limit)
        low, high = float(finite.min()), float(finite.max())
        if self.kind != "level":
            low, high = min(low, 0.0), max(high, 0.0)
        return (low, high) if low < high else (low, low + 1.0)


@contextmanager
def canvas(width: float, height: float, title: str) -> Iterator[Figure]:
    """An empty figure, in inches, to draw on in the house's style. It leaves matplotlib's global state alone."""
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError:
        raise ImportError("pictures are drawn with matplotlib, which is missing: pip install matplotlib") from None
    with matplotlib.rc_context(STYLE):
        fig = Figure((width, height), dpi=120, layout="constrained")
        fig.suptitle(title, fontsize=11, fontweight="bold")
        yield fig


def heat_maps(
    title: str,
    blocks: Sequence[Panels],
    rows: Sequence[str],
    columns: Sequence[str],
    marks: Sequence[Sequence[tuple[float, float] | None]],
    note: str = "",
    picture: np.ndarray | None = None,
) -> Figure:
    """A block of rows x columns maps per quantity, each with a colour bar. A ring marks one (y, x) in a map.

    `picture`, (height, width, 3) of the same scene at any resolution, is shown before each row with a mark of its own,
    and beneath shares, which lie over it.
    """
    height, width = blocks[0].values.shape[2:]
    pixel = 1.1 / max(height, width)
    block_width = pixel * width * len(columns) + 1.1
    block_height = (pixel * height + 0.06) * len(rows) + 0.45
    beside = len(columns) * len(blocks) <= 8  # blocks next to each other, or else one below the other
    across, down = (len(blocks), 1) if beside else (1, len(blocks))
    full = max(block_width * across, 5)
    own = 0.0 if picture is None else pixel * width + 0.5
    with canvas(full + own, block_height * down + 0.55, title) as fig:
        fig.supxlabel(note, fontsize=8, color="0.35")
        home: Any = fig
        if picture is not None:
            left, home = fig.subfigures(1, 2, squeeze=False, width_ratios=(own, full)).flat
            _scene(left, picture, (height, width), [row[0] for row in marks], len(rows) * down)
        for block, part in zip(blocks, home.subfigures(down, across, squeeze=False).flat):
            part.suptitle(block.name, fontsize=10)
            axes = part.subplots(len(rows), len(columns), squeeze=False)
            for (r, c), ax in np.ndenumerate(axes):
                _map(ax, block, r, c, picture)
                _ring(ax, marks[r][c])
                ax.set_title(columns[c] if r == 0 else "")
                ax.set_ylabel(rows[r] if c == 0 else "")
            _colour_bar(part, axes, block)
    return fig


def _scene(part: Any, picture: np.ndarray, grid: tuple[int, int], marks: Sequence[Any], slots: int) -> None:
    """The picture, once per different mark, as large as the maps and in their coordinates."""
    part.suptitle("picture", fontsize=10)
    height, width = grid
    different = [mark for r, mark in enumerate(marks) if r == 0 or mark != marks[r - 1]]
    for slot, ax in enumerate(part.subplots(slots, 1, squeeze=False).flat):
        if slot >= len(different):
            ax.set_axis_off()
            continue
        ax.set(xticks=[], yticks=[])
        ax.grid(False)
        ax.imshow(picture, extent=(-0.5, width - 0.5, height - 0.5, -0.5), interpolation="nearest")
        _ring(ax, different[slot])


def _map(ax: Any, block: Panels, row: int, column: int, picture: np.ndarray | None) -> None:
    from matplotlib.colors import PowerNorm

    values = block.values[row, column]
    ax.set(xticks=[], yticks=[], facecolor="0.78")
    low, high = block.range
    colours: dict[str, Any] = dict(cmap="viridis", vmin=low, vmax=high)
    if block.kind == "signed":
        colours = dict(cmap="RdBu_r", vmin=-max(high, -low), vmax=max(high, -low))
    beneath = f"max {values.max():.2g}" if block.kind == "share" else " "  # as tall, so that blocks stand level
    beneath = block.beneath[row][column] if block.beneath else beneath
    ax.set_xlabel(beneath, fontsize=7.5, color="0.35", labelpad=2)
    if block.kind == "share":
        values = values / max(values.max(), np.finfo(np.float32).tiny)
        colours = dict(cmap="magma", norm=PowerNorm(0.5, 0.0, 1.0))  # the root, to see what is faint
        if picture is not None:
            height, width = values.shape
            grey = picture.mean(2) * 0.6 + 70  # so that the darkest colour of the map is seen on it, and the brightest
            ax.imshow(grey, cmap="gray", vmin=0, vmax=255, extent=(-0.5, width - 0.5, height - 0.5, -0.5))
            colours |= dict(alpha=0.25 + 0.6 * np.sqrt(values))
    ax.imshow(np.ma.masked_invalid(values), interpolation="nearest", **colours)


def _ring(ax: Any, mark: tuple[float, float] | None) -> None:
    if mark is None:
        return
    y, x = mark
    for colour, width in (("white", 2.6), ("black", 1.1)):  # seen on dark and on light
        ax.plot(x, y, "o", ms=8.5, mfc="none", mec=colour, mew=width, clip_on=False)


def _colour_bar(part: Any, axes: np.ndarray, block: Panels) -> None:
    low, high = block.range
    finite = block.values[np.isfinite(block.values)]
    extend = {(False, False): "neither", (True, False): "min", (False, True): "max", (True, True): "both"}
    below, above = bool(finite.min() < low), bool(finite.max() > high)
    bar = part.colorbar(axes[0, 0].images[-1], ax=axes, fraction=0.05, pad=0.02, extend=extend[below, above])
    bar.outline.set_linewidth(0.4)
    if block.kind == "share":
        bar.set_ticks([0, 0.1, 0.5, 1], labels=["0", "0.1", "0.5", "max"])
    if block.kind == "signed":
        bar.ax.set_ylim(low, high)  # no colours for the side of 0 where nothing is


def curves(
    title: str, blocks: Sequence[Panels], at: np.ndarray, rows: Sequence[str], columns: Sequence[str], xlabel: str
) -> Figure:
    """A panel per row and quantity, with a line per column. `at` (rows, length): where the values are."""
    with canvas(4.0 * len(blocks) + 1.2, 1.8 * len(rows) + 0.8, title) as fig:
        axes = fig.subplots(len(rows), len(blocks), squeeze=False, sharey="col")
        for (r, c), ax in np.ndenumerate(axes):
            block = blocks[c]
            for line, name in enumerate(columns):
                values = block.values[r, line]
                thick = 1.2 + 1.8 * (1 - (line + 1) / len(columns))  # equal lines stay visible under each other
                ax.plot(at[r], np.where(np.isfinite(values), values, np.nan), label=name, lw=thick)
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
