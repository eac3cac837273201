"""LiDAR scans: files of float32 rows, and several scans (sweeps) in the frame of the last one."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ndformer.framework import foreign
from ndformer.framework.errors import DataError
from ndformer.modalities.driving.formats.poses import moved

CLOSE = 1.0  # meters to each side within which points of earlier sweeps belong to the car itself
TIMES = 6  # bytes of memory per byte of a scan: as read, moved in float64, and joined
COLUMNS = 5  # of the points of a sample: x, y, z, intensity, lag


def read_scan(path: Path, wide: int = 5) -> np.ndarray:
    """Read a scan (n, wide) in float32: x, y, z, intensity and, in nuScenes, the ring."""
    try:
        content = foreign.content(path)
    except FileNotFoundError:
        raise DataError(f"{path} is missing: get the dataset again, all files of this version") from None
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error.strerror}): get it again") from None
    if len(content) % (4 * wide):
        raise DataError(
            f"{path} must have rows of {wide} numbers of 4 bytes, got {len(content)} bytes: it is cut off, or no "
            "scan, or its rows have another width"
        )
    points = np.frombuffer(content, "<f4").reshape(-1, wide)
    wrong = int((~np.isfinite(points[:, :4])).any(1).sum())
    if wrong:
        raise DataError(f"{path} has {wrong} of {len(points)} points that are not finite: get it again")
    return points


def together(scans: Sequence[tuple[np.ndarray, np.ndarray, float]]) -> np.ndarray:
    """Join scans as points (N, 5) float32: x, y, z, intensity, lag.

    Each scan comes with its pose (4, 4) to the first one's frame and the seconds before it. Points of later scans on
    the car itself are left out, because its roof moves with it.
    """
    parts = []
    for number, (scan, pose, lag) in enumerate(scans):
        if number:
            scan = scan[~((np.abs(scan[:, 0]) < CLOSE) & (np.abs(scan[:, 1]) < CLOSE))]
        part = np.empty((len(scan), COLUMNS), np.float32)
        part[:, :3] = moved(scan[:, :3].astype(np.float64), pose) if number else scan[:, :3]
        part[:, 3], part[:, 4] = scan[:, 3], lag
        parts.append(part)
    return np.concatenate([np.zeros((0, COLUMNS), np.float32), *parts])
