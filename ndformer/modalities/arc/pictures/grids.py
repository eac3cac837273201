"""Grids as pictures: a square for each cell, thin lines between them."""

import numpy as np

from ndformer.framework.pictures.cards import class_colours
from ndformer.modalities.arc.formats.canvas import END, END_COLUMN, END_ROW, PAD

CELL, LINE = 20, 1  # pixels of a cell, of the line behind it
COLOURS = np.array(
    [
        (10, 10, 10), (30, 110, 215), (235, 65, 50), (60, 190, 80), (250, 215, 40), (150, 150, 150), (220, 50, 170),
        (245, 140, 40), (125, 205, 235), (130, 30, 40),
    ],
    np.uint8,
)  # fmt: skip
REST = {PAD: (245, 245, 245), END_ROW: (205, 190, 225), END_COLUMN: (190, 215, 200), END: (120, 95, 150)}


def drawn(symbols: np.ndarray) -> np.ndarray:
    """(H, W, 3) uint8 of colours, borders and padding (h, w)."""
    palette = np.concatenate([COLOURS, np.array([REST[symbol] for symbol in sorted(REST)], np.uint8)])
    return squares(palette[symbols])


def boxed(numbers: np.ndarray) -> np.ndarray:
    """(H, W, 3) uint8 of the numbers of objects (h, w), a colour each; the background is white."""
    palette = np.concatenate([np.full((1, 3), 255, np.uint8), class_colours(int(numbers.max()))])
    return squares(palette[numbers])


def squares(colours: np.ndarray) -> np.ndarray:
    """(H, W, 3) uint8, of a colour for each cell (h, w, 3)."""
    large = colours.repeat(CELL, 0).repeat(CELL, 1)
    for axis in (0, 1):
        lines = np.arange(large.shape[axis]) % CELL >= CELL - LINE
        large[lines if axis == 0 else (slice(None), lines)] = 90
    return large


def side_by_side(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Two pictures of one height, a white cell between them."""
    return np.concatenate([one, np.full((len(one), CELL, 3), 255, np.uint8), other], axis=1)
