"""Description of GEN1's boxes."""

from pathlib import Path
from typing import Any

import numpy as np

from ndformer.framework.data.describe import Describer, Description, true_sentences
from ndformer.framework.errors import DataError
from ndformer.framework.registry import DESCRIBERS
from ndformer.modalities.events.datasets.gen1.boxes import CLASSES, FAULTY_WIDTH, clip_boxes, read_boxes
from ndformer.modalities.events.formats.evt_dat import GEN1 as SENSOR
from ndformer.modalities.events.formats.files import checked


@DESCRIBERS.register_module()
class RecordingBoxes(Describer):
    names = r".*_bbox\.npy"

    def describe(self, path: Path, rows: int) -> Description:
        if not path.is_file():
            raise DataError(f"{path} is missing: get the dataset again, or give another file")
        boxes = checked(path, read_boxes)
        facts: dict[str, Any] = dict(format="GEN1 boxes", boxes=len(boxes))
        if len(boxes):
            facts |= dict(
                moments=len(np.unique(boxes["t"])), start_us=int(boxes["t"].min()), end_us=int(boxes["t"].max())
            )
            facts |= dict(classes={int(c): int(n) for c, n in zip(*np.unique(boxes["class_id"], return_counts=True))})
        first = [{name: row[name].item() for name in boxes.dtype.names or ()} for row in boxes[:20]]
        return facts, odd_boxes(boxes), first


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
