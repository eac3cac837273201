"""Tables and pictures of several models at other input sizes: text, JSON, curves over sizes, maps over shapes."""

import itertools
import json
import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from ndformer.framework.errors import DataError
from ndformer.framework.foreign.plain import plain_json
from ndformer.framework.pictures.figures import new_figure, save_figure
from ndformer.framework.quantity import Quantity
from ndformer.framework.system import atomic
from ndformer.lab import aspect_gap, markdown
from ndformer.lab.extrapolate import Figure, ScalingName, Shape, Tested
from ndformer.lab.interval import Summary, mean, within

Key = tuple[str, int | str, ScalingName]  # encoding, size, scaling
Rows = dict[Key, Summary]
DESCRIPTIONS: dict[ScalingName, str] = {
    "none": "positions continue",
    "linear": "positions interpolated, in brackets the change",
    "ntk": "NTK-aware scaling of rotary frequencies, in brackets the change",
    "yarn": "YaRN, in brackets the change",
}
LINES: dict[ScalingName, tuple[str, str]] = {
    "none": ("o-", "solid: positions continue"),
    "linear": ("s--", "dashed: interpolated"),
    "ntk": ("^-.", "dash-dotted: NTK"),
    "yarn": ("v:", "dotted: YaRN"),
}


def summarize(tested: Sequence[Tested]) -> Rows:
    """Return the summary of each encoding, size and scaling, over the runs."""
    values: dict[Key, list[float]] = {}
    for run in tested:
        for figure in run.figures:
            key = (run.encoding, figure.size, figure.scaling)
            values.setdefault(key, []).append(figure.test[run.metric])
    return {key: Summary.from_values(scores) for key, scores in values.items()}


def shapes(tested: Sequence[Tested]) -> dict[int | str, Shape]:
    """Return all sizes with their heights and widths, small sizes first."""
    by_size = {figure.size: figure.shape for run in tested for figure in run.figures}
    return dict(sorted(by_size.items(), key=lambda item: (math.prod(item[1]), item[1])))


def _names(rows: Rows) -> list[str]:
    return list(dict.fromkeys(key[0] for key in rows))


def _ways(rows: Rows) -> list[ScalingName]:
    return [scaling for scaling in DESCRIPTIONS if any(key[2] == scaling for key in rows)]


def text(rows: Rows, sizes: Sequence[int | str], metric: str, quantity: Quantity, train: str) -> str:
    """Return a table for each scaling of positions."""
    about = f"test {quantity.label(metric)}{', lower is better' * (quantity.better == 'lower')}"
    parts = []
    for scaling in _ways(rows):
        cells = []
        for name in (name for name in _names(rows) if (name, sizes[0], scaling) in rows):
            cell = [name, str(rows[name, sizes[0], scaling].n)]
            for size in sizes:
                s, plain = rows[name, size, scaling], rows.get((name, size, "none"))
                change = f" ({quantity.text(s.mean - plain.mean, '+')})" if plain and scaling != "none" else ""
                cell.append(mean(s, quantity) + change)
            cells.append(cell)
        head = ["encoding", "n", *map(str, sizes)]
        parts += [f"{about}, trained at {train}; {DESCRIPTIONS[scaling]}", "", markdown.table(head, cells), ""]
    if any(s.margin is not None for s in rows.values()):
        parts.append("± or in brackets: 95 % intervals (Student t) over runs.\n")
    return "\n".join(parts)


def save(out: Path, tested: Sequence[Tested], rows: Rows, tables: str) -> None:
    """Write extrapolate.json and extrapolate.md."""
    sizes = shapes(tested)
    means = [
        dict(encoding=name, size=size, shape=sizes[size], scaling=kind, interpolated=kind != "none", **asdict(summary))
        for (name, size, kind), summary in rows.items()
    ]
    runs: list[dict[str, Any]] = [asdict(run) for run in tested]
    for run in runs:
        run["trained"] = run.pop("train_shape")
    for figure, source in ((f, g) for run, o in zip(runs, tested) for f, g in zip(run["figures"], o.figures)):
        figure["interpolated"] = source.interpolated
    out.mkdir(parents=True, exist_ok=True)
    gaps = [dict(encoding=name, scaling=kind, **asdict(gap)) for (name, kind), gap in aspect_gap.gaps(tested).items()]
    content = dict(rows=means, aspect_gaps=gaps, runs=runs)
    atomic.write(out / "extrapolate.json", json.dumps(content, indent=1) + "\n")
    atomic.write(out / "extrapolate.md", tables)


