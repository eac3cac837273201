"""Attention maps drawn over their sample: as an image, an animation, or a sheet of several moments."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ndformer.framework.pictures.canvas import Canvas
from ndformer.framework.pictures.figures import Panels, color_bar, color_map, color_scale, new_figure, ring, save_figure
from ndformer.framework.system import atomic

UNSEEN = (0.235, 0.251, 0.263, 0.8)  # color of keys masked for the query


class Painting:
    """A figure with blocks of maps: (rows, columns, N), a value for each of the canvas's N tokens, NaN if masked.

    `queries` has the query token of each row, which gets a ring, or None for a token without a position. All columns
    show the first moment with the first query, and the sample is drawn next to the rows. With `in_moments`, columns
    are several moments of the canvas, with the sample in the first row; with several rows and columns (layers and
    heads), values are averaged over columns.
    """

    def __init__(
        self,
        title: str,
        blocks: Sequence[Panels],
        rows: Sequence[str],
        columns: Sequence[str],
        queries: Sequence[int | None],
        canvas: Canvas,
        note: str = "",
        in_moments: bool = False,
    ) -> None:
        moments: Sequence[int] = canvas.stills if in_moments else ()
        if moments:
            blocks, rows, queries = _in_moments(blocks, rows, columns, queries, len(moments))
            columns = [canvas.caption(moment) for moment in moments]
        self.canvas, self.moments = canvas, moments
        first = next((query for query in queries if query is not None), None)
        with_query = (m for m in range(canvas.moments) if first is not None and canvas.spot(first, m) is not None)
        self.now = next(with_query, canvas.stills[0])  # the moment drawn in a still image
        self.maps: list[tuple[Any, np.ndarray | None]] = []  # images, colors (N, 4)
        self.rings: list[tuple[Any, int]] = []  # axes, token
        height, width = canvas.plain(0).shape[:2]
        pixel = canvas.inches / max(height, width)
        side_by_side = len(columns) * len(blocks) <= 8 and not moments
        across, down = (len(blocks), 1) if side_by_side else (1, len(blocks))
        # at least the size of the names of rows and of the text below a map, in inches
        row, column = max(pixel * height, 0.6), max(pixel * width, 1.5 if any(b.beneath for b in blocks) else 0)
        tall = [(row + 0.14) * len(block.values) + 0.45 for block in blocks]
        full = max((column * len(columns) + 1.1) * across, 5)
        sample_width = 0.0 if moments else pixel * width + 0.5
        figure_height = (max(tall) if side_by_side else sum(tall)) + 0.55
        with new_figure(full + sample_width, figure_height, title) as self.figure:
            self.figure.supxlabel(note, fontsize=8, color="0.35")
            home: Any = self.figure
            if not moments:
                left, home = self.figure.subfigures(1, 2, squeeze=False, width_ratios=(sample_width, full)).flat
                self._draw_samples(left, queries, len(rows) * down)
            ratios = None if side_by_side else tall
            parts = home.subfigures(down, across, squeeze=False, height_ratios=ratios).flat
            for number, (block, part) in enumerate(zip(blocks, parts)):
                part.suptitle(block.name, fontsize=10)
                axes = part.subplots(len(block.values), len(columns), squeeze=False)
                for (r, c), ax in np.ndenumerate(axes):
                    empty = np.isnan(block.values[:, c]).all(1) & (block.kind != "plain")  # empty rows
                    ax.set_title(columns[c] if r == empty.argmin() and (number == 0 or not moments) else "")
                    ax.set_ylabel(rows[r] if c == 0 and block.kind != "plain" else "")
                    self._map(ax, block, r, c, queries[r])
                # texts below narrow maps are wider than the maps: without this padding the bar covers them
                color_bar(part, axes, block, pad=0.02 + (column - pixel * width) / 2 / (column * len(columns)))

    def _draw_samples(self, part: Any, queries: Sequence[int | None], slots: int) -> None:
        """Draw the sample once for each run of rows with the same query."""
        part.suptitle("sample", fontsize=10)
        different = [query for r, query in enumerate(queries) if r == 0 or query != queries[r - 1]]
        for slot, ax in enumerate(part.subplots(slots, 1, squeeze=False).flat):
            if slot >= len(different):
                ax.set_axis_off()
                continue
            self._show(ax, None, 0, different[slot])

    def _show(self, ax: Any, colors: np.ndarray | None, column: int, query: int | None) -> None:
        ax.set(xticks=[], yticks=[])
        ax.grid(False)
        moment = self.moments[column] if self.moments else self.now
        self.maps.append((ax.imshow(self._pixels(colors, moment)), colors))
        if query is not None:
            self.rings.append((ax, query))
            ring(ax, self.canvas.spot(query, moment), animated=not self.moments and self.canvas.moments > 1)

    def _pixels(self, colors: np.ndarray | None, moment: int) -> np.ndarray:
        return self.canvas.plain(moment) if colors is None else self.canvas.painted(colors, moment)

    def _map(self, ax: Any, block: Panels, row: int, column: int, query: int | None) -> None:
        values = block.values[row, column]
        if block.kind != "plain" and np.isnan(values).all():  # this layer has fewer heads
            ax.set_axis_off()
            return
        self._show(ax, None if block.kind == "plain" else colored(values, block), column, query)
        if block.beneath:
            ax.set_xlabel(block.beneath[row][column], fontsize=7.5, color="0.35", labelpad=2)

    def save(self, path: Path) -> None:
        save_figure(path, self.figure)

    def moving(self, path: Path) -> None:
        """Write a GIF of all moments."""
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from PIL import Image

        agg = FigureCanvasAgg(self.figure)
        agg.draw()
        empty = agg.copy_from_bbox(self.figure.bbox)
        frames = []
        for moment in range(self.canvas.moments):
            agg.restore_region(empty)
            for image, colors in self.maps:
                image.set_data(self._pixels(colors, moment))
                image.axes.draw_artist(image)
            for ax, query in self.rings:
                y, x = self.canvas.spot(query, moment) or (np.nan, np.nan)
                for line in ax.lines:
                    line.set_data([x], [y])
                    ax.draw_artist(line)
            caption = self.figure.text(0.995, 0.995, self.canvas.caption(moment), ha="right", va="top", fontsize=8)
            self.figure.draw_artist(caption)
            caption.remove()
            frames.append(Image.fromarray(np.asarray(agg.buffer_rgba())[..., :3].copy()))
        save_gif(frames, path, self.canvas.seconds)


def save_gif(frames: Sequence[Any], path: Path, seconds: float) -> None:
    """Write PIL images as a GIF that repeats forever."""
    with atomic.replacing(path) as half:
        frames[0].save(half, save_all=True, append_images=frames[1:], duration=round(1000 * seconds), loop=0)


def _in_moments(
    blocks: Sequence[Panels], rows: Sequence[str], columns: Sequence[str], queries: Sequence[int | None], moments: int
) -> tuple[list[Panels], list[str], list[int | None]]:
    """Return the sample's block and the others, with a column for each moment, and the names and queries of rows."""
    several = len(rows) > 1 and len(columns) > 1
    names = list(rows) if several or len(columns) == 1 else list(columns)
    who = list(queries) if len(names) == len(rows) else [query for query in queries for _ in columns]
    flat = []
    for block in blocks:
        values = block.values  # (rows, columns, N)
        if several:  # NaN is masked, and does not warn where all columns are
            values = np.ma.masked_invalid(values).mean(1, keepdims=True).filled(np.nan)
        values = values.reshape(-1, 1, values.shape[-1])
        texts = [] if several else [text for row in block.beneath for text in row]
        under = [[text, *[" "] * (moments - 1)] for text in texts]  # below the first moment
        name = f"{block.name}, mean of heads" if several else block.name
        flat.append(Panels(name, values.repeat(moments, 1), block.kind, block.limit, under))
    return [Panels("sample", np.zeros((1, moments, 1)), "plain"), *flat], names, who


