"""Rules that recolor cells: by their color, by the size of their component, by its holes."""

import numpy as np

from ndformer.modalities.arc.formats.tasks import Grid
from ndformer.modalities.arc.generators.drawing import (
    around,
    black,
    blob,
    colors,
    enclosed,
    label_components,
    noise,
    opened,
    outline,
    put,
    sizes,
)
from ndformer.modalities.arc.generators.task import Task


def many_colors(rng: np.random.Generator) -> Grid:
    """Draw five colors, two of them 5 and 8."""
    palette = np.append(colors(rng, 3, besides=(5, 8)), np.array([5, 8], np.uint8))
    return palette[rng.integers(5, size=rng.integers(3, 9, 2))]


def swapped(grid: Grid) -> Grid:
    return np.where(grid == 5, 8, np.where(grid == 8, 5, grid))


def gray_blobs(rng: np.random.Generator) -> Grid:
    return put(rng, black(rng), [blob(rng, rng.integers(2, 5), 5) for _ in range(rng.integers(3, 8))])


def by_cells(grid: Grid) -> Grid:
    """Recolor components of 5 with two, three or four cells to 3, 2 or 1."""
    cells = sizes(label_components(grid == 5, corners=False))
    return np.where(grid == 5, np.array([0, 0, 3, 2, 1])[np.minimum(cells, 4)], grid)


def sprinkled(color: int, share: float):
    def draw(rng: np.random.Generator) -> Grid:
        return noise(rng, black(rng, 3, 7), color, share)

    return draw


def without_neighbor(grid: Grid) -> Grid:
    return np.where((grid == 2) & (sizes(label_components(grid == 2, corners=False)) == 1), 1, grid)


def large_components(grid: Grid) -> Grid:
    return np.where((grid == 3) & (sizes(label_components(grid == 3, corners=False)) >= 3), 8, grid)


def rings(rng: np.random.Generator) -> Grid:
    """Draw outlines of rectangles, at least a closed one and one with a gap.

    Otherwise one color for all of them would often be correct.
    """
    while True:
        stamps = []
        for gap in rng.permutation([False, True, rng.random() < 0.5]):
            stamp = outline(rng, 3, 5, 1)
            stamps.append(opened(rng, stamp) if gap else stamp)
        grid = put(rng, black(rng, 7), stamps)
        if {1, 3} <= set(closed_outlines(grid).flat):
            return grid


def closed_outlines(grid: Grid) -> Grid:
    """Recolor components of 1 around a hole to 3."""
    numbers = label_components(grid == 1, corners=False)
    closed = np.unique(numbers[around(enclosed(grid == 1)) & (numbers > 0)])
    return np.where(np.isin(numbers, closed) & (numbers > 0), 3, grid)


def shape_and_corner(rng: np.random.Generator) -> Grid:
    shape, corner = colors(rng, 2)
    grid = np.zeros(rng.integers(6, 9, 2), np.uint8)
    grid = put(rng, grid, [blob(rng, rng.integers(6, 13), shape)], margin=1)
    grid[-1, 0] = corner
    return grid


def as_the_corner(grid: Grid) -> Grid:
    out = np.where(grid > 0, grid[-1, 0], 0)
    out[-1, 0] = 0
    return out


TASKS = (
    Task("swap", "d511f180", "5 and 8 change places", many_colors, swapped),
    Task("sizes", "6e82a1ae", "things of two, three and four cells get colors of their own", gray_blobs, by_cells),
    Task("lone", "aedd82e4", "cells without a neighbor become 1", sprinkled(2, 0.4), without_neighbor),
    Task("large", "67385a82", "things of three cells and more become 8", sprinkled(3, 0.4), large_components),
    Task("loops", "810b9b61", "closed outlines become 3", rings, closed_outlines),
    Task("corner", "aabf363d", "the shape becomes what the corner is", shape_and_corner, as_the_corner),
)
