"""GEN1's files of boxes, and which of the boxes count: moments of a recording with what stands in them."""

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
LEAST_SIDE, LEAST_DIAGONAL = 10, 30
FAULTY_WIDTH = 9 * SENSOR[1] // 10  # in training, wider boxes are taken for errors
WARM_UP = 500_000  # microseconds at a recording's start that evaluation leaves out


class Moment(NamedTuple):
    recording: Path
    time: int
    stop: int | None  # the number of events up to it; None: to be looked for
    boxes: np.ndarray  # (M, 4) x, y, width, height
    labels: np.ndarray  # (M,)


def read_boxes(path: Path) -> np.ndarray:
    """A structured array with fields t, x, y, w, h and class_id, whichever naming the file has."""
    boxes = foreign.array(path)
    if boxes.ndim != 1:
        raise ValueError("its boxes are no table with a row for each")
    names = boxes.dtype.names or ()
    boxes.dtype.names = tuple(OLD_NAMES.get(name, name) for name in names) or None
    missing = NEEDED - set(boxes.dtype.names or ())
    if missing:
        raise ValueError(f"its boxes have no {' and no '.join(sorted(missing))}")
    strange = [name for name in sorted(NEEDED) if boxes[name].dtype.kind not in "iuf" or boxes[name].ndim != 1]
    if strange:
        raise ValueError(f"its {strange[0]} holds {boxes[strange[0]].dtype} and not a number for each box")
    for name in ("t", "class_id"):
        if not np.isfinite(boxes[name]).all():
            raise ValueError(f"its {name} is not finite for {(~np.isfinite(boxes[name])).sum()} boxes")
    return boxes


def large(size: np.ndarray, least_side: float = LEAST_SIDE, least_diagonal: float = LEAST_DIAGONAL) -> np.ndarray:
    """(N,) which widths and heights (N, 2) count, of the truth and of detections alike. GEN4: 20 and 60."""
    return (size >= least_side).all(1) & ((size**2).sum(1) >= least_diagonal**2)


def usable(boxes: np.ndarray, train: bool) -> tuple[np.ndarray, np.ndarray]:
    """(M, 4) x, y, width, height cut off at the sensor's edges, and (N,) which of the boxes they are."""
    height, width = SENSOR
    low = np.stack([boxes["x"], boxes["y"]], 1).astype(np.float32)
    high = low + np.stack([boxes["w"], boxes["h"]], 1)
    low, high = (corner.clip(0, (width - 1, height - 1)) for corner in (low, high))
    size = high - low
    kept = large(size)
    if train:
        kept &= size[:, 0] <= FAULTY_WIDTH
    return np.concatenate([low, size], 1)[kept].astype(np.float32), kept


def recordings(home: Path) -> list[tuple[Path, Path]]:
    """The recordings of a split, each with its boxes."""
    found = sorted(home.glob("*_bbox.npy"))
    if not found:
        raise DataError(
            f"{home} has no _bbox.npy files: put GEN1's {home.name} recordings there "
            "(prophesee.ai, GEN1 automotive detection)",
            "--sample works without them",
        )
    pairs = [(path.with_name(path.name.replace("_bbox.npy", "_td.dat")), path) for path in found]
    for recording, _ in pairs:
        if not recording.is_file():
            raise DataError(f"{recording} is missing beside its boxes: get the dataset again")
    return pairs


def moments(recording: Path, boxes: Path, train: bool) -> list[Moment]:
    """Those of one recording; in evaluation none of the first half second."""
    raw = checked(boxes, read_boxes)
    corners, kept = usable(raw, train)
    t, labels = raw["t"][kept].astype(np.int64), raw["class_id"][kept].astype(np.int64)
    check_labels(labels, len(CLASSES), boxes, "get it again")
    times = [time for time in np.unique(t).tolist() if train or time > WARM_UP]
    return [Moment(recording, time, None, corners[t == time], labels[t == time]) for time in times]
