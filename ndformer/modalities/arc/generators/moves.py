"""Rules that move cells: mirroring, transposing, falling."""

import numpy as np

from ndformer.modalities.arc.formats.tasks import Grid
from ndformer.modalities.arc.generators.drawing import black, blob, colors, put
from ndformer.modalities.arc.generators.task import Task


def colored(rng: np.random.Generator) -> Grid:
    """Draw a grid with one of four colors in each cell."""
    shape = rng.integers(3, 9, 2)
    return colors(rng, 4)[rng.integers(4, size=shape)]


def square(rng: np.random.Generator) -> Grid:
    side = rng.integers(3, 8)
    return colors(rng, 4)[rng.integers(4, size=(side, side))]


def above_ground(rng: np.random.Generator) -> Grid:
    """Draw cells of a few colors, with most of the grid black."""
    grid = black(rng, 4, 8)
    full = rng.random(grid.shape) < rng.uniform(0.1, 0.4)
    return np.where(full, colors(rng, 4)[rng.integers(4, size=grid.shape)], 0).astype(np.uint8)


def fallen(grid: Grid) -> Grid:
    order = (grid > 0).argsort(0, kind="stable")  # black cells first, the others in their order
    return np.take_along_axis(grid, order, 0)


def single_blob(rng: np.random.Generator) -> Grid:
    grid = black(rng, 4, 8)
    return put(rng, grid[:-1], [blob(rng, rng.integers(2, 7), rng.integers(1, 10))])


def lower_half(rng: np.random.Generator) -> Grid:
    half = above_ground(rng)[:4]
    return np.concatenate([np.zeros_like(half), half])


def shifted(grid: Grid) -> Grid:
    return np.concatenate([np.zeros_like(grid[:1]), grid[:-1]])


def reflected(grid: Grid) -> Grid:
    return np.where(grid > 0, grid, grid[::-1])


TASKS = (
    Task("mirror", "67a3c6ac", "left and right change places", colored, lambda grid: grid[:, ::-1]),
    Task("transpose", "74dd1130", "rows become columns", square, lambda grid: grid.T),
    Task("gravity", "1e0a9b12", "cells fall to the ground", above_ground, fallen),
    Task("shift", "25ff71a9", "all goes down by one", single_blob, shifted),
    Task("reflection", "f25ffba3", "the lower half is mirrored in the upper", lower_half, reflected),
)
