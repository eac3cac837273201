"""Clouds kept in binary beside the data, so that text is parsed and points are chosen only once.

One file for each cloud: an interruption loses at most the one being written, and a changed source is read again.
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
from ndformer.framework.system import atomic
from ndformer.modalities.pointcloud.formats.columns import Cloud
from ndformer.modalities.pointcloud.transforms.points import SamplePoints

FOLDER = ".ndformer_cache"


def cached(path: Path, source: Path, make: Callable[[], Cloud]) -> Cloud:
    """make(), or what it gave before, as long as `source` has the size and time of change it had then."""
    found = source.stat() if os.path.exists(source) else None  # which a name too long for the disk does not stop
    if found is None:
        return make()  # which says what is missing
    stamp = np.array([found.st_size, found.st_mtime_ns], np.int64)
    damaged = contextlib.suppress(OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile)
    with damaged:
        kept = foreign.arrays(path)
        if np.array_equal(kept.pop("stamp"), stamp):
            return kept
    cloud = make()
    home = path.parents[path.parts[::-1].index(FOLDER)]
    if not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(home)):
        warnings.warn(f"{path.parent} is a link that leads elsewhere, where no clouds are kept", stacklevel=2)
        return cloud
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic.replacing(path) as half, half.open("wb") as file:  # by all workers of a loader
            np.savez(file, allow_pickle=False, stamp=stamp, **cloud)
    except OSError as error:
        warnings.warn(f"{path.parent} cannot keep clouds ({error}): they are made anew in each epoch", stacklevel=2)
    return cloud


class KeptClouds(Dataset):
    """A data set whose farthest points, where they are the first transform, are found once: they are kept with the
    cloud that they are of."""

    def __init__(self, *args: Any, **rest: Any) -> None:
        super().__init__(*args, **rest)
        first = self.transforms[0] if self.transforms else None
        self.first = first if isinstance(first, SamplePoints) and first.method == "farthest" else None
        if self.first is not None:
            del self.transforms[0]

    @property
    def chosen(self) -> str:
        """Which points are kept, as part of a name."""
        return "all" if self.first is None else f"farthest{self.first.count}"

    def some_of(self, cloud: Cloud, path: str) -> Cloud:
        """The farthest points of a cloud, or all of them."""
        if self.first is None:
            return cloud
        sample = self.first(dict(cloud, path=path), np.random.default_rng(0))
        return {name: sample[name] for name in cloud}
