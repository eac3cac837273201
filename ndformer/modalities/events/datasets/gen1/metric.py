"""Prophesee's protocol for boxes in an event stream (GEN1, GEN4): which boxes count, and COCO's numbers over them.

Times are int64 microseconds from the start of a recording. Boxes are x1 y1 x2 y2 in pixels of the sensor.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ndformer.framework.evaluation.coco.metric import CocoMetric
from ndformer.framework.registry import METRICS
from ndformer.framework.registry.ranges import NonNegative
from ndformer.modalities.events.datasets.gen1.boxes import LEAST_DIAGONAL, LEAST_SIDE, WARM_UP, large

TOLERANCE = 50_000


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

    def __init__(self, least_side: NonNegative = LEAST_SIDE, least_diagonal: NonNegative = LEAST_DIAGONAL) -> None:
        super().__init__()
        self.least = least_side, least_diagonal

    def process(self, data_batch: Any, data_samples: Sequence[Any]) -> None:
        for answer in data_samples:
            image = answer.sample["image_id"]
            if "times" not in answer.truth:
                self.results.append((image, self._counted(answer.truth), self._counted(answer.predictions)))
                continue
            truth, found = self._counted(answer.truth), self._counted(answer.predictions)
            for time, some, others in frames(truth.pop("times"), found.pop("times")):
                piece = {k: v[some] for k, v in truth.items()}, {k: v[others] for k, v in found.items()}
                self.results.append(((image, time), *piece))

    def _counted(self, part: dict[str, Any]) -> dict[str, np.ndarray]:
        """Boxes that are large enough and, where they have times, not among the first, for which there are too few
        events to go by."""
        arrays = {key: np.asarray(value) for key, value in part.items()}
        boxes = arrays["boxes"].reshape(-1, 4)
        keep = large(boxes[:, 2:] - boxes[:, :2], *self.least)
        if "times" in arrays:
            keep &= arrays["times"] > WARM_UP
        return {key: value[keep] for key, value in arrays.items()}