def add_earlier(tested: Sequence[Tested], folder: Path) -> list[Tested]:
    """Return the runs in the extrapolate.json of a folder, if there is one, and these, which replace equal ones."""
    path = folder / "extrapolate.json"
    earlier = _parse(plain_json(path), path) if path.exists() else []
    # without the folder of the work dir, which may be on another machine
    new = [replace(run, checkpoint="/".join(Path(run.checkpoint).parts[-2:])) for run in tested]
    tested_again = {(run.encoding, run.seed) for run in new}
    every = [*(run for run in earlier if (run.encoding, run.seed) not in tested_again), *new]
    sizes = dict.fromkeys((run.metric, tuple(dict.fromkeys(f.size for f in run.figures))) for run in every)
    trained = dict.fromkeys((run.train_shape, run.quantity) for run in every)
    if len(trained) > 1:
        listed = "; ".join(f"{h} x {w} with {quantity}" for (h, w), quantity in trained)
        raise DataError(f"--onto {folder}: expected runs of one training size and one unit, got {listed}")
    if len(sizes) > 1:
        listed = "; ".join(f"{metric} at {', '.join(map(str, names))}" for metric, names in sizes)
        raise DataError(f"--onto {folder}: expected one metric and the same sizes in all runs, got {listed}")
    for name in dict.fromkeys(run.encoding for run in every):
        kinds = dict.fromkeys(
            tuple(dict.fromkeys(figure.scaling for figure in run.figures)) for run in every if run.encoding == name
        )
        if len(kinds) > 1:
            listed = "; ".join(", ".join(kind) for kind in kinds)
            raise DataError(f"--onto {folder}: expected the same --scalings in all runs of {name}, got {listed}")
    return every


def _parse(content: Any, path: Path) -> list[Tested]:
    """Return the runs of an extrapolate.json."""
    runs = []
    try:
        for run in content["runs"]:
            figures = [
                Figure(
                    f["size"], tuple(f["shape"]), f["scaling"], f["did"], dict(f["test"]), f["tokens"], f.get("correct")
                )
                for f in run["figures"]
            ]
            quantity, shape = Quantity(**run["quantity"]), tuple(run["trained"])
            runs.append(
                Tested(run["checkpoint"], run["encoding"], run["seed"], shape, run["metric"], quantity, figures)
            )
    except (ValueError, LookupError, TypeError) as error:
        raise DataError(f"{path} is not a file of ndformer extrapolate ({error})") from None
    return runs


def tokens(tested: Sequence[Tested]) -> dict[Shape, int]:
    """Return the number of tokens of an image of each shape, where it is known and equal for all models."""
    pairs = {(figure.shape, figure.tokens) for run in tested for figure in run.figures if figure.tokens is not None}
    counts = dict(pairs)
    return counts if len(counts) == len(pairs) else {}


class Chart(NamedTuple):
    """The values of a picture: summaries by encoding, size and scaling, and what its axes are."""

    rows: Rows
    sizes: dict[int | str, Shape]
    metric: str
    quantity: Quantity
    train: Sequence[Shape]  # sizes in training
    counts: Mapping[Shape, int] = MappingProxyType({})  # tokens of an image of each shape


def draw(path: Path, chart: Chart) -> None:
    """Draw a map if sizes are a grid of heights and widths, with the tokens of each cell, else curves."""
    heights, widths = _sides(chart.sizes)
    is_grid = min(len(heights), len(widths)) > 1 and len(chart.sizes) == len(heights) * len(widths)
    (_maps if is_grid else _curves)(path, chart)


def _sides(sizes: dict[int | str, Shape]) -> tuple[list[int], list[int]]:
    heights, widths = ({shape[axis] for shape in sizes.values()} for axis in (0, 1))
    return sorted(heights), sorted(widths)


