"""Bare numbers, rows of them without a word of how wide they are: how wide they look (period of a series)."""

import numpy as np

WIDTHS = range(3, 8)  # of rows of numbers, as clouds with colours, normals and times have them
SEEN = 2**13  # numbers that are looked at
SURELY = 3.0  # times as alike


def repeating(values: np.ndarray) -> int:
    """After how many numbers the next is most like the one before: so wide are rows, those of others too."""
    return min(WIDTHS, key=lambda wide: _change(values, wide))


def surely_other(rows: np.ndarray) -> int | None:
    """So wide are the rows that (n, wide) numbers of a file clearly come in, where that is not how they were read."""
    values = np.nan_to_num(rows.ravel()[:SEEN])
    likely = repeating(values)
    other = likely != rows.shape[1] and _change(values, rows.shape[1]) > SURELY * _change(values, likely)
    return likely if other else None


def _change(values: np.ndarray, wide: int) -> float:
    return float(np.abs(values[wide:] - values[:-wide]).mean()) if len(values) > wide else np.inf
