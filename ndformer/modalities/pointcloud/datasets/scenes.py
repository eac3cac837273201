"""Semantic segmentation of scenes: ScanNet in Pointcept's layout, and your own.

HOME/train/scene0000_00/ has coord.npy (N, 3) in meters, optionally color.npy (N, 3) 0..255 and normal.npy (N, 3), and
the labels, segment20.npy (N,), negative where unlabeled. Or a scene is a file with labels, HOME/train/street.ply (also
.las, .pcd, .txt with a header). HOME/val and HOME/test alike. A split may also be a list, HOME/train.json, of scenes
below HOME.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from ndformer.framework import foreign
from ndformer.framework.data.dataset import Dataset, Sample
from ndformer.framework.data.holdout import stratified
from ndformer.framework.errors import DataError, MissingError, check_labels
from ndformer.framework.registry import DATASETS
from ndformer.framework.registry.ranges import Offset
from ndformer.modalities.pointcloud.datasets.layouts import listed
from ndformer.modalities.pointcloud.formats.files import ENDINGS, read_labeled
from ndformer.modalities.pointcloud.formats.scene import FILES, PLACES, is_scene

SCANNET = {  # the 20 classes of the benchmark, and their numbers in NYU40
    "wall": 1, "floor": 2, "cabinet": 3, "bed": 4, "chair": 5, "sofa": 6, "table": 7, "door": 8, "window": 9,
    "bookshelf": 10, "picture": 11, "counter": 12, "desk": 14, "curtain": 16, "refrigerator": 24,
    "shower curtain": 28, "toilet": 33, "sink": 34, "bathtub": 36, "otherfurniture": 39,
}  # fmt: skip
RESCAN = re.compile(r"(scene\d{4})_\d\d(?![^._])")  # several scans of one room


@DATASETS.register_module()
class Scenes(Dataset):
    """A dataset of scenes with a label at each point.

    `labels` is the name of the label file in each scene's folder; for a scene in one file, the name of its label
    column, besides label, class, classification, ... `columns` names the columns of text without a header. `classes`
    are names, or a file of them in `data_root`. `ignore` is a label that means unlabeled, besides negative ones.

    The test set is read from the folder `test_on`. Benchmarks do not publish their test labels, so it is their
    validation set by default, and validation is held out from train, by whole rooms. If that folder does not exist,
    test/ is read. With `test_on="test"` validation is read from val/, if it exists.
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
        **kwargs: Any,
    ) -> None:
        self.columns = columns
        self.named = self.names if classes is None else classes
        self.label_file, self.ignore, self.test_on = labels or self.file, ignore, test_on
        self.test_is_val = test_on == "val"
        super().__init__(*args, **kwargs)

    def on_disk(self) -> dict[str, Any]:
        has_val = self.test_on != "val" and _has_split(self.data_root / "val")
        return dict.fromkeys(("train", "val", "test") if has_val else self.splits)

    def index(self, split: str) -> tuple[list[Any], np.ndarray]:
        named = self.data_root / self.named if isinstance(self.named, str) else None
        if named is not None and self.model_classes and not named.is_file():
            self.classes = self.model_classes
        else:
            if named is not None and not named.is_file():
                raise DataError(
                    f"{named} is missing: write one class on each line, starting with label 0, or give "
                    "the dataset `classes`"
                )
            self.classes = list(self.named) if named is None else listed(named)
        folder = self.data_root / (self.test_on if split == "test" else split)
        if split == "test" and not _has_split(folder) and _has_split(self.data_root / "test"):
            folder = self.data_root / "test"
            self.test_is_val = False
        scenes = list_scenes(folder)
        return scenes, np.zeros(len(scenes), np.int64)

    def held_out(self, records: list[Any], labels: np.ndarray, share: float) -> np.ndarray:
        """Hold out rooms, each with all of its scans."""
        match = [RESCAN.match(path.name) for path in records]
        _, room = np.unique([m[1] if m else path.name for m, path in zip(match, records)], return_inverse=True)
        rooms = stratified(np.zeros(room.max() + 1, np.int64), share)
        return np.flatnonzero(np.isin(room, rooms))

    def identity(self, i: int) -> Any:
        scene = self.records[i]
        return [scene / file for file in (*FILES.values(), self.label_file)] if foreign.is_dir(scene) else scene

    def read(self, record: Path) -> Sample:
        sample: Sample = read_labeled(record, self.label_file, self.columns) | dict(path=str(record))
        where = record / self.label_file if foreign.is_dir(record) else record
        if "labels" in sample:
            sample["labels"] = self.checked(sample["labels"], where)
        elif self.split != "test":
            raise DataError(
                f"{where} is missing: the dataset's `labels` names this file"
                if foreign.is_dir(record)
                else f"{record} has no labels: call a column of it label, or name it with the dataset's `labels`"
            )
        return sample

    def checked(self, labels: np.ndarray, path: Path) -> np.ndarray:
        """Return labels with -1 where unlabeled; raise for labels without a class."""
        unknown = (labels < 0) | (labels == self.ignore)
        remedy = "give the dataset other `classes`, another file of `labels`, or `ignore` if nobody knows these"
        check_labels(labels[~unknown], len(self.classes), path, remedy)  # before the cast: uint64 would wrap around
        return np.where(unknown, -1, labels.astype(np.int64))


@DATASETS.register_module()
class ScanNet(Scenes):
    """ScanNet (20 classes) in Pointcept's layout."""

    file = "segment20.npy"
    names = tuple(SCANNET)


def _has_split(folder: Path) -> bool:
    return folder.is_dir() or folder.with_suffix(".json").is_file()


def list_scenes(folder: Path) -> list[Path]:
    """Return the folders and files of the scenes of a split, sorted."""
    split = folder.with_suffix(".json")
    if not folder.is_dir() and split.is_file():
        try:
            names = foreign.plain_json(split)
        except (ValueError, OSError) as error:
            raise DataError(f"{split} must be a JSON list of scenes ({error})") from None
        if not names or not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise DataError(f"{split}: expected a list of folders in JSON, for example ['train/scene0000_00']")
        return [foreign.inside(folder.parent, name) for name in names]
    inside = sorted(folder.iterdir()) if folder.is_dir() else []
    paths = [
        path
        for path in inside
        if is_scene(path) or (path.suffix.lower() in ENDINGS and not path.name.startswith(".") and not path.is_dir())
    ]
    if not paths:
        raise MissingError(
            f"{folder} has no scenes (SCENE/{PLACES}, or a file of each): ndformer prepare_scannet makes them from "
            "ScanNet's release",
        )
    return paths
