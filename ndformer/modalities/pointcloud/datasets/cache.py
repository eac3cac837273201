"""Binary cache of point clouds next to the data, so that text is parsed and points are selected only once.

Each cloud has a file of its own: an interruption loses at most the file being written, and changed sources are re-read.
"""

import contextlib
import os
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ndformer.framework import foreign
from ndformer.framework.data.dataset import Dataset
from ndformer.framework.registry.renamed import SAMPLE_KEYS
from ndformer.framework.system import atomic
from ndformer.modalities.pointcloud.formats.columns import Cloud
from ndformer.modalities.pointcloud.transforms.points import SamplePoints

FOLDER = ".ndformer_cache"


def cached(path: Path, source: Path, make: Callable[[], Cloud]) -> Cloud:
    """Return make(), or its cached result while `source` has the same size and modification time."""
    try:
        status = foreign.status(source)
    except (OSError, ValueError):
        return make()  # raises and says what is missing
    stamp = np.array([status.st_size, status.st_mtime_ns], np.int64)
    damaged = contextlib.suppress(OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile)
    with damaged:
        stored = foreign.arrays(path)
        if np.array_equal(stored.pop("stamp"), stamp):
            return {SAMPLE_KEYS.get(name, name): values for name, values in stored.items()}
    cloud = make()
    home = path.parents[path.parts[::-1].index(FOLDER)]
    if not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(home)):
        warnings.warn(f"{path.parent} is a link that leads elsewhere, so no clouds are cached there", stacklevel=2)
        return cloud
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic.replacing(path) as half, half.open("wb") as file:  # several workers may write at once
            np.savez(file, allow_pickle=False, stamp=stamp, **cloud)
    except OSError as error:
        warnings.warn(f"{path.parent} cannot be written ({error}): clouds are read anew in each epoch", stacklevel=2)
    return cloud


class CachedClouds(Dataset):
    """Base class of datasets that cache clouds together with their farthest point sampling.

    Farthest points are cached where SamplePoints is the first transform.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        first = self.transforms[0] if self.transforms else None
        self.first = first if isinstance(first, SamplePoints) and first.method == "farthest" else None
        if self.first is not None:
            del self.transforms[0]

    @property
    def selection(self) -> str:
        """Name of the cached points, for file names."""
        return "all" if self.first is None else f"farthest{self.first.count}"

    def select(self, cloud: Cloud, path: str) -> Cloud:
        """Return the farthest points of a cloud, or all points without SamplePoints as the first transform."""
        if self.first is None:
            return cloud
        sample = self.first(dict(cloud, path=path), np.random.default_rng(0))
        return {name: sample[name] for name in cloud}
