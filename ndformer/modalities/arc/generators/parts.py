"""Rules on shapes and their parts: bounding boxes, corners, edges, insides."""

import numpy as np

from ndformer.modalities.arc.formats.tasks import Grid
from ndformer.modalities.arc.generators.drawing import (
    black,
    blob,
    block,
    bounding_boxes,
    colors,
    label_components,
    neighbors,
    outline,
    put,
)
from ndformer.modalities.arc.generators.task import Task


def blocks(min_side: int, max_side: int, color: int | None = None):
    """Return a generator of up to four full rectangles, in one color or each in its own."""

    def draw(rng: np.random.Generator) -> Grid:
        painted = colors(rng, 4) if color is None else np.full(4, color)
        stamps = [block(rng, min_side, max_side, color) for color in painted[: rng.integers(1, 5)]]
        return put(rng, black(rng, 7), stamps)

    return draw


def inner(grid: Grid) -> np.ndarray:
    """Return the colored cells (H, W) whose four neighbors have their color."""
    around = np.pad(grid, 1)
    sides = (around[:-2, 1:-1], around[2:, 1:-1], around[1:-1, :-2], around[1:-1, 2:])
    return (grid > 0) & np.all([side == grid for side in sides], axis=0)


def edges_and_corners(grid: Grid) -> Grid:
    """Recolor rectangles of 5: corners become 1, edges 4 and insides 2."""
    return np.where(grid == 5, np.array([0, 0, 1, 4, 2])[neighbors(grid == 5)], grid)


def holed_blobs(rng: np.random.Generator) -> Grid:
    return put(rng, black(rng, 7), [blob(rng, rng.integers(5, 8), 4) for _ in range(rng.integers(1, 4))])


def filled_boxes(color: int):
    """Return a rule that fills the black cells in the bounding box of each shape with a color."""

    def rule(grid: Grid) -> Grid:
        out = grid.copy()
        for top, left, bottom, right in bounding_boxes(label_components(grid > 0)):
            part = out[top : bottom + 1, left : right + 1]
            part[part == 0] = color
        return out

    return rule


def large_blob(rng: np.random.Generator) -> Grid:
    return put(rng, black(rng, 7), [blob(rng, rng.integers(10, 19), 8)])


def two_blocks(rng: np.random.Generator) -> Grid:
    """Draw two rectangles of different size."""
    first, second = block(rng, 3, 5, 4), block(rng, 3, 4, 4)
    grid = put(rng, black(rng, 7), [first, second])
    both = first.size != second.size and (grid > 0).sum() == first.size + second.size
    return grid if both else two_blocks(rng)


def insides_by_size(grid: Grid) -> Grid:
    """Recolor the inside of the largest rectangle with 2, that of others with 1."""
    numbers = label_components(grid > 0)
    largest = np.bincount(numbers[numbers > 0]).argmax()
    return np.where(inner(grid), np.where(numbers == largest, 2, 1), grid)


def small_squares(rng: np.random.Generator) -> Grid:
    """Draw squares of 2 x 2, with free cells around each."""
    stamp = np.full((2, 2), 5, np.uint8)
    return put(rng, black(rng, 7), [stamp] * rng.integers(1, 4), margin=1)


def with_corners(grid: Grid) -> Grid:
    """Put 1, 2, 3 and 4 at the corners of each square, in reading order."""
    out = grid.copy()
    for top, left, bottom, right in bounding_boxes(label_components(grid > 0)):
        out[[top - 1, top - 1, bottom + 1, bottom + 1], [left - 1, right + 1] * 2] = 1, 2, 3, 4
    return out


def framed(rng: np.random.Generator) -> Grid:
    """Draw a frame with four colors in its inner corners, and free cells around it."""
    frame, *inside = colors(rng, 5)
    stamp = outline(rng, 4, 5, frame)
    stamp[[1, 1, -2, -2], [1, -2, 1, -2]] = inside
    return put(rng, black(rng, 7), [stamp], margin=1)


def thrown_out(grid: Grid) -> Grid:
    """Move the cells in the inner corners of the frame to the opposite outer corners."""
    out = grid.copy()
    ((top, left, bottom, right),) = bounding_boxes(label_components(grid > 0))
    inner_corners = [top + 1, top + 1, bottom - 1, bottom - 1], [left + 1, right - 1] * 2
    out[[bottom + 1, bottom + 1, top - 1, top - 1], [right + 1, left - 1] * 2] = grid[inner_corners]
    out[inner_corners] = 0
    return out


def nested(rng: np.random.Generator) -> Grid:
    """Draw nested squares, each in its own color."""
    half = rng.integers(2, 5)
    depth = np.minimum(np.arange(2 * half), np.arange(2 * half)[::-1])
    return colors(rng, half)[np.minimum(depth[:, None], depth)]


def inside_out(grid: Grid) -> Grid:
    side = len(grid)
    depth = np.minimum(np.arange(side), np.arange(side)[::-1])
    return grid.diagonal()[: side // 2][side // 2 - 1 - np.minimum(depth[:, None], depth)]


TASKS = (
    Task("parts", "b6afb2da", "corners, edges and insides of blocks", blocks(2, 5, 5), edges_and_corners),
    Task("hollow", "4347f46a", "blocks become outlines", blocks(3, 5), lambda grid: np.where(inner(grid), 0, grid)),
    Task("box", "6d75e8bb", "the box around the thing is filled", large_blob, filled_boxes(2)),
    Task("boxes", "60b61512", "the box around each thing is filled", holed_blobs, filled_boxes(7)),
    Task("larger", "694f12f3", "insides of blocks, by which is larger", two_blocks, insides_by_size),
    Task("four corners", "95990924", "four colors at the corners of squares", small_squares, with_corners),
    Task("thrown out", "952a094c", "inner corners go to opposite outer ones", framed, thrown_out),
    Task("inside out", "85c4e7cd", "nested squares in the opposite order", nested, inside_out),
)
