"""Normals of clouds that come without: the direction in which a point's surroundings are thinnest (PCA, Hoppe 1992)."""

from itertools import product

import numpy as np

from ndformer.framework.data.dataset import Sample
from ndformer.framework.registry import TRANSFORMS
from ndformer.framework.registry.ranges import Positive
from ndformer.modalities.pointcloud.transforms.points import cells


@TRANSFORMS.register_module()
class EstimateNormals:
    """Of clouds that have no normals; others keep theirs. What surrounds a point are the cubes of a grid with cells of
    `size`: its own and the 26 about it; a few points should lie in each. `inwards` turns them to the middle of the
    cloud, as of a room seen from inside; else away from it, as of an object seen from outside. Where less than three
    points are near, 0."""

    def __init__(self, size: Positive = 0.05, inwards: bool = True) -> None:
        self.size, self.inwards = size, inwards

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        if "normals" in sample:
            return sample
        points = sample["points"].astype(np.float64)
        points = points - (points.min(0) + points.max(0)) / 2
        cells(points, self.size, str(sample.get("path", "the cloud")))  # there are not too many of them
        normals = thinnest(points, self.size)
        away = (normals * points).sum(1, keepdims=True) > 0
        return sample | dict(normals=np.where(away == self.inwards, -normals, normals).astype(np.float32))


def thinnest(points: np.ndarray, size: float) -> np.ndarray:
    """(N, 3) unit vectors, or 0, for points (N, 3)."""
    grid = np.floor(points / size).astype(np.int64)
    grid -= grid.min(0) - 1  # a margin of one cell
    _, wide, high = (grid.max(0) + 2).tolist()
    key, cell = np.unique((grid[:, 0] * wide + grid[:, 1]) * high + grid[:, 2], return_inverse=True)
    x, y, z = points.T
    one = np.stack([np.ones(len(points)), x, y, z, x * x, x * y, x * z, y * y, y * z, z * z])
    sums = np.stack([np.bincount(cell, row, len(key)) for row in one], 1)  # (cells, 10)
    near = np.zeros_like(sums)
    for dx, dy, dz in product((-1, 0, 1), repeat=3):
        other = key + (dx * wide + dy) * high + dz
        at = np.searchsorted(key, other).clip(max=len(key) - 1)
        near += np.where((key[at] == other)[:, None], sums[at], 0)
    mean = near[:, 1:4] / near[:, :1]
    spread = near[:, [4, 5, 6, 5, 7, 8, 6, 8, 9]].reshape(-1, 3, 3) / near[:, :1, None]
    _, axes = np.linalg.eigh(spread - mean[:, :, None] * mean[:, None])
    return np.where(near[:, :1] < 3, 0, axes[:, :, 0])[cell]
