"""Poses: quaternions (w, x, y, z), pose matrices and yaw. All in float64."""

import numpy as np

LEVEL = 1e-3  # tolerance for the length of quaternions, which are rounded in the tables


def rotations(quaternions: np.ndarray) -> np.ndarray:
    """Convert quaternions (..., 4) w x y z of length about 1 to rotation matrices (..., 3, 3)."""
    q = np.asarray(quaternions, np.float64)
    w, x, y, z = np.moveaxis(q / np.linalg.norm(q, axis=-1, keepdims=True), -1, 0)
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]
    return np.stack([np.stack(row, -1) for row in rows], -2)


def quaternion(matrix: np.ndarray) -> np.ndarray:
    """Convert a rotation matrix (3, 3) to w x y z, by the formula with the largest divisor (Shepperd)."""
    trace = np.trace(matrix)
    four = np.array([trace, *np.diag(matrix)])  # four times the squares of w, x, y, z, minus a common constant
    big = int(four.argmax())
    q = np.empty(4)
    skew = matrix - matrix.T
    lift = np.array([skew[2, 1], skew[0, 2], skew[1, 0]])  # 4 w (x, y, z)
    if big == 0:
        q[0], q[1:] = 1 + trace, lift
    else:
        i = big - 1
        j, k = (i + 1) % 3, (i + 2) % 3
        q[0], q[1 + i] = lift[i], 1 + 2 * matrix[i, i] - trace
        q[1 + j], q[1 + k] = matrix[i, j] + matrix[j, i], matrix[i, k] + matrix[k, i]
    return q / np.linalg.norm(q) * (1 if q[0] >= 0 else -1)


def poses(translations: np.ndarray, quaternions: np.ndarray) -> np.ndarray:
    """Build pose matrices (..., 4, 4), from the posed frame to its parent."""
    matrix = np.zeros((*np.shape(translations)[:-1], 4, 4))
    matrix[..., :3, :3], matrix[..., :3, 3], matrix[..., 3, 3] = rotations(quaternions), translations, 1
    return matrix


def inverse(pose: np.ndarray) -> np.ndarray:
    """Invert poses (..., 4, 4)."""
    back = np.zeros_like(pose)
    turned = np.swapaxes(pose[..., :3, :3], -1, -2)
    back[..., :3, :3], back[..., 3, 3] = turned, 1
    back[..., :3, 3] = -(turned @ pose[..., :3, 3:])[..., 0]
    return back


def headings(matrices: np.ndarray) -> np.ndarray:
    """Return the yaw of rotation matrices (..., 3, 3): the angle of the rotated x axis, from x towards y."""
    return np.arctan2(matrices[..., 1, 0], matrices[..., 0, 0])


def about_z(angles: np.ndarray) -> np.ndarray:
    """Return rotation matrices (..., 3, 3) about z."""
    c, s, zero, unit = np.cos(angles), np.sin(angles), np.zeros_like(angles), np.ones_like(angles)
    rows = [[c, -s, zero], [s, c, zero], [zero, zero, unit]]
    return np.stack([np.stack(row, -1) for row in rows], -2)


def moved(points: np.ndarray, pose: np.ndarray) -> np.ndarray:
    """Transform points (N, 3) by a pose (4, 4)."""
    return points @ pose[:3, :3].T + pose[:3, 3]
