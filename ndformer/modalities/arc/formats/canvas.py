"""Canvas: a square of fixed size that contains a grid, with symbols for its border and for the padding.

3 0 >        cells of the grid, then a border: END_ROW after each of its rows,
0 3 >        END_COLUMN below each of its columns, END in the corner,
v v +        and PAD on the remaining canvas
"""

import numpy as np

from ndformer.framework.errors import DataError

PAD, END_ROW, END_COLUMN, END = range(10, 14)  # after the ten colors
SYMBOLS = [*map(str, range(10)), "pad", "end_row", "end_column", "end"]


def laid(grid: np.ndarray, side: int) -> np.ndarray:
    """Place a grid (h, w) in the upper left corner of a canvas (side, side) of uint8 symbols."""
    height, width = grid.shape
    if max(height, width) >= side:
        raise DataError(
            f"a grid of {height} x {width} cells and its border do not fit on a canvas of {side} x {side}: give "
            f"PackGrid canvas={max(height, width) + 1} or more, 31 for all of ARC"
        )
    canvas = np.full((side, side), PAD, np.uint8)
    canvas[:height, :width] = grid
    canvas[:height, width], canvas[height, :width], canvas[height, width] = END_ROW, END_COLUMN, END
    return canvas
