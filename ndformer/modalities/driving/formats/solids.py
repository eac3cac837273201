"""Boxes in space, x y z width length height yaw: their corners, what lies in them, which of them overlap."""

import numpy as np

from ndformer.framework.pictures.solids import corners


def inside(points: np.ndarray, box: np.ndarray) -> np.ndarray:
    """(N,) bool: which of the points (N, 3 or more) lie in a box, faces included."""
    away = points[:, :3].astype(np.float64) - box[:3]
    c, s = np.cos(box[6]), np.sin(box[6])
    along, across = c * away[:, 0] + s * away[:, 1], c * away[:, 1] - s * away[:, 0]
    half = box[3:6] / 2
    return (np.abs(across) <= half[0]) & (np.abs(along) <= half[1]) & (np.abs(away[:, 2]) <= half[2])


def overlapping(boxes: np.ndarray, others: np.ndarray) -> np.ndarray:
    """(K, M) bool: whose grounds share more than an edge, by the separating axes of rectangles."""
    if not len(boxes) or not len(others):
        return np.zeros((len(boxes), len(others)), bool)
    apart = np.zeros((len(boxes), len(others)), bool)
    grounds = [corners(some)[:, [0, 1, 5, 4], :2] for some in (boxes, others)]  # (K, 4, 2), (M, 4, 2)
    for of, turns in enumerate((boxes[:, 6], others[:, 6])):
        for quarter in (0, np.pi / 2):
            axes = np.stack([np.cos(turns + quarter), np.sin(turns + quarter)], -1)  # of each box its own
            own = np.einsum("kcd,kd->kc", grounds[of], axes)
            cross = np.einsum("mcd,kd->kmc", grounds[1 - of], axes)
            low, high = own.min(1)[:, None], own.max(1)[:, None]
            split = (cross.min(2) >= high) | (cross.max(2) <= low)  # (own, other)
            apart |= split if of == 0 else split.T
    return ~apart
