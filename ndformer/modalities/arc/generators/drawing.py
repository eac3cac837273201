"""Building blocks of generated grids: sizes, colors, shapes that do not touch each other."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch

from ndformer.modalities.arc.formats.tasks import Grid
from ndformer.modalities.arc.objects import boxes, components

MIN_SIDE, MAX_SIDE = 5, 8  # rows and columns of generated grids
TRIES = 30  # random places for a stamp
Integer = int | np.integer[Any]


def black(rng: np.random.Generator, min_side: int = MIN_SIDE, max_side: int = MAX_SIDE) -> Grid:
    return np.zeros(rng.integers(min_side, max_side + 1, 2), np.uint8)


def colors(rng: np.random.Generator, count: Integer, besides: Iterable[int] = ()) -> np.ndarray:
    """Return different random colors, none of them black."""
    able = [color for color in range(1, 10) if color not in set(besides)]
    return rng.permutation(np.array(able, np.uint8))[:count]


def noise(rng: np.random.Generator, grid: Grid, color: int, share: float) -> Grid:
    """Color a random share of the black cells."""
    return np.where((grid == 0) & (rng.random(grid.shape) < share), color, grid).astype(np.uint8)


def put(rng: np.random.Generator, grid: Grid, stamps: Iterable[np.ndarray], margin: int = 0) -> Grid:
    """Place stamps (h, w) at random, in order, where they touch no other, not even by a corner.

    They keep a distance of `margin` from the edge. Stamps without such a place are left out.
    """
    out = grid.copy()
    for stamp in stamps:
        h, w = stamp.shape
        room = np.array(out.shape) - (h, w) - 2 * margin
        if room.min() < 0:
            continue
        for top, left in rng.integers(0, room + 1, (TRIES, 2)) + margin:
            around = out[
                max(0, top - 1 - margin) : top + h + 1 + margin, max(0, left - 1 - margin) : left + w + 1 + margin
            ]
            if not around.any():
                out[top : top + h, left : left + w] = stamp
                break
    return out


def block(rng: np.random.Generator, min_side: int, max_side: int, color: int) -> np.ndarray:
    """Return a full rectangle."""
    return np.full(rng.integers(min_side, max_side + 1, 2), color, np.uint8)


def outline(rng: np.random.Generator, min_side: int, max_side: int, color: int) -> np.ndarray:
    """Return the edge of a rectangle."""
    stamp = block(rng, min_side, max_side, color)
    stamp[1:-1, 1:-1] = 0
    return stamp


def opened(rng: np.random.Generator, stamp: np.ndarray) -> np.ndarray:
    """Clear a random cell of an outline."""
    edge = np.argwhere(stamp)
    stamp[tuple(edge[rng.integers(len(edge))])] = 0
    return stamp


def blob(rng: np.random.Generator, cells: Integer, color: Integer) -> np.ndarray:
    """Return a random connected shape of cells, in its bounding box."""
    shape = {(0, 0)}
    while len(shape) < cells:
        y, x = sorted(shape)[rng.integers(len(shape))]
        dy, dx = ((0, 1), (1, 0), (0, -1), (-1, 0))[rng.integers(4)]
        shape.add((y + dy, x + dx))
    places = np.array(sorted(shape))
    places -= places.min(0)
    out = np.zeros(places.max(0) + 1, np.uint8)
    out[tuple(places.T)] = color
    return out


def label_components(mask: np.ndarray, corners: bool = True) -> np.ndarray:
    """Number the connected components (H, W) from 1; 0 is outside of the mask."""
    return components(torch.from_numpy(np.ascontiguousarray(mask))[None], corners)[0].numpy()


def bounding_boxes(numbers: np.ndarray) -> np.ndarray:
    """Return top, left, bottom, right (K, 4) of each component, bottom and right included."""
    return boxes(torch.from_numpy(numbers)[None])[0].numpy()


def sizes(numbers: np.ndarray) -> np.ndarray:
    """Return the number of cells of each cell's component (H, W), 0 outside."""
    counts = np.bincount(numbers.ravel())
    counts[0] = 0
    return counts[numbers]


def neighbors(mask: np.ndarray) -> np.ndarray:
    """Count the side neighbors of each cell (H, W) that are in the mask."""
    around = np.pad(mask.astype(int), 1)
    return around[:-2, 1:-1] + around[2:, 1:-1] + around[1:-1, :-2] + around[1:-1, 2:]


def around(mask: np.ndarray) -> np.ndarray:
    """Return the cells (H, W) of a mask and those next to them, by a side or a corner."""
    h, w = mask.shape
    padded = np.pad(mask, 1)
    return np.any([padded[dy : dy + h, dx : dx + w] for dy in range(3) for dx in range(3)], axis=0)


def enclosed(wall: np.ndarray) -> np.ndarray:
    """Return the cells (H, W) that are no wall and have no path by sides to the edge of the grid."""
    free = label_components(np.pad(~wall, 1, constant_values=True), corners=False)[1:-1, 1:-1]
    return (free > 1) & ~wall
