"""Generated clouds of small pieces on the surface of one of eight solids."""

import numpy as np

from ndformer.framework.data.arranged import Arranged
from ndformer.framework.data.dataset import Sample
from ndformer.framework.registry import DATASETS

PIECES, POINTS, RADIUS, NOISE = 32, 16, 0.03, 0.004  # pieces; points, radius and noise of each
MIN_DISTANCE = 0.19  # between the centers of pieces, so that a piece is farther from others than its own points are
CANDIDATES = 8 * PIECES  # for the centers
KINDS = ("line_x", "line_y", "line_z", "ring_xy", "ring_yz", "ring_xz", "ball", "pair")
SOLIDS = ("sphere", "cube", "cylinder", "cone", "torus", "octahedron", "helix", "cross")


@DATASETS.register_module()
class SolidPieces(Arranged):
    """Clouds of 32 pieces. Kind: the pattern of points in each piece. Arrangement: the solid on which the pieces lie.

    A solid has random sides and a small random turn about the vertical axis; the patterns are not turned with it.
    """

    kinds = KINDS
    arrangements = SOLIDS

    def generate(self, arrangement: int, kind: int, rng: np.random.Generator) -> Sample:
        pieces = RADIUS * pattern(kind, rng) + rng.normal(0, NOISE, (PIECES, POINTS, 3))
        sides, angle, centers = rng.uniform(0.85, 1.15, 3), rng.uniform(-0.3, 0.3), np.empty((0, 3))
        while len(centers) < PIECES:  # once, nearly always
            centers = separated(surface(SOLIDS[arrangement], rng) * sides)[:PIECES]  # (pieces, 3), y up
        cos, sin = np.cos(angle), np.sin(angle)
        points = (centers @ np.array([[cos, 0, sin], [0, 1, 0], [-sin, 0, cos]]))[:, None] + pieces
        return dict(points=points.reshape(-1, 3).astype(np.float32))


def pattern(kind: int, rng: np.random.Generator) -> np.ndarray:
    """Return the points of all pieces relative to their centers, (pieces, points, 3) of about radius 1."""
    along, out = rng.uniform(-1, 1, (PIECES, POINTS)), np.zeros((PIECES, POINTS, 3))
    if kind < 3:
        out[..., kind] = along
    elif kind < 6:
        plane = [axis for axis in range(3) if axis != (2, 0, 1)[kind - 3]]
        out[..., plane] = np.stack([np.cos(np.pi * along), np.sin(np.pi * along)], -1)
    elif KINDS[kind] == "ball":
        out = unit(rng.normal(size=out.shape)) * rng.random((PIECES, POINTS, 1)) ** (1 / 3)
    else:
        out[..., 1] = np.sign(along)
    return out


def separated(points: np.ndarray) -> np.ndarray:
    """Return those of the points (n, 3) that are not nearer than MIN_DISTANCE to one before them that is returned."""
    far, chosen = np.linalg.norm(points[:, None] - points, axis=-1) >= MIN_DISTANCE, list[int]()
    for i in range(len(points)):
        if far[i, chosen].all():
            chosen.append(i)
    return points[chosen]


def surface(solid: str, rng: np.random.Generator) -> np.ndarray:
    """Return random points (candidates, 3) on a solid of about radius 1, or of longer lines."""
    direction = unit(rng.normal(size=(CANDIDATES, 3)))
    angle, height = rng.uniform(0, 2 * np.pi, CANDIDATES), rng.uniform(-1, 1, CANDIDATES)
    ring = lambda radius, y: np.stack([radius * np.cos(angle), y, radius * np.sin(angle)], 1)
    if solid == "sphere":
        return direction
    if solid == "cube":
        return direction / np.abs(direction).max(1, keepdims=True) * 0.8
    if solid == "octahedron":
        return direction / np.abs(direction).sum(1, keepdims=True) * 1.2
    if solid == "cylinder":
        return ring(0.8, height)
    if solid == "cone":
        radius = np.sqrt(rng.random(CANDIDATES))
        return ring(radius, 1 - 2 * radius)
    if solid == "torus":
        tube = rng.uniform(0, 2 * np.pi, CANDIDATES)
        return ring(0.75 + 0.3 * np.cos(tube), 0.3 * np.sin(tube))
    if solid == "helix":
        turns = 3 * np.pi * height
        return np.stack([0.8 * np.cos(turns), height, 0.8 * np.sin(turns)], 1)
    axes = np.eye(3)[rng.integers(3, size=CANDIDATES)]
    return axes * 2 * height[:, None]


def unit(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)
