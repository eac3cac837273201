"""What tools/prepare_nuscenes.py keeps: nuScenes' tables as arrays of numbers in one file.

The tables of v1.0-trainval are gigabytes of text, which take minutes to read; as long as they do not change, the index
says the same.
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
FORM = 1  # of the file: one more where what is in it changes


@dataclass(frozen=True, eq=False)
class Index:
    """All of a version."""

    frames: Frames
    boxes: Annotations

    @cached_property
    def first(self) -> np.ndarray:
        """(N + 1,) the first box of each sample."""
        return np.searchsorted(self.boxes.sample, np.arange(len(self.frames.token) + 1))

    def rows(self, sample: int) -> slice:
        """The boxes of a sample."""
        return slice(int(self.first[sample]), int(self.first[sample + 1]))


def read_index(tables: Tables) -> Index:
    frames = read_frames(tables)
    return Index(frames, read_annotations(tables, frames))


def place(home: Path) -> Path:
    return home.parent / ".ndformer_cache" / f"nuscenes_{home.name}.npz"


def stamps(tables: Tables) -> np.ndarray:
    """(tables, 2) sizes and times of change."""
    told = [tables.path(name).stat() for name in READ]
    return np.array([[one.st_size, one.st_mtime_ns] for one in told], np.int64)


def keep(tables: Tables, index: Index, stamp: np.ndarray) -> Path:
    path = place(tables.home)
    if path.parent.is_symlink():
        raise DataError(f"{path.parent} is a link, and what is kept of a dataset stays in it: take the link away")
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic.replacing(path) as half, half.open("wb") as file:
        parts: dict[str, Any] = dict(form=FORM, stamps=stamp) | _parts(index)
        np.savez_compressed(file, **parts)
    return path


def kept(tables: Tables) -> Index | None:
    """None where nothing is kept, or not of these tables as they are."""
    path = place(tables.home)
    if not path.is_file():
        return None
    try:
        found = foreign.arrays(path)
        if int(found["form"]) == FORM and np.array_equal(found["stamps"], stamps(tables)):
            of = {kind: {one.name: found[f"{kind.__name__}.{one.name}"] for one in fields(kind)} for kind in KINDS}
            return _checked(Index(Frames(**of[Frames]), Annotations(**of[Annotations])))
        reason = "of other tables than are there now"
    except (OSError, ValueError, EOFError, KeyError, IndexError, TypeError, zipfile.BadZipFile):
        reason = "damaged"
    warnings.warn(
        f"{path} is {reason} and not used: tools/prepare_nuscenes.py {tables.home.parent} makes it anew", stacklevel=2
    )
    return None


def _parts(index: Index) -> dict[str, np.ndarray]:
    whole = {Frames: index.frames, Annotations: index.boxes}
    return {f"{kind.__name__}.{one.name}": getattr(whole[kind], one.name) for kind in KINDS for one in fields(kind)}


def _checked(index: Index) -> Index:
    """Numbers of rows that there are."""
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
        raise ValueError("rows that are not there")
    return index
