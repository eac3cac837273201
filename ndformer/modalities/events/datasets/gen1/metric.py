"""Prophesee's detection metric for event streams (GEN1, GEN4): COCO's numbers over the boxes that count.

Times are int64 microseconds from the start of a recording. Boxes are x1 y1 x2 y2 in pixels of the sensor.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ndformer.framework.evaluation.coco.metric import CocoMetric
from ndformer.framework.registry import METRICS
from ndformer.framework.registry.ranges import NonNegative
from ndformer.modalities.events.datasets.gen1.boxes import MIN_DIAGONAL, MIN_SIDE, WARM_UP, large

TOLERANCE = 50_000


def frames(
    truth_times: np.ndarray, detection_times: np.ndarray, tolerance: int = TOLERANCE
) -> list[tuple[int, np.ndarray, np.ndarray]]:
    """Group truths and detections into frames: (time, truth indices, detection indices) for each time of the truth.

    A detection belongs to every frame within `tolerance`. Detections without such a frame are ignored.
    """
    by_time = np.argsort(detection_times, kind="stable")
    ordered = detection_times[by_time]
    times, frame = np.unique(truth_times, return_inverse=True)
    low = np.searchsorted(ordered, times - tolerance, "left")
    high = np.searchsorted(ordered, times + tolerance, "right")
    return [
        (int(time), np.flatnonzero(frame == i), np.sort(by_time[a:b]))  # ties keep their order
        for i, (time, a, b) in enumerate(zip(times, low, high))
    ]


@METRICS.register_module()
class Gen1Metric(CocoMetric):
    """COCO's twelve numbers over the frames that have truth.

    A sample is a recording or a part of one, named by its `image_id` as for CocoMetric, with `times` (G,) and (D,) in
    `truth` and `found`. Without `times` it is a single labelled moment.
    """

    def __init__(self, least_side: NonNegative = MIN_SIDE, least_diagonal: NonNegative = MIN_DIAGONAL) -> None:
        super().__init__()
        self.min_size = least_side, least_diagonal

    def process(self, data_batch: Any, data_samples: Sequence[Any]) -> None:
        for answer in data_samples:
            image = answer.sample["image_id"]
            if "times" not in answer.truth:
                self.results.append((image, self._counted(answer.truth), self._counted(answer.predictions)))
                continue
            truth, detections = self._counted(answer.truth), self._counted(answer.predictions)
            for time, some, others in frames(truth.pop("times"), detections.pop("times")):
                piece = {k: v[some] for k, v in truth.items()}, {k: v[others] for k, v in detections.items()}
                self.results.append(((image, time), *piece))

    def _counted(self, part: dict[str, Any]) -> dict[str, np.ndarray]:
        """Drop boxes that are too small and, where they have times, those of the warm-up, which has too few events."""
        arrays = {key: np.asarray(value) for key, value in part.items()}
        boxes = arrays["boxes"].reshape(-1, 4)
        keep = large(boxes[:, 2:] - boxes[:, :2], *self.min_size)
        if "times" in arrays:
            keep &= arrays["times"] > WARM_UP
        return {key: value[keep] for key, value in arrays.items()}
