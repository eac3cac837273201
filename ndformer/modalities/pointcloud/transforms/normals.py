"""Normal estimation for clouds without normals: the direction of least spread around a point (PCA, Hoppe 1992)."""

from itertools import product

import numpy as np

from ndformer.framework.data.dataset import Sample
from ndformer.framework.registry import TRANSFORMS
from ndformer.framework.registry.ranges import Positive
from ndformer.modalities.pointcloud.transforms.points import cells


@TRANSFORMS.register_module()
class EstimateNormals:
    """Estimate normals of clouds that have none; others keep theirs.

    The neighborhood of a point is its cell of a grid with cells of `size` and the 26 cells around it; each should have
    a few points. `inwards` orients normals towards the center of the cloud, as for a room seen from inside; otherwise
    away from it, as for an object seen from outside. Normals are 0 where fewer than three points are near.
    """

    def __init__(self, size: Positive = 0.05, inwards: bool = True) -> None:
        self.size, self.inwards = size, inwards

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        if "normals" in sample:
            return sample
        points = sample["points"].astype(np.float64)
        points = points - (points.min(0) + points.max(0)) / 2
        cells(points, self.size, str(sample.get("path", "the cloud")))  # raises for too many cells
        normals = thinnest(points, self.size)
        away = (normals * points).sum(1, keepdims=True) > 0
        return sample | dict(normals=np.where(away == self.inwards, -normals, normals).astype(np.float32))


def thinnest(points: np.ndarray, size: float) -> np.ndarray:
    """Return unit vectors (N, 3), or 0, for points (N, 3)."""
    grid = np.floor(points / size).astype(np.int64)
    grid -= grid.min(0) - 1  # a margin of one cell
    _, wide, high = (grid.max(0) + 2).tolist()
    key, cell = np.unique((grid[:, 0] * wide + grid[:, 1]) * high + grid[:, 2], return_inverse=True)
    x, y, z = points.T
    terms = np.stack([np.ones(len(points)), x, y, z, x * x, x * y, x * z, y * y, y * z, z * z])
    sums = np.stack([np.bincount(cell, row, len(key)) for row in terms], 1)  # (cells, 10)
    total = np.zeros_like(sums)
    for dx, dy, dz in product((-1, 0, 1), repeat=3):
        other = key + (dx * wide + dy) * high + dz
        index = np.searchsorted(key, other).clip(max=len(key) - 1)
        total += np.where((key[index] == other)[:, None], sums[index], 0)
    mean = total[:, 1:4] / total[:, :1]
    spread = total[:, [4, 5, 6, 5, 7, 8, 6, 8, 9]].reshape(-1, 3, 3) / total[:, :1, None]
    _, axes = np.linalg.eigh(spread - mean[:, :, None] * mean[:, None])
    return np.where(total[:, :1] < 3, 0, axes[:, :, 0])[cell]
