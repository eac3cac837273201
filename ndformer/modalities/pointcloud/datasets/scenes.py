"""Scenes with a label at every point, as Pointcept lays them out: ScanNet, and your own.

HOME/train/scene0000_00/coord.npy (N, 3) metres, and where there are some color.npy (N, 3) 0..255, normal.npy (N, 3) and
the labels, segment20.npy (N,), negative where nobody knows; HOME/val and HOME/test alike. Instead of a folder, a split
may be a list, HOME/train.json, of folders below HOME.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from ndformer.framework import foreign
from ndformer.framework.data.dataset import Dataset, Sample, stratified
from ndformer.framework.errors import DataError, check_labels
from ndformer.framework.ranges import Offset
from ndformer.framework.registry import DATASETS
from ndformer.modalities.pointcloud.datasets.layouts import listed

SCANNET = {  # the 20 classes of the benchmark, and their numbers in NYU40
    "wall": 1, "floor": 2, "cabinet": 3, "bed": 4, "chair": 5, "sofa": 6, "table": 7, "door": 8, "window": 9,
    "bookshelf": 10, "picture": 11, "counter": 12, "desk": 14, "curtain": 16, "refrigerator": 24,
    "shower curtain": 28, "toilet": 33, "sink": 34, "bathtub": 36, "otherfurniture": 39,
}  # fmt: skip
RESCAN = re.compile(r"(scene\d{4})_\d\d")  # several scans of one room


@DATASETS.register_module()
class Scenes(Dataset):
    """`labels` is the file of the labels in each scene's folder, `classes` are their names or a file of them in
    `data_root`, `ignore` is a label that means nobody knows, beside the negative ones.

    Test is read from the folder `test_on`: benchmarks keep the labels of theirs to themselves, so it is their
    validation set, and validation is held out from train, whole rooms of it.
    """

    answer = "Points"
    file: ClassVar[str] = "segment.npy"
    names: ClassVar[Sequence[str] | str] = "classes.txt"

    def __init__(
        self,
        *args: Any,
        labels: str | None = None,
        classes: Sequence[str] | str | None = None,
        ignore: Offset | None = None,
        test_on: str = "val",
        **rest: Any,
    ) -> None:
        self.named = self.names if classes is None else classes
        self.label_file, self.ignore, self.test_on = labels or self.file, ignore, test_on
        super().__init__(*args, **rest)

    def index(self, split: str) -> tuple[list[Any], np.ndarray]:
        self.classes = listed(self.data_root / self.named) if isinstance(self.named, str) else list(self.named)
        folder = self.data_root / (self.test_on if split == "test" else split)
        scenes = scenes_in(folder)
        return scenes, np.zeros(len(scenes), np.int64)

    def held_out(self, records: list[Any], labels: np.ndarray, share: float) -> np.ndarray:
        """Rooms, with all scans of each."""
        match = [RESCAN.fullmatch(path.name) for path in records]
        _, room = np.unique([m[1] if m else path.name for m, path in zip(match, records)], return_inverse=True)
        rooms = stratified(np.zeros(room.max() + 1, np.int64), share)
        return np.flatnonzero(np.isin(room, rooms))

    def identity(self, i: int) -> Any:
        return [self.records[i] / file for file in ("coord.npy", "color.npy", "normal.npy", self.label_file)]

    def read(self, record: Path) -> Sample:
        points = column(record / "coord.npy", 3)
        if len(points) < 2:
            raise DataError(f"{record} is a scene of {len(points)} points, and a cloud takes two or more: take it away")
        sample: Sample = dict(points=single(points), path=str(record))
        for name, file in (("colours", "color.npy"), ("normals", "normal.npy")):
            if (record / file).is_file():
                sample[name] = single(column(record / file, 3, len(points)))
        if (record / self.label_file).is_file():
            sample["labels"] = self.checked(column(record / self.label_file, 0, len(points)), record / self.label_file)
        elif self.split != "test":
            raise DataError(f"{record / self.label_file} is missing: the dataset's `labels` names this file")
        for name in ("points", "normals", "colours"):
            if name in sample and not np.isfinite(sample[name]).all():
                raise DataError(f"{record} has {name} that are not finite (NaN or infinite): prepare it again")
        return sample

    def checked(self, labels: np.ndarray, path: Path) -> np.ndarray:
        """-1 where nobody knows."""
        unknown = (labels < 0) | (labels == self.ignore)
        remedy = "give the dataset other `classes`, another file of `labels`, or `ignore` if nobody knows these"
        check_labels(labels[~unknown], len(self.classes), path, remedy)  # as they are: uint64 would wrap around
        return np.where(unknown, -1, labels.astype(np.int64))


@DATASETS.register_module()
class ScanNet(Scenes):
    file = "segment20.npy"
    names = tuple(SCANNET)


def scenes_in(folder: Path) -> list[Path]:
    """The folders of a split's scenes, in their order."""
    split = folder.with_suffix(".json")
    if not folder.is_dir() and split.is_file():
        try:
            names = foreign.plain_json(split)
        except (ValueError, OSError) as error:
            raise DataError(f"{split} is no list of scenes in JSON ({error})") from None
        if not names or not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise DataError(f"{split} is to be a list of folders in JSON, as ['train/scene0000_00']")
        return [foreign.inside(folder.parent, name) for name in names]
    found = sorted(path.parent for path in folder.glob("*/coord.npy")) if folder.is_dir() else []
    if not found:
        raise DataError(
            f"{folder} holds no scenes (SCENE/coord.npy): tools/prepare_scannet.py makes them from ScanNet's release",
            "--sample works without it",
        )
    return found


def single(values: np.ndarray) -> np.ndarray:
    """float32, in which what is too large is infinite."""
    with np.errstate(over="ignore"):
        return values.astype(np.float32)


def column(path: Path, width: int, rows: int | None = None) -> np.ndarray:
    """A table (N, width) of an npy file, or (N,) where `width` is 0, with as many rows as there are points."""
    try:
        values = foreign.array(path)
    except FileNotFoundError:
        raise DataError(f"{path} is missing: prepare the scene again, or take it away") from None
    except (ValueError, OSError, EOFError, MemoryError) as error:
        reason = " ".join(str(error).split()).removesuffix(".")
        raise DataError(f"{path} cannot be read ({reason}): it may be half of a file, get it again") from None
    if width == 0 and values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    expected = (rows if rows is not None else values.shape[0] if values.ndim else 0, *([width] if width else []))
    if values.shape != expected or values.dtype.kind not in ("iu" if width == 0 else "iuf"):
        shape = ", ".join(map(str, [rows or "points"] + [width] * (width > 0)))
        want = f"{'whole numbers' if width == 0 else 'numbers'} of shape ({shape})"
        raise DataError(f"{path} holds {values.dtype} of shape {values.shape} and not {want}: prepare the scene again")
    return values
