"""Rules on relations between cells: in one row, adjacent, within walls."""

import numpy as np

from ndformer.modalities.arc.formats.tasks import Grid
from ndformer.modalities.arc.generators.drawing import around, black, enclosed, neighbors, noise, opened, outline, put
from ndformer.modalities.arc.generators.task import Task


def gaps(rng: np.random.Generator) -> Grid:
    """Draw ones with a cell between them."""
    stamps = [np.array([[1, 0] * rng.integers(2, 4)], np.uint8)[:, :-1] for _ in range(rng.integers(1, 5))]
    return put(rng, black(rng), stamps)


def filled_gaps(grid: Grid) -> Grid:
    out = grid.copy()
    out[:, 1:-1][(grid[:, :-2] == 1) & (grid[:, 2:] == 1) & (grid[:, 1:-1] == 0)] = 2
    return out


def points(rng: np.random.Generator) -> Grid:
    return noise(rng, black(rng), 8, 0.09)


def connected(grid: Grid) -> Grid:
    """Fill the cells between two points of a row or a column."""
    points = grid == 8
    out = points.copy()
    for axis in (0, 1):
        before = np.maximum.accumulate(points, axis)
        after = np.flip(np.maximum.accumulate(np.flip(points, axis), axis), axis)
        out |= before & after
    return np.where(out, 8, grid)


def lone_points(rng: np.random.Generator) -> Grid:
    """Draw points of 2 and of other colors that do not touch each other."""
    stamps = [np.array([[color]], np.uint8) for color in [2, *rng.choice([2, 2, 3, 6, 8], 3)]]
    return put(rng, black(rng), stamps)


def surrounded(grid: Grid) -> Grid:
    return np.where(around(grid == 2) & (grid == 0), 1, grid)


def walls(rng: np.random.Generator) -> Grid:
    """Draw outlines of 2, some with a gap, and single cells of 2."""
    grid = black(rng, 7)
    stamps = []
    for _ in range(rng.integers(1, 4)):
        stamp = outline(rng, 3, 6, 2)
        stamps.append(opened(rng, stamp) if rng.random() < 0.4 else stamp)
    return noise(rng, put(rng, grid, stamps), 2, 0.05)


def incomplete_squares(rng: np.random.Generator) -> Grid:
    stamps = []
    for missing in rng.integers(4, size=rng.integers(1, 5)):
        stamp = np.full(4, 8, np.uint8)
        stamp[missing] = 0
        stamps.append(stamp.reshape(2, 2))
    return put(rng, black(rng), stamps)


def completed(grid: Grid) -> Grid:
    """Fill the fourth cell of each square of 2 x 2."""
    out, eights = grid.copy(), grid == 8
    for y, x in np.argwhere(sum(eights[i : i - 1 or None, j : j - 1 or None] for i in (0, 1) for j in (0, 1)) == 3):
        part = out[y : y + 2, x : x + 2]
        part[part == 0] = 1
    return out


def couples(rng: np.random.Generator) -> Grid:
    """Draw threes and twos, adjacent or not."""
    stamps = [np.array(rng.permutation([2, 3]), np.uint8).reshape(rng.permutation([1, 2])) for _ in range(3)]
    singles = [np.array([[color]], np.uint8) for color in rng.choice([2, 3, 5], rng.integers(2, 6))]
    return put(rng, black(rng, 5), [*stamps[: rng.integers(1, 4)], *singles])


def married(grid: Grid) -> Grid:
    """Turn each 3 next to a 2 into 8, and remove that 2."""
    out = grid.copy()
    out[(grid == 3) & (neighbors(grid == 2) > 0)] = 8
    out[(grid == 2) & (neighbors(grid == 3) > 0)] = 0
    return out


TASKS = (
    Task("gaps", "a699fb00", "2 between two ones", gaps, filled_gaps),
    Task("joined", "ded97339", "lines between points of a row or column", points, connected),
    Task("surrounded", "dc1df850", "1 all around each 2", lone_points, surrounded),
    Task(
        "enclosed",
        "a5313dff",
        "what is within walls becomes 1",
        walls,
        lambda grid: np.where(enclosed(grid == 2) & (grid == 0), 1, grid),
    ),
    Task("squares", "3aa6fb7a", "the missing cell of squares", incomplete_squares, completed),
    Task("couples", "d90796e8", "a 3 beside a 2 becomes 8", couples, married),
)
