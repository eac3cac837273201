"""Segmentation: mean IoU, mean accuracy and accuracy over all points of all samples."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ndformer.framework.data import DataError
from ndformer.framework.engine.compat import BaseMetric
from ndformer.framework.registry import METRICS


@METRICS.register_module()
class MeanIoU(BaseMetric):
    """Fractions, from counts summed over the whole set; points without a label (negative) do not count.

    `mIoU` and `mean_accuracy` are means over all `classes`, those that never occur count as 0, as benchmarks have it;
    `accuracy` is the share of points that are right.
    """

    main = "mIoU"  # what the best checkpoint is best at
    default_prefix = ""
    confusion: np.ndarray  # (classes, classes) counts, rows are the truth; of the last evaluation

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.classes = classes

    def process(self, data_batch: Any, data_samples: Sequence[dict[str, Any]]) -> None:
        for sample in data_samples:
            if "labels" not in sample:
                raise DataError(f"{sample.get('path', 'a sample')} has no labels, so nothing can be measured on it")
            truth, found = (np.asarray(sample[name]).astype(np.int64) for name in ("labels", "prediction"))
            self.results.append(counts(truth, found, self.classes))

    def compute_metrics(self, results: list[np.ndarray]) -> dict[str, float]:
        self.confusion = np.sum(results, axis=0)
        numbers = of_classes(self.confusion)
        total = self.confusion.sum()
        if total == 0:
            raise DataError("no point of this set has a label, so there is nothing to measure")
        return dict(
            mIoU=float(numbers["IoU"].mean()),
            mean_accuracy=float(numbers["accuracy"].mean()),
            accuracy=float(self.confusion.trace() / total),
        )

    def views(self, folder: Path | None, names: Sequence[str]) -> str:
        """Of the last evaluation: percent, classes below each other."""
        numbers = of_classes(self.confusion)
        width = max(5, *map(len, names))
        lines = [f"{'class':{width}}    IoU  accuracy  share of points"]
        share = self.confusion.sum(1) / self.confusion.sum()
        for i, name in enumerate(names):
            iou, accuracy = 100 * numbers["IoU"][i], 100 * numbers["accuracy"][i]
            lines.append(f"{name:{width}}  {iou:5.1f}     {accuracy:5.1f}            {100 * share[i]:5.1f}")
        return "\n".join(lines)


def counts(truth: np.ndarray, found: np.ndarray, classes: int) -> np.ndarray:
    """(classes, classes): how many points of each label (rows) were given each label."""
    known = truth >= 0
    truth, found = truth[known], found[known]
    if truth.size and int(truth.max()) >= classes:
        raise DataError(f"a point has the label {truth.max()}, but MeanIoU counts {classes} classes: give it as many")
    return np.bincount(truth * classes + found, minlength=classes**2).reshape(classes, classes)


def of_classes(confusion: np.ndarray) -> dict[str, np.ndarray]:
    """IoU and accuracy (classes,), 0 for what never occurs."""
    right, truth, found = confusion.diagonal(), confusion.sum(1), confusion.sum(0)
    return dict(IoU=right / np.maximum(1, truth + found - right), accuracy=right / np.maximum(1, truth))
