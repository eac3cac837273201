"""What grids are drawn with: sizes, colours, things that do not touch each other."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch

from ndformer.modalities.arc.formats.tasks import Grid
from ndformer.modalities.arc.objects import boxes, components

LEAST, MOST = 5, 8  # rows and columns of drawn grids
TRIES = 30  # of finding a free place
Whole = int | np.integer[Any]


def black(rng: np.random.Generator, least: int = LEAST, most: int = MOST) -> Grid:
    return np.zeros(rng.integers(least, most + 1, 2), np.uint8)


def colours(rng: np.random.Generator, count: Whole, besides: Iterable[int] = ()) -> np.ndarray:
    """Different ones, none of them black."""
    able = [colour for colour in range(1, 10) if colour not in set(besides)]
    return rng.permutation(np.array(able, np.uint8))[:count]


def noise(rng: np.random.Generator, grid: Grid, colour: int, share: float) -> Grid:
    """Some of the black cells in a colour."""
    return np.where((grid == 0) & (rng.random(grid.shape) < share), colour, grid).astype(np.uint8)


def put(rng: np.random.Generator, grid: Grid, stamps: Iterable[np.ndarray], margin: int = 0) -> Grid:
    """Stamps (h, w) at places of chance, in their order, each only where it touches no other, not even by a corner, and
    keeps away from the edge by `margin`; those that find no such place are left out."""
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


def block(rng: np.random.Generator, least: int, most: int, colour: int) -> np.ndarray:
    """A full rectangle."""
    return np.full(rng.integers(least, most + 1, 2), colour, np.uint8)


def blob(rng: np.random.Generator, cells: Whole, colour: Whole) -> np.ndarray:
    """Cells that hang together by their sides, in the box around them."""
    found = {(0, 0)}
    while len(found) < cells:
        y, x = sorted(found)[rng.integers(len(found))]
        dy, dx = ((0, 1), (1, 0), (0, -1), (-1, 0))[rng.integers(4)]
        found.add((y + dy, x + dx))
    places = np.array(sorted(found))
    places -= places.min(0)
    out = np.zeros(places.max(0) + 1, np.uint8)
    out[tuple(places.T)] = colour
    return out


def labelled(mask: np.ndarray, corners: bool = True) -> np.ndarray:
    """(H, W) numbers of components from 1; 0 is outside of the mask."""
    return components(torch.from_numpy(np.ascontiguousarray(mask))[None], corners)[0].numpy()


def boxes_of(numbers: np.ndarray) -> np.ndarray:
    """(K, 4) top, left, bottom, right of each component, the last two included."""
    return boxes(torch.from_numpy(numbers)[None])[0].numpy()


def sizes(numbers: np.ndarray) -> np.ndarray:
    """(H, W) how many cells the component of a cell has, 0 outside."""
    counts = np.bincount(numbers.ravel())
    counts[0] = 0
    return counts[numbers]


def neighbours(mask: np.ndarray) -> np.ndarray:
    """(H, W) how many of the four cells beside a cell are of the mask."""
    around = np.pad(mask.astype(int), 1)
    return around[:-2, 1:-1] + around[2:, 1:-1] + around[1:-1, :-2] + around[1:-1, 2:]


def enclosed(wall: np.ndarray) -> np.ndarray:
    """(H, W) whether there is no way by sides from a cell, which is no wall, to the edge of the grid."""
    free = labelled(np.pad(~wall, 1, constant_values=True), corners=False)[1:-1, 1:-1]
    return (free > 1) & ~wall
