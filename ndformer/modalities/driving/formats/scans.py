"""A LiDAR's scans: files of float32 rows, and several of them in the frame of the last one (sweeps)."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ndformer.framework import foreign
from ndformer.framework.errors import DataError
from ndformer.modalities.driving.formats.poses import moved

CLOSE = 1.0  # metres to either side, within which points of earlier sweeps are of the car itself
TIMES = 6  # bytes in memory for one of a scan: as it is read, moved in float64, and joined
COLUMNS = 5  # of the points of a sample: x, y, z, intensity, lag


def read_scan(path: Path, wide: int = 5) -> np.ndarray:
    """(n, wide) float32 as they stand in a file: x, y, z, intensity and, in nuScenes, the ring."""
    try:
        content = foreign.content(path)
    except FileNotFoundError:
        raise DataError(f"{path} is missing: get the dataset again, all files of this version") from None
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error.strerror}): get it again") from None
    if len(content) % (4 * wide):
        raise DataError(
            f"{path} has {len(content)} bytes, which are no rows of {wide} numbers of 4 bytes: it is cut off, or no "
            "scan, or its rows are not so wide"
        )
    points = np.frombuffer(content, "<f4").reshape(-1, wide)
    wrong = int((~np.isfinite(points[:, :4])).any(1).sum())
    if wrong:
        raise DataError(f"{path} has {wrong} of {len(points)} points that are not finite: get it again")
    return points


def together(scans: Sequence[tuple[np.ndarray, np.ndarray, float]]) -> np.ndarray:
    """(N, 5) float32 x, y, z, intensity, lag of scans, each with the pose (4, 4) that leads to the first one's frame
    and the seconds before it. Of the others, what lies on the car is left out: its roof moves with it."""
    parts = []
    for number, (scan, pose, lag) in enumerate(scans):
        if number:
            scan = scan[~((np.abs(scan[:, 0]) < CLOSE) & (np.abs(scan[:, 1]) < CLOSE))]
        part = np.empty((len(scan), COLUMNS), np.float32)
        part[:, :3] = moved(scan[:, :3].astype(np.float64), pose) if number else scan[:, :3]
        part[:, 3], part[:, 4] = scan[:, 3], lag
        parts.append(part)
    return np.concatenate([np.zeros((0, COLUMNS), np.float32), *parts])
