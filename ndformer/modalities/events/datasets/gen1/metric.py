"""Prophesee's detection metric for event streams (GEN1, GEN4): COCO's numbers over the boxes that count."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ndformer.framework.errors import DataError
from ndformer.framework.evaluation.coco.metric import CocoMetric
from ndformer.framework.registry import METRICS
from ndformer.framework.registry.ranges import NonNegative
from ndformer.modalities.events.datasets.gen1.boxes import MIN_DIAGONAL, MIN_SIDE, large


@METRICS.register_module()
class Gen1Metric(CocoMetric):
    """COCO's twelve numbers over labeled moments, without boxes that are too small, true and predicted ones alike."""

    def __init__(self, least_side: NonNegative = MIN_SIDE, least_diagonal: NonNegative = MIN_DIAGONAL) -> None:
        super().__init__()
        self.min_size = least_side, least_diagonal

    def process(self, data_batch: Any, data_samples: Sequence[Any]) -> None:
        for answer in data_samples:
            if answer.truth is None:
                raise DataError(f"{answer.path or 'a recording'} has no boxes to compare with. Use ndformer predict")
            parts = self._select_large(answer.truth), self._select_large(answer.predictions)
            self.results.append((answer.sample["image_id"], *parts))

    def _select_large(self, part: dict[str, Any]) -> dict[str, np.ndarray]:
        arrays = {key: np.asarray(value) for key, value in part.items()}
        boxes = arrays["boxes"].reshape(-1, 4)
        keep_mask = large(boxes[:, 2:] - boxes[:, :2], *self.min_size)
        return {key: value[keep_mask] for key, value in arrays.items()}
