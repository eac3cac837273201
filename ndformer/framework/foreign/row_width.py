"""Guess the row width of a file of numbers without a header, from the period of the series."""

import numpy as np

WIDTHS = range(3, 8)  # columns of point clouds with colors, normals or times
MAX_VALUES = 2**13  # numbers used for the guess
SURELY = 3.0  # ratio of differences from which another width is certain


def guess_row_width(values: np.ndarray) -> int:
    """Return the row width with the smallest mean difference between values one row apart."""
    return min(WIDTHS, key=lambda wide: _change(values, wide))


def conflicting_row_width(rows: np.ndarray) -> int | None:
    """Return another row width that fits the numbers read as (n, width) rows clearly better, else None."""
    values = np.nan_to_num(rows.ravel()[:MAX_VALUES])
    likely = guess_row_width(values)
    other = likely != rows.shape[1] and _change(values, rows.shape[1]) > SURELY * _change(values, likely)
    return likely if other else None


def _change(values: np.ndarray, wide: int) -> float:
    return float(np.abs(values[wide:] - values[:-wide]).mean()) if len(values) > wide else np.inf
