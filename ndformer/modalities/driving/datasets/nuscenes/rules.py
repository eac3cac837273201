"""nuScenes' evaluation rules (detection_cvpr_2019): boxes of many samples as arrays, and which of them count."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import TypeVar

import numpy as np

from ndformer.modalities.driving.formats.classes import ATTRIBUTES, CLASSES, FAST, MOVING, RESTING

MAX_DISTANCE = dict(pedestrian=40, motorcycle=40, bicycle=40, traffic_cone=30, barrier=30)  # meters; 50 for others
RANGES = np.array([MAX_DISTANCE.get(name, 50) for name in CLASSES], np.float64)
CYCLES = [CLASSES.index("bicycle"), CLASSES.index("motorcycle")]  # not counted in a bicycle rack
MAX_BOXES = 500  # predictions of a sample
NONE = -1  # a missing attribute


@dataclass(frozen=True)
class Boxes:
    """Boxes of all samples, in the map's frame. Only predictions have a `score`, and only truth has `points`."""

    sample: np.ndarray  # (N,) index of the sample
    label: np.ndarray  # (N,)
    center: np.ndarray  # (N, 3)
    size: np.ndarray  # (N, 3) width, length, height
    yaw: np.ndarray  # (N,)
    velocity: np.ndarray  # (N, 2) NaN where unknown
    attribute: np.ndarray  # (N,) -1 where missing
    score: np.ndarray  # (N,) or (0,)
    points: np.ndarray  # (N,) or (0,) number of LiDAR and radar points

    def __len__(self) -> int:
        return len(self.label)

    def __getitem__(self, which: np.ndarray) -> Boxes:
        return replace(self, **{name: part[which] for name, part in self.parts.items() if len(part)})

    @property
    def parts(self) -> dict[str, np.ndarray]:
        return {item.name: getattr(self, item.name) for item in fields(self)}

    @classmethod
    def none(cls) -> Boxes:
        integers, floats = np.zeros(0, np.int64), np.zeros(0)
        return cls(
            integers, integers, np.zeros((0, 3)), np.zeros((0, 3)), floats, np.zeros((0, 2)), integers, floats, integers
        )


@dataclass(frozen=True)
class Racks:
    """Bicycle racks, in which bicycles are not counted."""

    sample: np.ndarray  # (R,)
    center: np.ndarray  # (R, 3)
    size: np.ndarray  # (R, 3) width, length, height
    rotation: np.ndarray  # (R, 3, 3)

    @classmethod
    def none(cls) -> Racks:
        return cls(np.zeros(0, np.int64), np.zeros((0, 3)), np.zeros((0, 3)), np.zeros((0, 3, 3)))


Rows = TypeVar("Rows", Boxes, Racks)


def numbered(rows: Rows, sample: int) -> Rows:
    """Return the rows as those of one sample."""
    return replace(rows, sample=np.full(len(rows.sample), sample))


def together(kind: type[Rows], several: Sequence[Rows]) -> Rows:
    """Concatenate boxes or racks."""
    parts = [kind.none(), *several]
    return kind(**{item.name: np.concatenate([getattr(part, item.name) for part in parts]) for item in fields(kind)})


def counted(boxes: Boxes, ego: np.ndarray, racks: Racks) -> np.ndarray:
    """Return which boxes count (N,): near enough to the car (S, 3), with sensor points, and no bicycle in a rack."""
    away = boxes.center[:, :2] - ego[boxes.sample, :2]
    keep_mask = np.sqrt((away**2).sum(1)) < RANGES[boxes.label]
    if len(boxes.points):
        keep_mask &= boxes.points > 0
    for i in np.flatnonzero(keep_mask & np.isin(boxes.label, CYCLES)):
        same = racks.sample == boxes.sample[i]
        keep_mask[i] = not _within(boxes.center[i], racks.center[same], racks.size[same], racks.rotation[same]).any()
    return keep_mask


def _within(point: np.ndarray, center: np.ndarray, size: np.ndarray, rotation: np.ndarray) -> np.ndarray:
    """Return in which boxes (R,) a point lies, edges included."""
    local = np.einsum("rij,ri->rj", rotation, point - center)  # along length, width, height
    return (np.abs(local) <= size[:, [1, 0, 2]] / 2).all(1)


def likely_attributes(label: np.ndarray, velocity: np.ndarray) -> np.ndarray:
    """Guess missing attributes (N,) from speed: moving above FAST, else the most common attribute of the class."""
    fast = np.nan_to_num(np.linalg.norm(velocity, axis=1)) > FAST
    moving, resting = (
        np.array([ATTRIBUTES.index(names[name]) if name in names else NONE for name in CLASSES], np.int64)
        for names in (MOVING, RESTING)
    )
    return np.where(fast, moving[label], resting[label])
