"""Pictures of regressions: predictions against true values with the density of samples as color, errors of groups."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from ndformer.framework.pictures.figures import STYLE, save_figure

COLUMNS, BINS, SIDE = 4, 80, 2.9  # panels in a row, bins along each axis, inches of a panel
AXIS_PERCENTILES = (0.1, 99.9)  # percentiles of the true values that set the range of the axes


def plot(path: Path, truth: np.ndarray, predicted: np.ndarray, names: Sequence[str]) -> None:
    """Draw a panel for each target from truth and predictions (N, T); unknown truth is NaN."""
    with _panels(path, names) as axes:
        from matplotlib.colors import LogNorm

        for t, (axis, name) in enumerate(zip(axes, names)):
            has_truth = np.isfinite(truth[:, t])
            x, y = truth[has_truth, t], predicted[has_truth, t]
            low, high = (float(v) for v in np.percentile(x, AXIS_PERCENTILES))
            margin = 0.05 * (high - low) or 1.0
            ends = (low - margin, high + margin)
            axis.hist2d(x, y, bins=BINS, range=[ends, ends], norm=LogNorm(), cmap="viridis")
            axis.grid(False)  # it would cover the bins
            axis.plot(ends, ends, color="0.4", lw=0.8)
            axis.set(xlim=ends, ylim=ends, xlabel=f"true {name}", ylabel=f"predicted {name}", aspect="equal")
            axis.set_title(f"mean absolute error {np.abs(y - x).mean():.4g}", loc="left")


def plot_groups(path: Path, errors: np.ndarray, groups: Sequence[str], names: Sequence[str]) -> None:
    """Draw a panel for each target from the mean absolute errors (G, T) of groups of samples by size."""
    with _panels(path, names) as axes:
        for axis, name, values in zip(axes, names, errors.T):
            axis.bar(range(len(groups)), values, color="#4a7ebb")
            axis.set_xticks(range(len(groups)), groups, rotation=45)
            axis.set(xlabel="atoms or other parts", ylabel=f"mean absolute error, {name}")


@contextmanager
def _panels(path: Path, names: Sequence[str]) -> Iterator[list[Any]]:
    """Yield an axis for each name, and save the figure."""
    import matplotlib
    from matplotlib.figure import Figure

    columns = min(COLUMNS, len(names))
    rows = -(-len(names) // columns)
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(SIDE * columns + 0.6, SIDE * rows + 0.3), layout="constrained")
        axes = list(figure.subplots(rows, columns, squeeze=False).flat)
        yield axes
        for axis in axes[len(names) :]:
            axis.set_axis_off()
        save_figure(path, figure, dpi=110)
