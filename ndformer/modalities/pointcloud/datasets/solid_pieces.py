"""Generated clouds of small pieces on the surface of one of eight solids."""

import numpy as np

from ndformer.framework.data.arranged import Arranged
from ndformer.framework.data.dataset import Sample
from ndformer.framework.registry import DATASETS

PIECES, POINTS, RADIUS, NOISE = 32, 16, 0.08, 0.01  # pieces; points, radius and noise of each
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
        centers = surface(SOLIDS[arrangement], rng) * rng.uniform(0.85, 1.15, 3)  # (pieces, 3), y up
        cos, sin = np.cos(angle := rng.uniform(-0.3, 0.3)), np.sin(angle)
        centers = centers @ np.array([[cos, 0, sin], [0, 1, 0], [-sin, 0, cos]])
        points = centers[:, None] + RADIUS * pattern(kind, rng) + rng.normal(0, NOISE, (PIECES, POINTS, 3))
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


def surface(solid: str, rng: np.random.Generator) -> np.ndarray:
    """Return random points (pieces, 3) on a solid of about radius 1."""
    direction = unit(rng.normal(size=(PIECES, 3)))
    angle, height = rng.uniform(0, 2 * np.pi, PIECES), rng.uniform(-1, 1, PIECES)
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
        radius = np.sqrt(rng.random(PIECES))
        return ring(radius, 1 - 2 * radius)
    if solid == "torus":
        tube = rng.uniform(0, 2 * np.pi, PIECES)
        return ring(0.75 + 0.3 * np.cos(tube), 0.3 * np.sin(tube))
    if solid == "helix":
        turns = 2 * np.pi * height
        return np.stack([0.7 * np.cos(turns), height, 0.7 * np.sin(turns)], 1)
    axes = np.eye(3)[rng.integers(3, size=PIECES)]
    return axes * height[:, None]


def unit(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)
