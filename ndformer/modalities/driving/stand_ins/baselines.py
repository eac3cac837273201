"""What can be told of driving without looking, by a LiDAR alone and by cameras alone, at best.

Nothing: the places where training has most objects of a class, whatever the sample. LiDAR alone: all places and sizes
as they are, and the class by how often it is among those of its shape. Cameras alone: all classes and sizes as they
are, and the place where the ground is at the pixel of a box's foot.
"""

from collections.abc import Iterable

import numpy as np

from ndformer.framework.answers.boxes3d import Boxes3D
from ndformer.modalities.driving.datasets.nuscenes.dataset import NuScenes
from ndformer.modalities.driving.datasets.nuscenes.metric import NuScenes as Metric
from ndformer.modalities.driving.formats.classes import CLASSES
from ndformer.modalities.driving.stand_ins.streets import GROUPS

CELL, PLACES = 2.0, 40  # metres of a place; of each class
Found = tuple[np.ndarray, np.ndarray, np.ndarray]  # boxes (D, 9), labels, scores


def baselines(train: NuScenes, test: NuScenes) -> Iterable[tuple[str, float]]:
    """mAP and NDS of each."""
    given = [targets(train, i) for i in range(len(train))]
    boxes, labels = (np.concatenate([one[part] for one in given]) for part in (0, 1))
    constant = unseen(boxes, labels, len(given), len(CLASSES))
    shares = np.bincount(labels, minlength=len(CLASSES)) / max(1, len(labels))
    tellers = {
        "nothing (the usual places)": lambda i: constant,
        "LiDAR alone, at best": lambda i: by_shape(*targets(test, i), shares),
        "cameras alone, at best": lambda i: by_pixels(test, i),
    }
    for name, teller in tellers.items():
        metric = Metric()
        for i in range(len(test)):
            sample = about(test, i)
            found, kinds, scores = teller(i)
            metric.process({}, [Boxes3D(sample=sample, boxes=found, labels=kinds, scores=scores)])
        values = metric.compute_metrics(metric.results)
        yield f"{name}, mAP", values["mAP"]
        yield f"{name}, NDS", values["NDS"]


def about(data: NuScenes, i: int) -> dict:
    """What a sample says of itself, without its clouds and pictures."""
    moment = data.records[i]
    key = int(data.table.frames.sensors[moment.number, 0])
    to_global = data.pose(key)
    known = dict(token=str(data.table.frames.token[moment.number]), to_global=to_global)
    return known | dict(ego=data.table.frames.car[key, :3]) | data.boxes(moment, to_global)


def targets(data: NuScenes, i: int) -> tuple[np.ndarray, np.ndarray]:
    known = about(data, i)
    return known["boxes"], known["classes"]


def unseen(boxes: np.ndarray, labels: np.ndarray, samples: int, classes: int) -> Found:
    """The mean boxes of the fullest cells of each class."""
    cells = np.floor(boxes[:, :2] / CELL).astype(np.int64)
    found, kinds, scores = [np.zeros((0, 9), np.float32)], [], []
    for label in range(classes):
        own = labels == label
        places, which, count = np.unique(cells[own], axis=0, return_inverse=True, return_counts=True)
        for cell in np.argsort(-count, kind="stable")[:PLACES]:
            some = boxes[own][which.ravel() == cell]
            found.append(np.nan_to_num(some.mean(0, keepdims=True)))
            kinds.append(label)
            scores.append(count[cell] / samples)
    order = np.argsort(-np.array(scores), kind="stable")
    return np.concatenate(found)[order], np.array(kinds, np.int64)[order], np.array(scores)[order]


def by_shape(boxes: np.ndarray, labels: np.ndarray, shares: np.ndarray) -> Found:
    """Each box once for each class of its shape."""
    alike = {name: [CLASSES.index(other) for other in group] for group in GROUPS for name in group}
    rows = [(box, label) for box, own in zip(boxes, labels) for label in alike[CLASSES[own]]]
    kinds = np.array([label for _, label in rows], np.int64)
    found = np.array([box for box, _ in rows]).reshape(-1, 9)
    return np.nan_to_num(found), kinds, shares[kinds]


def by_pixels(data: NuScenes, i: int) -> Found:
    """Each box that a camera sees, where the ground meets the ray of its foot's pixel."""
    moment = data.records[i]
    to_global = data.pose(int(data.table.frames.sensors[moment.number, 0]))
    known, cameras = data.boxes(moment, to_global), data.seen_by_cameras(moment, to_global)
    found, kinds = [np.zeros((0, 9))], []
    for box, label in zip(known["boxes"].astype(np.float64), known["classes"]):
        foot = np.array([*box[:2], box[2] - box[5] / 2, 1.0])
        for pose, lens, image in zip(cameras["camera_to_lidar"], cameras["intrinsics"], cameras["images"]):
            ray = lens @ (np.linalg.inv(pose) @ foot)[:3]
            pixel = np.floor(ray[:2] / ray[2]) + 0.5
            if ray[2] > 0 and (pixel > 0).all() and (pixel < image.size).all():
                step = pose[:3, :3] @ np.linalg.solve(lens, [*pixel, 1.0])
                place = pose[:3, 3] + (foot[2] - pose[2, 3]) / min(step[2], -1e-6) * step
                found.append(np.array([[*place[:2], *box[2:7], 0.0, 0.0]]))
                kinds.append(int(label))
                break
    return np.concatenate(found), np.array(kinds, np.int64), np.full(len(kinds), 0.5)
