"""Results of a run: results.json, learning curves, the confusion matrix, bar plots and errors of regressions."""

import json
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from ndformer.framework.data.workers import is_worker_death
from ndformer.framework.pictures.figures import written_figure
from ndformer.framework.quantity import Quantity
from ndformer.framework.system import atomic


def results(path: Path, content: dict[str, Any]) -> None:
    atomic.write(path, json.dumps(content, indent=1) + "\n")


@contextmanager
def attempted(name: object) -> Iterator[None]:
    """Turn errors of drawing into a warning, so that they do not end a run.

    Errors of dead worker processes are raised.
    """
    try:
        yield
    except Exception as error:
        if is_worker_death(error):
            raise
        why = " ".join(str(error).split()) or type(error).__name__
        warnings.warn(f"cannot draw {name} ({why}): going on without it", stacklevel=2)


def curves(path: Path, history: list[dict[str, float]], main: str, quantity: Quantity) -> None:
    """Draw loss, learning rate and the main validation metric over epochs."""
    if not history:
        return
    epochs = [h["epoch"] for h in history]
    validation = f"validation {quantity.label(main)} ({quantity.better} is better)"
    with written_figure(path, 11, 3) as figure:
        axes = figure.subplots(1, 3)
        for axis, name, title in zip(axes, ("loss", main, "lr"), ("training loss", validation, "learning rate")):
            values = [h.get(name, np.nan) for h in history]
            values = [quantity.scaled(value) for value in values] if axis is axes[1] else values
            axis.plot(epochs, values, color="#3b6ea8", marker=".")
            axis.set_title(title, loc="left")
            axis.set_xlabel("epoch")
            axis.xaxis.get_major_locator().set_params(integer=True)
            axis.spines[["top", "right"]].set_visible(False)


MANY, LARGEST = 30, 40.0  # most classes with numbers in cells; largest matrix in inches


def confusion_matrix(
    path: Path, counts: np.ndarray, classes: Sequence[str], nothing: tuple[str, str] = ("", "")
) -> None:
    """Draw a confusion matrix of (C, C) counts with the truth in rows, as shares of rows, with counts if C is small.

    With `nothing`, the last row and column are not a class; these are their names as truth and as prediction.
    """
    C = len(counts)
    total = counts.sum(1, keepdims=True)
    shares = counts / np.maximum(1, total)
    across, down = ([*classes[: C - 1], name] if name else list(classes) for name in reversed(nothing))
    longest = max((len(name) for name in classes), default=0)
    cell = 0.34 if C <= MANY else 0.16
    side = min(LARGEST, 1.2 + cell * C)
    names = 0.075 * min(longest, 40)  # inches
    with written_figure(path, side + names + 1.4, side + names + 0.6, bbox_inches="tight") as figure:
        axis = figure.subplots()
        masked = np.ma.masked_where(np.broadcast_to(total == 0, shares.shape), shares)
        image = axis.imshow(masked, cmap="Blues", vmin=0, vmax=1)
        axis.set_facecolor("0.94")  # rows without truth
        size = 8 if C <= MANY else 5 if 1.2 + cell * C <= LARGEST else 3
        axis.set_xticks(range(C), across, rotation=90, fontsize=size)
        axis.set_yticks(range(C), [f"{name}  ({int(n)})" for name, n in zip(down, total[:, 0])], fontsize=size)
        axis.set_xticks(np.arange(C + 1) - 0.5, minor=True)
        axis.set_yticks(np.arange(C + 1) - 0.5, minor=True)
        axis.grid(False)
        axis.grid(which="minor", color="0.88", lw=0.5)
        axis.tick_params(which="both", length=0)
        if nothing[0]:
            for line in (axis.axhline, axis.axvline):
                line(C - 1.5, color="0.3", lw=1)
        for i, j in np.argwhere(counts) if C <= MANY else ():
            text = f"{int(counts[i, j])}"
            size, ink = 7 if len(text) < 4 else 5, "w" if shares[i, j] > 0.5 else "k"
            axis.text(j, i, text, ha="center", va="center", fontsize=size, color=ink)
        axis.set_xlabel("predicted")
        axis.set_ylabel("truth (how many)")
        bar = figure.colorbar(image, ax=axis, fraction=min(0.04, 0.3 / side), pad=min(0.02, 0.2 / side))
        bar.set_label("share of the row", fontsize=8)


