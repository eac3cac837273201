"""Wireframes of 3-D boxes, drawn into a picture with several views of space."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ndformer.modalities.driving.formats.solids import corners

NEAREST = 0.1  # smallest drawn distance from a camera, meters
EDGES = (
    [(i, (i + 1) % 4) for i in range(4)] + [(4 + i, 4 + (i + 1) % 4) for i in range(4)] + [(i, i + 4) for i in range(4)]
)
AHEAD = [(0, 2), (1, 3)]  # a cross on the front
FINE = 16  # pixels; smaller boxes have no cross


@dataclass(frozen=True)
class Solid:
    """A 3-D box to draw."""

    box: np.ndarray  # x, y, z of the center, width, length, height, yaw, ...
    color: tuple[int, int, int]


def draw(pixels: np.ndarray, solids: Sequence[Solid], about: Mapping[str, Any]) -> Any:
    """Draw solids into each view of a picture and return a PIL image.

    `about` has `views` (V, 3, 4), projections from space to pixels of a window, and `windows` (V, 4): left, top, right,
    bottom in the picture.
    """
    from PIL import Image, ImageDraw

    sheet = Image.fromarray(pixels)
    shapes = corners(np.stack([solid.box[:7] for solid in solids])) if solids else np.zeros((0, 8, 3))
    for view, window in zip(np.asarray(about["views"], np.float64), np.asarray(about["windows"]).tolist()):
        piece = sheet.crop(window)  # clips lines at the window
        pen = ImageDraw.Draw(piece)
        for shape, solid in zip(shapes, solids):
            for line in outlines(shape, view):
                pen.line(line.ravel().tolist(), fill=solid.color, width=1 if piece.width < 400 else 2)
        sheet.paste(piece, window[:2])
    return sheet


def outlines(shape: np.ndarray, view: np.ndarray) -> list[np.ndarray]:
    """Return the edges, (2, 2) pixels each, of a box with corners (8, 3) in front of a view (3, 4)."""
    projected = shape @ view[:, :3].T + view[:, 3]  # (8, 3), depth last
    if (projected[:, 2] < NEAREST).all():
        return []
    complete = bool((projected[:, 2] >= NEAREST).all())
    flat = projected[:, :2] / np.maximum(projected[:, 2:], NEAREST)
    large = complete and float(np.ptp(flat, axis=0).max()) >= FINE
    lines = []
    for a, b in EDGES + AHEAD * large:
        ends = np.stack([projected[a], projected[b]])
        if (ends[:, 2] < NEAREST).all():
            continue
        low, high = ends[ends[:, 2].argsort(kind="stable")]
        if low[2] < NEAREST:
            low = low + (NEAREST - low[2]) / (high[2] - low[2]) * (high - low)
        lines.append(np.stack([low[:2] / low[2], high[:2] / high[2]]))
    return lines
