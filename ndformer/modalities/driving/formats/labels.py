"""Readers of LiDAR box labels, one box per line: KITTI's, in its camera's frame, and plain ones in the LiDAR's frame.

KITTI    type truncated occluded alpha x1 y1 x2 y2 height width length x y z turn     with a calibration file
plain    x y z length width height yaw class        meters, center; the format of OpenPCDet's custom datasets
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ndformer.framework import foreign
from ndformer.framework.errors import DataError

DONT_CARE = "DontCare"  # KITTI's unlabeled regions
IN_CAMERA, PLAIN = 15, 8  # words per line; KITTI's may also have a score
REMEDY = "correct it, or remove scan and labels"


def plain_boxes(path: Path) -> tuple[np.ndarray, list[str]]:
    """Read boxes (K, 7) x, y, z, width, length, height, yaw, and their classes."""
    rows = _rows(path, (PLAIN,))
    numbers = _numbers(path, [row[:7] for row in rows], 7)
    _check_sides(path, numbers[:, 3:6])
    return numbers[:, [0, 1, 2, 4, 3, 5, 6]], [row[7] for row in rows]


def kitti_boxes(path: Path, calibration: Path) -> tuple[np.ndarray, list[str]]:
    """Read KITTI's boxes as plain_boxes does; in KITTI, the position of a box is its bottom."""
    rows = [row for row in _rows(path, (IN_CAMERA, IN_CAMERA + 1)) if row[0] != DONT_CARE]
    numbers = _numbers(path, [row[8:15] for row in rows], 7)
    height, width, length = numbers[:, :3].T
    _check_sides(path, numbers[:, :3])
    from_camera = np.linalg.inv(to_camera(calibration))
    center = numbers[:, 3:6] - np.column_stack([np.zeros_like(height), height / 2, np.zeros_like(height)])  # y is down
    ahead = np.column_stack([np.cos(numbers[:, 6]), np.zeros_like(height), -np.sin(numbers[:, 6])])
    place, turned = center @ from_camera[:3, :3].T + from_camera[:3, 3], ahead @ from_camera[:3, :3].T
    yaw = np.arctan2(turned[:, 1], turned[:, 0])
    return np.column_stack([place, width, length, height, yaw]), [row[0] for row in rows]


def to_image(calibration: Path, size: tuple[int, int]) -> np.ndarray:
    """Read the projection (3, 4) from KITTI's LiDAR to its left color image of `size` (width, height), from 0 to 1."""
    return np.diag([1 / size[0], 1 / size[1], 1]) @ _matrix(calibration, "P2", 12)[:3] @ to_camera(calibration)


def in_image(points: np.ndarray, projection: np.ndarray) -> np.ndarray:
    """Return (n,) which points (n, 3 or more) a projection to an image has in the image."""
    u, v, depth = projection[:, :3] @ points[:, :3].T.astype(np.float64) + projection[:, 3:]
    return (depth > 0) & (u >= 0) & (u < depth) & (v >= 0) & (v < depth)


def to_camera(path: Path) -> np.ndarray:
    """Read the transform (4, 4) from KITTI's LiDAR to its rectified camera."""
    pose, turn = _matrix(path, "Tr_velo_to_cam", 12), _matrix(path, "R0_rect", 9)
    to_cam = turn @ pose
    if np.abs(to_cam[:3, :3] @ to_cam[:3, :3].T - np.eye(3)).max() > 1e-2:
        raise DataError(f"{path} has a calibration from LiDAR to camera that is no rotation: get it again")
    return to_cam


def _matrix(path: Path, name: str, count: int) -> np.ndarray:
    """Read a named matrix with three rows and `count` numbers of a calibration, extended to (4, 4)."""
    named = {row[0].rstrip(":"): row[1:] for row in _words(path) if row}
    if len(named.get(name, ())) != count:
        raise DataError(f"{path} has no {name} of {count} numbers, as KITTI's calibrations have: get it again")
    matrix = np.eye(4)
    matrix[:3, : count // 3] = _numbers(path, [named[name]], count).reshape(3, count // 3)
    return matrix


def _words(path: Path) -> list[list[str]]:
    try:
        return [line.split() for line in foreign.lines(path)]
    except FileNotFoundError:
        raise DataError(f"{path} is missing: each scan needs one, empty where there are no objects") from None
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error.strerror}): get it again") from None


def _rows(path: Path, lengths: Sequence[int]) -> list[list[str]]:
    rows = []
    for number, words in enumerate(_words(path), 1):
        if words and len(words) not in lengths:
            raise DataError(f"line {number} of {path} must have {lengths[0]} words, got {len(words)}: {REMEDY}")
        rows += [words] if words else []
    return rows


def _numbers(path: Path, rows: list[list[str]], wide: int) -> np.ndarray:
    numbers = np.zeros((len(rows), wide))
    for number, row in enumerate(rows):
        try:
            numbers[number] = [float(word) for word in row]
        except ValueError as error:
            raise DataError(f"{path} must have numbers ({error}), got {' '.join(row)!r}: {REMEDY}") from None
        if not np.isfinite(numbers[number]).all():
            raise DataError(f"{path} must have finite numbers, got {' '.join(row)!r}: {REMEDY}")
    return numbers


def _check_sides(path: Path, sides: np.ndarray) -> None:
    if (sides <= 0).any():
        raise DataError(f"{path} must have boxes with sides larger than 0, got {sides.min():g} m: {REMEDY}")
