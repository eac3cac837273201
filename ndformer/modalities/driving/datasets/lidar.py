"""LiDAR scans with boxes, in KITTI's layout or your own.

data_root/train/points/street1.bin        float32 x, y, z, intensity; or .npy
data_root/train/labels/street1.txt        a box per line: x y z length width height yaw class
data_root/test, data_root/val             alike; val may be missing

data_root/training/velodyne/000000.bin    KITTI's object benchmark, with label_2 and calib next to it
data_root/ImageSets/train.txt, val.txt    names of its scans, one per line; test is val
"""

import warnings
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ndformer.framework import foreign
from ndformer.framework.data.dataset import SPLITS, Sample
from ndformer.framework.errors import DataError, MissingError, nearest
from ndformer.framework.registry import DATASETS
from ndformer.framework.registry.ranges import Few
from ndformer.modalities.driving.datasets.nuscenes.rules import NONE, Boxes, Racks
from ndformer.modalities.driving.datasets.sensors import SensorDataset
from ndformer.modalities.driving.formats.classes import LIDAR
from ndformer.modalities.driving.formats.labels import in_image, kitti_boxes, plain_boxes, to_image
from ndformer.modalities.driving.formats.scans import read_scan

KITTI = ["Car", "Pedestrian", "Cyclist"]
KITTI_IMAGE = 1242, 375  # width and height of most images
ENDINGS = (".bin", ".npy")


class Scan(NamedTuple):
    """A scan and its boxes."""

    path: Path
    boxes: np.ndarray  # (K, 9)
    labels: np.ndarray  # (K,)
    projection: np.ndarray  # (3, 4) to the image in which objects have labels; (0, 4) if they have labels everywhere


