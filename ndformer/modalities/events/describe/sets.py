"""Descriptions of files next to recordings: GEN1's boxes, DvsGesture's labels and its lists of recordings."""

import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from ndformer.framework import foreign
from ndformer.framework.data.describe import Describer, Description, true_sentences
from ndformer.framework.errors import DataError
from ndformer.framework.registry import DESCRIBERS
from ndformer.modalities.events.datasets.gen1.boxes import CLASSES, FAULTY_WIDTH, clip_boxes, read_boxes
from ndformer.modalities.events.datasets.gesture import CLASSES as GESTURES
from ndformer.modalities.events.datasets.gesture import read_labels
from ndformer.modalities.events.formats.evt_dat import GEN1 as SENSOR
from ndformer.modalities.events.formats.files import checked


@DESCRIBERS.register_module()
class RecordingLabels(Describer):
    names = r".*_bbox\.npy|.*_labels\.csv|trials_to_\w+\.txt"

    def describe(self, path: Path, rows: int) -> Description:
        if not path.is_file():
            raise DataError(f"{path} is missing: get the dataset again, or give another file")
        kinds = {".npy": _boxes, ".csv": _labels, ".txt": _trials}
        return kinds[path.suffix](path)


def _boxes(path: Path) -> Description:
    boxes = checked(path, read_boxes)
    found: dict[str, Any] = dict(format="GEN1 boxes", boxes=len(boxes))
    if len(boxes):
        found |= dict(moments=len(np.unique(boxes["t"])), start_us=int(boxes["t"].min()), end_us=int(boxes["t"].max()))
        found |= dict(classes={int(c): int(n) for c, n in zip(*np.unique(boxes["class_id"], return_counts=True))})
    first = [{name: row[name].item() for name in boxes.dtype.names or ()} for row in boxes[:20]]
    return found, odd_boxes(boxes), first


def odd_boxes(boxes: np.ndarray) -> list[str]:
    if len(boxes) == 0:
        return ["it holds no boxes"]
    x, y, w, h = (boxes[name].astype(np.float64) for name in "xywh")
    finite = np.isfinite([x, y, w, h]).all(0)
    height, width = SENSOR
    outside = (x < 0) | (y < 0) | (x + w > width) | (y + h > height)
    counted, in_training = clip_boxes(boxes, False)[1], clip_boxes(boxes, True)[1]
    findings = {
        "come after one of a later time": (np.diff(boxes["t"].astype(np.int64)) < 0).sum(),
        "have places or sizes that are not finite": (~finite).sum(),
        f"reach out of the sensor of {height} x {width}, where they are cut off": (finite & outside).sum(),
        f"are of a class that is not 0 ({CLASSES[0]}) or 1 ({CLASSES[1]})": (~np.isin(boxes["class_id"], (0, 1))).sum(),
        "are too small to count": (finite & ~counted).sum(),
        f"are wider than {FAULTY_WIDTH} pixels and left out in training": (counted & ~in_training).sum(),
    }
    return true_sentences({f"{count} of {len(boxes)} boxes {text}": count for text, count in findings.items()})


def _labels(path: Path) -> Description:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        rows = read_labels(path.with_name(path.name.replace("_labels.csv", ".aedat")))
    odd = [str(warning.message).removeprefix(f"{path}: ") for warning in caught]
    found: dict[str, Any] = dict(format="DvsGesture labels", gestures=len(rows))
    if rows:
        found |= dict(start_us=rows[0][0], end_us=rows[-1][1])
        found |= dict(classes=dict(Counter(GESTURES[label] for _, _, label in rows)))
    first = [dict(label=GESTURES[label], start_us=start, end_us=end) for start, end, label in rows]
    return found, odd or ([] if rows else ["it holds no gestures"]), first


def _trials(path: Path) -> Description:
    names = foreign.words(path)
    missing = [name for name in names if not foreign.inside(path.parent, name).is_file()]
    odd = [f"{len(missing)} of {len(names)} recordings are missing, the first is {missing[0][:80]}"] if missing else []
    twice = len(names) - len(set(names))
    odd += [f"{twice} recordings are listed more than once"] if twice else []
    users = len({name.partition("_")[0] for name in names})
    found = dict(format="DvsGesture recordings", recordings=len(names), users=users)
    return found, odd if names else ["it lists no recordings"], [dict(recording=name) for name in names]
