"""Simple baselines on driving: without input, and the best possible with a LiDAR alone or with cameras alone.

Without input: the most frequent places of each class in training. LiDAR alone: correct places and sizes, with the class
guessed by frequency among classes of the same shape. Cameras alone: correct classes and sizes, placed where the ground
is at the pixel of a box's foot.
"""

from collections.abc import Iterable

import numpy as np

from ndformer.modalities.driving.answer import Boxes3D
from ndformer.modalities.driving.datasets.nuscenes.dataset import NuScenes
from ndformer.modalities.driving.datasets.nuscenes.metric import NuScenes as Metric
from ndformer.modalities.driving.formats.classes import CLASSES
from ndformer.modalities.driving.stand_ins.streets import GROUPS

CELL, PLACES = 2.0, 40  # meters of a cell; cells for each class
Predictions = tuple[np.ndarray, np.ndarray, np.ndarray]  # boxes (D, 9), labels, scores


def baselines(train: NuScenes, test: NuScenes) -> Iterable[tuple[str, float]]:
    """Yield mAP and NDS of each baseline."""
    train_targets = [targets(train, i) for i in range(len(train))]
    boxes, labels = (np.concatenate([target[part] for target in train_targets]) for part in (0, 1))
    constant = unseen(boxes, labels, len(train_targets), len(CLASSES))
    shares = np.bincount(labels, minlength=len(CLASSES)) / max(1, len(labels))
    predictors = {
        "nothing (the usual places)": lambda i: constant,
        "LiDAR alone, at best": lambda i: by_shape(*targets(test, i), shares),
        "cameras alone, at best": lambda i: by_pixels(test, i),
    }
    for name, predict in predictors.items():
        metric = Metric()
        for i in range(len(test)):
            sample = about(test, i)
            boxes, labels, scores = predict(i)
            metric.process({}, [Boxes3D(sample=sample, boxes=boxes, labels=labels, scores=scores)])
        values = metric.compute_metrics(metric.results)
        yield f"{name}, mAP", values["mAP"]
        yield f"{name}, NDS", values["NDS"]


def about(data: NuScenes, i: int) -> dict:
    """Return the annotation of a sample, without its clouds and images."""
    moment = data.records[i]
    key = int(data.table.frames.sensors[moment.number, 0])
    to_global = data.pose(key)
    pose = dict(token=str(data.table.frames.token[moment.number]), to_global=to_global)
    return pose | dict(ego=data.table.frames.car[key, :3]) | data.boxes(moment, to_global)


def targets(data: NuScenes, i: int) -> tuple[np.ndarray, np.ndarray]:
    sample = about(data, i)
    return sample["boxes"], sample["classes"]


def unseen(boxes: np.ndarray, labels: np.ndarray, samples: int, classes: int) -> Predictions:
    """Return the mean boxes in the most frequent cells of each class."""
    cells = np.floor(boxes[:, :2] / CELL).astype(np.int64)
    mean_boxes, kinds, scores = [np.zeros((0, 9), np.float32)], [], []
    for label in range(classes):
        has_label = labels == label
        places, which, count = np.unique(cells[has_label], axis=0, return_inverse=True, return_counts=True)
        for cell in np.argsort(-count, kind="stable")[:PLACES]:
            some = boxes[has_label][which.ravel() == cell]
            mean_boxes.append(np.nan_to_num(some.mean(0, keepdims=True)))
            kinds.append(label)
            scores.append(count[cell] / samples)
    order = np.argsort(-np.array(scores), kind="stable")
    return np.concatenate(mean_boxes)[order], np.array(kinds, np.int64)[order], np.array(scores)[order]


def by_shape(boxes: np.ndarray, labels: np.ndarray, shares: np.ndarray) -> Predictions:
    """Return each box once for each class of its shape."""
    alike = {name: [CLASSES.index(other) for other in group] for group in GROUPS for name in group}
    rows = [(box, label) for box, kind in zip(boxes, labels) for label in alike[CLASSES[kind]]]
    kinds = np.array([label for _, label in rows], np.int64)
    candidates = np.array([box for box, _ in rows]).reshape(-1, 9)
    return np.nan_to_num(candidates), kinds, shares[kinds]


def by_pixels(data: NuScenes, i: int) -> Predictions:
    """Return each box that a camera sees, placed where the ray of its foot's pixel meets the ground."""
    moment = data.records[i]
    to_global = data.pose(int(data.table.frames.sensors[moment.number, 0]))
    annotation, cameras = data.boxes(moment, to_global), data.camera_inputs(moment, to_global)
    candidates, kinds = [np.zeros((0, 9))], []
    for box, label in zip(annotation["boxes"].astype(np.float64), annotation["classes"]):
        foot = np.array([*box[:2], box[2] - box[5] / 2, 1.0])
        for pose, lens, image in zip(cameras["camera_to_lidar"], cameras["intrinsics"], cameras["images"]):
            ray = lens @ (np.linalg.inv(pose) @ foot)[:3]
            pixel = np.floor(ray[:2] / ray[2]) + 0.5
            if ray[2] > 0 and (pixel > 0).all() and (pixel < image.size).all():
                step = pose[:3, :3] @ np.linalg.solve(lens, [*pixel, 1.0])
                place = pose[:3, 3] + (foot[2] - pose[2, 3]) / min(step[2], -1e-6) * step
                candidates.append(np.array([[*place[:2], *box[2:7], 0.0, 0.0]]))
                kinds.append(int(label))
                break
    return np.concatenate(candidates), np.array(kinds, np.int64), np.full(len(kinds), 0.5)
