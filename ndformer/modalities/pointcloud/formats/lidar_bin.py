"""LiDAR scans as bare numbers, .bin: little-endian float32 rows of x, y, z and intensity (KITTI), with the ring of each
point as a fifth column (nuScenes). In metres, from the sensor; z is up.

Nothing in such a file says what it is, and others end in .bin too: it is held to what a scan can be.
"""

from pathlib import Path

import numpy as np

from ndformer.framework import foreign
from ndformer.modalities.pointcloud.formats.columns import XYZ, Columns

FAR = 1000.0  # metres, which no LiDAR reaches
NEAR, SELDOM = 1e-12, 0.01  # bytes that are no numbers of a scan are often smaller, and not 0; its own are so seldom
BRIGHT, RINGS = 65535, 255  # intensities and rings


def read_lidar(path: Path) -> Columns:
    """The points; intensity and ring are passed over."""
    content = np.frombuffer(foreign.content(path), np.uint8)
    wide = columns_of(content)
    if wide is None:
        raise ValueError(
            "it is no LiDAR scan of float32 rows with 4 columns (KITTI) or 5 (nuScenes): save its points as an .npy of "
            "x, y, z"
        )
    return dict(zip(XYZ, content.view("<f4").reshape(-1, wide).T))


def columns_of(content: np.ndarray) -> int | None:
    """4 or 5, of bytes that are a scan."""
    fitting = [wide for wide in (4, 5) if len(content) and len(content) % (4 * wide) == 0 and _scan(content, wide)]
    return fitting[0] if len(fitting) == 1 and fitting[0] == foreign.guess_row_width(content.view("<f4")) else None


def looks_like(begin: bytes) -> bool:
    """The beginning of a file, as far as it goes."""
    content = np.frombuffer(begin, np.uint8)
    return any(columns_of(content[: len(content) // (4 * wide) * 4 * wide]) == wide for wide in (4, 5))


def _scan(content: np.ndarray, wide: int) -> bool:
    rows = content.view("<f4").reshape(-1, wide)
    size = np.abs(rows)
    return bool(
        np.isfinite(rows).all()
        and (size[:, :3] < FAR).all()
        and ((size > 0) & (size <= NEAR)).mean() <= SELDOM
        and ((rows[:, 3] >= 0) & (rows[:, 3] <= BRIGHT)).all()
        and (wide == 4 or ((rows[:, 4] >= 0) & (rows[:, 4] <= RINGS) & (rows[:, 4] == np.rint(rows[:, 4]))).all())
        and np.ptp(rows[:, :3], axis=0).all()
    )
