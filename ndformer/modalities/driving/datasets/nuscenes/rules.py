"""What nuScenes counts (detection_cvpr_2019): boxes of many samples as arrays, and which of them are asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from ndformer.modalities.driving.formats.classes import ATTRIBUTES, CLASSES, FAST, MOVING, RESTING

REACH = dict(pedestrian=40, motorcycle=40, bicycle=40, traffic_cone=30, barrier=30)  # metres from the car; others 50
RANGES = np.array([REACH.get(name, 50) for name in CLASSES], np.float64)
CYCLES = [CLASSES.index("bicycle"), CLASSES.index("motorcycle")]  # not counted in a rack for them
MOST = 500  # boxes of a sample
NONE = -1  # the attribute of what has none


@dataclass(frozen=True)
class Boxes:
    """Of all samples, in the frame of the map. `score` is of predictions alone, `points` of the truth alone."""

    sample: np.ndarray  # (N,) number of the sample
    label: np.ndarray  # (N,)
    centre: np.ndarray  # (N, 3)
    size: np.ndarray  # (N, 3) width, length, height
    yaw: np.ndarray  # (N,)
    velocity: np.ndarray  # (N, 2) NaN where nobody knows
    attribute: np.ndarray  # (N,) -1 where there is none
    score: np.ndarray  # (N,) or (0,)
    points: np.ndarray  # (N,) or (0,) of LiDAR and radar

    def __len__(self) -> int:
        return len(self.label)

    def __getitem__(self, which: np.ndarray) -> Boxes:
        return replace(self, **{name: part[which] for name, part in self.parts.items() if len(part)})

    @property
    def parts(self) -> dict[str, np.ndarray]:
        return {one.name: getattr(self, one.name) for one in fields(self)}

    @classmethod
    def none(cls) -> Boxes:
        whole, real = np.zeros(0, np.int64), np.zeros(0)
        return cls(whole, whole, np.zeros((0, 3)), np.zeros((0, 3)), real, np.zeros((0, 2)), whole, real, whole)

    @classmethod
    def together(cls, several: Sequence[Boxes]) -> Boxes:
        """One after the other."""
        several = [cls.none(), *several]
        return cls(**{one.name: np.concatenate([s.parts[one.name] for s in several]) for one in fields(cls)})


@dataclass(frozen=True)
class Racks:
    """Where bicycles are not counted."""

    sample: np.ndarray  # (R,)
    centre: np.ndarray  # (R, 3)
    size: np.ndarray  # (R, 3) width, length, height
    rotation: np.ndarray  # (R, 3, 3)

    @classmethod
    def none(cls) -> Racks:
        return cls(np.zeros(0, np.int64), np.zeros((0, 3)), np.zeros((0, 3)), np.zeros((0, 3, 3)))


def counted(boxes: Boxes, ego: np.ndarray, racks: Racks) -> np.ndarray:
    """(N,) bool: near enough to the car (S, 3), seen by a sensor, and no bicycle in a rack."""
    away = boxes.centre[:, :2] - ego[boxes.sample, :2]
    keep = np.sqrt((away**2).sum(1)) < RANGES[boxes.label]
    if len(boxes.points):
        keep &= boxes.points > 0
    for i in np.flatnonzero(keep & np.isin(boxes.label, CYCLES)):
        there = racks.sample == boxes.sample[i]
        keep[i] = not _within(boxes.centre[i], racks.centre[there], racks.size[there], racks.rotation[there]).any()
    return keep


def _within(point: np.ndarray, centre: np.ndarray, size: np.ndarray, rotation: np.ndarray) -> np.ndarray:
    """(R,) bool: in which of the boxes a point lies, edges included."""
    own = np.einsum("rij,ri->rj", rotation, point - centre)  # along length, width, height
    return (np.abs(own) <= size[:, [1, 0, 2]] / 2).all(1)


def likely_attributes(label: np.ndarray, velocity: np.ndarray) -> np.ndarray:
    """(N,) of what does not say it: moving from FAST on, and else at rest, as its class mostly is."""
    fast = np.nan_to_num(np.linalg.norm(velocity, axis=1)) > FAST
    moving, resting = (
        np.array([ATTRIBUTES.index(names[name]) if name in names else NONE for name in CLASSES], np.int64)
        for names in (MOVING, RESTING)
    )
    return np.where(fast, moving[label], resting[label])
