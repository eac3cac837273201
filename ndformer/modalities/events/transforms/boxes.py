"""Boxes of an event stream as a detector takes them: the last transform, after the one that packs the events."""

from typing import Any

import numpy as np
import torch

from ndformer.framework.data.dataset import Sample
from ndformer.framework.registry import TRANSFORMS
from ndformer.framework.registry.ranges import Side
from ndformer.modalities.events.formats.evt_dat import GEN1 as SENSOR


def corners(boxes: np.ndarray) -> np.ndarray:
    """(M, 4) x1, y1, x2, y2 from x, y, width and height."""
    given = np.asarray(boxes, np.float64).reshape(-1, 4)
    return np.concatenate([given[:, :2], given[:, :2] + given[:, 2:]], axis=1)


@TRANSFORMS.register_module()
class PackEventBoxes:
    """Corners x1, y1, x2, y2 instead of a corner and a size, as tensors; the `truth` beside them.

    What is found is cut off at the borders of the sensor, `size` (height, width).
    """

    def __init__(self, size: tuple[Side, Side] = SENSOR) -> None:
        self.size = size

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        found: dict[str, Any] = sample["data_sample"]
        boxes = corners(found.get("boxes", ()))
        labels = np.asarray(found.get("labels", ()), np.int64)
        own = dict(
            boxes=torch.from_numpy(boxes.astype(np.float32)),
            labels=torch.from_numpy(labels),
            truth=dict(boxes=boxes, labels=labels),
            image_id=str(found.get("path", found.get("index"))),
            size=self.size,
            frame=np.array([1.0, 1.0, 0.0, 0.0]),
        )
        return sample | dict(data_sample=found | own)