def colored(values: np.ndarray, block: Panels) -> np.ndarray:
    """Return colors (N, 4) of values (N,): shares (root of value / max), signed (around 0), level (min to max)."""
    finite = np.isfinite(values)
    finite_values = np.where(finite, values, 0)
    if block.kind == "share":
        finite_values = finite_values / max(np.nanmax(values), np.finfo(np.float32).tiny)
    colors = color_scale(block).to_rgba(finite_values)
    if block.kind == "share":
        colors[:, 3] = 0.25 + 0.6 * np.sqrt(finite_values)
    colors[~finite] = UNSEEN
    return colors


def z_map(title: str, values: np.ndarray) -> Any:
    """Draw PaPE's z (eq. 16) of (layers, heads), clipped to -1..1: orange > 0 positional, blue < 0 semantic."""
    layers, heads = values.shape
    numbers = heads <= 16
    with new_figure(max(4.2, 0.45 * heads + 2.2), max(2.2, 0.32 * layers + 1.3), title) as figure:
        axis = figure.subplots()
        image = axis.imshow(values, cmap=color_map("signed"), vmin=-1, vmax=1, aspect="auto")
        axis.set_facecolor("0.92")
        axis.set(xticks=range(heads), yticks=range(layers), xlabel="head", ylabel="layer")
        axis.set_xticklabels(map(str, range(1, heads + 1)))
        axis.set_yticklabels(map(str, range(1, layers + 1)))
        axis.grid(False)
        for (layer, head), value in np.ndenumerate(values) if numbers else ():
            if math.isfinite(value):
                ink = "w" if abs(value) > 0.6 else "k"
                text = f"{value:.2f}" if abs(value) < 100 else f"{value:.0e}"
                axis.text(head, layer, text, ha="center", va="center", fontsize=7, color=ink)
        bar = figure.colorbar(image, ax=axis, extend="both")
        bar.set_label("semantics           positions", fontsize=8)
    return figure