def bars(path: Path, groups: dict[str, dict[str, float]], base: str) -> None:
    """Draw bars of ratios by name for each group; the bar of `base`, which is 1, is gray."""
    sizes = [len(values) for values in groups.values()]
    with written_figure(path, 8, sum(sizes) * 0.3 + 0.9 * len(groups)) as figure:
        axes = figure.subplots(len(groups), 1, squeeze=False, height_ratios=sizes)
        for axis, (title, values) in zip(axes[:, 0], groups.items()):
            colors = ["#b0b0b0" if name == base else "#3b6ea8" for name in values]
            axis.bar_label(axis.barh(list(values), values.values(), color=colors), fmt="%.2f", padding=3, fontsize=8)
            axis.set_title(f"{title}   (1 = {base})", loc="left")
            axis.grid(False)
            axis.invert_yaxis()
            axis.margins(x=0.12)
            axis.spines[["top", "right"]].set_visible(False)


COLUMNS, BINS, SIDE = 4, 80, 2.9  # panels in a row, bins along each axis, inches of a panel
AXIS_PERCENTILES = (0.1, 99.9)  # percentiles of the true values that set the range of the axes
FEW = 1000  # samples that are drawn as points, all of them in the range


def parity(path: Path, truth: np.ndarray, predicted: np.ndarray, names: Sequence[str]) -> None:
    """Draw a panel for each target from truth and predictions (N, T); unknown truth is NaN.

    Of many samples, those outside of the range of the axes are drawn at its edge.
    """
    with _target_panels(path, names) as axes:
        from matplotlib.colors import LogNorm

        for t, (axis, name) in enumerate(zip(axes, names)):
            has_truth = np.isfinite(truth[:, t])
            x, y = truth[has_truth, t], predicted[has_truth, t]
            inside = np.concatenate([x, y]) if len(x) <= FEW else np.percentile(x, AXIS_PERCENTILES)
            low, high = float(inside.min()), float(inside.max())
            margin = 0.05 * (high - low) or 1.0
            ends = (low - margin, high + margin)
            if len(x) <= FEW:
                axis.scatter(x, y, s=max(4, 30 - len(x) / 10), color="#3b6ea8", alpha=0.7, linewidths=0)
            else:
                axis.hist2d(x.clip(*ends), y.clip(*ends), bins=BINS, range=[ends, ends], norm=LogNorm(), cmap="viridis")
            axis.grid(False)  # it would cover the bins
            axis.plot(ends, ends, color="0.4", lw=0.8)
            axis.set(xlim=ends, ylim=ends, xlabel=f"true {name}", ylabel=f"predicted {name}", aspect="equal")
            axis.set_title(f"mean absolute error {np.abs(y - x).mean():.4g}", loc="left")


def group_errors(path: Path, errors: np.ndarray, groups: Sequence[str], names: Sequence[str]) -> None:
    """Draw a panel for each target from the mean absolute errors (G, T) of groups of samples by size."""
    with _target_panels(path, names) as axes:
        for axis, name, values in zip(axes, names, errors.T):
            axis.bar(range(len(groups)), values, color="#4a7ebb")
            axis.set_xticks(range(len(groups)), groups, rotation=45)
            axis.set(xlabel="atoms or other parts", ylabel=f"mean absolute error, {name}")


@contextmanager
def _target_panels(path: Path, names: Sequence[str]) -> Iterator[list[Any]]:
    """Yield an axis for each name, and save the figure."""
    columns = min(COLUMNS, len(names))
    rows = -(-len(names) // columns)
    with written_figure(path, SIDE * columns + 0.6, SIDE * rows + 0.3) as figure:
        axes = list(figure.subplots(rows, columns, squeeze=False).flat)
        yield axes
        for axis in axes[len(names) :]:
            axis.set_axis_off()
