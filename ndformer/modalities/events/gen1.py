"""GEN1 automotive detection (Prophesee), served from its raw recordings: nothing is re-encoded.

    data_root/{train,val,test}/NAME_td.dat, NAME_bbox.npy

Boxes' files are small and read at the start; of a recording, only the events before a label are.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ndformer.framework.data import DataError, Dataset, Sample, Transform
from ndformer.framework.registry import DATASETS
from ndformer.modalities.events.files import checked
from ndformer.modalities.events.prophesee import GEN1 as SENSOR
from ndformer.modalities.events.prophesee import Dat

OLD_NAMES = dict(ts="t", confidence="class_confidence")
NEEDED = {"t", "x", "y", "w", "h", "class_id"}
LEAST_SIDE, LEAST_DIAGONAL = 10, 30
FAULTY_WIDTH = 9 * SENSOR[1] // 10  # in training, wider boxes are taken for errors
WARM_UP = 500_000  # microseconds at a recording's start that evaluation leaves out


def read_boxes(path: Path) -> np.ndarray:
    """A structured array with fields t, x, y, w, h and class_id, whichever naming the file has."""
    try:
        boxes = np.load(path, allow_pickle=False)
    except OSError:
        raise
    except Exception as error:  # the header is Python, and its parser raises what Python's does
        raise ValueError(f"its header is damaged: {error}") from None
    if not isinstance(boxes, np.ndarray) or boxes.ndim != 1:
        raise ValueError("its boxes are no table with a row for each")
    names = boxes.dtype.names or ()
    boxes.dtype.names = tuple(OLD_NAMES.get(name, name) for name in names) or None
    missing = NEEDED - set(boxes.dtype.names or ())
    if missing:
        raise ValueError(f"its boxes have no {' and no '.join(sorted(missing))}")
    strange = [name for name in sorted(NEEDED) if boxes[name].dtype.kind not in "iuf" or boxes[name].ndim != 1]
    if strange:
        raise ValueError(f"its {strange[0]} holds {boxes[strange[0]].dtype} and not a number for each box")
    return boxes


def usable(boxes: np.ndarray, train: bool) -> tuple[np.ndarray, np.ndarray]:
    """(M, 4) x, y, width, height cut off at the sensor's edges, and (N,) which of the boxes they are."""
    height, width = SENSOR
    low = np.stack([boxes["x"], boxes["y"]], 1).astype(np.float32)
    high = low + np.stack([boxes["w"], boxes["h"]], 1)
    low, high = (corner.clip(0, (width - 1, height - 1)) for corner in (low, high))
    size = high - low
    kept = (size >= LEAST_SIDE).all(1) & ((size**2).sum(1) >= LEAST_DIAGONAL**2)
    if train:
        kept &= boxes["w"] <= FAULTY_WIDTH
    return np.concatenate([low, size], 1)[kept].astype(np.float32), kept


@DATASETS.register_module()
class GEN1(Dataset):
    """A sample is a moment with boxes: the last `most` events up to it, with what stands in them.

    sample["boxes"] (M, 4): x, y, width, height; sample["labels"] (M,): 0 car, 1 pedestrian; sample["end"] is the
    moment. Moments without a box that counts are none of the dataset's; in evaluation, neither is the first half
    second.
    """

    splits = ("train", "val", "test")
    classes = ["car", "pedestrian"]
    baselines = "box_baselines"
    shown = (
        dict(type="PackSpikes", reference="end"),
        dict(type="PackEventBoxes"),
    )  # how to look at it without a config

    def __init__(
        self,
        data_root: str | Path,
        split: str = "train",
        transforms: list[dict[str, Any] | Transform] | tuple[()] = (),
        most: int = 500_000,
        seed: int = 0,
    ) -> None:
        self.most = most
        super().__init__(data_root, split, transforms, seed=seed)

    def index(self, split: str) -> tuple[list[Any], np.ndarray]:
        home = self.data_root / split
        found = sorted(home.glob("*_bbox.npy"))
        if not found:
            raise DataError(
                f"{home} has no _bbox.npy files: put GEN1's {split} recordings there "
                "(prophesee.ai, GEN1 automotive detection); --sample works without them"
            )
        records: list[tuple[Path, int, np.ndarray, np.ndarray]] = []
        for path in found:
            recording = path.with_name(path.name.replace("_bbox.npy", "_td.dat"))
            if not recording.is_file():
                raise DataError(f"{recording} is missing beside its boxes: get the dataset again")
            raw = checked(path, read_boxes)
            boxes, kept = usable(raw, split == "train")
            t, labels = raw["t"][kept].astype(np.int64), raw["class_id"][kept].astype(np.int64)
            wrong = labels[(labels < 0) | (labels >= len(self.classes))]
            if wrong.size:
                raise DataError(f"{path} has the class {wrong[0]}, but GEN1 has 0 and 1: get it again")
            for moment in np.unique(t).tolist():
                if split == "train" or moment > WARM_UP:
                    records.append((recording, moment, boxes[t == moment], labels[t == moment]))
        if not records:
            raise DataError(
                f"the {len(found)} recordings in {home} have no box that counts: sides of {LEAST_SIDE} and a diagonal "
                f"of {LEAST_DIAGONAL} pixels or more{'' if split == 'train' else ', after the first half second'}"
            )
        return records, np.zeros(len(records), np.int64)

    def read(self, record: Any) -> Sample:
        path, moment, boxes, labels = record
        dat = checked(path, Dat)
        stop = dat.until(moment)
        # sorted, since now and then a camera's clock goes back a little
        events = dat.read(slice(max(0, stop - self.most), stop)).ordered().inside()
        start = int(events.t[0]) if len(events) else moment
        return dict(events=events, start=start, end=moment, boxes=boxes, labels=labels, path=f"{path}[{moment}]")
