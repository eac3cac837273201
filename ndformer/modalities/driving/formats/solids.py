"""3-D boxes (x y z width length height yaw): their corners, the points in them, and overlaps."""

import numpy as np

# along length, width, height: the four corners of the front, then those of the back
CORNERS = np.array([(1, 1, 1), (1, -1, 1), (1, -1, -1), (1, 1, -1), (-1, 1, 1), (-1, -1, 1), (-1, -1, -1), (-1, 1, -1)])


def corners(boxes: np.ndarray) -> np.ndarray:
    """Return the corners (K, 8, 3) of boxes (K, 7 or more)."""
    boxes = np.asarray(boxes, np.float64)
    sides = CORNERS * boxes[:, None, [4, 3, 5]] / 2
    c, s = np.cos(boxes[:, 6:7]), np.sin(boxes[:, 6:7])
    x, y = c * sides[..., 0] - s * sides[..., 1], s * sides[..., 0] + c * sides[..., 1]
    return boxes[:, None, :3] + np.stack([x, y, sides[..., 2]], -1)


def inside(points: np.ndarray, box: np.ndarray) -> np.ndarray:
    """Return which points (N, 3 or more) lie in a box, faces included."""
    away = points[:, :3].astype(np.float64) - box[:3]
    c, s = np.cos(box[6]), np.sin(box[6])
    along, across = c * away[:, 0] + s * away[:, 1], c * away[:, 1] - s * away[:, 0]
    half = box[3:6] / 2
    return (np.abs(across) <= half[0]) & (np.abs(along) <= half[1]) & (np.abs(away[:, 2]) <= half[2])


def overlapping(boxes: np.ndarray, other_boxes: np.ndarray) -> np.ndarray:
    """Return whose footprints overlap, (K, M), by the separating axes of rectangles."""
    if not len(boxes) or not len(other_boxes):
        return np.zeros((len(boxes), len(other_boxes)), bool)
    separate = np.zeros((len(boxes), len(other_boxes)), bool)
    grounds = [corners(some)[:, [0, 1, 5, 4], :2] for some in (boxes, other_boxes)]  # (K, 4, 2), (M, 4, 2)
    for side, turns in enumerate((boxes[:, 6], other_boxes[:, 6])):
        for quarter in (0, np.pi / 2):
            axes = np.stack([np.cos(turns + quarter), np.sin(turns + quarter)], -1)  # of each box
            projection = np.einsum("kcd,kd->kc", grounds[side], axes)
            cross = np.einsum("mcd,kd->kmc", grounds[1 - side], axes)
            low, high = projection.min(1)[:, None], projection.max(1)[:, None]
            split = (cross.min(2) >= high) | (cross.max(2) <= low)  # (own, other)
            separate |= split if side == 0 else split.T
    return ~separate
