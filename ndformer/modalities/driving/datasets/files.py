"""Reader of your own files: a scan alone, or with cameras and earlier scans if it is part of nuScenes."""

import contextlib
from pathlib import Path
from typing import Any

import numpy as np

from ndformer.framework.data.dataset import Sample
from ndformer.framework.errors import DataError
from ndformer.modalities.driving.datasets.lidar import about_no_camera, read_points
from ndformer.modalities.driving.datasets.nuscenes.dataset import Moment, NuScenes, Version
from ndformer.modalities.driving.formats.classes import LIDAR
from ndformer.modalities.driving.formats.splits import VERSIONS

RINGS = ".pcd.bin"  # ending of nuScenes' scans, whose last column is the ring


def read_file(path: Path, columns: int = 4, sweeps: int = 10, version: Version | None = None) -> Sample:
    """Read a scan as a sample.

    ROOT/samples/LIDAR_TOP/NAME.pcd.bin becomes the sample of ROOT's tables; any other scan is a cloud without cameras.
    `columns` is the number of values in a row of a .bin that is not nuScenes'.
    """
    if path.name.endswith(RINGS) and path.parent.name == LIDAR and path.parent.parent.name == "samples":
        home = path.absolute().parent.parent.parent
        for name in VERSIONS if version is None else [version]:
            if (home / name).is_dir():
                sample = _read_from_tables(home, name, path.name, sweeps)
                if sample is not None:
                    return sample
    points = read_points(path, 5 if path.name.endswith(RINGS) else columns)
    return about_no_camera() | dict(points=points, path=str(path), token=str(path))


def _read_from_tables(home: Path, version: Any, name: str, sweeps: int) -> Sample | None:
    data: NuScenes | None = None
    for split in ("test", "train"):
        with contextlib.suppress(DataError):  # a copy may have the scenes of one split only
            data = data or NuScenes(home, split, version=version, sweeps=sweeps, holdout=0.0)
    if data is None:
        return None
    frames = data.table.frames
    files = frames.file[frames.sensors[:, 0]]
    numbers = np.flatnonzero(files == f"samples/{LIDAR}/{name}".encode())
    return data.read(Moment(home / "samples" / LIDAR / name, int(numbers[0]))) if len(numbers) else None


def to_sample(value: np.ndarray) -> Sample:
    """Convert rows in memory (x, y, z, intensity) to a sample without cameras."""
    if value.ndim != 2 or value.shape[1] < 4 or value.dtype.kind not in "fiu" or not np.isfinite(value[:, :4]).all():
        raise ValueError(
            "a cloud must be an array (points, 4) of finite x, y, z and intensity, "
            f"got {value.dtype} of shape {value.shape}"
        )
    return about_no_camera() | dict(points=np.column_stack([value[:, :4], np.zeros(len(value))]).astype(np.float32))
