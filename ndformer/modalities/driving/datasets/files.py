"""Files of one's own: a scan alone, or with cameras and earlier scans where it lies among nuScenes' own."""

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

RINGS = ".pcd.bin"  # nuScenes' scans, whose rows end with a ring


def read_file(path: Path, columns: int = 4, sweeps: int = 10, version: Version | None = None) -> Sample:
    """ROOT/samples/LIDAR_TOP/NAME.pcd.bin is the sample that ROOT's tables make of it; any other scan is a cloud
    without cameras. `columns` numbers stand in a row of a .bin that is not nuScenes'."""
    if path.name.endswith(RINGS) and path.parent.name == LIDAR and path.parent.parent.name == "samples":
        home = path.absolute().parent.parent.parent
        for one in VERSIONS if version is None else [version]:
            if (home / one).is_dir():
                found = _of_tables(home, one, path.name, sweeps)
                if found is not None:
                    return found
    return alone(read_points(path, 5 if path.name.endswith(RINGS) else columns)) | dict(path=str(path), token=str(path))


def _of_tables(home: Path, version: Any, name: str, sweeps: int) -> Sample | None:
    data: NuScenes | None = None
    for split in ("test", "train"):
        with contextlib.suppress(DataError):  # a copy may have some of the scenes alone
            data = data or NuScenes(home, split, version=version, sweeps=sweeps, holdout=0.0)
    if data is None:
        return None
    frames = data.table.frames
    files = frames.file[frames.sensors[:, 0]]
    own = np.flatnonzero(files == f"samples/{LIDAR}/{name}".encode())
    return data.read(Moment(home / "samples" / LIDAR / name, int(own[0]))) if len(own) else None


def alone(points: np.ndarray) -> Sample:
    """A cloud (n, 5) that no camera saw."""
    return about_no_camera() | dict(points=points)


def held(value: np.ndarray) -> Sample:
    """The same of rows in memory, as a file has them."""
    if value.ndim != 2 or value.shape[1] < 4 or value.dtype.kind not in "fiu" or not np.isfinite(value[:, :4]).all():
        raise ValueError(
            f"a cloud is an array (points, 4) of finite x, y, z and intensity, got {value.dtype} of shape {value.shape}"
        )
    return alone(np.column_stack([value[:, :4], np.zeros(len(value))]).astype(np.float32))
