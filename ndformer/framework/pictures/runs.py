"""Results of a run: results.json, learning curves, the confusion matrix and bar plots."""

import json
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from ndformer.framework.data.workers import is_worker_death
from ndformer.framework.pictures.figures import save_figure
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


@contextmanager
def _plain_words() -> Iterator[None]:
    """Disable mathtext: class names such as `$\\frac$` are drawn literally, not as formulas."""
    import matplotlib

    with matplotlib.rc_context({"text.parse_math": False}):
        yield


@_plain_words()
def curves(path: Path, history: list[dict[str, float]], main: str, quantity: Quantity) -> None:
    """Draw loss, learning rate and the main validation metric over epochs."""
    if not history:
        return
    epochs = [h["epoch"] for h in history]
    figure = _figure(11, 3)
    axes = figure.subplots(1, 3)
    validation = f"validation {quantity.label(main)} ({quantity.better} is better)"
    for axis, name, title in zip(axes, ("loss", main, "lr"), ("training loss", validation, "learning rate")):
        values = [h.get(name, np.nan) for h in history]
        values = [quantity.scaled(value) for value in values] if axis is axes[1] else values
        axis.plot(epochs, values, color="#3b6ea8", marker=".")
        axis.set_title(title, fontsize=10, loc="left")
        axis.set_xlabel("epoch", fontsize=9)
        axis.xaxis.get_major_locator().set_params(integer=True)
        axis.spines[["top", "right"]].set_visible(False)
        axis.tick_params(labelsize=8)
    _save(figure, path)


MANY, LARGEST = 30, 40.0  # most classes with numbers in cells; largest matrix in inches


@_plain_words()
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
    figure = _figure(side + 0.075 * min(longest, 40) + 1.4, side + 0.075 * min(longest, 40) + 0.6)
    axis = figure.subplots()
    image = axis.imshow(
        np.ma.masked_where(np.broadcast_to(total == 0, shares.shape), shares), cmap="Blues", vmin=0, vmax=1
    )
    axis.set_facecolor("0.94")  # rows without truth
    size = 8 if C <= MANY else 5 if 1.2 + cell * C <= LARGEST else 3
    axis.set_xticks(range(C), across, rotation=90, fontsize=size)
    rows = [f"{name}  ({int(n)})" for name, n in zip(down, total[:, 0])]
    axis.set_yticks(range(C), rows, fontsize=size)
    axis.set_xticks(np.arange(C + 1) - 0.5, minor=True)
    axis.set_yticks(np.arange(C + 1) - 0.5, minor=True)
    axis.grid(which="minor", color="0.88", lw=0.5)
    axis.tick_params(which="both", length=0)
    if nothing[0]:
        for line in (axis.axhline, axis.axvline):
            line(C - 1.5, color="0.3", lw=1)
    if C <= MANY:
        for i, j in np.argwhere(counts):
            text = f"{int(counts[i, j])}"
            size, ink = 7 if len(text) < 4 else 5, "w" if shares[i, j] > 0.5 else "k"
            axis.text(j, i, text, ha="center", va="center", fontsize=size, color=ink)
    axis.set_xlabel("predicted")
    axis.set_ylabel("truth (how many)")
    bar = figure.colorbar(image, ax=axis, fraction=min(0.04, 0.3 / side), pad=min(0.02, 0.2 / side))
    bar.set_label("share of the row", fontsize=8)
    bar.ax.tick_params(labelsize=7)
    save_figure(path, figure, dpi=110, bbox_inches="tight")


@_plain_words()
def bars(path: Path, groups: dict[str, dict[str, float]], base: str) -> None:
    """Draw bars of ratios by name for each group; the bar of `base`, which is 1, is gray."""
    sizes = [len(values) for values in groups.values()]
    figure = _figure(8, sum(sizes) * 0.3 + 0.9 * len(groups))
    axes = figure.subplots(len(groups), 1, squeeze=False, height_ratios=sizes)
    for axis, (title, values) in zip(axes[:, 0], groups.items()):
        container = axis.barh(
            list(values), values.values(), color=["#b0b0b0" if n == base else "#3b6ea8" for n in values]
        )
        axis.bar_label(container, fmt="%.2f", padding=3, fontsize=8)
        axis.set_title(f"{title}   (1 = {base})", fontsize=9, loc="left")
        axis.invert_yaxis()
        axis.margins(x=0.12)
        axis.tick_params(labelsize=8)
        axis.spines[["top", "right"]].set_visible(False)
    _save(figure, path)


def _figure(wide: float, high: float) -> Any:
    """Create a figure without pyplot, which would set the backend of the host program."""
    from matplotlib.figure import Figure

    return Figure(figsize=(wide, high))


def _save(figure: Any, path: Path) -> None:
    figure.tight_layout()
    save_figure(path, figure, dpi=110)
