"""nuScenes v1.0 (Motional), read from its own files.

    data_root/v1.0-mini/*.json           13 tables; or v1.0-trainval, v1.0-test
    data_root/samples/CAM_FRONT/*.jpg    key frames of six cameras
    data_root/samples/LIDAR_TOP/*.bin    and of the LiDAR; sweeps/LIDAR_TOP/ has the scans between key frames

Splits are the official ones, by scenes. The test set is published without boxes, so test is val, and whole scenes of
train are held out for validation. docs/get-started/driving.md describes a sample.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from ndformer.framework import foreign
from ndformer.framework.data.dataset import Sample
from ndformer.framework.data.holdout import stratified
from ndformer.framework.errors import DataError
from ndformer.framework.registry import DATASETS
from ndformer.framework.registry.ranges import Count
from ndformer.modalities.driving.datasets.nuscenes.truth import evaluation_boxes, opened, split_samples
from ndformer.modalities.driving.datasets.sensors import SensorDataset
from ndformer.modalities.driving.formats.annotations import RACKS
from ndformer.modalities.driving.formats.classes import CLASSES
from ndformer.modalities.driving.formats.frames import NO
from ndformer.modalities.driving.formats.poses import headings, inverse, moved, poses, rotations
from ndformer.modalities.driving.formats.scans import TIMES, read_scan, together
from ndformer.modalities.driving.formats.splits import VERSIONS, split_scenes

Version = Literal["v1.0-mini", "v1.0-trainval", "v1.0-test"]


class Moment(NamedTuple):
    """A sample, by its index in the tables."""

    path: Path  # of the key frame of the LiDAR
    number: int  # in the index


@DATASETS.register_module()
class NuScenes(SensorDataset):
    """nuScenes, with up to `sweeps` LiDAR scans in each cloud: the key frame and those before it in the scene.

    `balance` repeats training samples with rare classes (CBGS). Boxes without a point of any sensor are left out of
    training and evaluation.
    """

    splits = ("train", "val")
    opened_with = ("sweeps", "version")

    def __init__(
        self, *args: Any, version: Version = "v1.0-trainval", sweeps: Count = 10, balance: bool = False, **kwargs: Any
    ) -> None:
        if version not in VERSIONS:
            raise ValueError(f"version must be one of {', '.join(VERSIONS)}, got '{version}'")
        self.version, self.sweeps = version, sweeps
        super().__init__(*args, **kwargs)
        if balance and self.split == "train":
            chosen = balanced([self.present(i) for i in range(len(self))], len(CLASSES), self.seed)
            self.records, self.labels = self.select_records(self.records, self.labels, chosen)

    def on_disk(self) -> dict[str, Any]:
        return dict(VERSIONS[self.version])

    def index(self, split: str) -> tuple[list[Any], np.ndarray]:
        self.classes = self.categories = CLASSES
        if split not in self.disk_splits:
            raise DataError(
                f"{self.version} has no {split} split: give v1.0-trainval or v1.0-mini as the dataset's version"
            )
        self.table = opened(self.data_root, self.version)
        frames, numbers = self.table.frames, split_samples(self.table, self.disk_splits[split])
        if not len(numbers):
            raise DataError(
                f"{self.data_root / self.version} has no sample of the scenes of {self.disk_splits[split]}, which "
                f"begin with {min(split_scenes(self.disk_splits[split]))}: get nuScenes' {self.version} again"
            )
        records = [Moment(self.file(frames.sensors[i, 0]), i) for i in numbers.tolist()]
        return records, np.zeros(len(records), np.int64)

    def file(self, frame: int) -> Path:
        return foreign.inside(self.data_root, self.table.frames.file[frame].decode(errors="surrogateescape"))

    def identity(self, i: int) -> Any:
        """Return the cloud's path and the annotated boxes."""
        moment: Moment = self.records[i]
        rows, boxes = self.table.rows(moment.number), self.table.boxes
        return moment.path, boxes.label[rows], boxes.center[rows], boxes.points[rows]

    def sample_files(self, i: int) -> list[Path]:
        frames = self.table.frames
        scan, *cameras = frames.sensors[self.records[i].number].tolist()
        scans = [scan]
        while len(scans) < self.sweeps and frames.before[scans[-1]] != NO:
            scans.append(int(frames.before[scans[-1]]))
        return [self.file(frame) for frame in (*scans, *cameras) if frame != NO]

    def held_out(self, records: list[Any], labels: np.ndarray, share: float) -> np.ndarray:
        """Hold out whole scenes."""
        scenes = self.table.frames.scene_of[[record.number for record in records]]
        names = np.unique(scenes)
        return np.flatnonzero(np.isin(scenes, names[stratified(np.zeros(len(names)), share)]))

    def present(self, i: int) -> np.ndarray:
        """Return the classes of the boxes of a sample, without reading it."""
        rows = self.table.rows(self.records[i].number)
        label, points = self.table.boxes.label[rows], self.table.boxes.points[rows]
        return np.unique(label[(points > 0) & (label != RACKS)])

    def absent(self) -> list[str]:
        present = {label for i in range(len(self)) for label in self.present(i).tolist()}
        return [name for label, name in enumerate(CLASSES) if label not in present]

    def read(self, record: Any) -> Sample:
        moment: Moment = record
        frames = self.table.frames
        key = int(frames.sensors[moment.number, 0])
        to_global = self.pose(key)
        about = dict(path=str(moment.path), token=str(frames.token[moment.number]), to_global=to_global)
        about["ego"] = frames.car[key, :3].copy()
        about |= self.cloud(key, to_global) | self.camera_inputs(moment, to_global)
        return about | self.boxes(moment, to_global)

    def pose(self, frame: int) -> np.ndarray:
        """Return the pose (4, 4) from a sensor to the map, at the time of a frame."""
        frames = self.table.frames
        car, mount = frames.car[frame], frames.mounts[frames.mount[frame]]
        return poses(car[:3], car[3:]) @ poses(mount[:3], mount[3:])

    def cloud(self, key: int, to_global: np.ndarray) -> Sample:
        frames, frame, scans, size = self.table.frames, key, [], 0
        while frame != NO and len(scans) < self.sweeps:
            lag = 1e-6 * float(frames.taken[key] - frames.taken[frame])
            path = self.file(frame)
            scan = read_scan(path)
            size += TIMES * scan.nbytes
            foreign.check_size(path, size)
            scans.append((scan, inverse(to_global) @ self.pose(frame), lag))
            frame = int(frames.before[frame])
        return dict(points=together(scans), cloud_transform=np.eye(4))

    def camera_inputs(self, moment: Moment, to_global: np.ndarray) -> Sample:
        """Read the images and calibrations; a camera without a frame has no image and is not `seen`."""
        frames, numbers = self.table.frames, self.table.frames.sensors[moment.number, 1:]
        images: list[Any] = []
        for frame in numbers:
            images.append(None if frame == NO else foreign.picture(self.file(frame)))
            foreign.check_pixels(self.file(frame), sum(i.width * i.height for i in images if i is not None), 1)
        present = np.array([image is not None for image in images])
        posed = [np.eye(4) if frame == NO else inverse(to_global) @ self.pose(frame) for frame in numbers]
        lenses = [np.eye(3) if frame == NO else frames.lens[frames.mount[frame]] for frame in numbers]
        lens = dict(intrinsics=np.stack(lenses), image_transform=np.stack([np.eye(3)] * len(images)))
        return dict(images=images, seen=present, camera_to_lidar=np.stack(posed)) | lens

    def boxes(self, moment: Moment, to_global: np.ndarray) -> Sample:
        """Return boxes, classes and attributes in the LiDAR's frame for training; `truth` and `racks` to evaluate."""
        if self.version == "v1.0-test":
            return dict(truth=None, racks=None)
        truth, racks = evaluation_boxes(self.table, [moment.number])
        rows, boxes = self.table.rows(moment.number), self.table.boxes
        has_points, back = truth.points > 0, inverse(to_global)
        turns = back[:3, :3] @ rotations(boxes.rotation[rows][boxes.label[rows] != RACKS][has_points])
        visible = truth[has_points]
        level = np.column_stack([visible.velocity, np.zeros(len(visible))]) @ back[:3, :3].T
        placed = np.column_stack([moved(visible.center, back), visible.size, headings(turns), level[:, :2]])
        training = dict(boxes=placed.astype(np.float32), classes=visible.label, attributes=visible.attribute)
        return training | dict(truth=truth, racks=racks)


def balanced(present: Sequence[np.ndarray], classes: int, seed: int) -> np.ndarray:
    """Return sample indices in which each class is equally frequent (CBGS, Zhu 2019), 1 / classes of the total.

    `present` are the classes of each sample. The samples of a class are repeated equally often, up to one, which the
    seed decides (the published method draws independently). Samples without any class are left out.
    """
    by_class = [np.array([i for i, labels in enumerate(present) if c in labels], np.int64) for c in range(classes)]
    share = sum(map(len, by_class)) / classes
    rng, chosen = np.random.default_rng((seed, len(present))), [np.zeros(0, np.int64)]
    for members in by_class:
        if len(members):
            times, more = divmod(round(share), len(members))
            chosen += [np.tile(members, times), np.sort(rng.permutation(members)[:more])]
    return np.concatenate(chosen)
