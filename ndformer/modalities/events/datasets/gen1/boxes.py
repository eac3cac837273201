"""Reader of GEN1's box files, and the rules which boxes and moments are evaluated."""

from pathlib import Path
from typing import NamedTuple

import numpy as np

from ndformer.framework import foreign
from ndformer.framework.errors import DataError, check_labels
from ndformer.modalities.events.formats.evt_dat import GEN1 as SENSOR
from ndformer.modalities.events.formats.files import checked

CLASSES = ["car", "pedestrian"]
OLD_NAMES = dict(ts="t", confidence="class_confidence")
NEEDED = {"t", "x", "y", "w", "h", "class_id"}
MIN_SIDE, MIN_DIAGONAL = 10, 30  # pixels
FAULTY_WIDTH = 9 * SENSOR[1] // 10  # wider boxes are annotation errors, left out of training
WARM_UP = 500_000  # microseconds at the start of a recording that evaluation leaves out


class Moment(NamedTuple):
    """A labeled time of a recording, with its boxes."""

    recording: Path
    time: int
    stop: int | None  # number of events up to it, None if not computed yet
    boxes: np.ndarray  # (M, 4) x, y, width, height
    labels: np.ndarray  # (M,)


def read_boxes(path: Path) -> np.ndarray:
    """Read boxes as a structured array with fields t, x, y, w, h and class_id, from either naming."""
    boxes = foreign.array(path)
    if boxes.ndim != 1:
        raise ValueError("its boxes must be a table with a row for each")
    names = boxes.dtype.names or ()
    boxes.dtype.names = tuple(OLD_NAMES.get(name, name) for name in names) or None
    missing = NEEDED - set(boxes.dtype.names or ())
    if missing:
        raise ValueError(f"its boxes have no {' and no '.join(sorted(missing))}")
    strange = [name for name in sorted(NEEDED) if boxes[name].dtype.kind not in "iuf" or boxes[name].ndim != 1]
    if strange:
        raise ValueError(f"its {strange[0]} must be a number for each box, got {boxes[strange[0]].dtype}")
    for name in ("t", "class_id"):
        if not np.isfinite(boxes[name]).all():
            raise ValueError(f"its {name} is not finite for {(~np.isfinite(boxes[name])).sum()} boxes")
    return boxes


def large(size: np.ndarray, min_side: float = MIN_SIDE, min_diagonal: float = MIN_DIAGONAL) -> np.ndarray:
    """Return which widths and heights (N, 2) are evaluated, for truth and detections. GEN4 uses 20 and 60."""
    return (size >= min_side).all(1) & ((size**2).sum(1) >= min_diagonal**2)


def clip_boxes(boxes: np.ndarray, train: bool) -> tuple[np.ndarray, np.ndarray]:
    """Clip boxes to the sensor; return those to use as (M, 4) x, y, width, height, and a mask (N,) of them."""
    height, width = SENSOR
    low = np.stack([boxes["x"], boxes["y"]], 1).astype(np.float32)
    high = low + np.stack([boxes["w"], boxes["h"]], 1)
    low, high = (corner.clip(0, (width - 1, height - 1)) for corner in (low, high))
    size = high - low
    mask = large(size)
    if train:
        mask &= size[:, 0] <= FAULTY_WIDTH
    return np.concatenate([low, size], 1)[mask].astype(np.float32), mask


def recordings(home: Path) -> list[tuple[Path, Path]]:
    """Return the recordings of a split, each with its box file."""
    box_files = sorted(home.glob("*_bbox.npy"))
    if not box_files:
        raise DataError(
            f"{home} has no _bbox.npy files: put GEN1's {home.name} recordings there "
            "(prophesee.ai, GEN1 automotive detection)",
            "--sample works without them",
        )
    pairs = [(path.with_name(path.name.replace("_bbox.npy", "_td.dat")), path) for path in box_files]
    for recording, _ in pairs:
        if not recording.is_file():
            raise DataError(f"{recording} is missing, but its boxes exist: get the dataset again")
    return pairs


def moments(recording: Path, boxes: Path, train: bool) -> list[Moment]:
    """Return the moments of a recording; for evaluation without its first half second."""
    raw = checked(boxes, read_boxes)
    corners, mask = clip_boxes(raw, train)
    t, labels = raw["t"][mask].astype(np.int64), raw["class_id"][mask].astype(np.int64)
    check_labels(labels, len(CLASSES), boxes, "get it again")
    times = [time for time in np.unique(t).tolist() if train or time > WARM_UP]
    return [Moment(recording, time, None, corners[t == time], labels[t == time]) for time in times]