@DATASETS.register_module()
class Lidar(SensorDataset):
    """A dataset of LiDAR scans with boxes.

    `classes` are names or a file of them in `data_root`; KITTI's are Car, Pedestrian and Cyclist. Boxes of other
    classes are left out, with a warning. `columns` is the number of values in a row of a .bin, of which the first four
    are used.
    """

    opened_with = ("columns",)
    sensors = (LIDAR,)
    maskable = {}

    def __init__(
        self, *args: Any, classes: Sequence[str] | str = "classes.txt", columns: Few = 4, **kwargs: Any
    ) -> None:
        if columns < 4:
            raise ValueError(f"columns must be 4 or more (x, y, z, intensity ...), got {columns}")
        self.named, self.columns = classes, columns
        super().__init__(*args, **kwargs)

    @property
    def kitti(self) -> bool:
        return (self.data_root / "training").is_dir()

    def on_disk(self) -> dict[str, Any]:
        lists = {split: self.data_root / "ImageSets" / f"{split}.txt" for split in ("train", "val")}
        homes = {split: self.data_root / split for split in SPLITS}
        return {split: path for split, path in (lists if self.kitti else homes).items() if path.exists()}

    def index(self, split: str) -> tuple[list[Any], np.ndarray]:
        self.classes = self._class_names()
        if split not in self.disk_splits:
            place = (
                "ImageSets/train.txt and val.txt" if self.kitti else f"{split}/points/*.bin and {split}/labels/*.txt"
            )
            raise MissingError(f"{self.data_root} has no {split} split: put {place} there")
        other_names: Counter[str] = Counter()
        records = [self._scan(path, other_names) for path in self._paths(split)]
        if other_names:
            counts = ", ".join(f"{count} {foreign.printable(name)}" for name, count in other_names.most_common(5))
            folded = [name.lower() for name in self.classes]
            hint = next((nearest(name, self.classes) for name in other_names if name.lower() in folded), "")
            warnings.warn(
                f"boxes of {self.disk_splits[split]} that are of no class are left out: {counts}{hint}", stacklevel=2
            )
        return records, np.zeros(len(records), np.int64)

    def _class_names(self) -> list[str]:
        if not isinstance(self.named, str):
            return list(self.named)
        path = self.data_root / self.named
        if path.is_file():
            return [line.strip() for line in foreign.lines(path) if line.strip()]
        if self.model_classes or self.kitti:
            return self.model_classes or KITTI
        raise DataError(f"{path} is missing: write one class on each line, or give the dataset `classes`")

    def _paths(self, split: str) -> list[Path]:
        if self.kitti:
            names = foreign.words(self.disk_splits[split])
            return [foreign.inside(self.data_root / "training" / "velodyne", f"{name}.bin") for name in names]
        home = self.disk_splits[split] / "points"
        scans = sorted(path for path in home.glob("*") if path.suffix in ENDINGS and path.name[0] != ".")
        if not scans:
            raise MissingError(f"{home} has no scans ({', '.join(ENDINGS)}): put those of {split} there")
        return scans

    def _scan(self, path: Path, other_names: Counter[str]) -> Scan:
        home, name = path.parent.parent, f"{path.stem}.txt"
        projection = np.zeros((0, 4))
        if self.kitti:
            boxes, names = kitti_boxes(home / "label_2" / name, home / "calib" / name)
            image = home / "image_2" / f"{path.stem}.png"
            size = foreign.image_size(image) if image.exists() else KITTI_IMAGE
            projection = to_image(home / "calib" / name, size)
        else:
            boxes, names = plain_boxes(home / "labels" / name)
        mask = np.array([label in self.classes for label in names], bool)
        other_names.update(label for label in names if label not in self.classes)
        unknown = np.full((len(boxes), 2), np.nan)  # velocities
        labels = np.array([self.classes.index(label) for label in names if label in self.classes], np.int64)
        return Scan(path, np.column_stack([boxes, unknown])[mask].astype(np.float32), labels, projection)

    def absent(self) -> list[str]:
        present = {label for record in self.records for label in record.labels.tolist()}
        return [name for label, name in enumerate(self.classes) if label not in present]

    def read(self, record: Any) -> Sample:
        scan: Scan = record
        boxes = scan.boxes.astype(np.float64)
        none = np.full(len(boxes), NONE)
        parts = boxes[:, :3], boxes[:, 3:6], boxes[:, 6], boxes[:, 7:]
        truth = Boxes(np.zeros(len(boxes), np.int64), scan.labels, *parts, none, np.zeros(0), np.zeros(0, np.int64))
        annotation = dict(boxes=scan.boxes.copy(), classes=scan.labels, attributes=none, truth=truth)
        points = read_points(scan.path, self.columns)
        if len(scan.projection):  # objects elsewhere have no labels, and would be trained and counted as background
            points = points[in_image(points, scan.projection)]
        cloud = dict(points=points, path=str(scan.path), token=str(scan.path))
        return about_no_camera() | annotation | dict(racks=Racks.none()) | cloud


def read_points(path: Path, columns: int) -> np.ndarray:
    """Read points (n, 5) float32: x, y, z, intensity and a lag of 0, from an .npy or rows of `columns` numbers."""
    rows = _array(path) if path.suffix == ".npy" else _rows(path, columns)
    return np.concatenate([rows[:, :4], np.zeros((len(rows), 1))], axis=1).astype(np.float32)


def _rows(path: Path, columns: int) -> np.ndarray:
    rows = read_scan(path, columns)
    other = foreign.conflicting_row_width(rows)
    if other is not None:
        raise DataError(
            f"{path} looks like rows of {other} numbers, but is read as rows of {columns}: set dataset.columns={other}"
        )
    return rows


def about_no_camera() -> Sample:
    """Return the camera and map values of a sample without cameras."""
    lenses = dict(intrinsics=np.zeros((0, 3, 3)), image_transform=np.zeros((0, 3, 3)))
    where = dict(to_global=np.eye(4), ego=np.zeros(3), cloud_transform=np.eye(4))
    return lenses | where | dict(images=[], seen=np.zeros(0, bool), camera_to_lidar=np.zeros((0, 4, 4)))


def _array(path: Path) -> np.ndarray:
    try:
        rows = foreign.array(path)
    except (OSError, ValueError, EOFError) as error:
        raise DataError(f"{path} cannot be read ({error}): get it again") from None
    if rows.ndim != 2 or rows.shape[1] < 4 or rows.dtype.kind not in "fiu" or not np.isfinite(rows[:, :4]).all():
        raise DataError(f"{path} must have finite rows of x, y, z, intensity, got {rows.dtype} of shape {rows.shape}")
    return rows
