"""Pictures of grids: a square for each cell, with thin lines between them."""

import numpy as np

from ndformer.framework.pictures.cards import class_colors
from ndformer.modalities.arc.formats.canvas import END, END_COLUMN, END_ROW, PAD

CELL, LINE = 20, 1  # pixels of a cell, and of the line after it
COLORS = np.array(
    [
        (10, 10, 10), (30, 110, 215), (235, 65, 50), (60, 190, 80), (250, 215, 40), (150, 150, 150), (220, 50, 170),
        (245, 140, 40), (125, 205, 235), (130, 30, 40),
    ],
    np.uint8,
)  # fmt: skip
BORDERS = {PAD: (245, 245, 245), END_ROW: (205, 190, 225), END_COLUMN: (190, 215, 200), END: (120, 95, 150)}


def draw_symbols(symbols: np.ndarray) -> np.ndarray:
    """Draw symbols (h, w): colors, borders and padding."""
    palette = np.concatenate([COLORS, np.array([BORDERS[symbol] for symbol in sorted(BORDERS)], np.uint8)])
    return squares(palette[symbols])


def boxed(numbers: np.ndarray) -> np.ndarray:
    """Draw object numbers (h, w), each in its own color; the background is white."""
    palette = np.concatenate([np.full((1, 3), 255, np.uint8), class_colors(int(numbers.max()))])
    return squares(palette[numbers])


def squares(colors: np.ndarray) -> np.ndarray:
    """Draw a square of each color (h, w, 3): (H, W, 3) uint8."""
    large = colors.repeat(CELL, 0).repeat(CELL, 1)
    for axis in (0, 1):
        lines = np.arange(large.shape[axis]) % CELL >= CELL - LINE
        large[lines if axis == 0 else (slice(None), lines)] = 90
    return large


def side_by_side(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Join two pictures of the same height, with a white cell between them."""
    return np.concatenate([left, np.full((len(left), CELL, 3), 255, np.uint8), right], axis=1)
