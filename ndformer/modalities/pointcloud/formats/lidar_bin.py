"""Reader of LiDAR scans in .bin files of float32 rows: x, y, z, intensity (KITTI), plus the ring (nuScenes).

Numbers are little-endian. Positions are in meters from the sensor, z is up. These files have no header, and other
formats end in .bin too, so the values are checked against what a scan can have.
"""

from pathlib import Path

import numpy as np

from ndformer.framework import foreign
from ndformer.modalities.pointcloud.formats.columns import XYZ, Columns

MAX_RANGE_M = 1000.0  # beyond the range of any LiDAR
TINY, MAX_TINY_SHARE = 1e-12, 0.01  # other bytes read as floats are often tiny but not 0; values of a scan rarely are
MAX_INTENSITY, MAX_RING = 65535, 255


def read_lidar(path: Path) -> Columns:
    """Read the points of a scan; intensity and ring are skipped."""
    content = np.frombuffer(foreign.content(path), np.uint8)
    wide = count_columns(content)
    if wide is None:
        raise ValueError(
            "it is no LiDAR scan of float32 rows with 4 columns (KITTI) or 5 (nuScenes): save its points as an .npy of "
            "x, y, z"
        )
    return dict(zip(XYZ, content.view("<f4").reshape(-1, wide).T))


def count_columns(content: np.ndarray) -> int | None:
    """Return the number of columns of a scan, 4 or 5, or None for other bytes."""
    widths = [wide for wide in (4, 5) if len(content) and len(content) % (4 * wide) == 0 and _scan(content, wide)]
    return widths[0] if len(widths) == 1 and widths[0] == foreign.guess_row_width(content.view("<f4")) else None


def is_lidar(begin: bytes) -> bool:
    """Return whether a file can be a LiDAR scan by its first bytes."""
    content = np.frombuffer(begin, np.uint8)
    return any(count_columns(content[: len(content) // (4 * wide) * 4 * wide]) == wide for wide in (4, 5))


def _scan(content: np.ndarray, wide: int) -> bool:
    rows = content.view("<f4").reshape(-1, wide)
    size = np.abs(rows)
    return bool(
        np.isfinite(rows).all()
        and (size[:, :3] < MAX_RANGE_M).all()
        and ((size > 0) & (size <= TINY)).mean() <= MAX_TINY_SHARE
        and ((rows[:, 3] >= 0) & (rows[:, 3] <= MAX_INTENSITY)).all()
        and (wide == 4 or ((rows[:, 4] >= 0) & (rows[:, 4] <= MAX_RING) & (rows[:, 4] == np.rint(rows[:, 4]))).all())
        and np.ptp(rows[:, :3], axis=0).all()
    )