def _curves(path: Path, chart: Chart) -> None:
    """Draw a color for each encoding and a line style for each scaling."""
    rows, sizes, metric, quantity, train, _ = chart
    names, kinds = _names(rows), _ways(rows)
    numbers = [size for size in sizes if isinstance(size, int)]
    ticks = numbers if len(numbers) == len(sizes) else range(len(sizes))
    with new_figure(7, 4, f"test {metric} at other sizes") as figure:
        axis = figure.subplots()
        for (i, name), scaling in itertools.product(enumerate(names), kinds):
            summaries = [rows[name, size, scaling] for size in sizes if (name, size, scaling) in rows]
            if summaries:
                means = [quantity.scaled(s.mean) for s in summaries]
                halves = [quantity.scaled(s.margin or 0.0) for s in summaries]
                label = name if scaling == kinds[0] else None
                form, style = LINES[scaling][0], dict[str, Any](ms=3.5, lw=1.2, capsize=2, color=f"C{i}")
                axis.errorbar(ticks, means, halves, fmt=form, label=label, **style)
        for shape in train:
            same = [x for x, other in zip(ticks, sizes.values()) if other == shape]
            for x in [min(shape)] if ticks is numbers else same:
                axis.axvline(x, color="0.3", lw=0.8, ls=":")
        axis.set_xticks(ticks, [str(size) for size in sizes])
        axis.set_xlabel("size of test images (dotted: of training)")
        axis.set_ylabel(f"{quantity.symbol} ({quantity.better} is better)".lstrip())
        axis.set_ylim(within(axis.get_ylim(), quantity))
        axis.spines[["top", "right"]].set_visible(False)
        figure.legend(loc="outside right upper")
        figure.supxlabel("; ".join(LINES[scaling][1] for scaling in kinds), fontsize=8, color="0.35")
    save_figure(path, figure)


def _maps(path: Path, chart: Chart) -> None:
    """Draw a map of heights and widths for each encoding and scaling; a frame marks the training size."""
    from matplotlib.patches import Rectangle

    rows, sizes, metric, quantity, train, counts = chart
    written = lambda value: "-" if np.isnan(value) else f"{value:.0f}" if quantity.is_share else f"{value:.3g}"
    heights, widths = _sides(sizes)
    names, kinds = _names(rows), _ways(rows)
    values = np.full((len(names), len(kinds), len(heights), len(widths)), np.nan)
    for (name, size, scaling), summary in rows.items():
        cell = heights.index(sizes[size][0]), widths.index(sizes[size][1])
        values[(names.index(name), kinds.index(scaling), *cell)] = quantity.scaled(summary.mean)
    low, high = np.nanmin(values), np.nanmax(values)
    high = max(high, low + (1 if quantity.is_share else 1e-3 * abs(low)))
    inches = 1.6 + (0.5 + 0.5 * len(widths)) * len(kinds), 0.8 + (0.6 + 0.34 * len(heights)) * len(names)
    with new_figure(max(5, inches[0]), inches[1], f"test {quantity.label(metric)} by height and width") as figure:
        axes = figure.subplots(len(names), len(kinds), squeeze=False)
        for (n, w), axis in np.ndenumerate(axes):
            axis.grid(False)
            axis.set_xticks(range(len(widths)), map(str, widths))
            axis.set_yticks(range(len(heights)), map(str, heights))
            axis.set(title=kinds[w] if n == 0 else "", ylabel=textwrap.fill(names[n], 18) if w == 0 else "")
            axis.imshow(values[n, w], vmin=low, vmax=high, aspect="auto")
            for (i, j), value in np.ndenumerate(values[n, w]):
                color = "w" if value < (low + high) / 2 else "k"
                axis.text(j, i - 0.12, written(value), ha="center", va="center", color=color)
                count = counts.get((heights[i], widths[j]), "")
                axis.text(j, i + 0.28, str(count), ha="center", va="center", color=color, fontsize=6)
            for shape in train:
                if shape in sizes.values():
                    corner = widths.index(shape[1]) - 0.5, heights.index(shape[0]) - 0.5
                    axis.add_patch(Rectangle(corner, 1, 1, fill=False, edgecolor="r", lw=1.5))
        note = "height downwards, width to the right; framed: size of training; small: tokens of an image"
        figure.supxlabel(note, fontsize=8, color="0.35")
    save_figure(path, figure)
