"""Packing of an event sample's boxes for detection, after the transform that packs the events."""

from typing import Any

import numpy as np
import torch

from ndformer.framework.data.dataset import Sample
from ndformer.framework.registry import TRANSFORMS
from ndformer.framework.registry.ranges import Side
from ndformer.modalities.events.formats.evt_dat import GEN1 as SENSOR


def corners(boxes: np.ndarray) -> np.ndarray:
    """Convert boxes from x, y, width, height to x1, y1, x2, y2, (M, 4)."""
    sizes = np.asarray(boxes, np.float64).reshape(-1, 4)
    return np.concatenate([sizes[:, :2], sizes[:, :2] + sizes[:, 2:]], axis=1)


@TRANSFORMS.register_module()
class PackEventBoxes:
    """Convert boxes to x1, y1, x2, y2 and pack boxes and labels as tensors; adds `truth`, `image_id` and `frame`.

    Predictions are clipped to the sensor's `size` (height, width).
    """

    def __init__(self, size: tuple[Side, Side] = SENSOR) -> None:
        self.size = size

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        data_sample: dict[str, Any] = sample["data_sample"]
        boxes = corners(data_sample.get("boxes", ()))
        labels = np.asarray(data_sample.get("labels", ()), np.int64)
        packed: dict[str, Any] = dict(
            boxes=torch.from_numpy(boxes.astype(np.float32)),
            labels=torch.from_numpy(labels),
            image_id=str(data_sample.get("path", data_sample.get("index"))),
            size=self.size,
            frame=np.array([1.0, 1.0, 0.0, 0.0]),
        )
        if "boxes" in data_sample:  # else predictions are neither right nor wrong
            packed["truth"] = dict(boxes=boxes, labels=labels)
        return sample | dict(data_sample=data_sample | packed)
