"""A class for every pixel, point or token: intersection over union from one confusion matrix over the whole set."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ndformer.framework.engine.compat import BaseMetric
from ndformer.framework.registry import METRICS


def counted(truth: np.ndarray, predicted: np.ndarray, classes: int, ignored: int) -> np.ndarray:
    """(C, C) int64: how often class i was taken for class j, wherever the truth is known."""
    known = truth != ignored
    pairs = truth[known].astype(np.int64) * classes + predicted[known].astype(np.int64)
    return np.bincount(pairs, minlength=classes * classes).reshape(classes, classes)


def numbers(confusion: np.ndarray) -> dict[str, float]:
    """Means over the classes that there are: for mIoU in truth or predictions, for mAcc in truth."""
    hit, there = confusion.diagonal(), confusion.sum(1)
    iou = per_class(confusion)
    recall = hit[there > 0] / there[there > 0]
    return dict(
        mIoU=float(np.nanmean(iou)) if np.isfinite(iou).any() else 0.0,
        mAcc=float(recall.mean()) if recall.size else 0.0,
        allAcc=float(hit.sum() / max(1, there.sum())),
    )


def per_class(confusion: np.ndarray) -> np.ndarray:
    """(C,) intersection over union; nan for classes that are neither there nor predicted."""
    hit = confusion.diagonal()
    union = confusion.sum(0) + confusion.sum(1) - hit
    return np.divide(hit, union, out=np.full(len(hit), np.nan), where=union > 0)


@METRICS.register_module()
class Segmentation(BaseMetric):
    """mIoU, mAcc (mean accuracy of classes) and allAcc as fractions.

    A sample has the `truth`, an array of classes of any shape with `ignored` where nobody knows, what was `predicted`
    in the same shape, and how many `classes` there are.
    """

    main = "mIoU"
    default_prefix = ""
    confusion: np.ndarray  # (C, C) counts, rows are the truth; of the last evaluation

    def __init__(self, ignored: int = 255) -> None:
        super().__init__()
        self.ignored = ignored

    def process(self, data_batch: Any, data_samples: Sequence[dict[str, Any]]) -> None:
        for sample in data_samples:
            truth, predicted = np.asarray(sample["truth"]), np.asarray(sample["predicted"])
            found = counted(truth, predicted, sample["classes"], self.ignored)
            where = np.flatnonzero(found)  # few of many classes
            self.results.append((sample["classes"], where, found.ravel()[where]))

    def compute_metrics(self, results: list[tuple[int, np.ndarray, np.ndarray]]) -> dict[str, float]:
        classes = results[0][0]
        total = np.zeros(classes * classes, np.int64)
        for _, where, count in results:
            total[where] += count
        self.confusion = total.reshape(classes, classes)
        return numbers(self.confusion)

    def views(self, folder: Path | None, classes: Sequence[str]) -> str:
        """Of the last evaluation: the table of classes."""
        iou, there = per_class(self.confusion), self.confusion.sum(1)
        width = max(5, *map(len, classes))
        lines = [f"{'class':{width}}    IoU    Acc  share"]
        for k, name in enumerate(classes):
            acc = f"{100 * self.confusion[k, k] / there[k]:7.1f}" if there[k] else "      -"
            value = "      -" if np.isnan(iou[k]) else f"{100 * iou[k]:7.1f}"
            lines.append(f"{name:{width}}{value}{acc}{100 * there[k] / max(1, there.sum()):7.1f}")
        return "\n".join(lines)
