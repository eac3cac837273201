"""Index of nuScenes' tables as arrays in one file, written by ndformer prepare_nuscenes.

The tables of v1.0-trainval are gigabytes of text, which take minutes to read. The index is used as long as they are
unchanged.
"""

import warnings
import zipfile
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ndformer.framework import foreign
from ndformer.framework.errors import DataError
from ndformer.framework.system import atomic
from ndformer.modalities.driving.formats.annotations import Annotations, read_annotations
from ndformer.modalities.driving.formats.frames import Frames, read_frames
from ndformer.modalities.driving.formats.tables import READ, Tables

KINDS = (Frames, Annotations)
FORM = 2  # version of the file format


@dataclass(frozen=True, eq=False)
class Index:
    """The frames and boxes of a version."""

    frames: Frames
    boxes: Annotations

    @cached_property
    def first(self) -> np.ndarray:
        """Index (N + 1,) of the first box of each sample."""
        return np.searchsorted(self.boxes.sample, np.arange(len(self.frames.token) + 1))

    def rows(self, sample: int) -> slice:
        """Return the boxes of a sample as a slice."""
        return slice(int(self.first[sample]), int(self.first[sample + 1]))


def read_index(tables: Tables) -> Index:
    frames = read_frames(tables)
    return Index(frames, read_annotations(tables, frames))


def index_path(home: Path) -> Path:
    return home.parent / ".ndformer_cache" / f"nuscenes_{home.name}.npz"


def stamps(tables: Tables) -> np.ndarray:
    """Return sizes and modification times (tables, 2), which tell whether the index is current."""
    status = [tables.path(name).stat() for name in READ]
    return np.array([[s.st_size, s.st_mtime_ns] for s in status], np.int64)


def write_index(tables: Tables, index: Index, stamp: np.ndarray) -> Path:
    path = index_path(tables.home)
    if path.parent.is_symlink():
        raise DataError(
            f"{path.parent} must be a folder of the dataset, which the index is written to, got a link. Remove the link"
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic.replacing(path) as half, half.open("wb") as file:
        parts: dict[str, Any] = dict(form=FORM, stamps=stamp) | _parts(index)
        np.savez_compressed(file, **parts)
    return path


def load_index(tables: Tables) -> Index | None:
    """Load the index, or return None where there is none or it does not match the tables."""
    path = index_path(tables.home)
    if not path.is_file():
        return None
    try:
        arrays = foreign.arrays(path)
        if int(arrays["form"]) == FORM and np.array_equal(arrays["stamps"], stamps(tables)):
            read = lambda kind: kind(**{item.name: arrays[f"{kind.__name__}.{item.name}"] for item in fields(kind)})
            return _check_index(Index(*map(read, KINDS)))
        reason = "of other tables than are there now"
    except (OSError, ValueError, EOFError, KeyError, IndexError, TypeError, zipfile.BadZipFile):
        reason = "damaged"
    warnings.warn(
        f"{path} is {reason} and not used: ndformer prepare_nuscenes {tables.home.parent} makes it anew", stacklevel=2
    )
    return None


def _parts(index: Index) -> dict[str, np.ndarray]:
    parts = index.frames, index.boxes
    return {f"{type(p).__name__}.{item.name}": getattr(p, item.name) for p in parts for item in fields(p)}


def _check_index(index: Index) -> Index:
    """Raise a ValueError unless all row indices exist."""
    frames, boxes = index.frames, index.boxes
    ends = [
        (frames.scene_of, len(frames.scene)),
        (frames.sensors, len(frames.file)),
        (frames.before, len(frames.file)),
        (frames.mount, len(frames.mounts)),
        (boxes.sample, len(frames.token)),
    ]
    lengths = [len(frames.file), *map(len, (frames.taken, frames.before, frames.car, frames.mount))]
    if any(len(rows) and (rows.min() < -1 or rows.max() >= end) for rows, end in ends) or len(set(lengths)) > 1:
        raise ValueError("the index names rows that its tables do not have")
    return index
