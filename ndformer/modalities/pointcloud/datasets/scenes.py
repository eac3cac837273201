"""Scenes with a label at every point: ScanNet as Pointcept lays it out, and your own.

HOME/train/scene0000_00/coord.npy (N, 3) metres, and where there are some color.npy (N, 3) 0..255, normal.npy (N, 3) and
the labels, segment20.npy (N,), negative where nobody knows; or HOME/train/street.ply, or another file of one cloud that
has labels (.las, .pcd, .txt with a header); HOME/val and HOME/test alike. Instead of a folder, a split may be a list,
HOME/train.json, of scenes below HOME.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from ndformer.framework import foreign
from ndformer.framework.data.dataset import Dataset, Sample, stratified
from ndformer.framework.errors import DataError, MissingError, check_labels
from ndformer.framework.registry import DATASETS
from ndformer.framework.registry.ranges import Offset
from ndformer.modalities.pointcloud.datasets.layouts import listed
from ndformer.modalities.pointcloud.formats.files import ENDINGS, read_labelled
from ndformer.modalities.pointcloud.formats.scene import FILES, PLACES, is_scene

SCANNET = {  # the 20 classes of the benchmark, and their numbers in NYU40
    "wall": 1, "floor": 2, "cabinet": 3, "bed": 4, "chair": 5, "sofa": 6, "table": 7, "door": 8, "window": 9,
    "bookshelf": 10, "picture": 11, "counter": 12, "desk": 14, "curtain": 16, "refrigerator": 24,
    "shower curtain": 28, "toilet": 33, "sink": 34, "bathtub": 36, "otherfurniture": 39,
}  # fmt: skip
RESCAN = re.compile(r"(scene\d{4})_\d\d")  # several scans of one room


@DATASETS.register_module()
class Scenes(Dataset):
    """`labels` is the file of the labels in each scene's folder; in a scene that is a file, the column of that name, or
    one called label, class, classification, ... `columns` names those of text without a header. `classes` are their
    names or a file of them in `data_root`, `ignore` is a label that means nobody knows, beside the negative ones.

    Test is read from the folder `test_on`: benchmarks keep the labels of theirs to themselves, so it is their
    validation set, and validation is held out from train, whole rooms of it. Where there is none, it is read from test.
    """

    answer = "Points"
    opened_with = ("columns",)
    file: ClassVar[str] = "segment.npy"
    names: ClassVar[Sequence[str] | str] = "classes.txt"

    def __init__(
        self,
        *args: Any,
        labels: str | None = None,
        classes: Sequence[str] | str | None = None,
        ignore: Offset | None = None,
        test_on: str = "val",
        columns: str | None = None,
        **rest: Any,
    ) -> None:
        self.columns = columns
        self.named = self.names if classes is None else classes
        self.label_file, self.ignore, self.test_on = labels or self.file, ignore, test_on
        self.test_is_val = test_on == "val"
        super().__init__(*args, **rest)

    def index(self, split: str) -> tuple[list[Any], np.ndarray]:
        named = self.data_root / self.named if isinstance(self.named, str) else None
        if named is not None and self.model_classes and not named.is_file():
            self.classes = self.model_classes
        else:
            if named is not None and not named.is_file():
                raise DataError(
                    f"{named} is missing: write a class a line, that of label 0 in the first, or give "
                    "the dataset `classes`"
                )
            self.classes = list(self.named) if named is None else listed(named)
        folder = self.data_root / (self.test_on if split == "test" else split)
        if split == "test" and not _there(folder) and _there(self.data_root / "test"):
            folder = self.data_root / "test"
            self.test_is_val = False
        scenes = scenes_in(folder)
        return scenes, np.zeros(len(scenes), np.int64)

    def held_out(self, records: list[Any], labels: np.ndarray, share: float) -> np.ndarray:
        """Rooms, with all scans of each."""
        match = [RESCAN.fullmatch(path.name) for path in records]
        _, room = np.unique([m[1] if m else path.name for m, path in zip(match, records)], return_inverse=True)
        rooms = stratified(np.zeros(room.max() + 1, np.int64), share)
        return np.flatnonzero(np.isin(room, rooms))

    def identity(self, i: int) -> Any:
        scene = self.records[i]
        return [scene / file for file in (*FILES.values(), self.label_file)] if scene.is_dir() else scene

    def read(self, record: Path) -> Sample:
        sample: Sample = read_labelled(record, self.label_file, self.columns) | dict(path=str(record))
        where = record / self.label_file if record.is_dir() else record
        if "labels" in sample:
            sample["labels"] = self.checked(sample["labels"], where)
        elif self.split != "test":
            raise DataError(
                f"{where} is missing: the dataset's `labels` names this file"
                if record.is_dir()
                else f"{record} has no labels: call a column of it label, or name it with the dataset's `labels`"
            )
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


def _there(folder: Path) -> bool:
    return folder.is_dir() or folder.with_suffix(".json").is_file()


def scenes_in(folder: Path) -> list[Path]:
    """The folders and files of a split's scenes, in their order."""
    split = folder.with_suffix(".json")
    if not folder.is_dir() and split.is_file():
        try:
            names = foreign.plain_json(split)
        except (ValueError, OSError) as error:
            raise DataError(f"{split} is no list of scenes in JSON ({error})") from None
        if not names or not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise DataError(f"{split}: expected a list of folders in JSON, for example ['train/scene0000_00']")
        return [foreign.inside(folder.parent, name) for name in names]
    inside = sorted(folder.iterdir()) if folder.is_dir() else []
    found = [
        path
        for path in inside
        if is_scene(path) or (path.suffix.lower() in ENDINGS and not path.name.startswith(".") and not path.is_dir())
    ]
    if not found:
        raise MissingError(
            f"{folder} holds no scenes (SCENE/{PLACES}, or a file of each): tools/prepare_scannet.py makes them from "
            "ScanNet's release",
        )
    return found
