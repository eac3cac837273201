"""Prophesee's protocol for boxes in an event stream (GEN1, GEN4): which boxes count, and COCO's numbers over them.

Times are int64 microseconds from the start of a recording. Boxes are x1 y1 x2 y2 in pixels of the sensor.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ndformer.framework.evaluation.coco.metric import CocoMetric
from ndformer.framework.registry import METRICS

TOLERANCE = 50_000
START = 500_000  # before this there are too few events to go by


def counted(boxes: np.ndarray, times: np.ndarray, least_side: float = 10.0, least_diagonal: float = 30.0) -> np.ndarray:
    """(N,) which boxes are looked at, of the truth and of detections alike. GEN4: sides of 20, diagonals of 60."""
    return large(boxes, least_side, least_diagonal) & (times > START)


def large(boxes: np.ndarray, least_side: float, least_diagonal: float) -> np.ndarray:
    side = boxes[:, 2:] - boxes[:, :2]
    return (side >= least_side).all(1) & ((side**2).sum(1) >= least_diagonal**2)


def frames(
    truth_times: np.ndarray, found_times: np.ndarray, tolerance: int = TOLERANCE
) -> list[tuple[int, np.ndarray, np.ndarray]]:
    """Time, truths and detections (numbers of both) of each frame: one per different time of the truth.

    A detection belongs to every frame that it is within `tolerance` of; a frame without truth does not exist.
    """
    by_time = np.argsort(found_times, kind="stable")
    ordered = found_times[by_time]
    times, frame = np.unique(truth_times, return_inverse=True)
    low = np.searchsorted(ordered, times - tolerance, "left")
    high = np.searchsorted(ordered, times + tolerance, "right")
    return [
        (int(time), np.flatnonzero(frame == i), np.sort(by_time[a:b]))  # equal scores keep their order
        for i, (time, a, b) in enumerate(zip(times, low, high))
    ]


@METRICS.register_module()
class Gen1Metric(CocoMetric):
    """COCO's twelve numbers over the frames that have truth.

    A sample is a whole recording or a piece of one: as for CocoMetric, named by its `image_id`, and with `times`
    (G,) and (D,) in `truth` and `found`. Without `times` it is one labelled moment, found or missed by itself.
    """

    def __init__(self, least_side: float = 10.0, least_diagonal: float = 30.0) -> None:
        super().__init__()
        self.least = least_side, least_diagonal

    def process(self, data_batch: Any, data_samples: Sequence[dict[str, Any]]) -> None:
        for sample in data_samples:
            if "times" not in sample["truth"]:
                pair = (self._large(sample[part]) for part in ("truth", "found"))
                self.results.append((sample["image_id"], *pair))
                continue
            truth, found = self._counted(sample["truth"]), self._counted(sample["found"])
            for time, some, others in frames(truth.pop("times"), found.pop("times")):
                piece = {k: v[some] for k, v in truth.items()}, {k: v[others] for k, v in found.items()}
                self.results.append(((sample["image_id"], time), *piece))

    def _counted(self, part: dict[str, Any]) -> dict[str, np.ndarray]:
        arrays = {key: np.asarray(value) for key, value in part.items()}
        keep = counted(arrays["boxes"].reshape(-1, 4), arrays["times"], *self.least)
        return {key: value[keep] for key, value in arrays.items()}

    def _large(self, part: dict[str, Any]) -> dict[str, np.ndarray]:
        arrays = {key: np.asarray(value) for key, value in part.items()}
        keep = large(arrays["boxes"].reshape(-1, 4), *self.least)
        return {key: value[keep] for key, value in arrays.items()}
